"""Whatever pods, labels, nodes and namespaces went through, InterPodAffinity says what walks over all pods say."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.config.plugin_args import InterPodAffinityArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.inter_pod_affinity import InterPodAffinity
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod
from tests.specification import cases
from tests.specification.pod_affinity import World, anybody_counts, far, near, points, preferred, spread_out, verdict
from tests.specification.rules import LoggedFailure

examples = cases.examples("pod_affinity")

NAMESPACES = ["default", "shop", "ops"]
node_labels = st.dictionaries(st.sampled_from(["zone", "host", "rack"]), st.sampled_from(["a", "b", ""]), max_size=3)
pod_labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["web", "db"]), max_size=2)
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(["web", "db"]), min_size=1, unique=True),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["app", "tier"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
)
selectors: st.SearchStrategy[Tree] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"matchLabels": st.just({"app": "web"})}),
    st.fixed_dictionaries({"matchExpressions": st.lists(expressions, max_size=2)}),
)
terms = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "host", "rack"]), "labelSelector": selectors},
    optional={
        "namespaces": st.lists(st.sampled_from(NAMESPACES), max_size=2, unique=True),
        "namespaceSelector": selectors,
    },
)
weighted = st.fixed_dictionaries({"weight": st.sampled_from([1, 2, 100]), "podAffinityTerm": terms})
affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(terms, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(weighted, max_size=2),
    },
)
specs = st.fixed_dictionaries({}, optional={"podAffinity": affinities, "podAntiAffinity": affinities})
arguments = st.builds(
    InterPodAffinityArgs,
    hard_pod_affinity_weight=st.sampled_from([0, 1, 100]),
    ignore_preferred_terms_of_existing_pods=st.booleans(),
)


@st.composite
def labels_of(draw: st.DrawFn, name: str) -> dict[str, str]:
    """Mostly each node is a host of its own, as in life; else hosts are domains of several nodes."""
    labels = draw(node_labels)
    return labels | {"host": name} if draw(st.integers(0, 3)) else labels


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from([f"node-{number}" for number in range(6)]))
    return make_node(name, labels=draw(labels_of(name)))


@st.composite
def pods(draw: st.DrawFn, uid: str) -> Pod:
    leaving: Tree = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if draw(st.booleans()) else {}
    node = draw(st.sampled_from([f"node-{number}" for number in range(6)])) if uid != "judged" else ""
    where, labels = draw(st.sampled_from(NAMESPACES)), draw(pod_labels)
    return make_pod(uid, uid=uid, node=node, namespace=where, labels=labels, metadata=leaving, affinity=draw(specs))


judged_pods = pods("judged")


class LivingCluster:
    """The cache with its counters and, beside it, the same world as plain objects."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.world = World()

    def plugin(self, args: InterPodAffinityArgs | None = None) -> InterPodAffinity:
        return InterPodAffinity(args, Handle(self.cache, None, None, counters=self.cache.counters))  # type: ignore[arg-type]

    def put_node(self, node: Node) -> None:
        self.cache.add_node(node)
        self.world.nodes[node.metadata.name] = node

    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)
        self.world.nodes.pop(name, None)

    def put_pod(self, pod: Pod) -> None:
        self.cache.add_pod(pod)
        self.world.pods[pod.metadata.uid] = pod

    def remove_pod(self, uid: str) -> None:
        self.cache.remove_pod(uid)
        self.world.pods.pop(uid, None)

    def put_namespace(self, name: str, labels: dict[str, str]) -> None:
        self.cache.counters.set_namespace(convert({"metadata": {"name": name, "labels": labels}}, Namespace))
        self.world.namespaces[name] = labels

    def remove_namespace(self, name: str) -> None:
        self.cache.counters.remove_namespace(name)
        self.world.namespaces.pop(name, None)


uids = st.sampled_from([f"pod-{number}" for number in range(8)])
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put pod"), uids.flatmap(pods)),
        st.tuples(st.just("put pod"), uids.flatmap(pods)),
        st.tuples(st.just("remove pod"), uids),
        st.tuples(st.just("put node"), nodes()),
        st.tuples(st.just("remove node"), nodes().map(lambda node: node.metadata.name)),
        st.tuples(st.just("put namespace"), st.tuples(st.sampled_from(NAMESPACES), pod_labels)),
        st.tuples(st.just("remove namespace"), st.sampled_from(NAMESPACES)),
    ),
    max_size=6,
)


@st.composite
def living_clusters(draw: st.DrawFn) -> LivingCluster:
    cluster = LivingCluster()
    for name in draw(st.lists(st.sampled_from(NAMESPACES), unique=True)):
        cluster.put_namespace(name, draw(pod_labels))
    for number in range(draw(st.integers(1, 5))):
        cluster.put_node(make_node(f"node-{number}", labels=draw(labels_of(f"node-{number}"))))
    for number in range(draw(st.integers(0, 6))):
        cluster.put_pod(draw(pods(f"pod-{number}")))
    return cluster


def change(cluster: LivingCluster, steps: list[tuple[str, Any]]) -> None:
    for what, value in steps:
        if what == "put pod":
            cluster.put_pod(value)
        elif what == "remove pod":
            cluster.remove_pod(value)
        elif what == "put node":
            cluster.put_node(value)
        elif what == "remove node":
            cluster.remove_node(value)
        elif what == "put namespace":
            cluster.put_namespace(*value)
        else:
            cluster.remove_namespace(value)


def reported(plugin: InterPodAffinity, state: CycleState, codes: Any) -> list[LoggedFailure]:
    statuses = [plugin.status(state, code) if code else None for code in codes.tolist()]
    return [None if one is None else (one.code is Code.UNSCHEDULABLE, frozenset(one.reasons)) for one in statuses]


def assert_verdicts_equal(plugin: InterPodAffinity, cluster: LivingCluster, pod: Pod, rows: Rows) -> bool:
    """Returns whether anybody's terms speak of the pod."""
    table, state, info = cluster.cache.nodes, CycleState(), PodInfo(pod)
    expected = [verdict(pod, cluster.world.nodes[table.name_of(row)], cluster.world) for row in rows.tolist()]
    if plugin.pre_filter(state, info, table).status.is_skip:
        assert expected == [None] * len(rows)
        return False
    codes = plugin.filter(state, info, table, rows)
    assert codes is not None
    assert reported(plugin, state, codes) == expected
    return True


def assert_points_equal(args: InterPodAffinityArgs, cluster: LivingCluster, pod: Pod, rows: Rows) -> bool:
    """Returns whether anybody's terms prefer or avoid something."""
    table, state, info = cluster.cache.nodes, CycleState(), PodInfo(pod)
    plugin, world, hard_weight = cluster.plugin(args), cluster.world, args.hard_pod_affinity_weight
    ignored = args.ignore_preferred_terms_of_existing_pods and not (preferred(near(pod)) or preferred(far(pod)))
    status = plugin.pre_score(state, info, table, rows)
    assert status.is_skip is (ignored or not anybody_counts(pod, world, hard_weight))
    if status.is_success and len(rows):
        raw = [points(pod, world.nodes[table.name_of(row)], world, hard_weight) for row in rows.tolist()]
        found = plugin.score(state, info, table, rows)
        assert found.tolist() == raw
        assert plugin.normalize(state, info, rows, found).tolist() == spread_out(raw)
    return status.is_success


@examples
@given(living_clusters(), changes, st.lists(judged_pods, min_size=1, max_size=3), arguments, st.integers(0, 63))
def test_verdicts_and_points(
    cluster: LivingCluster, steps: list[tuple[str, Any]], judged: list[Pod], args: InterPodAffinityArgs, pick: int
) -> None:
    """Asked before the changes and after, so that the counters are kept, not made, between the two."""
    for _ in range(2):
        every = cluster.cache.nodes.rows()
        rows = every[[bool(pick >> at & 1) for at in range(len(every))]]
        for pod in judged:
            is_filtered = assert_verdicts_equal(cluster.plugin(args), cluster, pod, every)
            assert_verdicts_equal(cluster.plugin(args), cluster, pod, rows)
            is_scored = assert_points_equal(args, cluster, pod, every)
            assert_points_equal(args, cluster, pod, rows)
            cases.judged("pod_affinity", int(is_filtered or is_scored))
        change(cluster, steps)


@examples
@given(living_clusters(), judged_pods, st.lists(pods("nominated"), min_size=1, max_size=2))
def test_a_row_judged_with_nominated_pods_is_judged_as_if_they_were_there(
    cluster: LivingCluster, pod: Pod, nominated: list[Pod]
) -> None:
    plugin, table, info = cluster.plugin(), cluster.cache.nodes, PodInfo(pod)
    state = CycleState()
    if plugin.pre_filter(state, info, table).status.is_skip:
        return  # as upstream, the coupled filter is left out then, nominated pods or not
    before = plugin.filter(state, info, table, table.rows())
    for row in table.rows().tolist():
        crowded = state.copy()
        world = World(dict(cluster.world.nodes), dict(cluster.world.pods), cluster.world.namespaces)
        for number, one in enumerate(nominated):
            plugin.add_pod(crowded, info, PodInfo(one), table, row)
            there = make_pod("there", namespace=one.metadata.namespace, labels=one.metadata.labels)
            there.spec = type(there.spec)(node_name=table.name_of(row), affinity=one.spec.affinity)
            world.pods[f"nominated-{number}"] = there
        only = table.rows()[table.rows() == row]
        codes = plugin.filter(crowded, info, table, only)
        assert codes is not None
        assert reported(plugin, crowded, codes) == [verdict(pod, world.nodes[table.name_of(row)], world)]
    cases.judged("pod_affinity")
    after = plugin.filter(state, info, table, table.rows())
    assert before is not None
    assert after is not None
    assert before.tolist() == after.tolist()


@examples
@given(living_clusters(), st.lists(judged_pods, min_size=2, max_size=4))
def test_equal_signatures_mean_equal_codes_and_points(cluster: LivingCluster, judged: list[Pod]) -> None:
    plugin, table = cluster.plugin(), cluster.cache.nodes
    seen: dict[Any, Any] = {}
    for pod in map(PodInfo, judged):
        state = CycleState()
        skips = plugin.pre_filter(state, pod, table).status.is_skip
        codes = None if skips else plugin.filter(state, pod, table, table.rows())
        is_scored = plugin.pre_score(state, pod, table, table.rows()).is_success
        raw = plugin.score(state, pod, table, table.rows()).tolist() if is_scored else None
        answer = None if codes is None else codes.tolist(), raw
        assert seen.setdefault((plugin.sign(pod), pod.namespace, frozenset(pod.labels.items())), answer) == answer
