"""Random clusters and pods, with the awkward numbers and combinations that rules trip over."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.config.plugin_args import (
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kscheduler.state.cache import Cache
from tests.specification.rules import RESOURCES, SCALARS, Place

NODE_NAMES = [f"node-{number}" for number in range(5)]
IMAGE_SIZES = {"big:v1": 2_000 * 2**20, "small:latest": 30 * 2**20, "tiny:latest": 2**20, "huge:latest": 2**62}

AMOUNTS = ["0", "1", "3", "10", "100", "1000", "64Gi", "1500m", "0.1", "100Mi"]
CAPACITIES = ["0", "1", "2", "7", "100", "4000m", "64Gi", "200Gi", str(2**46 - 1), str(2**46), str(2**56 - 1)]
HUGE = [str(2**53 + 1), str(2**56), str(2**62), str(2**63 - 1), str(2**63), str(2**64 + 5)]

KEYS = ["zone", "disk", "gen", "rack"]
VALUES = ["a", "b", "ssd", "7", "007", "3", "12"]
BOUNDS = ["3", "7", "11"]
# Values that no label has, and bounds that are no int64 or (having a sign) no label value.
UNSOUND = ["-3", "+7", "a b", "a" * 64, str(2**63)]
# What a taint and a toleration may compare, and what looks like it and is no number in its one true form.
NUMBERS = ["5", "-5", "0", "05", "+5", "-0", str(2**63 - 1), str(2**63)]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]


def _sometimes(strategy: st.SearchStrategy[object], otherwise: object) -> st.SearchStrategy[object]:
    return st.one_of(st.just(otherwise), strategy)


labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from([*VALUES, "-3"]), max_size=3)
taints = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["dedicated", "gpu", "node.kubernetes.io/unschedulable"]),
        "value": st.sampled_from(["", "x", "y", *NUMBERS]),
        "effect": st.sampled_from(EFFECTS),
    }
)
tolerations = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["", "dedicated", "gpu", "node.kubernetes.io/unschedulable"]),
        "operator": st.sampled_from(["", "Equal", "Exists", "Lt", "Gt"]),
        "value": st.sampled_from(["", "x", *NUMBERS]),
        "effect": st.sampled_from(["", *EFFECTS]),
    }
)
ports = st.fixed_dictionaries(
    {
        "hostPort": st.sampled_from([0, 80, 443]),
        "hostIP": st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        "protocol": st.sampled_from(["", "TCP", "UDP"]),
    }
)
requests = st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from([*AMOUNTS, *HUGE]), max_size=3)
small_requests = st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(AMOUNTS), max_size=3)


def expressions(values: list[str], bounds: list[str]) -> st.SearchStrategy[dict[str, object]]:
    """Requirements on labels."""
    return st.one_of(
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(KEYS),
                "operator": st.sampled_from(["In", "NotIn"]),
                "values": st.lists(st.sampled_from(values), min_size=1, max_size=3),
            }
        ),
        st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(KEYS),
                "operator": st.sampled_from(["Gt", "Lt"]),
                "values": st.lists(st.sampled_from(bounds), min_size=1, max_size=1),
            }
        ),
    )


fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from([*NODE_NAMES, "no-such-node"]), min_size=1, max_size=1),
    }
)


def affinities(expression: st.SearchStrategy[dict[str, object]]) -> st.SearchStrategy[dict[str, object]]:
    """Node affinity, required and preferred."""
    term = st.fixed_dictionaries(
        {"matchExpressions": st.lists(expression, max_size=2), "matchFields": st.lists(fields, max_size=2)}
    )
    preference = st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": term})
    return st.fixed_dictionaries(
        {},
        optional={
            "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
                {"nodeSelectorTerms": st.lists(term, max_size=3)}
            ),
            "preferredDuringSchedulingIgnoredDuringExecution": st.lists(preference, max_size=3),
        },
    )


# Those that a profile may have: a term that cannot be parsed is refused there.
sound_affinities = affinities(expressions(VALUES, BOUNDS))
node_affinities = st.one_of(
    sound_affinities, sound_affinities, affinities(expressions([*VALUES, *UNSOUND], [*BOUNDS, *UNSOUND]))
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """A node; `pods` is small, so that nodes fill up."""
    amounts = st.sampled_from([*CAPACITIES, *HUGE])
    allocatable = draw(st.dictionaries(st.sampled_from(RESOURCES), amounts, max_size=len(RESOURCES)))
    names = draw(st.lists(st.sampled_from(sorted(IMAGE_SIZES)), unique=True))
    return convert(
        {
            "metadata": {"name": name, "labels": draw(labels)},
            "spec": {"unschedulable": draw(st.booleans()), "taints": draw(st.lists(taints, max_size=2))},
            "status": {
                "allocatable": {**allocatable, "pods": draw(st.sampled_from(["0", "1", "2", "110"]))},
                "images": [{"names": [image], "sizeBytes": IMAGE_SIZES[image]} for image in names],
            },
        },
        Node,
    )


container_status = st.fixed_dictionaries(
    {"resources": st.fixed_dictionaries({"requests": small_requests}), "allocatedResources": small_requests}
)


@st.composite
def resizes(draw: st.DrawFn, containers: Sequence[str], init_containers: Sequence[str]) -> dict[str, Any]:
    """A status of a pod that is being resized; the kubelet has told of some of its containers."""

    def statuses(names: Sequence[str]) -> list[dict[str, Any]]:
        return [{"name": name, **draw(container_status)} for name in names if draw(st.booleans())]

    return {
        "containerStatuses": statuses(containers),
        "initContainerStatuses": statuses(init_containers),
        "conditions": draw(st.sampled_from([[], [{"type": "PodResizePending", "reason": "Infeasible"}]])),
    }


def _named(prefix: str, containers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Containers of one pod have names of their own: the API server sees to it."""
    return [{**one, "name": f"{prefix}-{at}"} for at, one in enumerate(containers)]


@st.composite
def pods(draw: st.DrawFn, uid: str, node_name: str = "") -> Pod:
    """A pod, on a node (and perhaps being resized) or to be judged."""
    wanted = draw(st.sampled_from([small_requests, requests]))
    image = st.sampled_from(["big:v1", "small", "tiny:latest", "huge", "absent"])
    container = st.fixed_dictionaries(
        {
            "image": image,
            "resources": st.fixed_dictionaries({"requests": wanted}),
            "ports": st.lists(ports, max_size=2),
        }
    )
    init_container = st.builds(
        lambda one, policy: {**one, **policy}, container, st.sampled_from([{}, {"restartPolicy": "Always"}])
    )
    containers = _named("main", draw(st.lists(container, min_size=1, max_size=2)))
    init_containers = _named("init", draw(st.lists(init_container, max_size=2)))
    spec = {
        "nodeName": node_name,
        "containers": containers,
        "initContainers": init_containers,
        "resources": draw(_sometimes(st.fixed_dictionaries({"requests": wanted}), None)),
        "overhead": draw(_sometimes(small_requests, {})),
        "nodeSelector": draw(_sometimes(labels, {})),
        "affinity": {"nodeAffinity": draw(_sometimes(node_affinities, None))},
        "tolerations": draw(st.lists(tolerations, max_size=3)),
        "volumes": [{"name": "v", "image": {"reference": one}} for one in draw(st.lists(image, max_size=1))],
    }
    resizing = resizes([one["name"] for one in containers], [one["name"] for one in init_containers])
    status = draw(_sometimes(resizing, {})) if node_name else {}
    metadata = {"name": uid, "namespace": "default", "uid": uid}
    return convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


resources = st.lists(
    st.builds(lambda name, weight: {"name": name, "weight": weight}, st.sampled_from(RESOURCES), st.integers(1, 100)),
    min_size=1,
    max_size=4,
    unique_by=lambda one: str(one["name"]),
)
shapes = st.lists(
    st.builds(lambda at, score: {"utilization": at, "score": score}, st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=4,
    unique_by=lambda point: point["utilization"],
).map(lambda shape: sorted(shape, key=lambda point: point["utilization"]))


@st.composite
def fit_args(draw: st.DrawFn) -> NodeResourcesFitArgs:
    """Arguments of NodeResourcesFit, rising and falling shapes included."""
    kind = draw(st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]))
    weighed = draw(resources)
    again = draw(st.sampled_from([[], [], weighed[:1]]))  # nothing forbids to name a resource twice: it counts twice
    strategy: dict[str, object] = {"type": kind, "resources": [*weighed, *again]}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": draw(shapes)}
    tree = {
        "ignoredResources": draw(st.lists(st.sampled_from(SCALARS), max_size=1)),
        "ignoredResourceGroups": draw(st.sampled_from([[], [], ["example.com"]])),
        "scoringStrategy": strategy,
    }
    return convert(tree, NodeResourcesFitArgs)


balanced_args = resources.map(
    lambda specs: convert({"resources": [{**one, "weight": 1} for one in specs]}, NodeResourcesBalancedAllocationArgs)
)
affinity_args = _sometimes(sound_affinities, None).map(
    lambda added: convert({"addedAffinity": added}, NodeAffinityArgs)
)


@dataclass
class Cluster:
    """The scheduler's cache and, beside it, the same cluster as plain objects."""

    cache: Cache = field(default_factory=Cache)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def place(self, name: str) -> Place:
        """A node with its pods, from the plain objects."""
        return Place(self.nodes[name], tuple(pod for pod in self.pods.values() if pod.spec.node_name == name))

    def places(self) -> Mapping[int, Place]:
        """All nodes by row."""
        return {self.cache.nodes.row_of(name): self.place(name) for name in self.nodes}

    def put_node(self, node: Node) -> None:
        """A node is added or changed."""
        self.cache.add_node(node)
        self.nodes[node.metadata.name] = node

    def put_pod(self, pod: Pod) -> None:
        """A pod is added, or changed, or moved."""
        self.cache.add_pod(pod)
        self.pods[pod.metadata.uid] = pod


@st.composite
def changes(draw: st.DrawFn, cluster: Cluster) -> None:
    """One change: a node or a pod comes, changes, moves or goes."""
    step = draw(st.sampled_from(["put pod", "put pod", "put node", "remove pod", "remove node"]))
    if step == "put node":
        cluster.put_node(draw(nodes(draw(st.sampled_from(NODE_NAMES)))))
    elif step == "put pod":
        uid = draw(st.sampled_from(["one", "two", "three", "four"]))
        cluster.put_pod(draw(pods(uid, draw(st.sampled_from(NODE_NAMES)))))
    elif step == "remove pod" and cluster.pods:
        uid = draw(st.sampled_from(sorted(cluster.pods)))
        cluster.cache.remove_pod(uid)
        del cluster.pods[uid]
    elif step == "remove node" and len(cluster.nodes) > 1:
        name = draw(st.sampled_from(sorted(cluster.nodes)))
        cluster.cache.remove_node(name)
        del cluster.nodes[name]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A cluster after a random history: nodes and pods have come, changed and gone."""
    cluster = Cluster()
    for name in draw(st.lists(st.sampled_from(NODE_NAMES), min_size=1, unique=True)):
        cluster.put_node(draw(nodes(name)))
    for _ in range(draw(st.integers(0, 6))):
        draw(changes(cluster))
    return cluster


def through_changes(data: st.DataObject, cluster: Cluster) -> Iterator[Cluster]:
    """The cluster as it is, and after each of three more changes: columns that were made are kept from then on."""
    yield cluster
    for _ in range(3):
        data.draw(changes(cluster))
        yield cluster
