"""The NodeTable against the objects it was made of, whatever happened in between."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kscheduler.api.core import ContainerImage
from kscheduler.api.selectors import NodeTerm, Operator, Requirement
from kscheduler.framework.nodes.label_column import LabelColumn
from kscheduler.framework.nodes.node_info import MAX_RESOURCES, NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, stable_hash
from kscheduler.framework.nodes.sparse import ImageStates
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.state.cache import Cache
from kscheduler.state.row_check import row_fault
from tests.builders import make_node, make_pod, pod_info
from tests.framework.nodes.cluster_objects import node_fields, pod_fields
from tests.framework.nodes.naive_columns import REQUIREMENTS, Place, check
from tests.scheduling.classes.test_signatures import default_profile

NAMES = st.sampled_from([f"node-{number}" for number in range(4)])
# Twice that is more than the first capacity.
MANY = 40


class NodeTableMachine(RuleBasedStateMachine):
    """Nodes and pods come, change and go; the table equals its recomputation after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.table._least_resources = self.table._sweep_resources_at = 4  # names in use are looked for all the time
        self.places: dict[str, Place] = {}
        self.infos: dict[str, NodeInfo] = {}
        self.serial = 0

    def next_number(self) -> int:
        """A number that was not given before."""
        self.serial += 1
        return self.serial

    def add(self, name: str, fields: dict[str, Any], pods: int = 0) -> None:
        """A node with some pods on it already."""
        node = make_node(name, **fields)
        info = self.infos[name] = NodeInfo(node)
        self.places[name] = Place(node)
        for _ in range(pods):
            pod = pod_info(f"pod-{self.next_number()}", requests={"cpu": "1"})
            info.add_pod(pod)
            self.places[name].pods[pod.uid] = pod
        row = self.table.add(info)
        assert self.table.info(row) is info

    @rule(name=NAMES, fields=node_fields, pods=st.integers(0, 2))
    def node_comes_or_changes(self, name: str, fields: dict[str, Any], pods: int) -> None:
        info = self.infos.get(name)
        if info is None:
            self.add(name, fields, pods)
            return
        before = info.node
        assert before is not None
        self.places[name].node = make_node(name, **fields)
        info.set_node(self.places[name].node)
        generation = self.table.last_generation
        self.table.update(self.table.row_of(name), before)
        assert self.table.generation[self.table.row_of(name)] > generation

    @precondition(lambda self: len(self.infos) < 3 * MANY)
    @rule(fields=node_fields)
    def many_nodes_come(self, fields: dict[str, Any]) -> None:
        for _ in range(MANY):
            self.add(f"of-many-{self.next_number()}", fields)

    @rule()
    def the_many_go(self) -> None:
        for name in [name for name in self.infos if name.startswith("of-many-")]:
            self.node_goes(name)

    @rule(name=NAMES)
    def one_goes(self, name: str) -> None:
        if name in self.infos:
            self.node_goes(name)

    def node_goes(self, name: str) -> None:
        """It frees its row."""
        row = self.table.row_of(name)
        self.table.remove(row)
        del self.infos[name], self.places[name]
        with pytest.raises(KeyError):
            self.table.info(row)

    @rule(name=NAMES, fields=pod_fields)
    def pod_comes(self, name: str, fields: dict[str, Any]) -> None:
        if name in self.infos:
            pod = pod_info(f"pod-{self.next_number()}", **fields)
            self.infos[name].add_pod(pod)
            self.table.add_pod(self.table.row_of(name), pod)
            self.places[name].pods[pod.uid] = pod

    @rule(name=NAMES)
    def pod_goes(self, name: str) -> None:
        if name in self.infos and self.infos[name].pods:
            pod = next(iter(self.infos[name].pods.values()))
            self.infos[name].remove_pod(pod)
            self.table.remove_pod(self.table.row_of(name), pod)
            del self.places[name].pods[pod.uid]

    @rule(requirement=st.sampled_from(REQUIREMENTS))
    def somebody_asks_about_a_label(self, requirement: Requirement) -> None:
        """A column is made when it is first asked for, which may be before or after the nodes."""
        self.table.matches(requirement, self.table.rows())

    @rule(name=NAMES)
    def somebody_asks_for_names(self, name: str) -> None:
        rows = self.table.rows()
        names = [self.table.name_of(row) for row in rows.tolist()]
        for operator, is_match in ((Operator.IN, True), (Operator.NOT_IN, False)):
            term = NodeTerm(fields=(Requirement("metadata.name", operator, frozenset((name,))),))
            found = self.table.matches_term(term, rows).tolist()
            assert found == [(other == name) is is_match for other in names]

    @invariant()
    def the_table_equals_its_recomputation(self) -> None:
        check(self.table, self.places)


TestNodeTable = NodeTableMachine.TestCase


def test_a_frozen_copy_of_the_names_survives_the_reuse_of_a_row() -> None:
    table = NodeTable()
    row = table.add(NodeInfo(make_node("first")))
    frozen = table.names()
    table.remove(row)
    assert table.add(NodeInfo(make_node("second"))) == row
    assert frozen[row] == "first"
    assert table.names()[row] == "second"


def test_a_resource_that_one_node_had_is_not_left_to_the_next_owner_of_its_row() -> None:
    table = NodeTable()
    info = NodeInfo(make_node("first", **{"example.com/gpu": "4"}))
    info.add_pod(pod_info("p", requests={"example.com/gpu": "3"}))
    row = table.add(info)
    table.remove(row)
    table.add(NodeInfo(make_node("second")))
    rows = table.rows()
    assert table.amounts(table.allocatable, "example.com/gpu", rows).tolist() == [0]
    assert table.amounts(table.requested, "example.com/gpu", rows).tolist() == [0]


def test_a_ghost_gets_no_row() -> None:
    with pytest.raises(ValueError, match="ghost"):
        NodeTable().add(NodeInfo())


def test_label_values_that_have_passed_do_not_pile_up() -> None:
    """A label such as a boot id has a new value at every change; its column is rebuilt when most values are dead."""
    table = NodeTable()
    node = make_node("n", labels={"boot": "0"})
    info = NodeInfo(node)
    row = table.add(info)
    asks = Requirement("boot", Operator.EXISTS)
    for number in range(2_500):
        before, node = node, make_node("n", labels={"boot": str(number)})
        info.set_node(node)
        table.update(row, before)
        assert table.matches(asks, table.rows()).tolist() == [True]
    _, values = table.label_values("boot", table.rows())
    assert len(values) < 1_200


def test_a_requirement_sees_values_that_came_after_it_was_first_queried() -> None:
    column = LabelColumn(4)
    only_b = Requirement("zone", Operator.IN, frozenset("b"))
    rows = np.arange(2, dtype=np.intp)
    column.set(0, "a")
    assert column.matches(only_b, rows).tolist() == [False, False]
    column.set(1, "b")
    assert column.matches(only_b, rows).tolist() == [False, True]


def test_the_hash_of_a_name_is_the_same_everywhere() -> None:
    """Ties are broken by it: it must never change between versions, processes or machines."""
    assert stable_hash("") == 13_020_603_013_274_838_756
    assert stable_hash("node-1") == 3_020_689_103_880_935_311


def test_names_of_resources_that_nobody_uses_any_more_are_forgotten() -> None:
    cache = Cache()
    cache.add_node(make_node("stays", **{"example.com/kept": "2"}))
    cache.add_pod(make_pod("keeps", node="stays", requests={"example.com/taken": "1"}))
    for number in range(1000):
        cache.add_node(make_node("node", **{f"example.com/of-node-{number}": "1"}))
        cache.add_pod(make_pod("pod", node="stays", requests={f"example.com/of-pod-{number}": "1"}))
        cache.remove_pod("uid-of-pod")
        cache.remove_node("node")
        assert len(cache.nodes.resources) <= 67
        assert len(cache.nodes.allocatable) == len(cache.nodes.requested) == len(cache.nodes.resources)
    rows = cache.nodes.rows()
    assert cache.nodes.amounts(cache.nodes.allocatable, "example.com/kept", rows).tolist() == [2]
    assert "example.com/taken" not in cache.nodes.resources, "no node offers it"
    info = cache.node_info("stays")
    assert info is not None
    assert info.requested["example.com/taken"] == 1
    assert len(info.requested) <= 4
    assert row_fault(cache, "stays") is None


def test_what_pods_alone_name_has_no_column_until_a_node_offers_it() -> None:
    cache = Cache()
    cache.add_node(make_node("a"))
    cache.add_pod(make_pod("many", node="a", requests={f"example.com/of-pod-{number}": "2" for number in range(3000)}))
    assert cache.nodes.resources.keys() == {"cpu", "memory", "ephemeral-storage"}
    cache.add_node(make_node("b", **{"example.com/of-pod-7": "5"}))
    rows = cache.nodes.rows_of(["a", "b"])
    assert cache.nodes.amounts(cache.nodes.requested, "example.com/of-pod-7", rows).tolist() == [2, 0]
    assert row_fault(cache, "a") is row_fault(cache, "b") is None
    cache.remove_pod("uid-of-many")
    assert cache.nodes.amounts(cache.nodes.requested, "example.com/of-pod-7", rows).tolist() == [0, 0]
    info = cache.node_info("a")
    assert info is not None
    assert not info.requested


@pytest.mark.parametrize(
    "operator", [each for each in Operator if each is not Operator.NEVER], ids=lambda each: each.name
)
def test_a_key_that_no_node_has_is_answered_without_a_column(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache()
    cache.add_node(make_node("a", labels={"known": "1"}))
    cache.add_node(make_node("b", labels={"known": "2"}))
    rows = cache.nodes.rows()
    queried: list[object] = []
    monkeypatch.setattr(LabelColumn, "of", queried.append)
    for number in range(2000):
        requirement = Requirement(f"unknown-{number}", operator, frozenset(("1",)), 0)
        expected = [requirement.matches({"known": "1"})] * 2
        assert cache.nodes.matches(requirement, rows).tolist() == expected
        assert cache.nodes.matches_term(NodeTerm((requirement,)), rows).tolist() == expected
    numbers, values = cache.nodes.label_values("unknown-0", rows)
    assert [values[number] for number in numbers.tolist()] == [None, None]
    assert not queried
    monkeypatch.undo()
    cache.add_node(make_node("b", labels={"unknown-0": "1"}))
    assert cache.nodes.matches(Requirement("unknown-0", Operator.EXISTS), cache.nodes.rows_of(["a", "b"])).tolist() == [
        False,
        True,
    ]


def test_an_and_of_requirements_ends_once_no_row_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand requirements on one key are one, and those behind one that fails everywhere are not looked at."""
    cache = Cache()
    keys = [f"key-{number}" for number in range(300)]
    cache.add_node(make_node("a", labels=dict.fromkeys(keys, "x")))
    rows, queried = cache.nodes.rows(), []
    matches = LabelColumn.matches

    def counted(column: LabelColumn, requirement: Requirement, rows: Any) -> Any:
        queried.append(requirement)
        return matches(column, requirement, rows)

    monkeypatch.setattr(LabelColumn, "matches", counted)
    term = NodeTerm(tuple(Requirement(key, Operator.IN, frozenset(("y",))) for key in keys))
    assert not cache.nodes.matches_term(term, rows).any()
    assert len(queried) == 1
    queried.clear()
    wide = NodeTerm(
        tuple(Requirement("key-0", Operator.NOT_IN, frozenset((f"v{number}",))) for number in range(10_000))
    )
    assert cache.nodes.matches_term(wide, rows).all()
    assert len(queried) == 1
    queried.clear()
    unknown = NodeTerm((*wide.labels, Requirement("nobody has it", Operator.EXISTS)))
    assert not cache.nodes.matches_term(unknown, rows).any()
    assert not queried
    first_holds = [NodeTerm((Requirement(key, Operator.EXISTS),)) for key in keys]
    assert cache.nodes.matches_any(first_holds, rows).all()
    assert len(queried) == 1


_REQUIREMENTS_ON_FEW_KEYS = st.lists(
    st.builds(
        Requirement,
        st.sampled_from(["x", "y", "nobody"]),
        st.sampled_from(list(Operator)),
        st.frozensets(st.sampled_from(["1", "2", "10", "a", ""]), max_size=3),
        st.integers(-1, 10),
    ),
    max_size=12,
)


@given(
    _REQUIREMENTS_ON_FEW_KEYS,
    st.lists(st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["1", "2", "10", "a", ""]))),
)
def test_a_term_is_judged_on_columns_as_on_each_node(
    requirements: list[Requirement], nodes: list[dict[str, str]]
) -> None:
    """However many requirements share a key, and whether or not any node has it."""
    cache = Cache()
    for number, labels in enumerate(nodes):
        cache.add_node(make_node(f"node-{number}", labels=labels))
    rows = cache.nodes.rows_of([f"node-{number}" for number in range(len(nodes))])
    term = NodeTerm(tuple(requirements))
    by_name = {cache.nodes.name_of(row): row for row in rows.tolist()}
    expected = {f"node-{number}": term.matches(labels, "") for number, labels in enumerate(nodes)}
    found = dict(zip(by_name, cache.nodes.matches_term(term, rows).tolist(), strict=True))
    assert found == expected


def test_what_was_worked_out_by_places_of_before_is_not_believed_though_there_are_as_many_names() -> None:
    """Fit remembers in which columns its resources are; class columns remember what it said."""
    cache = Cache()
    cache.nodes._least_resources = cache.nodes._sweep_resources_at = 5
    cache.add_node(make_node("a", **{"example.com/first": "1", "example.com/gpu": "1"}))
    cache.add_node(make_node("b", **{"example.com/first": "1"}))
    wants = pod_info("wants", requests={"example.com/gpu": "1"})
    profile = default_profile(cache)
    engine = ClassEngine(profile, cache)
    before = cache.nodes.resources_version

    def feasible() -> list[str]:
        return schedule(profile, wants, cache, engine=engine).feasible_names()

    assert feasible() == ["a"]
    cache.add_node(make_node("a", **{"example.com/gpu": "1"}))
    cache.add_node(make_node("b", **{"example.com/other": "1"}))
    cache.add_node(make_node("b", **{"example.com/other": "1"}, labels={"some": "label"}))
    assert "example.com/first" not in cache.nodes.resources
    assert cache.nodes.resources_version != before
    assert feasible() == ["a"]


DTYPES = {
    "allocatable": np.int64,
    "requested": np.int64,
    "nonzero_requested": np.int64,
    "is_live": np.bool_,
    "allowed_pods": np.int64,
    "pod_count": np.int64,
    "unschedulable": np.bool_,
    "taint_set": np.int32,
    "feature_set": np.int32,
    "name_hash": np.uint64,
    "tie_hash": np.uint64,
    "generation": np.int64,
    "pods_version": np.int64,
}


@pytest.mark.parametrize("nodes", [0, 100], ids=["empty", "grown"])
def test_each_column_has_the_type_that_plugins_calculate_with(nodes: int) -> None:
    """Amounts of memory as floats would be exact to 2**53 only, and masks of integers would select rows 0 and 1."""
    table = NodeTable()
    for number in range(nodes):
        table.add(NodeInfo(make_node(f"n{number}")))
    columns = {name: value.dtype for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    assert {name: columns[name] for name in DTYPES} == DTYPES
    assert columns.keys() - DTYPES.keys() <= {"_rows", "_places"}


# What happens to a row, one after another, and which logs name it. Anyone who keeps results by row reads one of them.
LOGS = {
    "a node comes": ("row", "node", "amount"),
    "its columns change": ("row", "node", "amount"),
    "something without a column changes": ("row", "node"),
    "a pod comes": ("row", "amount"),
    "a pod goes": ("row", "amount"),
    "it is built anew": ("row", "node", "amount"),
    "the node goes": ("row", "node", "amount"),
}


def test_each_log_names_the_rows_that_it_is_for() -> None:
    table, info, pod = NodeTable(), NodeInfo(make_node("n")), pod_info("p")
    before = make_node("n")

    def change(add: bool) -> None:
        (info.add_pod if add else info.remove_pod)(pod)
        (table.add_pod if add else table.remove_pod)(0, pod)

    steps: tuple[Callable[[], object], ...] = (
        lambda: table.add(info),
        lambda: table.update(0, before),
        lambda: table.log_change(0),
        lambda: change(add=True),
        lambda: change(add=False),
        lambda: table.rebuild(0),
        lambda: table.remove(0),
    )
    named = {}
    for what, step in zip(LOGS, steps, strict=True):
        logs = {name: getattr(table, f"{name}_changes") for name in ("row", "node", "amount")}
        positions = {name: log.position for name, log in logs.items()}
        step()
        named[what] = tuple(name for name, log in logs.items() if len(log.since(positions[name])))
    assert named == LOGS


def test_a_node_of_fifty_thousand_resources_takes_no_more_columns_than_are_counted_of_a_node() -> None:
    """Two columns for each resource, of all nodes: a gigabyte, written by anyone who has one kubelet's credentials."""
    many = {f"x.io/k{number:05}": "1" for number in range(50_000)}
    table = NodeTable()
    row = table.add(NodeInfo(make_node("n", **many, pods="9")))
    assert len(table.allocatable) <= MAX_RESOURCES + 3
    assert (table.allocatable[table.resources["cpu"], row], table.allowed_pods[row]) == (4000, 9)
    assert table.allocatable[table.resources["x.io/k00000"], row] == 1


def test_a_row_that_reports_a_name_twice_holds_it_once_and_then_no_more() -> None:
    images = ImageStates()
    twice = (ContainerImage(names=("a", "b"), size_bytes=1), ContainerImage(names=("a",), size_bytes=2))
    images.add(3, twice)
    images.add(5, twice)
    state = images.get("a")
    assert state is not None
    assert (len(state), state.array().tolist(), state.size) == (2, [3, 5], 1)
    images.remove(3, twice)
    assert (len(state), state.array().tolist()) == (1, [5])
    images.add(3, twice)
    assert (len(state), state.array().tolist()) == (2, [5, 3])
    images.clear(5)
    images.remove(3, twice)
    assert images.get("a") is None
