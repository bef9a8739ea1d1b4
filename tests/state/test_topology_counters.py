"""The counters against a recount: whatever comes, changes and goes, every column says what a walk would say."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kscheduler.api.codec import convert
from kscheduler.api.core import LabelSelector, Namespace, Pod
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.framework.cluster.topology import HeldTerm
from kscheduler.framework.pods.affinity_terms import AffinityTerm, PodMatch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache
from kscheduler.state.topology import held_terms
from kscheduler.state.topology.counters import TopologyCounts
from tests.builders import Tree, make_node, make_pod, pod_info
from tests.effort import IS_LONG, example_count

EXAMPLES = 150 if IS_LONG else example_count(40)  # `make fuzz`: in each of ten rounds
NODES = st.sampled_from([f"node-{number}" for number in range(4)])
UIDS = st.sampled_from([f"uid-{number}" for number in range(6)])
NAMESPACES = st.sampled_from(["red", "green", "blue"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["", "a", "b"]))


def _both(match: PodMatch, other: PodMatch) -> PodMatch:
    return PodMatch(match.namespaces, match.namespace_selector, match.selectors, match.counts_terminating, also=other)


requirements = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(["", "a", "b"]), min_size=1, unique=True),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["app", "tier"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
)
selector_trees = st.fixed_dictionaries({"matchExpressions": st.lists(requirements, max_size=1)})
selectors = selector_trees.map(lambda tree: parse_label_selector(convert(tree, LabelSelector)))
simple_matches = st.builds(
    PodMatch,
    namespaces=st.frozensets(NAMESPACES, max_size=2),
    namespace_selector=st.one_of(st.none(), selectors),
    selectors=st.lists(selectors, max_size=2).map(tuple),
    counts_terminating=st.booleans(),
)
matches = st.one_of(simple_matches, st.builds(_both, simple_matches, simple_matches))
terms = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "host"])},
    optional={
        "labelSelector": selector_trees,
        "namespaces": st.lists(NAMESPACES, unique=True, max_size=2),
        "namespaceSelector": selector_trees,
    },
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(terms, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.sampled_from([1, 7]), "podAffinityTerm": terms}), max_size=2
        ),
    },
)
# Affinity that several pods share, as those of one Deployment do.
JEALOUS = {
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]},
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host", "labelSelector": {}}]
    },
}
specs = st.one_of(
    st.just(JEALOUS), st.fixed_dictionaries({}, optional={"podAffinity": affinities, "podAntiAffinity": affinities})
)


def namespace(name: str, labels: dict[str, str]) -> Namespace:
    return convert({"metadata": {"name": name, "labels": labels}}, Namespace)


class Recount:
    """The same answers by a walk over all pods."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.namespaces: dict[str, dict[str, str]] = {}

    def is_meant(self, match: PodMatch, pod: Pod, unknown: dict[str, str] | None = None) -> bool:
        """Whether the pod is in the set; `unknown` are the labels of an unknown namespace."""
        if match.also is not None and not self.is_meant(match.also, pod, unknown):
            return False
        labels = self.namespaces.get(pod.metadata.namespace, unknown)
        by_selector = match.namespace_selector is not None and (
            match.namespace_selector == Selector() if labels is None else match.namespace_selector.matches(labels)
        )
        named = pod.metadata.namespace in match.namespaces
        return (named or by_selector) and all(selector.matches(pod.metadata.labels) for selector in match.selectors)

    def matching(self, match: PodMatch, node: str) -> int:
        return sum(
            self.is_meant(match, pod) and (match.counts_terminating or pod.metadata.deletion_timestamp is None)
            for pod in self.pods.values()
            if pod.spec.node_name == node
        )

    def holders(self, kind: Callable[[PodInfo], list[AffinityTerm]], newcomer: Pod, node: str) -> dict[Any, int]:
        """How many pods on the node hold each term that selects the newcomer."""
        held: dict[Any, int] = {}
        for pod in self.pods.values():
            for term in kind(PodInfo(pod)) if pod.spec.node_name == node else ():
                if self.is_meant(term.match, newcomer, unknown={}):
                    identity = term.topology_key, term.weight, term.match
                    held[identity] = held.get(identity, 0) + 1
        return held


def required_anti_affinity(pod: PodInfo) -> list[AffinityTerm]:
    return list(pod.affinity_terms.required_anti_affinity)


def required_affinity(pod: PodInfo) -> list[AffinityTerm]:
    return list(pod.affinity_terms.required_affinity)


def preferred(pod: PodInfo) -> list[AffinityTerm]:
    own = pod.affinity_terms
    against = [AffinityTerm(term.topology_key, term.match, -term.weight) for term in own.preferred_anti_affinity]
    return [*own.preferred_affinity, *against]


class CountersMachine(RuleBasedStateMachine):
    """Pods, nodes and namespaces come, change and go; questions are asked in between and stay asked."""

    budget_bytes = 2**20

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.cache.counters = TopologyCounts(self.cache.nodes, self.budget_bytes)
        self.nodes: set[str] = set()
        self.drift_detection = Recount()
        self.queried: list[PodMatch] = []
        self.newcomers = [pod_info("newcomer", namespace="red"), pod_info("other", namespace="blue")]
        for name in ("node-0", "node-1"):
            self.node_comes(name)

    @initialize(queried=st.lists(matches, min_size=6, max_size=6))
    def ask_many(self, queried: list[PodMatch]) -> None:
        self.queried = queried

    @rule(name=NODES)
    def node_comes(self, name: str) -> None:
        self.cache.add_node(make_node(name))
        self.nodes.add(name)

    @rule(name=NODES)
    def node_goes(self, name: str) -> None:
        self.cache.remove_node(name)
        self.nodes.discard(name)

    @rule()
    def many_nodes_come_and_go(self) -> None:
        """The table grows, and rows are used again."""
        names = [f"more-{number}" for number in range(self.cache.nodes.capacity)]
        for name in names[:200]:
            self.cache.add_node(make_node(name))
        for name in names[:200]:
            self.cache.remove_node(name)

    @rule(uid=UIDS, node=NODES, where=NAMESPACES, labels=LABELS, affinity=specs, terminating=st.booleans())
    def pod_comes_or_changes(
        self, uid: str, node: str, where: str, labels: dict[str, str], affinity: Tree, terminating: bool
    ) -> None:
        leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else None
        pod = make_pod(uid, uid=uid, node=node, namespace=where, labels=labels, metadata=leaving, affinity=affinity)
        self.cache.add_pod(pod)
        self.drift_detection.pods[uid] = pod

    @rule(uid=UIDS, labels=LABELS)
    def pod_is_labelled_anew(self, uid: str, labels: dict[str, str]) -> None:
        pod = self.drift_detection.pods.get(uid)
        if pod is not None:
            self.pod_comes_or_changes(uid, pod.spec.node_name, pod.metadata.namespace, labels, {}, terminating=False)

    @rule(uid=UIDS)
    def pod_goes(self, uid: str) -> None:
        self.cache.remove_pod(uid)
        self.drift_detection.pods.pop(uid, None)

    @rule(name=NAMESPACES, labels=LABELS)
    def namespace_comes_or_changes(self, name: str, labels: dict[str, str]) -> None:
        self.cache.counters.set_namespace(namespace(name, labels))
        self.drift_detection.namespaces[name] = labels

    @rule(name=NAMESPACES)
    def namespace_goes(self, name: str) -> None:
        self.cache.counters.remove_namespace(name)
        self.drift_detection.namespaces.pop(name, None)

    @rule(match=matches)
    def ask(self, match: PodMatch) -> None:
        self.queried = [*self.queried[1:], match]

    @rule(where=NAMESPACES, labels=LABELS)
    def another_newcomer(self, where: str, labels: dict[str, str]) -> None:
        self.newcomers = [self.newcomers[-1], pod_info("newcomer", namespace=where, labels=labels)]

    @invariant()
    def every_query_is_answered_as_by_a_walk(self) -> None:
        for match in self.queried:
            column = self.cache.counters.matching(match)
            assert self.per_node(column) == {name: self.drift_detection.matching(match, name) for name in self.nodes}
            for pod in self.newcomers:
                assert self.cache.counters.selects(match, pod.pod) is self.drift_detection.is_meant(match, pod.pod)
                as_held = self.drift_detection.is_meant(match, pod.pod, unknown={})
                assert self.cache.counters.selects(match, pod.pod, held=True) is as_held

    @invariant()
    def the_terms_that_select_a_newcomer_are_those_of_a_walk(self) -> None:
        counters = self.cache.counters
        for pod in self.newcomers:
            for answer, kind in (
                (counters.required_anti_affinity(pod), required_anti_affinity),
                (counters.required_affinity(pod), required_affinity),
                (counters.preferred(pod), preferred),
            ):
                held = {(term.topology_key, term.weight, term.match): self.per_node(term.holders) for term in answer}
                assert len(held) == len(answer)
                for name in self.nodes:
                    reported = {identity: counts[name] for identity, counts in held.items() if counts[name]}
                    assert reported == self.drift_detection.holders(kind, pod.pod, name)
                assert all(any(counts.values()) for counts in held.values())

    def per_node(self, column: Any) -> dict[str, int]:
        """A column by node name; all other rows must be empty."""
        table = self.cache.nodes
        assert column.shape == (table.capacity,)
        assert column.dtype == np.int64
        rows = {name: table.row_of(name) for name in self.nodes}
        assert column.sum() == sum(column[row] for row in rows.values())
        return {name: int(column[row]) for name, row in rows.items()}


class ForgetfulMachine(CountersMachine):
    """The same with room for one column at a time."""

    budget_bytes = 1


TestCounters = CountersMachine.TestCase
TestCountersWithoutMemory = ForgetfulMachine.TestCase
for case in (TestCounters, TestCountersWithoutMemory):
    case.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)


def test_a_column_is_kept_up_to_date_in_place() -> None:
    """No pod event causes another walk over all pods: only the first query does."""
    cache = Cache()
    cache.add_node(make_node("node-0"))
    web = PodMatch(frozenset(("default",)), None, (_labelled("web"),))
    column = cache.counters.matching(web)
    cache.add_pod(make_pod("one", node="node-0", labels={"app": "web"}))
    assert cache.counters.matching(web) is column
    assert column[cache.nodes.row_of("node-0")] == 1


def test_a_namespace_that_changes_drops_only_what_sees_the_change() -> None:
    cache = Cache()
    cache.add_node(make_node("node-0"))
    by_team = PodMatch(frozenset(), _labelled("x"), (Selector(),))
    by_name = PodMatch(frozenset(("default",)), None, (Selector(),))
    cache.counters.set_namespace(namespace("default", {"app": "x"}))
    before = cache.counters.matching(by_team), cache.counters.matching(by_name)
    cache.counters.set_namespace(namespace("default", {"app": "x", "note": "unrelated"}))
    assert cache.counters.matching(by_team) is before[0]
    cache.counters.set_namespace(namespace("default", {"app": "y"}))
    assert cache.counters.matching(by_team) is not before[0]
    assert cache.counters.matching(by_name) is before[1]


def test_namespace_selectors_see_the_labels_as_they_are_now() -> None:
    """A namespace comes, gets the label, loses it, gets it back and goes."""
    cache = Cache()
    cache.add_node(make_node("node-0"))
    cache.add_pod(make_pod("one", namespace="shop", node="node-0"))
    by_team, everywhere = (PodMatch(frozenset(), one, (Selector(),)) for one in (_labelled("x"), Selector()))
    counts = []
    for labels in (None, {}, {"app": "x"}, {"app": "y"}, {"app": "x"}, None):
        if labels is None:
            cache.counters.remove_namespace("shop")
        else:
            cache.counters.set_namespace(namespace("shop", labels))
        counts.append(int(cache.counters.matching(by_team).sum()))
        assert cache.counters.matching(everywhere).sum() == 1
    assert counts == [0, 0, 1, 0, 1, 0]


def test_rebuilding_a_node_counts_its_pods_anew() -> None:
    """A repair trusts nothing: one pod was missed by the counters, and another is still in them after it has gone."""
    cache = Cache()
    cache.add_node(make_node("node-0"))
    row = cache.nodes.row_of("node-0")
    everyone, newcomer = PodMatch(frozenset(("default",)), None, (Selector(),)), pod_info("newcomer")
    for number in range(3):
        cache.add_pod(make_pod(f"pod-{number}", node="node-0", affinity=JEALOUS))
    missed = cache.pod_of("uid-of-pod-0")
    assert missed is not None
    cache.counters.remove(row, missed)
    cache.counters.add(row, pod_info("gone", affinity=JEALOUS))
    cache.counters.add(row, pod_info("gone too", affinity=JEALOUS))
    assert cache.counters.matching(everyone)[row] == 4
    cache.rebuild_node("node-0")
    assert cache.counters.matching(everyone)[row] == 3
    for terms in (cache.counters.required_affinity(newcomer), cache.counters.required_anti_affinity(newcomer)):
        assert [term.holders[row] for term in terms] == [3]


@pytest.mark.parametrize("distinct", [1, 500])
def test_what_is_kept_is_bounded(distinct: int) -> None:
    """However many questions are asked, no more columns are kept than the budget allows."""
    cache = Cache()
    cache.add_node(make_node("node-0"))
    cache.counters = TopologyCounts(cache.nodes, budget_bytes=10 * (8 * cache.nodes.capacity + 2048))
    for number in range(distinct):
        cache.counters.matching(PodMatch(frozenset(("default",)), None, (_labelled(f"app-{number}"),)))
    assert cache.counters.statistics().columns == min(distinct, 10)


def test_queries_of_releases_that_are_gone_do_not_stay() -> None:
    """On a small cluster the budget in bytes would keep a hundred thousand of them."""
    cache = Cache()
    cache.add_node(make_node("node-0"))
    for number in range(3000):
        cache.add_pod(make_pod(f"pod-{number}", node="node-0", labels={"app": f"app-{number}"}))
        cache.counters.matching(PodMatch(frozenset(("default",)), None, (_labelled(f"app-{number}"),)))
        if number >= 100:
            cache.remove_pod(f"uid-of-pod-{number - 100}")
    assert cache.counters.statistics().columns <= 512 + 4 * 101


def _labelled(value: str) -> Selector:
    return parse_label_selector(LabelSelector(match_labels={"app": value}))


def test_terms_of_one_pod_written_twice_count_twice() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, term]}}
    cache = Cache()
    cache.add_node(make_node("node-0"))
    cache.add_pod(make_pod("holder", node="node-0", affinity=affinity))
    (held,) = cache.counters.required_anti_affinity(pod_info("new"))
    assert isinstance(held, HeldTerm)
    assert held.holders.sum() == 2


def _sums(held: Sequence[HeldTerm]) -> dict[str, list[int]]:
    """By key what the terms add up to on each row."""
    sums: dict[str, Any] = {}
    for term in held:
        sums[term.topology_key] = sums.get(term.topology_key, 0) + term.holders * (term.weight * term.times)
    return {key: column.tolist() for key, column in sums.items()}


def _terms_about_all(count: int, first: int = 0) -> list[Tree]:
    expressions = ({"key": f"key-{first + number}", "operator": "DoesNotExist"} for number in range(count))
    return [
        {"topologyKey": f"topology-{number % 3}", "labelSelector": {"matchExpressions": [each]}}
        for number, each in enumerate(expressions)
    ]


def test_very_many_terms_of_like_holders_are_one_and_count_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod may hold thousands: they are not added up one by one in each decision about others."""
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name))
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    for name, node, terms in (
        ("alone", "a", _terms_about_all(150)),
        ("first", "a", _terms_about_all(150, first=1000)),
        ("second", "b", _terms_about_all(150, first=1000)),
        ("few", "b", _terms_about_all(5)),
    ):
        cache.add_pod(make_pod(name, node=node, affinity={"podAntiAffinity": {rule: terms}}))
    asks = pod_info("asks")
    merged = cache.counters.required_anti_affinity(asks)
    monkeypatch.setattr(held_terms, "_FEW", 10_000)
    one_by_one = cache.counters.required_anti_affinity(asks)
    assert len(one_by_one) == 300
    assert len(merged) <= 9
    assert sum(term.times for term in merged) == 300
    assert _sums(merged) == _sums(one_by_one)


def test_what_a_pod_with_too_many_terms_prefers_counts_for_nobody_else() -> None:
    cache = Cache()
    cache.add_node(make_node("a"))
    soft, hard = "preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution"
    for count, counts in ((200, True), (600, False)):
        weighted = [{"weight": 1, "podAffinityTerm": term} for term in _terms_about_all(count)]
        affinity = {"podAffinity": {soft: weighted}, "podAntiAffinity": {hard: _terms_about_all(3)}}
        pod = make_pod("holds", node="a", affinity=affinity)
        cache.add_pod(pod)
        assert bool(cache.counters.preferred(pod_info("asks"))) is counts
        assert len(cache.counters.required_anti_affinity(pod_info("asks"))) == 3, "it repels as it says"
        cache.remove_pod(pod.metadata.uid)
        assert cache.counters.statistics().held_terms == 0
