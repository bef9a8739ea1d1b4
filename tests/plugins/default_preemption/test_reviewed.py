"""Candidates that somebody else must review: nothing is chosen before, and nothing that has changed since."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.cluster.preemption import Candidate, PreemptionSearch, ReviewedCandidate, VictimReview
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import Plugin, PostFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.default_preemption.victims import choose_listed
from tests.builders import make_pod
from tests.plugins.default_preemption.test_default_preemption import World, preemptor

POD = preemptor()


def world() -> World:
    """Without a review, preemption takes b, whose pods matter least."""
    made = World()
    made.node("a", 5, 5)
    made.node("b", 1, 1)
    made.node("c", 3, 3)
    return made


def reviewed(stage: World, answers: Mapping[str, ReviewedCandidate]) -> tuple[PostFilterResult, VictimReview]:
    """What the plugin does with these reviews, on the cluster as it is now."""
    record = stage.preempt(POD)
    review = VictimReview(answers)
    record.state.write(review)
    return stage.plugin.post_filter(record.state, POD, stage.cache.nodes, record.diagnosis), review


def queried(stage: World) -> dict[str, Candidate]:
    _, review = reviewed(stage, {})
    return {candidate.node_name: candidate for candidate in review.queries}


def allowing(candidate: Candidate, allowed: Candidate | None) -> ReviewedCandidate:
    return ReviewedCandidate(frozenset(victim.uid for victim in candidate.victims), allowed)


def test_before_the_review_nothing_is_chosen_and_all_candidates_are_shown() -> None:
    stage = world()
    result, review = reviewed(stage, {})
    assert result.status.code is Code.UNSCHEDULABLE
    assert result.preemption is None
    assert result.nominated_node_name is None
    assert {candidate.node_name for candidate in review.queries} == {"a", "b", "c"}


def test_the_best_of_what_is_allowed_is_chosen() -> None:
    stage = world()
    found = queried(stage)
    answers = {name: allowing(each, None if name == "b" else each) for name, each in found.items()}
    result, review = reviewed(stage, answers)
    assert result.status.is_success
    assert result.nominated_node_name == "c"
    assert result.preemption is not None
    assert result.preemption.victims == found["c"].victims
    assert review.queries == ()


def test_when_all_are_rejected_there_is_none() -> None:
    stage = world()
    result, review = reviewed(stage, {name: allowing(each, None) for name, each in queried(stage).items()})
    assert result.status.message == "preemption: no candidate node for preemption"
    assert (result.preemption, result.nominated_node_name, review.queries) == (None, None, ())


def test_other_victims_may_be_named() -> None:
    stage = world()
    found = queried(stage)
    row = stage.cache.nodes.row_of("a")
    others = tuple(stage.cache.nodes.info(row).pods.values())
    both = Candidate("a", others, 0)
    result, _ = reviewed(stage, {name: allowing(each, both if name == "a" else None) for name, each in found.items()})
    assert result.preemption is not None
    assert result.preemption.victims == others


def test_a_review_of_other_victims_is_worth_nothing() -> None:
    stage = world()
    found = queried(stage)
    (victim,) = found["b"].victims
    stage.cache.remove_pod(victim.uid)
    stage.cache.add_pod(make_pod("later", node="b", priority=0, requests={"cpu": "1"}))
    answers = {name: allowing(each, each if name == "b" else None) for name, each in found.items()}
    result, review = reviewed(stage, answers)
    assert result.preemption is None
    assert [candidate.node_name for candidate in review.queries] == ["b"], "the others have been reviewed"


def test_victims_that_have_gone_are_not_evicted() -> None:
    stage = world()
    found = queried(stage)
    gone = PodInfo(make_pod("gone", node="b", priority=0))
    answers = {
        name: allowing(each, Candidate("b", (gone,), 0) if name == "b" else None) for name, each in found.items()
    }
    result, review = reviewed(stage, answers)
    assert result.preemption is None
    assert review.queries == ()


class Held(Plugin):
    """Rejects all nodes when it is asked first, as an extender would: the dry runs of preemption do not see it."""

    name = "Held"
    reasons = {1: "held by an extender"}  # noqa: RUF012

    def __init__(self) -> None:
        self.is_first = True

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        rejects, self.is_first = self.is_first, False
        return np.full(len(rows), int(rejects), dtype=np.int64)


def held(version: str) -> World:
    """Two nodes with room, each with a pod that could go."""
    made = World(Held(), version=version)
    made.node("a", 5)
    made.node("b", 1)
    return made


def review_held(version: str, answers: Mapping[str, ReviewedCandidate]) -> tuple[PostFilterResult, VictimReview]:
    stage = held(version)
    record = stage.preempt(POD)
    review = VictimReview(answers)
    record.state.write(review)
    return stage.plugin.post_filter(record.state, POD, stage.cache.nodes, record.diagnosis), review


def test_from_1_38_a_node_that_needs_no_victims_is_shown_to_the_reviewer() -> None:
    """(1.38: D5) Before, it was an error."""
    result, review = review_held("1.37", {})
    assert result.status.code is Code.ERROR
    assert review.queries == ()
    result, review = review_held("1.38", {})
    assert result.status.message == "preemption: no candidate node for preemption"
    assert {one.node_name: one.victims for one in review.queries} == {"a": (), "b": ()}


def test_from_1_38_a_reviewer_may_name_victims_where_none_were_needed() -> None:
    """(1.38: D5)"""
    pod = PodInfo(make_pod("a-0", node="a", priority=5))
    empty: frozenset[str] = frozenset()
    named = {"a": ReviewedCandidate(empty, Candidate("a", (pod,), 0)), "b": ReviewedCandidate(empty, None)}
    result, review = review_held("1.38", named)
    assert result.preemption is not None
    assert (result.preemption.node_name, result.preemption.victims) == ("a", (pod,))
    assert review.queries == ()
    result, review = review_held("1.38", {name: ReviewedCandidate(empty, None) for name in "ab"})
    assert (result.preemption, review.queries) == (None, ())
    assert result.status.message == "preemption: no candidate node for preemption"


@given(st.lists(st.lists(st.integers(-5, 9), min_size=2, max_size=2), min_size=1, max_size=8))
def test_listed_candidates_are_chosen_as_columns_are(nodes: list[list[int]]) -> None:
    stage = World()
    for number, priorities in enumerate(nodes):
        stage.node(f"n{number}", *priorities)
    if len(nodes) % 2:
        stage.budget("n0", allowed=0)
    record = stage.preempt(POD)
    search = record.state.find(PreemptionSearch)
    assert search is not None
    assert choose_listed(search.candidates(), stage.cache.nodes, POD) == search.chosen


@pytest.mark.parametrize("seed", range(5))
def test_among_equals_the_same_is_chosen(seed: int) -> None:
    stage = World()
    for number in range(6):
        stage.node(f"n{number}", 1, 1)
    pod = preemptor(f"new-{seed}")
    search = stage.preempt(pod).state.find(PreemptionSearch)
    assert search is not None
    assert choose_listed(search.candidates(), stage.cache.nodes, pod) == search.chosen
