"""The Event recorder: bounded, deduplicated, never in anybody's way."""

import asyncio
import json
import re
import tracemalloc
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.aio import BackgroundService, VirtualClock, running
from kscheduler.api.core import Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError, APIStatus, ClientError, NetworkError
from kscheduler.client.events.recorder import (
    WARNINGS_AT_ONCE,
    WORKERS_BESIDE_BINDS,
    EventRecorder,
    micro_time,
    truncated,
)
from kscheduler.client.events.series import Series, SeriesBook
from kscheduler.client.rest import APIClient
from tests.client.scripted import Explanation, ScriptedServer, applied, reply, scripted_server, stall


def pod(name: str = "a") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=f"u-{name}", resource_version="3"))


def failed(recorder: EventRecorder, of: Pod, note: str = "0/1 nodes are available") -> None:
    recorder.record(
        of,
        type="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note=note,
        reporting_controller="kscheduler",
    )


def bound(recorder: EventRecorder, of: Pod) -> None:
    recorder.record(
        of, type="Normal", reason="Scheduled", action="Binding", note="Successfully", reporting_controller="kscheduler"
    )


@asynccontextmanager
async def recording(
    *answers: Explanation, queue_size: int = 1000, is_busy: Callable[[], bool] = lambda: False
) -> AsyncIterator[tuple[EventRecorder, ScriptedServer, VirtualClock]]:
    clock = VirtualClock()
    async with scripted_server(*answers) as server, APIClient(plain_connection(server.url)) as client:
        recorder = EventRecorder(
            client, reporting_instance="kscheduler-host", clock=clock, queue_size=queue_size, is_busy=is_busy
        )
        async with running(BackgroundService("events", recorder.run)):
            yield recorder, server, clock


async def sent(recorder: EventRecorder) -> None:
    assert await recorder.flush(3600.0)


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        pytest.param("p" * 236, True, id="the longest that is kept"),
        pytest.param("p" * 237, False, id="one more"),
        pytest.param("p" * 253, False, id="the longest of all"),
        pytest.param("system:node", False, id="no DNS name"),
        pytest.param(f"{'p' * 63}.{'q' * 63}", True, id="labels"),
    ],
)
async def test_an_event_of_a_name_that_cannot_be_lengthened_is_named_by_a_uuid(name: str, is_kept: bool) -> None:
    """As client-go: the API server refuses names of more than 253 characters, and the Event would be lost."""
    async with recording(applied) as (recorder, server, _):
        bound(recorder, pod(name))
        await sent(recorder)
        event = json.loads(server.requests[0].body)
    made = event["metadata"]["name"]
    assert event["regarding"]["name"] == name
    if is_kept:
        assert re.fullmatch(rf"{re.escape(name)}\.[0-9a-f]{{16}}", made)
        assert len(made) <= 253
    else:
        assert str(uuid.UUID(made)) == made


async def test_an_event_has_every_field_that_kubectl_shows() -> None:
    async with recording(applied) as (recorder, server, _):
        failed(recorder, pod())
        await sent(recorder)
        assert server.requests[0].path == "/apis/events.k8s.io/v1/namespaces/ns/events"
        event = json.loads(server.requests[0].body)
    assert event.pop("metadata")["name"].startswith("a.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-09-21T14:13:20.000000Z",
        "reportingController": "kscheduler",
        "reportingInstance": "kscheduler-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "0/1 nodes are available",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "a",
            "uid": "u-a",
            "resourceVersion": "3",
        },
    }


async def test_repetitions_become_one_series_that_is_patched_once_and_at_its_end() -> None:
    async with recording(applied) as (recorder, server, clock):
        for _ in range(5):
            failed(recorder, pod())
            await sent(recorder)
        failed(recorder, pod("b"))
        await sent(recorder)
        assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]
        assert json.loads(server.requests[1].body)["series"]["count"] == 2
        assert server.requests[1].path.endswith(json.loads(server.requests[0].body)["metadata"]["name"])
        await clock.advance(430.0)
        await sent(recorder)
        assert json.loads(server.requests[3].body)["series"]["count"] == 5
        assert recorder.statistics().series == 0
        failed(recorder, pod())
        await sent(recorder)
        assert server.requests[4].method == "POST"


async def test_a_full_queue_drops_and_counts() -> None:
    async with recording(stall, queue_size=10) as (recorder, _, _clock):
        for number in range(25):
            failed(recorder, pod(str(number)))
        assert (recorder.statistics().queued, recorder.statistics().dropped) == (8, 17)
        for number in range(5):
            bound(recorder, pod(str(number)))
        assert (recorder.statistics().queued, recorder.statistics().dropped) == (10, 20), (
            "a fifth is for what went well"
        )


async def test_what_repeats_itself_takes_no_place_in_the_queue() -> None:
    async with recording(stall, queue_size=10) as (recorder, _, _clock):
        for _number in range(100):
            failed(recorder, pod())
        assert (recorder.statistics().queued, recorder.statistics().dropped) == (1, 0)


async def test_what_happened_again_before_the_server_had_it_is_patched_right_after() -> None:
    async with recording(applied) as (recorder, server, _):
        for _number in range(3):
            failed(recorder, pod())
        await sent(recorder)
        assert [request.method for request in server.requests] == ["POST", "PATCH"]
        assert json.loads(server.requests[1].body)["series"]["count"] == 3


async def test_other_words_are_another_event() -> None:
    """The note of an Event cannot be changed: a series would go on telling the first one."""
    async with recording(applied) as (recorder, server, _):
        failed(recorder, pod(), "0/1 nodes are available: 1 Insufficient cpu.")
        failed(recorder, pod(), "0/2 nodes are available: 2 Insufficient cpu.")
        await sent(recorder)
        assert [request.method for request in server.requests] == ["POST", "POST"]
        names = [json.loads(request.body)["metadata"]["name"] for request in server.requests]
        assert names[0] != names[1], "though both were at the same moment"


async def test_what_went_well_is_reported_before_warnings_whose_rate_is_bounded() -> None:
    async with recording(applied, queue_size=10_000) as (recorder, server, clock):
        for number in range(WARNINGS_AT_ONCE + 300):
            failed(recorder, pod(str(number)))
        bound(recorder, pod("last"))
        flushing = asyncio.create_task(recorder.flush(3600.0))
        assert await clock.next_sleep(within_seconds=1.0) > 0
        await server.received(16)
        at_first = [json.loads(request.body)["reason"] for request in server.requests[:16]]
        assert "Scheduled" in at_first, "of eight that are sent at once, another may be through before it arrives"
        began, most = clock.monotonic(), 0.0
        while not flushing.done():
            await clock.advance(0.01)
            most = max(most, recorder.statistics().sent - WARNINGS_AT_ONCE - 9 - (clock.monotonic() - began) * 100)
        assert most <= 1
        assert recorder.statistics().sent == WARNINGS_AT_ONCE + 301


class Together:
    """Answers once so many requests are there at a time; remembers the most that ever were."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.here = self.most = 0
        self.enough = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.here += 1
        self.most = max(self.most, self.here)
        if self.here >= self.expected:
            self.enough.set()
        await self.enough.wait()
        await asyncio.sleep(0)
        self.here -= 1
        return await applied(request)


@pytest.mark.parametrize(
    ("is_busy", "queue_size", "at_a_time"),
    [
        pytest.param(False, 1000, 8, id="nothing-to-bind"),
        pytest.param(True, 1000, WORKERS_BESIDE_BINDS, id="binding"),
        pytest.param(True, 40, 4, id="binding-and-half-full"),
    ],
)
async def test_while_the_binds_need_the_server_few_events_are_sent_at_a_time(
    is_busy: bool, queue_size: int, at_a_time: int
) -> None:
    together = Together(at_a_time)
    async with recording(together, queue_size=queue_size, is_busy=lambda: is_busy) as (recorder, _, _clock):
        for number in range(24):
            bound(recorder, pod(str(number)))
        await sent(recorder)
        assert recorder.statistics().sent == 24
    assert together.most == at_a_time


async def test_events_that_had_to_wait_are_sent_when_the_binds_are_done() -> None:
    busy, together = [True], Together(2)
    async with recording(together, is_busy=lambda: bool(busy)) as (recorder, _, _clock):
        for number in range(100):
            bound(recorder, pod(str(number)))
        await together.enough.wait()
        together.expected, together.enough = 8, asyncio.Event()
        busy.clear()
        await sent(recorder)
        assert recorder.statistics().sent == 100
    assert together.most == 8


async def test_failing_pods_cost_bounded_memory_however_many() -> None:
    async with recording(stall, queue_size=10_000) as (recorder, _, _clock):
        tracemalloc.start()
        try:
            for number in range(10_000):
                failed(recorder, pod(str(number)))
            held = tracemalloc.get_traced_memory()[0]
            for number in range(10_000, 30_000):
                failed(recorder, pod(str(number)))
            assert tracemalloc.get_traced_memory()[0] < 1.02 * held
        finally:
            tracemalloc.stop()
        assert held < 15_000_000
        assert recorder.statistics().dropped == 30_000 - 8000


async def test_texts_that_are_longer_than_a_note_may_be_do_not_wait_in_the_queue() -> None:
    async with recording(stall, queue_size=100) as (recorder, _, _clock):
        tracemalloc.start()
        try:
            for number in range(50):
                failed(recorder, pod(str(number)), f"{number} {'x' * 1_000_000}")
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert recorder.statistics().queued == 50
        assert held < 2_000_000


async def test_flushing_is_bounded_in_time() -> None:
    async with recording(stall) as (recorder, _, clock):
        failed(recorder, pod())
        flushing = asyncio.create_task(recorder.flush(5.0))
        await clock.advance(await clock.next_sleep(within_seconds=5.0))
        assert await flushing is False


async def test_an_event_that_the_server_refuses_is_given_up_and_the_next_one_sent() -> None:
    async with recording(reply(b'{"message":"namespace is terminating"}', 403), applied) as (
        recorder,
        _,
        _clock,
    ):
        failed(recorder, pod("a"))
        await sent(recorder)
        failed(recorder, pod("b"))
        await sent(recorder)
        assert (recorder.statistics().failed, recorder.statistics().sent) == (1, 1)


@pytest.mark.parametrize(
    ("error", "warnings"),
    [(NetworkError("no connection"), 0), (APIError(APIStatus(code=403, message="forbidden")), 2)],
    ids=["an outage is told elsewhere", "a refusal, once a minute"],
)
async def test_who_loses_events_complains_seldom(error: ClientError, warnings: int) -> None:
    async with recording(applied) as (recorder, _, clock):
        with structlog.testing.capture_logs() as lines:
            for _ in range(4):
                recorder._complain(error)
                await clock.advance(30.0)
        assert sum(line["log_level"] == "warning" for line in lines) == warnings


async def test_an_event_that_cannot_be_written_down_does_not_end_the_service() -> None:
    """A lone surrogate has no bytes. All services end with one that fails, so one Event would end the scheduler."""
    async with recording(applied) as (recorder, server, _):
        failed(recorder, pod("\ud800"))
        failed(recorder, pod("b"))
        await sent(recorder)
        assert (recorder.statistics().failed, recorder.statistics().sent) == (1, 1)
        assert len(server.requests) == 1


@pytest.mark.parametrize("code", [500, 503, 429])
async def test_a_server_in_trouble_is_queried_again_with_patience(code: int) -> None:
    async with recording(reply(b"{}", code), applied) as (recorder, _, clock):
        failed(recorder, pod())
        flushing = asyncio.create_task(recorder.flush(3600.0))
        await clock.advance(await clock.next_sleep(within_seconds=2.0))
        assert await flushing
        assert recorder.statistics().sent == 1


async def test_an_event_that_has_expired_on_the_server_begins_anew() -> None:
    async with recording(applied, reply(b"{}", 404), applied) as (recorder, server, _):
        for _number in range(3):
            failed(recorder, pod())
            await sent(recorder)
        assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]


@given(st.text())
def test_a_note_has_at_most_1024_bytes_and_stays_text(note: str) -> None:
    cut = truncated(note * 100)
    assert len(cut.encode()) <= 1024
    assert cut == note * 100 or cut.endswith(" ...")


def test_a_long_note_is_cut_as_kube_scheduler_cuts_it() -> None:
    assert truncated("x" * 1025) == "x" * 1020 + " ..."
    assert truncated("x" * 1024) == "x" * 1024


def test_the_book_never_outgrows_its_limit() -> None:
    book = SeriesBook(largest=3)
    for number in range(10):
        book.begin((str(number), "", "", "", "", "", 0), Series("ns", "n", 1, 0.0, 0.0, 0.0))
    assert len(book) == 3
    assert book.seen(("9", "", "", "", "", "", 0), 1.0, 1.0)[0] is not None
    assert book.seen(("0", "", "", "", "", "", 0), 1.0, 1.0)[0] is None


def test_a_series_is_refreshed_every_half_hour() -> None:
    book, key = SeriesBook(), ("u", "", "", "", "", "", 0)
    book.begin(key, Series("ns", "n", 1, 0.0, 0.0, 0.0))
    due = []
    for minute in range(1, 65):
        series, now_due = book.seen(key, minute * 60.0, minute * 60.0)
        assert series is not None
        if now_due:
            due.append(minute)
            series.patched_at = minute * 60.0
    assert due == [1, 31, 61]


def test_a_series_that_is_forgotten_for_lack_of_room_reports_its_last_count() -> None:
    book = SeriesBook(largest=1)
    first = Series("ns", "n", 5, 0.0, 0.0, 0.0)
    assert book.begin(("a", "", "", "", "", "", 0), first) is None
    assert book.begin(("b", "", "", "", "", "", 0), Series("ns", "n", 1, 0.0, 0.0, 0.0)) is first
    assert book.begin(("c", "", "", "", "", "", 0), Series("ns", "n", 1, 0.0, 0.0, 0.0)) is None


@pytest.mark.parametrize("silent", [359.0, 361.0])
def test_a_series_ends_after_six_silent_minutes(silent: float) -> None:
    book, key = SeriesBook(), ("u", "", "", "", "", "", 0)
    book.begin(key, Series("ns", "n", 7, 0.0, 0.0, 0.0))
    assert len(list(book.finish(silent))) == (1 if silent > 360 else 0)


@given(st.floats(0.0, 4e9))
def test_a_moment_is_written_to_the_microsecond(wall_seconds: float) -> None:
    written = datetime.fromisoformat(micro_time(wall_seconds))
    assert abs(written - datetime.fromtimestamp(wall_seconds, UTC)) <= timedelta(microseconds=1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", micro_time(wall_seconds))


@pytest.mark.parametrize("way", ["never answered", "500", "429"])
async def test_events_of_other_namespaces_are_sent_as_before_beside_a_thousand_that_hang_or_are_refused(
    way: str,
) -> None:
    refusals = {"500": reply(b'{"kind":"Status"}', 500), "429": reply(b'{"kind":"Status"}', 429, Retry_After="1")}

    async def answer(request: web.Request) -> web.StreamResponse:
        if "/namespaces/hostile/" not in request.path:
            return await applied(request)
        return await refusals.get(way, stall)(request)

    clock = VirtualClock()
    async with scripted_server(answer) as server, APIClient(plain_connection(server.url), clock=clock) as client:
        recorder = EventRecorder(client, reporting_instance="kscheduler-host", clock=clock, queue_size=10_000)
        async with running(BackgroundService("events", recorder.run)):
            for number in range(1000):
                bound(recorder, Pod(metadata=ObjectMeta(name=f"h{number}", namespace="hostile", uid=f"h{number}")))
            for number in range(50):
                bound(recorder, pod(f"sound-{number}"))
            for _ in range(30):  # three virtual seconds; what is sent waits for the network in real time
                await clock.advance(0.1)
                await asyncio.sleep(0.02)
            assert recorder.statistics().sent == 50


async def test_a_namespace_whose_events_hang_drops_its_own_and_none_of_another_that_hangs() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await stall(request)

    clock = VirtualClock()
    async with scripted_server(answer) as server, APIClient(plain_connection(server.url), clock=clock) as client:
        recorder = EventRecorder(client, reporting_instance="kscheduler-host", clock=clock, queue_size=400)
        async with running(BackgroundService("events", recorder.run)):
            for namespace, count in (("quiet", 40), ("flood", 300)):
                for number in range(count):
                    name = f"{namespace}-{number}"
                    bound(recorder, Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=name)))
                for _ in range(20):
                    await clock.advance(0.1)
                    await asyncio.sleep(0.002)
            assert {"quiet", "flood"} <= set(recorder.work_slots.slow)
            dropped = recorder.statistics().dropped
            assert dropped > 0, "of the flood"
            for number in range(10):
                bound(recorder, Pod(metadata=ObjectMeta(name=f"q{number}", namespace="quiet", uid=f"q{number}")))
            for _ in range(10):
                await clock.advance(0.1)
                await asyncio.sleep(0.002)
            assert recorder.statistics().dropped == dropped
