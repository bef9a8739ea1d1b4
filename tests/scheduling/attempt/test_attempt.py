"""Around the one node that was chosen: in order on the way in, in reverse on the way out."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import PermitResult, Plugin, PostFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unschedulable
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.state.waiting_pods import PodAtPermit
from tests.builders import make_pod, pod_info
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import AroundBinding, Explanation, Looks, cluster, profile

WAIT = PermitResult(Status(Code.WAIT), 90.0)
BUG = RuntimeError("it broke")


def around_with(service_log: list[str], **answers: Mapping[str, Explanation | PermitResult]) -> SchedulerHarness:
    """One node, and the plugins A and B around the binding; only A's `bind` is asked unless it skips."""
    plugins = [AroundBinding(name, service_log, answers.get(name)) for name in ("A", "B")]
    return SchedulerHarness(profile(*plugins), cluster("node"))


def decide(harness: SchedulerHarness) -> Attempt | None:
    """Pop and decide."""
    harness.add(make_pod("p"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    return harness.scheduler.decide(queued)


def is_given_back(harness: SchedulerHarness) -> bool:
    """Whether the node is as free as before."""
    return harness.cache.statistics().pods == 0 and harness.queue.statistics().in_flight == 0


async def test_a_pod_that_is_bound_meets_everyone_in_order() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, A={"bind": SKIP, "pre_flight": SKIP})
    attempt = decide(harness)
    assert attempt is not None
    assert harness.cache.is_assumed("uid-of-p"), "the next decision sees it"
    assert await harness.scheduler.await_permit(attempt)
    await harness.scheduler.bind(attempt)
    assert service_log == [
        *("A.reserve", "B.reserve", "A.permit", "B.permit", "A.pre_flight", "B.pre_flight", "B.pre_bind"),
        *("A.bind", "B.bind", "A.post_bind", "B.post_bind"),
    ]
    assert harness.recorded.notes == ["Normal Scheduled: Successfully assigned default/p to node"]
    assert harness.reported.withdrawn == ["uid-of-p"]
    assert harness.cache.is_assumed("uid-of-p"), "until the watch confirms it"
    assert harness.queue.statistics().in_flight == 0


class MakesRoom(Plugin):
    """Nothing fits, and a pod called `small` is in the way."""

    name = "MakesRoom"
    reasons = {1: "full"}  # noqa: RUF012

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.ones(len(rows), dtype=np.int64)

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        return PostFilterResult(SUCCESS, "node", Preemption(pod, "node", (pod_info("small"),), self.name))


def test_what_post_filter_wants_done_is_begun_before_the_pod_is_requeued() -> None:
    """PreEnqueue asks whether the pod must wait for its victims: it must know of them."""
    plugin = MakesRoom()
    harness = SchedulerHarness(replace(profile(plugin), post_filter=(plugin,)), cluster("node"))
    in_flight: list[bool] = []
    harness.started.on_begin = lambda: in_flight.append(harness.where("default/p") == "")
    assert decide(harness) is None
    assert [one.preemptor.name for one in harness.started.preemptions] == ["p"]
    assert in_flight == [True]
    assert (harness.where("default/p"), harness.reported.nominations) == ("unschedulable", ["node"])


@pytest.mark.parametrize(
    ("point", "answer", "note", "place"),
    [
        ("reserve", unschedulable("no disk"), "0/1 nodes are available: 1 no disk.", "unschedulable"),
        ("reserve", error("no list"), 'running Reserve plugin "B": no list', "backoff"),
        ("reserve", BUG, 'running Reserve plugin "B": it broke', "backoff"),
        ("permit", unschedulable("no gang"), "0/1 nodes are available: 1 no gang.", "unschedulable"),
        ("permit", error("no list"), 'running Permit plugin "B": no list', "backoff"),
        ("permit", BUG, 'running Permit plugin "B": it broke', "backoff"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_a_no_before_binding_undoes_in_reverse(point: str, answer: Explanation, note: str, place: str) -> None:
    """All are told, those included whose Reserve never ran."""
    service_log: list[str] = []
    harness = around_with(service_log, B={point: answer})
    assert decide(harness) is None
    assert service_log[-2:] == ["B.unreserve", "A.unreserve"]
    assert harness.started.given_back == ["default/p"], "a preemptor may wait for the room"
    assert harness.reported.notes == [note]
    assert harness.where("default/p") == place
    assert is_given_back(harness)


@pytest.mark.parametrize(
    ("point", "answer", "note"),
    [
        ("pre_bind", error("no volume"), 'running PreBind plugin "B": no volume'),
        ("pre_bind", unschedulable("no volume"), 'running PreBind plugin "B": no volume'),
        ("pre_bind", BUG, 'running PreBind plugin "B": it broke'),
        ("bind", error("409"), 'running Bind plugin "B": 409'),
        ("bind", BUG, 'running Bind plugin "B": it broke'),
        ("bind", SKIP, "no Bind plugin took the pod"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_a_failed_binding_is_an_error_and_undoes_in_reverse(point: str, answer: Explanation, note: str) -> None:
    service_log: list[str] = []
    harness = around_with(service_log, A={"bind": SKIP}, B={point: answer})
    attempt = decide(harness)
    assert attempt is not None
    await harness.scheduler.bind(attempt)
    assert service_log[-2:] == ["B.unreserve", "A.unreserve"]
    assert harness.started.given_back == ["default/p"], "a preemptor may wait for the room"
    assert harness.reported.notes == [note]
    assert harness.where("default/p") == "backoff"
    assert harness.recorded.notes == [], "never an Event Scheduled for a failed bind"
    assert is_given_back(harness)


async def test_a_failed_binding_reports_the_others_that_there_is_room() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, A={"bind": error("409")})
    attempt = decide(harness)
    assert attempt is not None
    harness.add(make_pod("other"))
    other = harness.queue.pop_nowait(harness.clock.time())
    assert other is not None
    other.unschedulable_plugins = frozenset({"A"})
    harness.queue.requeue(other, harness.clock.time())
    await harness.scheduler.bind(attempt)
    assert harness.where("default/other") == "backoff"


async def test_neither_unreserve_nor_post_bind_can_fail_anything() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, B={"unreserve": BUG, "bind": error("409")}, A={"bind": SKIP})
    attempt = decide(harness)
    assert attempt is not None
    await harness.scheduler.bind(attempt)
    assert service_log[-1] == "A.unreserve"
    assert is_given_back(harness)
    service_log.clear()
    harness = around_with(service_log, A={"post_bind": BUG})
    attempt = decide(harness)
    assert attempt is not None
    await harness.scheduler.bind(attempt)
    assert service_log[-1] == "B.post_bind"
    assert len(harness.recorded.notes) == 1


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_plugin_that_forgets_its_answer_leaves_nothing_reserved(point: str) -> None:
    """A `return` was forgotten. The pod is tried again, but who knows of the volumes that A has reserved?"""
    service_log: list[str] = []
    harness = around_with(service_log, B={point: None})  # type: ignore[dict-item]  # that is the mistake
    decide(harness)
    assert harness.reported.notes[0].startswith(f'running {point.capitalize()} plugin "B": it returned None, expected ')
    assert harness.where("default/p") == "backoff"
    assert service_log[-2:] == ["B.unreserve", "A.unreserve"]
    assert harness.cache.statistics().pods == 0


def test_a_pod_that_is_being_deleted_is_skipped_with_a_word() -> None:
    harness = SchedulerHarness(profile(Looks("Never", BUG)), cluster("node"))
    harness.add(make_pod("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    assert harness.scheduler.decide(queued) is None
    assert harness.recorded.notes == ["Warning FailedScheduling: skip schedule deleting pod: default/p"]
    assert harness.reported.reports == []
    assert is_given_back(harness)


def test_a_pod_that_counts_on_a_node_already_is_skipped_silently() -> None:
    harness = SchedulerHarness(profile(Looks("Never", BUG)), cluster("node"))
    harness.add(make_pod("p"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    harness.cache.add_pod(make_pod("p", node="node"))
    assert harness.scheduler.decide(queued) is None
    assert harness.reported.reports == []
    assert harness.queue.statistics().in_flight == 0


# --- Permit


def held(harness: SchedulerHarness, service_log: list[str]) -> tuple[Attempt, PodAtPermit, "asyncio.Task[bool]"]:
    """A pod that waits for B's permission."""
    attempt = decide(harness)
    assert attempt is not None
    assert attempt.held is not None
    assert harness.waiting.all() == (attempt.held,)
    return attempt, attempt.held, asyncio.ensure_future(harness.scheduler.await_permit(attempt))


async def test_permission_lets_the_pod_go() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, A={"permit": WAIT}, B={"permit": WAIT})
    _, pod, task = held(harness, service_log)
    assert pod.pending_plugins == {"A", "B"}
    pod.allow("A")
    await harness.clock.advance(1)
    assert not task.done()
    pod.allow("B")
    pod.reject("B", "too late")
    assert await task
    assert len(harness.waiting) == 0
    assert harness.cache.is_assumed("uid-of-p")


async def test_a_rejection_gives_the_node_back_and_does_not_wake_the_pod_itself() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, B={"permit": WAIT})
    _, pod, task = held(harness, service_log)
    pod.reject("B", "gang incomplete")
    pod.allow("B")
    assert not await task
    assert service_log[-2:] == ["B.unreserve", "A.unreserve"]
    assert harness.reported.notes == ["0/1 nodes are available: 1 gang incomplete."]
    assert harness.where("default/p") == "unschedulable", "B hears of freed room, but this is the pod's own"
    assert is_given_back(harness)


async def test_silence_is_a_rejection_in_go_s_words() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, B={"permit": WAIT})
    _, _, task = held(harness, service_log)
    await harness.clock.advance(89)
    assert not task.done()
    await harness.clock.advance(2)
    assert not await task
    wanted = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m30s at plugin B."
    assert harness.reported.notes == [wanted]


async def test_nobody_waits_longer_than_15_minutes() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, B={"permit": PermitResult(Status(Code.WAIT), 1e9)})
    _, _, task = held(harness, service_log)
    await harness.clock.advance(901)
    assert not await task
    assert "after waiting 15m0s" in harness.reported.notes[0]


async def test_the_plugin_whose_time_is_over_first_decides() -> None:
    service_log: list[str] = []
    harness = around_with(service_log, A={"permit": PermitResult(Status(Code.WAIT), 30.0)}, B={"permit": WAIT})
    _, pod, task = held(harness, service_log)
    pod.allow("A")
    await harness.clock.advance(60)
    assert not task.done(), "A's deadline no longer counts"
    await harness.clock.advance(31)
    assert not await task
    assert "at plugin B" in harness.reported.notes[0]


async def test_events_while_a_pod_waits_for_permit_are_not_missed() -> None:
    from kscheduler.framework.events import NODE_ADD

    service_log: list[str] = []
    harness = around_with(service_log, B={"permit": WAIT})
    _, pod, task = held(harness, service_log)
    harness.queue.move_all(NODE_ADD, None, None, harness.clock.time())
    pod.reject("B", "no")
    await task
    assert harness.where("default/p") == "backoff"
