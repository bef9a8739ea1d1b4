"""A namespace whose writes hang is named in log, notes and metric, and nobody else waits for it."""

import pytest
import structlog

from kscheduler.aio import VirtualClock
from kscheduler.aio.shared_slots import FixedCapacity, SharedSlots
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import ClientError, UnknownOutcomeError
from kscheduler.client.http.http1 import HttpRequest
from kscheduler.client.reachability import QUIET_SECONDS
from kscheduler.client.resource_path import RequestOwner, owner_of_request
from kscheduler.client.write_failures import WriteFailures, advice_on_hanging
from kscheduler.config.durations import Duration
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.config.types import LeaderElectionConfiguration
from kscheduler.service.monitors.hanging_writes import EVENT, MAX_REPORTED, HangingWritesMonitor, normal_silence
from kscheduler.service.options import Options
from kscheduler.service.parts import Parts
from tests.builders import make_pod
from tests.election.stand_ins import refusal
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.attempt.test_workers import GatedBind, turns, working
from tests.scheduling.plugins_for_tests import cluster, profile
from tests.service.running import alone


def event_of(namespace: str) -> HttpRequest:
    return HttpRequest("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")


async def test_the_namespace_the_kind_of_write_and_how_many_wait_are_reported_and_the_end() -> None:
    binder = GatedBind()
    harness = SchedulerHarness(profile(binder), cluster("node"), workers=8, limit=4)
    requests = SharedSlots(FixedCapacity(8), harness.clock, owner_of_request)
    monitor = HangingWritesMonitor(harness.workers, [requests], harness.clock)
    event = event_of("quiet")
    async with working(harness):
        harness.add(*(make_pod(f"p{number}", namespace="hostile") for number in range(60)))
        await turns()
        requests.begin_now(event)
        with structlog.testing.capture_logs() as lines:
            for _ in range(10):
                monitor.look()
                await harness.clock.advance(1.0)
            reported = [(line["namespace"], line["write"], line["unanswered"] + line["waiting"]) for line in lines]
            assert reported == [("hostile", "create pods/binding", 60), ("quiet", "create events", 1)]
            assert [note.split(":")[0] for note in monitor.notes()] == ["namespace hostile", "namespace quiet"]
            binder.gate.set()
            requests.end(event)
            await turns(200)
            monitor.look()
        assert [line["event"] for line in lines[2:]] == ["writes_hang_no_more"] * 2
        assert not list(monitor.notes())
        assert len(binder.bound) == 60


async def test_what_waits_with_those_who_send_is_counted_once_with_its_requests_and_reads_are_not_reported() -> None:
    clock = VirtualClock()
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), clock=clock)
    requests = SharedSlots(FixedCapacity(8), clock, owner_of_request)
    events = SharedSlots(FixedCapacity(8), clock, str)
    monitor = HangingWritesMonitor(harness.workers, [requests], clock, {EVENT: (events, lambda _: 5)})
    requests.begin_now(event_of("quiet"))
    requests.begin_now(HttpRequest("GET", "/api/v1/namespaces/quiet/pods/p"))
    events.begin_now("quiet")
    events.begin_now("other")
    await clock.advance(2.0)
    monitor.look()
    await clock.advance(10.0)
    reported = [(one.namespace, one.write, one.unanswered, one.waiting) for one in monitor.hanging()]
    assert reported == [("other", EVENT, 1, 5), ("quiet", EVENT, 1, 5)]


async def test_ten_are_reported_however_many_hang() -> None:
    clock = VirtualClock()
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), clock=clock)
    requests = SharedSlots(FixedCapacity(64), clock, owner_of_request)
    monitor = HangingWritesMonitor(harness.workers, [requests], clock)
    events = [event_of(f"team-{number}") for number in range(40)]
    for event in events:
        requests.begin_now(event)
    await clock.advance(2.0)
    monitor.look()
    await clock.advance(10.0)
    with structlog.testing.capture_logs() as lines:
        monitor.look()
    assert len(lines) == len(list(monitor.notes())) == MAX_REPORTED
    assert {line["namespaces"] for line in lines} == {40}


async def test_writes_that_hang_and_go_on_in_turn_are_reported_once_a_minute_with_a_count() -> None:
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), workers=1, limit=1)
    requests = SharedSlots(FixedCapacity(8), harness.clock, owner_of_request)
    monitor = HangingWritesMonitor(harness.workers, [requests], harness.clock)
    event = event_of("flapping")
    with structlog.testing.capture_logs() as lines:
        for _ in range(12):
            requests.begin_now(event)
            for _ in range(8):
                await harness.clock.advance(1.0)
                monitor.look()
            requests.end(event)
            await turns(20)
            for _ in range(2):
                await harness.clock.advance(1.0)
                monitor.look()
    assert [line["event"] for line in lines] == ["writes_hang", "writes_hang_no_more"] * 2
    assert lines[2]["times_since"] == 5


async def test_while_the_api_server_is_away_no_namespace_is_blamed() -> None:
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), workers=1, limit=1)
    requests, is_away = SharedSlots(FixedCapacity(8), harness.clock, owner_of_request), True
    monitor = HangingWritesMonitor(harness.workers, [requests], harness.clock, is_suspended=lambda: is_away)
    requests.begin_now(event_of("quiet"))
    with structlog.testing.capture_logs() as lines:
        for _ in range(20):
            await harness.clock.advance(1.0)
            monitor.look()
        assert lines == []
        is_away = False
        monitor.look()
    assert [line["event"] for line in lines] == ["writes_hang"]


async def test_where_nothing_at_all_is_answered_no_webhook_is_blamed_and_no_end_is_told() -> None:
    """An API server that is frozen: the term of its leader ends, and with it what it has sent."""
    clock = VirtualClock()
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), clock=clock)
    requests, heard, is_away, event = SharedSlots(FixedCapacity(8), clock, owner_of_request), 0.0, False, event_of("a")
    monitor = HangingWritesMonitor(
        harness.workers,
        [requests],
        clock,
        is_suspended=lambda: is_away,
        last_heard_at=lambda: heard,
        normal_silence_seconds=2.0,
    )
    requests.begin_now(event)
    await clock.advance(0.3)
    heard = clock.monotonic()  # the last renewal of the lease
    with structlog.testing.capture_logs() as lines:
        for second in range(20):
            await clock.advance(1.0)
            monitor.look()
            if second == 9:
                assert all("look at the API server first" in note for note in monitor.notes())
                requests.end(event)  # its sender has given up
            is_away = 13 <= second < 17
    (line,) = lines
    assert line["event"] == "writes_hang"
    assert line["advice"].startswith("for 5 s none of the scheduler's own requests has been answered")
    with structlog.testing.capture_logs() as lines:
        heard = clock.monotonic()
        monitor.look()
    assert [(line["event"], line["seconds"]) for line in lines] == [("writes_hang_no_more", 20.3)]


@pytest.mark.parametrize(
    ("election", "seconds"),
    [
        pytest.param(LeaderElectionConfiguration(), 2.0, id="a renewal each retryPeriod"),
        pytest.param(LeaderElectionConfiguration(retry_period=Duration(8 * 10**9)), 8.0, id="slow renewals"),
        pytest.param(LeaderElectionConfiguration(retry_period=Duration(60 * 10**9)), QUIET_SECONDS, id="probes"),
        pytest.param(LeaderElectionConfiguration(leader_elect=False), QUIET_SECONDS, id="no lease"),
    ],
)
async def test_in_a_quiet_cluster_the_silence_between_two_signs_of_life_is_not_blamed_on_the_api_server(
    election: LeaderElectionConfiguration, seconds: float
) -> None:
    """A webhook hangs; the API server answers a renewal or a probe now and then, a second late at most."""
    clock = VirtualClock()
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), clock=clock)
    requests, heard = SharedSlots(FixedCapacity(8), clock, owner_of_request), 0.0
    monitor = HangingWritesMonitor(
        harness.workers,
        [requests],
        clock,
        last_heard_at=lambda: heard,
        normal_silence_seconds=normal_silence(election),
    )
    requests.begin_now(event_of("hook"))
    with structlog.testing.capture_logs() as lines:
        for _ in range(130):
            await clock.advance(1.0)
            if clock.monotonic() - heard > seconds + 1.0:
                heard = clock.monotonic()
            monitor.look()
            assert all("look at its admission webhooks" in note for note in monitor.notes())
    assert len(lines) == 3
    assert all(line["advice"].startswith("look for an admission webhook") for line in lines)


@pytest.mark.parametrize(
    ("config", "first_words"),
    [
        pytest.param(alone(), "look for an admission webhook", id="no lease"),
        pytest.param(default_configuration(), "for 8 s none of the scheduler's own requests", id="a lease"),
    ],
)
async def test_eight_seconds_without_a_sign_of_life_are_long_only_for_a_process_with_a_lease(
    config: LoadedConfig, first_words: str
) -> None:
    clock = VirtualClock()
    parts = Parts(Options(config, clock=clock), plain_connection("http://127.0.0.1:1"))
    parts.client.work_slots.begin_now(event_of("hook"))
    parts.hanging_writes.look()
    await clock.advance(8.0)
    with structlog.testing.capture_logs() as lines:
        parts.hanging_writes.look()
    assert [line["advice"][: len(first_words)] for line in lines] == [first_words]


async def test_a_line_says_where_to_look_and_names_the_webhook_as_soon_as_the_api_server_has() -> None:
    """It gives up on a webhook after ten seconds or more: until then nobody knows who does not answer."""
    clock = VirtualClock()
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), clock=clock)
    requests, failures = SharedSlots(FixedCapacity(8), clock, owner_of_request), WriteFailures()
    monitor = HangingWritesMonitor(harness.workers, [requests], clock, failures=[failures])
    binding = HttpRequest("POST", "/api/v1/namespaces/hook/pods/p/binding")
    owner = owner_of_request(binding)
    assert owner is not None
    failures.note(owner, refusal(500, 'failed calling webhook "of-long-ago"'), clock.monotonic() - 60.0)
    requests.begin_now(binding)
    with structlog.testing.capture_logs() as lines:
        for second in range(40):
            if second == 12:
                text = 'Internal error occurred: failed calling webhook "slow.example.com": context deadline exceeded'
                failures.note(owner, refusal(500, text), clock.monotonic())
            monitor.look()
            await clock.advance(1.0)
    first, second_line = lines
    assert first["err"].startswith("no answer for ")
    assert "admission webhook that matches pods/binding" in first["advice"]
    assert "webhook slow.example.com does not answer" in second_line["advice"]
    assert "slow.example.com" in second_line["err"]
    assert ["slow.example.com" in note for note in monitor.notes()] == [True]


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        pytest.param(refusal(500, "etcdserver: request timed out"), "etcd is slow", id="etcd"),
        pytest.param(refusal(504, "Timeout: request did not complete"), "look for an admission webhook", id="unknown"),
        pytest.param(UnknownOutcomeError("no answer within 30 s"), "look for an admission webhook", id="no answer"),
        pytest.param(refusal(403, 'failed calling webhook "denies"'), None, id="refused as it is"),
    ],
)
def test_the_advice_follows_what_the_api_server_has_said(failure: ClientError, advice: str | None) -> None:
    failures = WriteFailures()
    failures.note(RequestOwner("ns", "create events"), failure, 1.0)
    last = failures.last("ns", "create events", since=1.0)
    assert (last is not None) == (advice is not None)
    assert advice is None or advice in advice_on_hanging("create events", last)
    assert failures.last("ns", "create events", since=2.0) is None
    assert failures.last("ns", "", since=0.0) == last, "any kind: a preemption writes several"
    assert failures.last("other", "create events", since=0.0) is None
