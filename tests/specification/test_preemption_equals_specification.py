"""Whatever stands where, preemption finds the victims, the nodes and the words that the plain version finds."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.assembly import profiles_over
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.decide import scenario_ports
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod
from tests.specification import cases
from tests.specification.preemption_rules import World, best, candidates, priority
from tests.specification.rules import host_ports

examples = cases.examples("preemption")

NAMES = [f"node-{number}" for number in range(6)]
TIMES = [None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-02-01T00:00:00Z"]
WEB = {"matchLabels": {"app": "web"}}
NOT_DB = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu"]),
    st.sampled_from(["1", "1", "2", "3", str(2**62), str(2**63 - 1)]),
    max_size=2,
)
labels = st.sampled_from([{}, {"app": "web"}, {"app": "web", "tier": "a"}, {"app": "db"}])
ports = st.sampled_from([[], [], [], [{"hostPort": 80}], [{"hostPort": 80, "hostIP": "10.0.0.1"}]])


@st.composite
def pods(draw: st.DrawFn, name: str, node: str = "", nominated: str = "", affinity: Tree | None = None) -> Pod:
    container = {"name": "main", "resources": {"requests": draw(amounts)}, "ports": draw(ports)}
    status = {"nominatedNodeName": nominated} if nominated else {"startTime": draw(st.sampled_from(TIMES))}
    return make_pod(
        name,
        uid=name,
        node=node,
        labels=draw(labels),
        status=status,
        priority=draw(st.integers(-1, 2)),
        containers=[container],
        **({"affinity": affinity} if affinity else {}),
    )


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    gives = {"cpu": "4", "memory": draw(st.sampled_from(["8Gi", str(2**63 - 1)])), "example.com/gpu": "2"}
    zone = draw(st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}, {"zone": "c"}]))
    spec = {"unschedulable": draw(st.sampled_from([False, False, False, True]))}
    pods_allowed = draw(st.sampled_from(["2", "3", "110"]))
    return make_node(name, labels={"host": name, **zone}, spec=spec, **{**gives, "pods": pods_allowed})


def far_from_web(key: str) -> Tree:
    term = {"topologyKey": key, "labelSelector": WEB}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near_web(key: str) -> Tree:
    term = {"topologyKey": key, "labelSelector": WEB}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


keys = st.sampled_from(["zone", "host"])
spreads = st.builds(
    lambda key, skew, least, selector: {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        **({"minDomains": least} if least else {}),
    },
    keys,
    st.integers(1, 2),
    st.sampled_from([0, 0, 2, 4]),
    st.sampled_from([WEB, WEB, WEB, {}]),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    placed: list[Pod] = []
    for number in range(draw(st.integers(0, 14))):
        averse = draw(st.sampled_from([None, None, None, far_from_web("zone"), far_from_web("host")]))
        pod = draw(pods(f"pod-{number}", node=draw(st.sampled_from(names)), affinity=averse))
        if not _shares_a_port(pod, placed):
            placed.append(pod)
    expected = [
        draw(pods(f"expected-{number}", nominated=draw(st.sampled_from([*names, "no-such-node"]))))
        for number in range(draw(st.integers(0, 2)))
    ]
    budgets = [draw(disruption_budgets(f"budget-{number}")) for number in range(draw(st.integers(0, 2)))]
    behaviours = draw(st.sampled_from(list(BEHAVIOURS.values())))
    there = {name: draw(nodes(name)) for name in names}
    return World(there, tuple(placed), tuple(expected), tuple(budgets), behaviours)


def _shares_a_port(pod: Pod, placed: list[Pod]) -> bool:
    """No kubelet would have run them both; kube-scheduler's dry runs get such nodes wrong, and so do these."""
    there = [one for one in placed if one.spec.node_name == pod.spec.node_name]
    return any(port in host_ports(one) for port in host_ports(pod) for one in there)


@st.composite
def disruption_budgets(draw: st.DrawFn, name: str) -> PodDisruptionBudget:
    selector = draw(st.sampled_from([None, {}, WEB, {"matchLabels": {"tier": "a"}}, NOT_DB]))
    status = {
        "disruptionsAllowed": draw(st.integers(0, 2)),
        "disruptedPods": draw(st.sampled_from([{}, {"pod-0": "2026-01-01T00:00:00Z"}])),
    }
    namespace = draw(st.sampled_from(["default", "default", "other"]))
    tree = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}, "status": status}
    return convert(tree, PodDisruptionBudget)


@st.composite
def preemptors(draw: st.DrawFn) -> Pod:
    extra: dict[str, Any] = draw(
        st.one_of(
            st.just({}),
            st.just({}),
            st.builds(lambda ones: {"topologySpreadConstraints": ones}, st.lists(spreads, min_size=1, max_size=2)),
            st.builds(lambda key: {"affinity": far_from_web(key)}, keys),
            st.builds(lambda key: {"affinity": near_web(key)}, keys),
        )
    )
    requests = draw(st.sampled_from([{"cpu": "1"}, {"cpu": "2"}, {"memory": "1"}, {"example.com/gpu": "1"}, {}]))
    container = {"name": "main", "resources": {"requests": requests}, "ports": draw(ports)}
    return make_pod(
        "new", uid="new", labels=draw(labels), priority=draw(st.integers(0, 3)), containers=[container], **extra
    )


def cluster_of(world: World) -> tuple[Cache, Profile]:
    gates = FeatureGates(version=world.behaviours.version)
    cache = Cache(gates.behaviours)
    cache.counters.set_namespace(convert({"metadata": {"name": "default"}}, Namespace))
    for node in world.nodes.values():
        cache.add_node(node)
    for pod in world.pods:
        cache.add_pod(pod)
    for pod in world.nominated:
        cache.nominator.add(PodInfo(pod))
    ports = scenario_ports(ClusterObjects(poddisruptionbudgets=world.budgets))
    return cache, profiles_over(cache, default_configuration("kscheduler", gates), registry(), ports)["kscheduler"]


@examples
@given(worlds(), preemptors(), st.data())
def test_victims_nodes_and_words_are_those_of_the_specification(world: World, pod: Pod, data: st.DataObject) -> None:
    """Again after changes to pods: what is kept of them from one decision to the next must follow."""
    cache, profile = cluster_of(world)
    agree(world, pod, cache, profile)
    for _ in range(2):
        world = data.draw(changed(world))
        for one in cache.pod_uids():
            if one not in {pod.metadata.uid for pod in world.pods}:
                cache.remove_pod(one)
        for there in world.pods:
            cache.add_pod(there)
        agree(world, pod, cache, profile)


@st.composite
def changed(draw: st.DrawFn, world: World) -> World:
    """Some pods go, some are told again (with other labels, or another start), one may come."""
    placed: list[Pod] = []
    for pod in world.pods:
        name = pod.metadata.name
        what = draw(st.sampled_from(["stays", "stays", "goes", "is relabelled"]))
        if what == "stays":
            placed.append(pod)
        elif what == "is relabelled":
            status = type(pod.status)(start_time=draw(st.sampled_from(TIMES)))
            labels_now = type(pod.metadata)(name=name, namespace="default", uid=name, labels=draw(labels))
            placed.append(Pod(metadata=labels_now, spec=pod.spec, status=status))
    if draw(st.booleans()):
        new = draw(
            pods(f"late-{len(placed)}-{draw(st.integers(0, 99))}", node=draw(st.sampled_from(sorted(world.nodes))))
        )
        if not _shares_a_port(new, placed) and new.metadata.name not in {pod.metadata.name for pod in placed}:
            placed.append(new)
    return replace(world, pods=tuple(placed))


def agree(world: World, pod: Pod, cache: Cache, profile: Profile) -> None:
    before = snapshot(cache)
    record = schedule(profile, PodInfo(pod), cache)
    assert snapshot(cache) == before
    if record.status.is_success:
        return
    found, message = candidates(pod, world)
    search = record.state.find(PreemptionSearch)
    if search is None:
        assert not found
        nothing = "no new claims to deallocate, " if world.behaviours.names_claims_to_deallocate else ""
        assert record.post_filter_message == f"{nothing}preemption: {message}"
        assert record.nominated_node_name == ""
    else:
        decided = {one.node_name: one for one in search.candidates()}
        assert {name: [pod.name for pod in one.victims] for name, one in decided.items()} == {
            name: [pod.metadata.name for pod in one.victims] for name, one in found.items()
        }
        assert {name: one.broken_budgets for name, one in decided.items()} == {
            name: one.broken for name, one in found.items()
        }
        assert search.chosen == decided[search.chosen.node_name]
        assert search.chosen.node_name in best(found)
        assert record.nominated_node_name == search.chosen.node_name
        assert all(victim.priority < priority(pod) for victim in search.chosen.victims)
    cases.judged("preemption")


def snapshot(cache: Cache) -> object:
    """What a dry run must leave as it is."""
    table, rows = cache.nodes, cache.nodes.rows()
    pods_by_row = [sorted(table.info(row).pods) for row in rows.tolist()]
    ports_taken = sorted(table.ports.conflicting_rows([("TCP", 80, "0.0.0.0")]))
    columns = [one[..., rows].tolist() for one in (table.requested, table.pod_count, table.pods_version)]
    return columns, pods_by_row, ports_taken
