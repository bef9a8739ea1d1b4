"""Random clusters for spreading: few domains, many labels that nearly match, and histories that move them about."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod, TopologySpreadConstraint
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.config.plugin_args import LIST_DEFAULTING, SYSTEM_DEFAULTING, PodTopologySpreadArgs
from tests.specification.clusters import Cluster, node_affinities, taints, tolerations
from tests.specification.spread.rules import SYSTEM, Workloads

NAMES = [f"node-{number}" for number in range(8)]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
# `zone` is also what node affinity terms ask for.
KEYS = [ZONE, HOST, "rack", "zone"]
OWNERS = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
UIDS = [f"pod-{number}" for number in range(10)]

namespaces = st.sampled_from(["default", "default", "default", "other"])
pod_labels = st.fixed_dictionaries(
    {"app": st.sampled_from(["web", "web", "web", "db"])}, optional={"version": st.sampled_from(["1", "2"])}
)
node_labels = st.fixed_dictionaries(
    {
        ZONE: st.sampled_from(["a", "a", "b", "b", "c", "", None]),
        HOST: st.sampled_from([*NAMES, None]),
        "rack": st.sampled_from(["r1", "r1", "r2", None]),
        "zone": st.sampled_from(["a", "b", "12", None]),
    }
).map(lambda labels: {key: value for key, value in labels.items() if value is not None})
expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "version"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["web", "db", "1"]), min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "version"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
selectors = st.one_of(
    st.just({"matchLabels": {"app": "web"}}),
    st.builds(
        lambda labels, more: {"matchLabels": labels, "matchExpressions": more},
        pod_labels,
        st.lists(expressions, max_size=2),
    ),
)
policies = st.sampled_from([None, "Honor", "Ignore"])
default_constraints = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": st.sampled_from(KEYS),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "minDomains": st.sampled_from([None, 1, 2, 4]),
        "nodeAffinityPolicy": policies,
        "nodeTaintsPolicy": policies,
    }
)
constraints = st.builds(
    lambda one, more: {**one, **more},
    default_constraints,
    st.fixed_dictionaries(
        {
            "labelSelector": st.one_of(selectors, selectors, selectors, st.just({}), st.none()),
            "matchLabelKeys": st.sampled_from([[], [], [], ["version"], ["app"]]),
        }
    ),
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """A node that is in most topologies."""
    labels = draw(node_labels)
    spec = {"taints": draw(st.lists(taints, max_size=1))}
    return convert({"metadata": {"name": name, "labels": labels}, "spec": spec}, Node)


@st.composite
def running_pods(draw: st.DrawFn, uid: str) -> Pod:
    """A pod on a node (which may not be there), perhaps on its way out."""
    metadata = {
        "name": uid,
        "uid": uid,
        "namespace": "other" if uid == UIDS[1] else "default",  # for good: a UID never moves to another namespace
        "labels": draw(pod_labels),
        "deletionTimestamp": draw(st.sampled_from([None, None, None, "2026-11-21T00:00:00Z"])),
    }
    return convert({"metadata": metadata, "spec": {"nodeName": draw(st.sampled_from(NAMES))}}, Pod)


@st.composite
def judged_pods(draw: st.DrawFn) -> Pod:
    """A pod with constraints, or with services and an owner to deduce them from."""
    owner = st.builds(
        lambda kind, name, controller: {
            "kind": kind,
            "apiVersion": OWNERS[kind],
            "name": name,
            "controller": controller,
        },
        st.sampled_from(sorted(OWNERS)),
        st.sampled_from(["one", "two"]),
        st.booleans(),
    )
    metadata = {
        "name": "judged",
        "uid": "judged",
        "namespace": draw(namespaces),
        "labels": draw(pod_labels),
        "ownerReferences": draw(st.lists(owner, max_size=2)),
    }
    spec = {
        "topologySpreadConstraints": draw(st.lists(constraints, min_size=draw(st.integers(0, 2)), max_size=3)),
        "nodeSelector": draw(st.sampled_from([{}, {}, {}, {"rack": "r1"}])),
        "affinity": {"nodeAffinity": draw(st.one_of(st.none(), st.none(), node_affinities))},
        "tolerations": draw(st.lists(tolerations, max_size=1)),
    }
    return convert({"metadata": metadata, "spec": spec}, Pod)


@dataclass
class SpreadCluster(Cluster):
    """A cluster with services and controllers."""

    workloads: Workloads = field(default_factory=Workloads)


@st.composite
def clusters(draw: st.DrawFn) -> SpreadCluster:
    """A cluster after a random history of nodes and pods that came, changed, moved and went."""
    cluster = SpreadCluster()
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=4, unique=True)):
        cluster.put_node(draw(nodes(name)))
    for uid in UIDS[: draw(st.integers(2, len(UIDS)))]:
        cluster.put_pod(draw(running_pods(uid)))
    cluster.workloads = draw(workloads())
    return cluster


@st.composite
def steps(draw: st.DrawFn, cluster: SpreadCluster) -> None:
    """One change to the cluster."""
    step = draw(st.sampled_from(["put pod", "put pod", "put node", "remove pod", "remove node"]))
    if step == "put pod":
        cluster.put_pod(draw(running_pods(draw(st.sampled_from(UIDS)))))
    elif step == "put node":
        cluster.put_node(draw(nodes(draw(st.sampled_from(NAMES)))))
    elif step == "remove pod" and cluster.pods:
        uid = draw(st.sampled_from(sorted(cluster.pods)))
        cluster.cache.remove_pod(uid)
        del cluster.pods[uid]
    elif step == "remove node" and len(cluster.nodes) > 1:
        name = draw(st.sampled_from(sorted(cluster.nodes)))
        cluster.cache.remove_node(name)
        del cluster.nodes[name]


@st.composite
def workloads(draw: st.DrawFn) -> Workloads:
    """Services, and owners of all kinds under two names."""
    made = Workloads()
    for number in range(draw(st.integers(0, 3))):
        spec = {"selector": draw(pod_labels)}
        made.services.append(convert(_tree(f"service-{number}", draw(namespaces), spec), Service))
    for name in ("one", "two"):
        namespace = draw(namespaces)
        by_labels = _tree(name, namespace, {"selector": draw(pod_labels)})
        by_selector = _tree(name, namespace, {"selector": draw(st.one_of(st.none(), selectors))})
        made.owners.append(convert(by_labels, ReplicationController))
        is_stateful = draw(st.booleans())
        made.owners.append(convert(by_selector, StatefulSet) if is_stateful else convert(by_selector, ReplicaSet))
    return made


def _tree(name: str, namespace: str, spec: Mapping[str, object]) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


@dataclass(frozen=True)
class Defaults:
    """Arguments of the plugin, what they come to, and what a version and a feature gate say.

    `compares`: tolerations may compare numbers; `counts_all`: an empty selector counts all pods of the namespace.
    """

    args: PodTopologySpreadArgs
    constraints: tuple[TopologySpreadConstraint, ...]
    compares: bool
    counts_all: bool

    @property
    def is_system(self) -> bool:
        return self.args.defaulting_type == SYSTEM_DEFAULTING


listed = st.lists(default_constraints, max_size=3).map(
    lambda trees: convert({"defaultConstraints": trees, "defaultingType": LIST_DEFAULTING}, PodTopologySpreadArgs)
)
defaults = st.one_of(
    st.builds(Defaults, st.just(PodTopologySpreadArgs()), st.just(SYSTEM), st.booleans(), st.booleans()),
    st.tuples(listed, st.booleans(), st.booleans()).map(
        lambda drawn: Defaults(drawn[0], drawn[0].default_constraints, *drawn[1:])
    ),
)
