"""Numbers of taint sets end with the last node that has them, and verdicts kept by number are never wrong."""

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.api.core import Node
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.interned import Interned
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.nodes.per_taint_set import KEPT_TABLES, PerTaintSet
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.taint_toleration import TaintToleration
from kscheduler.state.cache import Cache
from kscheduler.state.row_check import row_fault
from tests.builders import make_node, pod_info
from tests.plugins.made import HANDLE

NAMES = tuple(f"node-{number}" for number in range(5))
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
# Few, so that a set that was gone comes back, under the number of another.
VALUES = tuple(f"179000000{number}" for number in range(4))

taint_sets = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from([CANDIDATE, "dedicated"]),
            "value": st.sampled_from(VALUES),
            "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
        }
    ),
    max_size=2,
    unique_by=lambda taint: taint["key"],
)
POD_TOLERATIONS: tuple[list[dict[str, str]], ...] = (
    [],
    [{"key": CANDIDATE, "operator": "Exists"}],
    [{"key": CANDIDATE, "value": VALUES[1]}],
    [{"key": "dedicated", "value": VALUES[2], "effect": "NoSchedule"}],
)


def tainted(name: str, taints: list[dict[str, str]], version: int = 1) -> Node:
    return make_node(name, spec={"taints": taints}, metadata={"resourceVersion": str(version)})


def bears(pod: PodInfo, taint: Any) -> bool:
    """The rule as core/v1 has it, for the operators that are used here."""
    for toleration in pod.tolerations:
        is_meant = toleration.key == taint.key and toleration.effect in ("", taint.effect)
        if is_meant and (toleration.operator == "Exists" or toleration.value == taint.value):
            return True
    return False


def expected(pod: PodInfo, node: Node) -> tuple[bool, int]:
    """Whether the pod is rejected, and how many taints make the node less welcome: one node, one taint at a time."""
    alien = [taint for taint in node.spec.taints if not bears(pod, taint)]
    unwelcome = sum(taint.effect == "PreferNoSchedule" for taint in alien)
    return any(taint.effect == "NoSchedule" for taint in alien), unwelcome


class TaintSets(RuleBasedStateMachine):
    """Nodes come, change their taints and go; pods ask now and then, and are answered from tables by set number."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.nodes: dict[str, Node] = {}
        self.plugin = TaintToleration(None, HANDLE)
        self.pods = [
            pod_info(f"pod-{place}", tolerations=tolerations) for place, tolerations in enumerate(POD_TOLERATIONS)
        ]
        self.most_sets = 1
        self.version = 1

    @rule(name=st.sampled_from(NAMES), taints=taint_sets)
    def a_node_comes_or_has_other_taints(self, name: str, taints: list[dict[str, str]]) -> None:
        self.version += 1
        self.nodes[name] = tainted(name, taints, self.version)
        self.cache.add_node(self.nodes[name])
        self.note_sets()

    @rule(name=st.sampled_from(NAMES))
    def a_node_goes(self, name: str) -> None:
        self.cache.remove_node(name)
        self.nodes.pop(name, None)

    @rule(name=st.sampled_from(NAMES), values=st.lists(st.integers(0, 10**9), max_size=30))
    def an_autoscaler_writes_the_time(self, name: str, values: list[int]) -> None:
        for value in values:
            self.a_node_comes_or_has_other_taints(
                name, [{"key": CANDIDATE, "value": str(value), "effect": "NoSchedule"}]
            )

    @rule(name=st.sampled_from(NAMES), shown=st.integers(0, 3))
    def a_column_goes_wrong_and_is_mended(self, name: str, shown: int) -> None:
        row = self.cache.nodes.row_of(name)
        if row >= 0:
            self.cache.nodes.taint_set[row] = min(shown, len(self.cache.nodes.taint_sets) - 1)
            self.cache.rebuild_node(name)
            assert row_fault(self.cache, name) is None

    @rule(which=st.integers(0, len(POD_TOLERATIONS) - 1))
    def a_pod_asks(self, which: int) -> None:
        self.ask(self.cache.nodes, self.pods[which])

    @rule(which=st.integers(0, len(POD_TOLERATIONS) - 1))
    def a_pod_asks_about_a_fork(self, which: int) -> None:
        rows = self.cache.nodes.rows()
        if len(rows):
            self.ask(self.cache.nodes.with_pods({int(rows[0]): [pod_info("more")]}), self.pods[which])

    def ask(self, table: NodeTable, pod: PodInfo) -> None:
        rows = table.rows()
        if not len(rows):
            return
        codes = self.plugin.filter(CycleState(), pod, table, rows)
        rejected = np.zeros(len(rows), dtype=np.bool_) if codes is None else codes != 0
        points = self.plugin.score(CycleState(), pod, table, rows)
        verdicts = [expected(pod, self.nodes[table.name_of(row)]) for row in rows.tolist()]
        assert list(zip(rejected.tolist(), points.tolist(), strict=True)) == verdicts

    def note_sets(self) -> None:
        # While a node changes, both its sets are there for a moment.
        distinct = len({node.spec.taints for node in self.nodes.values()} - {()})
        self.most_sets = max(self.most_sets, distinct + 2)

    @invariant()
    def each_row_shows_its_nodes_taints(self) -> None:
        table = self.cache.nodes
        for name, node in self.nodes.items():
            assert table.taint_sets[table.taint_set[table.row_of(name)]] == node.spec.taints

    @invariant()
    def there_are_no_more_numbers_than_sets_at_one_time(self) -> None:
        assert len(self.cache.nodes.taint_sets) <= self.most_sets

    def teardown(self) -> None:
        for pod in self.pods:
            self.ask(self.cache.nodes, pod)


TestTaintSets = TaintSets.TestCase
TestTaintSets.settings = settings(stateful_step_count=60)


def test_a_node_whose_autoscaler_writes_20_000_timestamps_leaves_two_sets() -> None:
    cache, plugin, pod = Cache(), TaintToleration(None, HANDLE), pod_info("pod")
    for stamp in range(20_000):
        taint = {"key": CANDIDATE, "value": str(stamp), "effect": "NoSchedule"}
        cache.add_node(tainted("node", [taint], stamp + 1))
        if stamp % 1000 == 0:
            plugin.filter(CycleState(), pod, cache.nodes, cache.nodes.rows())
    assert len(cache.nodes.taint_sets) <= 3


def test_features_that_no_kubelet_declares_any_more_are_forgotten() -> None:
    cache = Cache()
    for version in range(1, 50):
        status = {"declaredFeatures": [f"Feature{version}"]}
        cache.add_node(make_node("node", status=status, metadata={"resourceVersion": str(version)}))
    assert len(cache.nodes.feature_sets) <= 3
    cache.remove_node("node")
    assert not any(cache.nodes.feature_sets)


def test_a_value_keeps_its_number_as_long_as_one_row_has_it() -> None:
    values: Interned[str] = Interned("")
    number = values.put(1, "a")
    assert values.put(2, "a") == number
    values.put(1, "b")
    assert values[number] == "a"
    values.put(2, "")
    assert values[number] == ""
    assert values.put(3, "c") == number
    assert list(values) == ["", "c", "b"]


def test_a_value_that_comes_back_to_its_own_row_is_not_freed_in_between() -> None:
    values: Interned[str] = Interned("")
    number = values.put(1, "a")
    position = values.changes.position
    assert values.put(1, "a") == number
    assert values.changes.position == position


@pytest.mark.parametrize("changes", [1, 10_000], ids=["a change", "more than the log keeps"])
def test_a_changed_number_is_judged_again_in_each_table(changes: int) -> None:
    judged: list[str] = []

    def verdict(taints: Any, _tolerations: Any) -> int:
        judged.append(",".join(taint.value for taint in taints))
        return int(judged[-1] or 0)

    cache, tables = Cache(), PerTaintSet(verdict)
    cache.add_node(tainted("other", [{"key": "k", "value": "7", "effect": "NoSchedule"}]))
    cache.add_node(tainted("node", [{"key": "k", "value": "8", "effect": "NoSchedule"}]))
    assert tables.table(cache.nodes, ())[cache.nodes.taint_set[cache.nodes.rows()]].tolist() == [7, 8]
    for stamp in range(10, 10 + changes):
        cache.add_node(tainted("node", [{"key": "k", "value": str(stamp), "effect": "NoSchedule"}], stamp))
    judged.clear()
    assert tables.table(cache.nodes, ())[cache.nodes.taint_set[cache.nodes.rows()]].tolist() == [7, 9 + changes]
    assert len(judged) <= len(cache.nodes.taint_sets)


def test_tables_of_tolerations_that_nobody_has_any_more_go() -> None:
    cache, tables = Cache(), PerTaintSet(lambda _taints, tolerations: len(tolerations))
    cache.add_node(tainted("node", []))
    for number in range(KEPT_TABLES + 20):
        tables.table(cache.nodes, pod_info("p", tolerations=[{"key": str(number), "operator": "Exists"}]).tolerations)
    assert len(tables._tables) == KEPT_TABLES
