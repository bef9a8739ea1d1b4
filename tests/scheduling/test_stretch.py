"""Filters with columns that follow each other: who passes them all, against a look at every code."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.traits import traits_of
from kscheduler.scheduling.classes.class_columns import FilterColumn
from kscheduler.scheduling.classes.known_class import ColumnFilters
from tests.scheduling.plugins_for_tests import cluster

NAMES = ("a", "b", "c", "d")


class Filters(Plugin):
    """Its column is written by the test."""

    depends_on = (Source.ROW,)

    def __init__(self, name: str) -> None:
        self.name = name

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        raise NotImplementedError


def write(column: FilterColumn, row: int, code: int, nodes: NodeTable) -> None:
    """As a column does it: no array before somebody is rejected."""
    if column.codes is None and code:
        column.codes = np.zeros(nodes.capacity, dtype=np.int64)
    if column.codes is not None:
        column.codes[row] = code


def filter_column(name: str, nodes: NodeTable) -> FilterColumn:
    plugin = Filters(name)
    return FilterColumn(plugin, traits_of(plugin), CycleState(), nodes)


def reported(stretch: ColumnFilters, rows: Rows) -> dict[int, tuple[str, int]]:
    """Who rejected each row, and with which code."""
    rejections: list[Rejection] = []
    stretch.add_rejections(CycleState(), rows, rejections)
    by = ((one.plugin, zip(one.rows.tolist(), one.codes.tolist(), strict=True)) for one in rejections)
    return {row: (plugin, code) for plugin, pairs in by for row, code in pairs}


changes = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 2)), max_size=4)


@example(steps=[("few", [(0, 1, 0), (1, 2, 2)]), ("some", [(0, 1, 1)]), ("some", [(1, 2, 0)]), ("few", [(0, 1, 0)])])
@example(steps=[("some", [(0, 1, 1), (1, 2, 1)]), ("all", []), ("some", [(0, 1, 0)]), ("all", [(1, 2, 0)])])
@given(steps=st.lists(st.tuples(st.sampled_from(["all", "some", "few"]), changes), min_size=1, max_size=8))
def test_the_rows_that_pass_are_those_without_a_code(steps: list[tuple[str, list[tuple[int, int, int]]]]) -> None:
    nodes = cluster(*NAMES).nodes
    columns = [filter_column(name, nodes) for name in ("First", "Second")]
    stretch = ColumnFilters(columns)
    assert not stretch.update(nodes, None)
    codes = np.zeros((2, len(NAMES)), dtype=np.int64)
    has_array = False
    for how, step in steps:
        for at, row, code in step:
            write(columns[at], row, code, nodes)
            codes[at, row] = code
        rows = sorted({row for _, row, _ in step})
        queried = range(len(NAMES)) if how == "all" else rows
        is_first = bool(codes[:, list(queried)].any()) and (how == "all" or not has_array)
        has_array = is_first or (has_array and how != "all")
        match how:
            case "all":
                said = stretch.update(nodes, None)
            case "some":
                said = stretch.update(nodes, np.array(rows, dtype=np.intp))
            case _:
                said = stretch.update_few(nodes, rows)
        assert said is is_first
        alive = [row for row in range(len(NAMES)) if not codes[:, row].any()]
        assert stretch.passing(nodes, nodes.rows()).tolist() == alive
        assert stretch.passing(nodes, np.array([0, 2])).tolist() == [row for row in alive if row in (0, 2)]
        mask = [True] * len(NAMES) if stretch.alive is None else stretch.alive[: len(NAMES)].tolist()
        assert mask == [row in alive for row in range(len(NAMES))]
        first = {row: (("First", int(one)) if one else ("Second", int(two))) for row, (one, two) in enumerate(codes.T)}
        assert reported(stretch, nodes.rows()) == {row: by for row, by in first.items() if row not in alive}
        assert (stretch.bytes > 0) is has_array


def test_all_rows_that_pass_are_worked_out_once_until_somebody_else_does() -> None:
    nodes = cluster(*NAMES).nodes
    column = filter_column("First", nodes)
    stretch = ColumnFilters([column])
    write(column, 1, 1, nodes)
    stretch.update(nodes, None)
    before = stretch.passing(nodes, nodes.rows())
    stretch.update(nodes, np.array([0, 1]))
    stretch.update_few(nodes, [0, 1])
    assert stretch.passing(nodes, nodes.rows()) is before
