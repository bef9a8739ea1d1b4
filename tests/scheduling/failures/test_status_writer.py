"""Conditions behind the binds: a few requests at a time, none lost silently, none that overtakes another."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, ClientError, CredentialsError, NotSentError, UnknownOutcomeError
from kscheduler.client.errors import APIStatus as WireStatus
from kscheduler.scheduling.failures.pending_patches import TEXTS_AT_ONCE, TEXTS_PER_SECOND
from kscheduler.scheduling.failures.status_writer import MAX_TRIES, WORKERS, StatusWriter
from tests.builders import make_pod
from tests.scheduling.around import RecordedEvents


def saying(message: str) -> Condition:
    """A condition."""
    return Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)


def refusal(code: int, retry_after: float | None = None) -> APIError:
    """The server's answer."""
    return APIError(WireStatus(code=code, message="no"), retry_after_seconds=retry_after)


class Patcher:
    """A server with pods, which answers when it is let. Implements `StatusPatcher`."""

    def __init__(self) -> None:
        self.store: dict[str, Pod] = {}
        """What the watch has brought."""
        self.started: list[str] = []
        self.done: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: ClientError | None = None
        self.version = 100

        self.clock: VirtualClock | None = None
        self.begun_at: list[float] = []
        """Seconds of the clock, if there is one."""

    def add(self, *names: str) -> None:
        for name in names:
            pod = make_pod(name, metadata={"resourceVersion": "1"})
            self.store[pod.key] = pod

    async def patch_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
        said = condition.message if condition is not None else "-"
        text = f"{pod.metadata.name}: {said} @{nominated_node_name}"
        self.started.append(text)
        self.begun_at.append(self.clock.monotonic() if self.clock is not None else 0.0)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        node = pod.status.nominated_node_name if nominated_node_name is None else nominated_node_name
        conditions = pod.status.conditions if condition is None else (condition,)
        if (node, conditions) == (pod.status.nominated_node_name, pod.status.conditions):
            return pod
        self.done.append(text)
        self.version += 1
        metadata = msgspec.structs.replace(pod.metadata, resource_version=str(self.version))
        status = msgspec.structs.replace(pod.status, conditions=conditions, nominated_node_name=node)
        return msgspec.structs.replace(pod, metadata=metadata, status=status)


class Bench:
    """A writer, the server and the clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = Patcher()
        self.server.clock = self.clock
        self.recorder_events = RecordedEvents()
        self.busy = False
        self.writer = StatusWriter(
            self.server, self.recorder_events, self.server.store.get, clock=self.clock, is_busy=lambda: self.busy
        )

    def report(self, name: str, message: str, node: str | None = None) -> None:
        self.writer.report(self.server.store[f"default/{name}"], saying(message), "note", node)


async def turns() -> None:
    """Let every task do what it can."""
    for _ in range(30):
        await asyncio.sleep(0)


@asynccontextmanager
async def running(*names: str) -> AsyncIterator[Bench]:
    """A writer at work, and pods."""
    bench = Bench()
    bench.server.add(*names)
    task = asyncio.ensure_future(bench.writer.run())
    await turns()
    yield bench
    task.cancel()
    await asyncio.wait({task})


async def test_a_few_are_sent_at_a_time_in_order() -> None:
    names = [f"p{number}" for number in range(10)]
    async with running(*names) as bench:
        bench.server.gate.clear()
        for name in names:
            bench.report(name, "no")
        await turns()
        assert bench.server.started == [f"p{number}: no @None" for number in range(WORKERS)]
        bench.server.gate.set()
        await turns()
        assert len(bench.server.done) == 10
        assert bench.writer.statistics().sent == 10


async def test_one_at_a_time_while_the_binds_need_all_there_is() -> None:
    names = [f"p{number}" for number in range(10)]
    async with running(*names) as bench:
        bench.server.gate.clear()
        bench.busy = True
        for name in names:
            bench.report(name, "no")
        await turns()
        assert len(bench.server.started) == 1
        bench.busy = False
        bench.server.gate.set()
        await turns()
        assert len(bench.server.done) == 10


async def test_what_is_written_next_can_wait_for_what_is_under_way() -> None:
    async with running("p") as bench:
        bench.server.gate.clear()
        bench.report("p", "no")
        await turns()
        bench.writer.withdraw("uid-of-p")
        settled = asyncio.ensure_future(bench.writer.settled("uid-of-p"))
        await turns()
        assert not settled.done()
        bench.server.gate.set()
        await settled
        await bench.writer.settled("uid-of-nobody")


async def test_the_event_names_the_scheduler_of_the_pod() -> None:
    recorded: list[dict[str, Any]] = []

    class Recorder(RecordedEvents):
        def record(self, regarding: Any, **fields: Any) -> None:
            recorded.append({"regarding": regarding, **fields})

    pod = make_pod("p")
    StatusWriter(Patcher(), Recorder(), lambda _: pod, clock=VirtualClock()).report(pod, saying("no"), "a note")
    assert recorded == [
        {
            "regarding": pod,
            "type": "Warning",
            "reason": "FailedScheduling",
            "action": "Scheduling",
            "note": "a note",
            "reporting_controller": "kscheduler",
        }
    ]


async def test_every_failure_is_an_event_even_where_the_condition_stays() -> None:
    async with running("p") as bench:
        for _ in range(2):
            bench.report("p", "no")
            await turns()
        assert bench.recorder_events.notes == ["Warning FailedScheduling: note"] * 2
        assert bench.server.done == ["p: no @None"]


async def test_a_class_is_reported_at_a_bounded_rate_without_events() -> None:
    names = [f"p{number}" for number in range(1000)]
    async with running(*names) as bench:
        shown = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        for name in names:
            bench.server.store[f"default/{name}"] = make_pod(name, status=shown)
        bench.writer.report_class("k", bench.server.store, saying("new"))
        await bench.clock.advance(0.0)
        for _ in range(40):
            await bench.clock.advance(0.1)
        assert len(bench.server.done) == pytest.approx(TEXTS_AT_ONCE + 4 * TEXTS_PER_SECOND, abs=5)
        assert bench.recorder_events.notes == []


# --- what the watch has not brought yet


async def test_an_answer_counts_until_the_watch_has_caught_up() -> None:
    async with running("p") as bench:
        bench.report("p", "no", "n1")
        await turns()
        bench.report("p", "no", "n1")
        await turns()
        assert bench.server.done == ["p: no @n1"], "the pod shows it, though the watch lags behind"
        bench.report("p", "no", "")
        await turns()
        assert bench.server.done[1:] == ["p: no @"], "a nomination is cleared that the watch never showed"


async def test_a_watch_that_shows_a_later_version_is_believed() -> None:
    async with running("p") as bench:
        bench.report("p", "no")
        await turns()
        bench.server.store["default/p"] = make_pod("p", metadata={"resourceVersion": "500"})
        bench.report("p", "no")
        await turns()
        assert bench.server.done == ["p: no @None"] * 2


async def test_what_must_be_said_now_waits_for_nothing_but_its_own_pod() -> None:
    names = [f"p{number}" for number in range(20)]
    async with running(*names) as bench:
        bench.server.gate.clear()
        for name in names:
            bench.report(name, "no")
        await turns()
        pods = bench.server.store
        at_once = asyncio.ensure_future(bench.writer.patch_pod_status(pods["default/p19"], None, "n1"))
        behind = asyncio.ensure_future(bench.writer.patch_pod_status(pods["default/p0"], None, "n1"))
        await turns()
        assert bench.server.started[WORKERS:] == ["p19: - @n1"]
        bench.server.gate.set()
        assert await at_once
        assert await behind
        await turns()
        assert bench.server.done.index("p0: no @None") < bench.server.done.index("p0: - @n1")
        assert not await bench.writer.patch_pod_status(pods["default/p0"], None, "n1"), "it shows that already"
        bench.server.failure = refusal(500)
        with pytest.raises(APIError):
            await bench.writer.patch_pod_status(pods["default/p0"], None, "n2")
        assert bench.writer.statistics().sending == 0


# --- failures


@pytest.mark.parametrize(
    ("failure", "dropped"),
    [(refusal(404), 0), (refusal(403), 1), (refusal(422), 1), (UndecodableError("odd"), 0)],
    ids=["gone", "forbidden", "invalid", "an answer that nobody can read"],
)
async def test_what_trying_again_cannot_mend_is_given_up_and_counted(failure: ClientError, dropped: int) -> None:
    async with running("p", "q") as bench:
        bench.server.failure = failure
        bench.report("p", "no")
        await turns()
        bench.server.failure = None
        await bench.clock.advance(3600.0)
        assert len(bench.server.started) == 1
        assert bench.writer.statistics().dropped == dropped
        bench.report("q", "no")
        await turns()
        assert bench.server.done == ["q: no @None"]


@pytest.mark.parametrize(
    "failure",
    [
        *(refusal(code) for code in (409, 500, 503, 429, 401)),
        *(NotSentError("down"), UnknownOutcomeError("lost"), CredentialsError("no token")),
    ],
    ids=str,
)
async def test_what_may_pass_is_tried_again(failure: ClientError) -> None:
    async with running("p") as bench:
        bench.server.failure = failure
        bench.report("p", "no", "n1")
        await turns()
        bench.server.failure = None
        await bench.clock.advance(2.0)
        assert bench.server.done == ["p: no @n1"]
        assert bench.writer.statistics().retried == 1


async def test_the_pauses_between_tries_double_up_to_half_a_minute() -> None:
    async with running("p") as bench:
        bench.server.failure = refusal(500)
        bench.report("p", "no")
        await turns()
        await bench.clock.advance(600.0)
        pauses = [later - before for before, later in pairwise(bench.server.begun_at)]
        assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])


@pytest.mark.parametrize(("retry_after", "seconds"), [(2.0, 2.0), (None, 1.0)], ids=["as it says", "a second"])
async def test_after_a_429_the_pod_waits_as_the_server_says(retry_after: float | None, seconds: float) -> None:
    async with running("p") as bench:
        bench.server.failure = refusal(429, retry_after=retry_after)
        bench.report("p", "no")
        await turns()
        bench.server.failure = None
        await bench.clock.advance(600.0)
        assert bench.server.begun_at == pytest.approx([0.0, seconds])


async def test_a_server_that_is_away_is_tried_after_growing_pauses_and_each_outage_begins_anew() -> None:
    async with running("p", "q") as bench:
        bench.server.failure = NotSentError("down")
        bench.report("p", "no")
        await turns()
        await bench.clock.advance(17.0)
        pauses = [later - before for before, later in pairwise(bench.server.begun_at)]
        assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
        bench.server.failure = None
        await bench.clock.advance(5.0)
        bench.server.failure = NotSentError("down again")
        bench.report("q", "no")
        await turns()
        await bench.clock.advance(0.15)
        first, second = bench.server.begun_at[-2:]
        assert second - first == pytest.approx(0.1)


async def test_what_is_withdrawn_before_it_was_sent_is_not_said() -> None:
    async with running("p", "q") as bench:
        bench.report("p", "no")
        bench.report("q", "no")
        bench.writer.withdraw("uid-of-p")
        await turns()
        assert bench.server.done == ["q: no @None"]


async def test_who_waits_for_a_pod_waits_through_the_answers_about_others() -> None:
    async with running("p", "q") as bench:
        bench.report("q", "no")
        await turns()
        bench.server.gate.clear()
        bench.report("p", "no")
        await turns()
        settled = asyncio.ensure_future(bench.writer.settled("uid-of-p"))
        await turns()
        assert not settled.done()
        bench.server.gate.set()
        await settled
        assert bench.server.done == ["q: no @None", "p: no @None"]


async def test_a_report_waits_for_what_is_said_at_once_about_its_pod() -> None:
    async with running("p") as bench:
        bench.server.gate.clear()
        at_once = asyncio.ensure_future(bench.writer.patch_pod_status(bench.server.store["default/p"], None, "n1"))
        await turns()
        bench.report("p", "no")
        await turns()
        assert bench.server.started == ["p: - @n1"]
        assert bench.writer.statistics().sending == 1
        bench.server.gate.set()
        assert await at_once
        await turns()
        assert bench.server.started == ["p: - @n1", "p: no @None"]


async def test_a_word_whose_answer_nobody_can_read_was_said() -> None:
    async with running("p") as bench:
        bench.server.failure = UndecodableError("odd")  # type: ignore[assignment]
        assert await bench.writer.patch_pod_status(bench.server.store["default/p"], None, "n1")
        assert bench.writer.statistics().sending == 0


async def test_a_pod_made_again_under_its_name_is_not_what_is_written_to() -> None:
    async with running("p") as bench:
        old = make_pod("p", uid="before", metadata={"resourceVersion": "1"})
        bench.server.store["default/p"] = make_pod("p", uid="again", status={"nominatedNodeName": "n1"})
        assert await bench.writer.patch_pod_status(old, None, "n1"), "the old one did not show it"


async def test_a_retry_says_what_the_newest_version_lacks() -> None:
    async with running("p") as bench:
        bench.server.failure = refusal(409)
        bench.report("p", "no", "n1")
        await turns()
        bench.server.failure = None
        bench.server.store["default/p"] = make_pod("p", metadata={"resourceVersion": "2"}, node="bound")
        await bench.clock.advance(60.0)
        assert bench.server.done == [], "somebody has bound it"


async def test_tries_are_bounded_and_the_loss_is_counted() -> None:
    async with running("p") as bench:
        bench.server.failure = refusal(500)
        bench.report("p", "no")
        await turns()
        await bench.clock.advance(3600.0)
        assert len(bench.server.started) == MAX_TRIES
        assert bench.writer.statistics().dropped == 1
        assert bench.writer.statistics().pending == 0


@pytest.mark.parametrize("failure", [NotSentError("down"), refusal(401)], ids=["down", "not let in"])
async def test_while_the_server_is_away_nothing_is_lost_and_little_is_tried(failure: ClientError) -> None:
    names = [f"p{number}" for number in range(50)]
    async with running(*names) as bench:
        bench.server.failure = failure
        for name in names:
            bench.report(name, "no")
        await turns()
        await bench.clock.advance(600.0)
        assert len(bench.server.started) < 600
        bench.server.failure = None
        await bench.clock.advance(10.0)
        assert len(bench.server.done) == 50
        assert bench.writer.statistics().dropped == 0


async def test_after_a_429_all_are_sent_and_more_slowly() -> None:
    names = [f"p{number}" for number in range(50)]
    async with running(*names) as bench:
        bench.server.failure = refusal(429, retry_after=2.0)
        for name in names:
            bench.report(name, "no")
        await turns()
        assert len(bench.server.started) < 10, "the burst is over with the first refusal"
        bench.server.failure = None
        await bench.clock.advance(30.0)
        assert len(bench.server.done) == 50


async def test_a_bug_in_one_request_does_not_end_the_others() -> None:
    async with running("p", "q") as bench:
        bench.server.failure = RuntimeError("a bug")  # type: ignore[assignment]  # what should never be raised
        bench.report("p", "no")
        await turns()
        bench.server.failure = None
        bench.report("q", "no")
        await turns()
        assert bench.server.done == ["q: no @None"]
        assert bench.writer.statistics().dropped == 1


# --- the end


async def test_the_end_of_the_writer_ends_its_requests() -> None:
    async with running("p") as bench:
        bench.server.gate.clear()
        bench.report("p", "no")
        await turns()
        assert bench.writer.statistics().sending == 1
    await turns()
    assert bench.writer.statistics().sending == 0


@pytest.mark.parametrize("is_known", [True, False], ids=["in time", "too late"])
async def test_a_stop_waits_a_moment_for_what_others_act_on(is_known: bool) -> None:
    async with running("p", "q") as bench:
        bench.report("q", "no", "n1")
        await turns()
        bench.server.gate.clear()
        bench.report("p", "no", "n1")
        await turns()
        flushing = asyncio.ensure_future(bench.writer.flush(2.0))
        if is_known:
            bench.server.gate.set()
        else:
            await bench.clock.next_sleep(within_seconds=2.0)
            await bench.clock.advance(2.0)
        assert await flushing is is_known


@pytest.mark.parametrize(
    "say",
    [
        lambda bench: bench.report("p", "no"),
        lambda bench: bench.writer.report_class("k", ["default/p"], saying("no")),
    ],
    ids=["a pod", "a class"],
)
async def test_what_arrives_while_the_writer_rests_is_sent(say: Callable[[Bench], None]) -> None:
    async with running("p") as bench:
        await bench.clock.advance(60.0)
        say(bench)
        await turns()
        assert bench.server.done == ["p: no @None"]


@pytest.mark.parametrize("way", ["never answered", "500", "429"])
async def test_conditions_of_other_namespaces_are_written_as_before_beside_a_thousand_that_hang(way: str) -> None:
    clock = VirtualClock()
    pods: dict[str, Pod] = {}
    written: list[float] = []

    class Server:
        async def patch_status(self, of: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
            if of.metadata.namespace != "hostile":
                await clock.sleep(0.01)
                written.append(clock.monotonic())
                return of
            if way == "never answered":
                await asyncio.get_running_loop().create_future()
            await clock.sleep(0.01)
            raise APIError(WireStatus(kind="Status", code=int(way)), retry_after_seconds=1.0)

    writer = StatusWriter(Server(), RecordedEvents(), pods.get, clock=clock)
    running = asyncio.create_task(writer.run())
    reported = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="m")
    for number in range(1050):
        one = make_pod(f"p{number}", namespace="hostile" if number < 1000 else "sound")
        pods[one.key] = one
        writer.report(one, reported, "note")
    await clock.advance(0.0)
    await clock.advance(3.0)
    assert len(written) == 50
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
