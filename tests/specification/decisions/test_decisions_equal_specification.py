"""Whatever happens in between, each decision of the scheduler is that of the specification.

A history is a cluster of at most 20 nodes with pods of several interleaved classes and three profiles, one with a
user's plugins. What is compared: the feasible nodes, all points, the node, why others were rejected, and of pods
that fit nowhere every candidate for a preemption with its victims. Nothing is random but for the seed.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.state.topology.counters import TopologyCounts
from tests.specification import cases
from tests.specification.decisions.histories import DECISIONS, Failure, cut_down, live_through


def name_of(part: int) -> str:
    """`make fuzz` takes each half on a core of its own."""
    return f"{part:02}-{'second' if part % 2 else 'first'}-half"


@pytest.mark.parametrize("part", range(cases.DECISION_PARTS), ids=name_of)
def test_decisions_in_a_changing_cluster_are_those_of_the_specification(part: int) -> None:
    seeds = range(cases.FIRST_SEED + part, cases.FIRST_SEED + cases.HISTORIES, cases.DECISION_PARTS)
    for seed in seeds:
        failure = live_through(seed)
        assert failure is None, (
            f"seed {seed}, step {failure.number}: {failure.reported}\n"
            f"cut it down: python -m tests.specification.decisions.histories {seed} {failure.number}"
        )
    cases.judged_decisions[part] = DECISIONS * len(seeds)


@pytest.mark.parametrize(
    ("owner", "method", "fault"),
    [
        pytest.param(TopologyCounts, "_drop_those_that_see", lambda *_: None, id="counters keep to old namespaces"),
        pytest.param(NodeTable, "replace_pod", lambda *_: None, id="relabelled pods are not told of"),
        pytest.param(ChangeLog, "append", lambda *_: None, id="changes are not logged"),
    ],
)
def test_a_planted_fault_is_seen(
    owner: type[Any], method: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, fault)
    assert any(live_through(seed) for seed in range(10))


def test_a_history_that_goes_wrong_is_cut_down_to_the_steps_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChangeLog, "append", lambda *_: None)
    failure = next(filter(None, map(live_through, range(10))))
    seed = next(seed for seed in range(10) if live_through(seed) == failure)
    left, again = cut_down(seed, failure.number)
    assert len(left) < failure.number
    assert isinstance(again, Failure)
    assert again.number == failure.number
