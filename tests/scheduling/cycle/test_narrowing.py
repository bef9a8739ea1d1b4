"""A cycle with extenders' answers: only what fits now and was left then may be chosen."""

from dataclasses import replace
from typing import Any

import pytest

from kscheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.extenders.extender_results import UNASKED, ExtenderPoints, ExtenderResults
from kscheduler.scheduling.record import SchedulingRecord
from tests.builders import pod_info
from tests.scheduling.plugins_for_tests import Likes, TurnsDown, cluster, profile

NODES = ("a", "b", "c")
POINTS = Likes("Points", {"a": 50, "b": 40, "c": 0})
BUSY = unschedulable("busy", plugin="Extender")
NEVER = unresolvable("never", plugin="Extender")
SILENT = unresolvable(plugin="Extender")


def said(
    *left: str, queried: tuple[str, ...] = NODES, points: dict[str, int] | None = None, **rejected: Status
) -> ExtenderResults:
    given = () if points is None else (ExtenderPoints("http://x", 2, points),)
    return ExtenderResults(frozenset(queried), frozenset(left), rejected, given)


def decided(answers: ExtenderResults, *plugins: Any, nominated: str = "") -> SchedulingRecord:
    pod = pod_info(status={"nominatedNodeName": nominated})
    return schedule(profile(*plugins or (POINTS,)), pod, cluster(*NODES), answers=answers)


def test_before_anybody_is_queried_the_cycle_ends_with_the_nodes_that_fit() -> None:
    record = decided(UNASKED, POINTS, TurnsDown("Filter", "b"))
    assert record.queries == ("a", "c")
    assert record.status.is_success
    assert record.node_name == ""
    assert record.totals.tolist() == []


def test_a_pod_that_fits_nowhere_is_nobody_queried_about() -> None:
    record = decided(UNASKED, TurnsDown("Filter", *NODES))
    assert record.queries == ()
    assert record.message == "0/3 nodes are available: 3 not for Filter."


@pytest.mark.parametrize(
    ("answers", "chosen"),
    [
        (said(*NODES), "a"),
        (said("b", "c", a=BUSY), "b"),
        (said("c", a=BUSY, b=NEVER), "c"),
        (said(*NODES, points={"b": 11}), "b"),
        (said(*NODES, points={"a": -100, "c": 41}), "c"),
        (said("b", "c", a=BUSY, points={"a": 1000, "c": 41}), "c"),
        (said("b", queried=("b",)), "b"),
    ],
    ids=["all left", "best rejected", "one left", "points", "points below 0", "points of another", "fewer asked"],
)
def test_the_best_of_what_is_left_is_chosen(answers: ExtenderResults, chosen: str) -> None:
    record = decided(answers)
    assert (record.node_name, record.queries) == (chosen, ())


def test_points_of_extenders_are_reported_by_extender() -> None:
    record = decided(said("a", "b", c=BUSY, points={"b": 20}))
    assert [(scores.plugin, scores.weight, scores.points.tolist()) for scores in record.scores] == [
        ("Points", 1, [50, 40]),
        ("http://x", 2, [0, 20]),
    ]
    assert record.totals.tolist() == [50, 60]
    assert record.best_score == 60


def test_what_extenders_rejected_is_rejected_with_their_reasons() -> None:
    record = decided(said(a=BUSY, b=BUSY, c=NEVER))
    assert record.message == "0/3 nodes are available: 1 never, 2 busy."
    assert record.diagnosis.plugins == {"Extender"}
    assert dict(record.diagnosis.by_node()) == {"a": BUSY, "b": BUSY, "c": NEVER}
    (rejection,) = record.diagnosis.rejections
    assert [code > 0 for code in rejection.codes.tolist()] == [True, True, False], "where preemption may help"


def test_a_node_that_was_left_out_without_a_word_counts_without_a_reason() -> None:
    record = decided(said(a=SILENT, b=SILENT, c=BUSY))
    assert record.message == "0/3 nodes are available: 1 busy."


def test_what_no_longer_fits_is_not_chosen_although_it_was_left() -> None:
    record = decided(said("a", "b", c=BUSY), POINTS, TurnsDown("Filter", "a"))
    assert record.node_name == "b"


def test_when_nothing_that_was_left_fits_any_more_the_others_are_queried_about() -> None:
    record = decided(said("a", queried=("a", "b"), b=BUSY), POINTS, TurnsDown("Filter", "a"))
    assert record.queries == ("b", "c")
    assert record.node_name == ""


def test_when_all_that_fits_was_rejected_there_is_nothing_to_ask() -> None:
    record = decided(said("a", b=BUSY, c=NEVER), POINTS, TurnsDown("Filter", "a"))
    assert record.queries == ()
    assert record.message == "0/3 nodes are available: 1 busy, 1 never, 1 not for Filter."
    assert record.diagnosis.plugins == {"Extender", "Filter"}


def test_a_failure_of_an_extender_is_the_failure_of_the_cycle() -> None:
    failed = ExtenderResults(frozenset(NODES), status=error("no answer", plugin="Extender"))
    record = decided(failed)
    assert (record.status.code, record.message) == (Code.ERROR, "no answer")
    assert record.post_filter is None


# --- nominated nodes and samples --------------------------------------------------------------------------------------


def test_about_a_nominated_node_is_queried_alone_and_about_the_others_if_it_is_rejected() -> None:
    assert decided(UNASKED, nominated="b").queries == ("b",)
    assert decided(said("b", queried=("b",)), nominated="b").node_name == "b"
    assert decided(said(queried=("b",), b=BUSY), nominated="b").queries == NODES
    assert decided(said("a", "c", b=BUSY), nominated="b").node_name == "a"


def test_answers_about_a_sample_are_not_queried_for_again_with_the_next_sample() -> None:
    names = [f"n{number:03}" for number in range(300)]
    sampling = replace(profile(POINTS), percentage_of_nodes_to_score=40)
    sampler, view, pod = NodeSampler(), cluster(*names), pod_info()
    queried = schedule(sampling, pod, view, sampler=sampler, answers=UNASKED).queries
    assert len(queried) == 120
    answers = ExtenderResults(frozenset(queried), frozenset(queried[:1]), dict.fromkeys(queried[1:], BUSY))
    assert schedule(sampling, pod, view, sampler=sampler, answers=answers).node_name == queried[0]
