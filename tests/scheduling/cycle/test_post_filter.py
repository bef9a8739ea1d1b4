"""PostFilter: when it is asked, what several plugins make of it, and what the record says then."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.plugin import Plugin, PostFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.stopwatch import ObservedStopwatch
from tests.builders import pod_info
from tests.scheduling.plugins_for_tests import Likes, Looks, TurnsDown, cluster, profile


class PluginResults(Plugin):
    """A PostFilter with a given answer."""

    def __init__(self, name: str, answer: PostFilterResult | Exception) -> None:
        self.name = name
        self.answer = answer
        self.queried = 0

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        self.queried += 1
        assert cycle.find(DryRun) is not None
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def says(name: str, status: Status, node: str | None = None) -> PluginResults:
    return PluginResults(name, PostFilterResult(status, node))


def full(*post_filter: PluginResults, before: Iterable[Plugin] = (TurnsDown("Full", "a"),)) -> Profile:
    return replace(profile(*before), post_filter=post_filter)


def decided(*post_filter: PluginResults) -> SchedulingRecord:
    return schedule(full(*post_filter), pod_info(), cluster("a"))


NO = unschedulable("no room")
CASES = {
    "success ends it": ([says("A", SUCCESS, "a"), says("B", NO)], (Code.SUCCESS, "", "a"), [1, 0]),
    "a rejection goes on to the next": (
        [says("A", NO), says("B", unschedulable("nor here"), "")],
        (Code.UNSCHEDULABLE, "no room, nor here", ""),
        [1, 1],
    ),
    "a nomination outlives a later silence": (
        [says("A", NO, ""), says("B", NO)],
        (Code.UNSCHEDULABLE, "no room, no room", ""),
        [1, 1],
    ),
    "a later success wins": ([says("A", NO, ""), says("B", SUCCESS, "a")], (Code.SUCCESS, "", "a"), [1, 1]),
    "an unresolvable one ends it": (
        [says("A", NO), says("B", unresolvable("hopeless"), ""), says("C", SUCCESS, "a")],
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "hopeless", ""),
        [1, 1, 0],
    ),
    "an error ends it, and changes no nomination": (
        [says("A", NO, ""), says("B", error("broken"), "a"), says("C", SUCCESS, "a")],
        (Code.ERROR, "broken", None),
        [1, 1, 0],
    ),
    "a skip is an error": ([says("A", SKIP), says("B", SUCCESS, "a")], (Code.ERROR, "", None), [1, 0]),
    "a status that is none is an error": (
        [PluginResults("A", PostFilterResult("Success")), says("B", SUCCESS, "a")],  # type: ignore[arg-type]  # a user's plugin
        (
            Code.ERROR,
            "running PostFilter plugin \"A\": WrongAnswerError: it returned 'Success', expected Status",
            None,
        ),
        [1, 0],
    ),
    "a node that is none is an error": (
        [PluginResults("A", PostFilterResult(SUCCESS, 7))],  # type: ignore[arg-type]
        (Code.ERROR, 'running PostFilter plugin "A": WrongAnswerError: it returned 7, expected str', None),
        [1],
    ),
    "a bug is an error": (
        [PluginResults("A", ValueError("oh"))],
        (Code.ERROR, 'running PostFilter plugin "A": ValueError: oh', None),
        [1],
    ),
}


@pytest.mark.parametrize(("plugins", "expected", "queried"), CASES.values(), ids=CASES)
def test_what_several_plugins_make_of_it(
    plugins: list[PluginResults], expected: tuple[Code, str, str | None], queried: list[int]
) -> None:
    for plugin in plugins:
        plugin.queried = 0
    record = decided(*plugins)
    assert record.post_filter is not None
    code, text, node = expected
    assert (record.post_filter.code, record.post_filter_message, record.nominated_node_name) == (code, text, node)
    assert [plugin.queried for plugin in plugins] == queried
    assert record.status.code is Code.UNSCHEDULABLE
    assert record.message == f"0/1 nodes are available: 1 not for Full. {text}".strip()


def test_a_profile_without_such_plugins_takes_the_nomination_back() -> None:
    record = decided()
    assert (record.post_filter, record.nominated_node_name) == (None, "")


WANTED = Preemption(pod_info("big"), "a", (pod_info("small"),), "A")


def test_what_it_wants_done_goes_with_a_success_to_the_record() -> None:
    silent, wants = says("A", NO), PluginResults("B", PostFilterResult(SUCCESS, "a", WANTED))
    assert decided(silent, wants).preemption is WANTED
    assert decided(silent).preemption is None


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (PostFilterResult(NO, "a", WANTED), "it returned a preemption with status Unschedulable, not Success"),
        (PostFilterResult(SUCCESS, "a", "small"), "it returned 'small', expected Preemption"),  # type: ignore[arg-type]
    ],
    ids=["without success", "no preemption"],
)
def test_what_cannot_be_done_is_the_plugins_failure(answer: PostFilterResult, reported: str) -> None:
    record = decided(PluginResults("A", answer), says("B", SUCCESS, "a"))
    assert record.preemption is None
    assert record.post_filter_message == f'running PostFilter plugin "A": WrongAnswerError: {reported}'


@pytest.mark.parametrize("status", [unschedulable("no"), unresolvable("never")], ids=["U", "UU"])
def test_it_is_queried_after_a_rejection_by_pre_filter(status: Status) -> None:
    plugin = says("A", NO)
    record = schedule(full(plugin, before=(Looks("Early", status),)), pod_info(), cluster("a"))
    assert plugin.queried == 1
    assert record.message.endswith(f"{status.message}. no room")


def test_it_is_not_queried_where_a_node_fits_or_nothing_was_judged() -> None:
    plugin = says("A", NO)
    assert schedule(full(plugin), pod_info(), cluster("a", "b")).node_name == "b"
    nowhere = schedule(full(plugin), pod_info(), cluster())
    failed = schedule(full(plugin, before=(TurnsDown("Bug", failure=ValueError("oh")),)), pod_info(), cluster("a"))
    scored = full(plugin, before=(Likes("Bug", ValueError("oh")),))
    late = schedule(scored, pod_info(), cluster("a", "b"))
    assert plugin.queried == 0
    assert [one.nominated_node_name for one in (nowhere, failed, late)] == ["", "", None]
    assert late.node_name == "b", "who fails to score only gives no points"
    assert [one.post_filter for one in (nowhere, failed, late)] == [None, None, None]


def test_the_point_is_timed_and_searches_for_victims_are_counted() -> None:
    observations = Observations()
    watch = ObservedStopwatch("kscheduler", observations, lambda: 1.0)
    watch.start()
    for answer in (NO, SUCCESS):
        schedule(full(says("Other", NO), says("DefaultPreemption", answer, "a")), pod_info(), cluster("a"), watch)
    assert observations.preemption_attempts[()] == 2
    timed = observations.extension_points
    assert timed["PostFilter", "Unschedulable", "kscheduler"].count == 1
    assert timed["PostFilter", "Success", "kscheduler"].count == 1
    assert not any(point == "PostFilter" for _, point, _ in observations.plugin_evaluations)
