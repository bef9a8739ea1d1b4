"""The loop around the rules, in virtual time: who leads when, what is asked of the API server, how it ends."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
from structlog.testing import capture_logs

from kscheduler.aio.clock import VirtualClock
from kscheduler.aio.tasks import BackgroundService, running
from kscheduler.client.errors import FencedError, NetworkError
from kscheduler.election import LeaseLostError, Role
from kscheduler.election.announcements import Announcements
from kscheduler.election.lease import LeaseRecord, StoredLease
from tests.election.stand_ins import Candidate, LeaseServer, RecordedRun, candidate, refusal

Lines = list[dict[str, object]]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start=1000.0)


@pytest.fixture
def server(clock: VirtualClock) -> LeaseServer:
    return LeaseServer(clock)


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as captured:
        yield captured  # type: ignore[misc]


def messages(lines: Lines) -> list[str]:
    return [str(line["event"]) for line in lines]


@asynccontextmanager
async def leading(one: Candidate, clock: VirtualClock) -> AsyncIterator["asyncio.Task[None]"]:
    """The candidate leads while the block runs; `keep` is the task."""
    lead = asyncio.create_task(one.election.lead())
    await clock.advance(0)
    assert lead.done()
    keep = asyncio.create_task(one.election.keep())
    await clock.advance(0)
    try:
        yield keep
    finally:
        keep.cancel()
        await asyncio.wait({keep})


@asynccontextmanager
async def following(one: Candidate, clock: VirtualClock) -> AsyncIterator["asyncio.Task[None]"]:
    """The candidate follows while the block runs; its task ends when it leads."""
    lead = asyncio.create_task(one.election.lead())
    await clock.advance(0)
    try:
        yield lead
    finally:
        lead.cancel()
        await asyncio.wait({lead})


async def test_the_first_candidate_leads_at_once_and_renews_each_period(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one = candidate(server, "a")
    assert not one.fence.is_open()
    async with leading(one, clock):
        assert one.fence.is_open()
        await clock.advance(7.0)
        assert [(at, method) for at, _, method in server.requests] == [
            (1000.0, "GET"),
            (1000.0, "POST"),
            (1002.0, "PUT"),
            (1004.0, "PUT"),
            (1006.0, "PUT"),
        ]
    assert one.events.notes == ["a became leader"]
    assert one.ended == []


async def test_a_follower_asks_once_and_is_reported_of_everything_else(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    async with leading(one, clock), following(two, clock) as lead:
        await clock.advance(300.0)
        assert [method for _, who, method in server.requests if who == "b"] == ["GET"]
        assert not lead.done()
        assert not two.fence.is_open()


async def test_a_follower_takes_over_when_the_lease_has_expired_and_not_before(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    await one.election.lead()
    async with following(two, clock) as lead:
        await clock.advance(14.9)
        assert not lead.done()
        await clock.advance(0.2)
        assert lead.done()
    assert two.election.statistics().transitions == 1


async def test_a_release_is_followed_by_the_next_leader_in_the_same_instant(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    async with following(two, clock) as lead:
        assert lead.done()  # nobody else was there
        async with following(one, clock) as other:
            keep = asyncio.create_task(two.election.keep())
            await clock.advance(5.0)
            await two.election.release()
            assert not two.fence.is_open()
            await clock.advance(0)
            assert other.done()
            assert not keep.done()
            keep.cancel()
    assert two.events.notes == ["b became leader", "b stopped leading"]
    assert "lease_released" in messages(lines)
    assert two.election.statistics().role is Role.RELEASED


async def test_a_leader_whose_requests_fail_ends_at_its_deadline_with_the_fence_closed_before_anybody_leads(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    async with leading(one, clock) as keep, following(two, clock) as lead:
        one.link.fault = lambda _method: NetworkError("cut")
        await clock.advance(9.9)
        assert one.fence.is_open()
        assert not keep.done()
        await clock.advance(0.2)
        assert not one.fence.is_open()
        with pytest.raises(LeaseLostError, match="lost the lease ns/x: it could not be renewed for 10 s"):
            await keep
        assert not lead.done()
        await clock.advance(5.1)
        assert lead.done()
    assert messages(lines).count("lease_not_renewed") == 5  # a renewal and a read at 2 s, then a read each 2 s
    (lost,) = (line for line in lines if line["event"] == "lease_lost")
    assert lost["lease"] == "ns/x"
    assert one.events.notes == ["a became leader", "a stopped leading"]


async def test_a_leader_that_loses_its_rights_is_reported_which_it_needs(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        one.link.fault = lambda _method: refusal(403)
        await clock.advance(10.1)
        with pytest.raises(LeaseLostError):
            await keep
    (lost,) = (line for line in lines if line["event"] == "lease_lost")
    assert "give the scheduler a Role in namespace ns" in str(lost["advice"])


async def test_a_renewal_that_succeeds_after_a_write_was_held_back_does_not_bring_the_lease_back(
    clock: VirtualClock, server: LeaseServer
) -> None:
    """A short suspension: the fence has seen it, the answer of the renewal that was under way has not."""
    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        one.link.seconds = 1.0
        await clock.advance(2.5)  # the renewal is under way
        one.fence.on_refusal("POST binding")
        await clock.advance(1.0)
        assert keep.done()
        with pytest.raises(LeaseLostError, match="POST binding was held back"):
            await keep
    assert one.election.has_lost
    assert one.election.problem() == "lease ns/x was lost: what this process has begun as its leader ends"
    requests = len(server.requests)
    await one.election.release()
    assert len(server.requests) == requests


async def test_renewals_that_take_nearly_half_of_the_deadline_keep_the_lease(
    clock: VirtualClock, server: LeaseServer
) -> None:
    """As in client-go: it waits 5 s of 10 for an answer. Of longer ones each second is too late."""
    one, two = candidate(server, "a"), candidate(server, "b")
    async with leading(one, clock) as keep, following(two, clock) as lead:
        one.link.seconds = 4.9
        for _ in range(200):
            await clock.advance(0.5)
            assert one.fence.is_open()
        assert not keep.done()
        assert not lead.done()


async def test_one_renewal_whose_answer_takes_longer_is_found_by_a_read(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    """The write was applied at once, and its answer never comes: what followers see counts for the leader, too."""
    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        one.link.loses_answers = 1
        await clock.advance(7.5)
        assert one.election.statistics().renewed_seconds_ago == 0.5
        await clock.advance(20.0)
        assert not keep.done()
    assert "lease_renewed_again" in messages(lines)


async def test_a_request_that_hangs_ends_with_the_deadline_too(clock: VirtualClock, server: LeaseServer) -> None:
    """As K17 of the client library that we do not use: a hanging renewal must not keep a leader leading."""
    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        one.link.seconds = 1000.0
        await clock.advance(10.0)
        await clock.advance(0)
        assert keep.done()
        with pytest.raises(LeaseLostError):
            await keep


async def test_a_few_failures_are_survived_and_the_line_that_ends_them_counts_them(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        one.link.fault = lambda _method: refusal(500)
        await clock.advance(5.0)
        one.link.fault = lambda _method: None
        await clock.advance(30.0)
        assert not keep.done()
        assert one.fence.is_open()
    (again,) = (line for line in lines if line["event"] == "lease_renewed_again")
    assert again["failures"] == 3
    assert one.election.statistics().slow_renewals == 1


async def test_a_lease_that_was_given_to_somebody_else_by_hand_ends_the_leader(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        server.put(StoredLease(LeaseRecord("thief", 15, "t", "t", 5), "99", {"uid": "u"}))
        await clock.advance(2.0)
        assert not one.fence.is_open()
        with pytest.raises(LeaseLostError, match="thief holds it now"):
            await keep


async def test_a_write_held_back_by_the_fence_ends_the_process_before_any_timer_does(
    clock: VirtualClock, server: LeaseServer
) -> None:
    """After a SIGCONT, the fence's clock has gone on and the loop's timers have not fired yet."""
    slept = [0.0]
    one = candidate(server, "a", now=lambda: clock.monotonic() + slept[0])
    async with leading(one, clock) as keep:
        await clock.advance(1.0)
        slept[0] = 60.0
        assert not one.fence.is_open()
        write = asyncio.create_task(one.fence.refused("POST /binding"))
        await clock.advance(0)
        assert not write.done()  # its caller must not take the pod for failed
        with pytest.raises(
            LeaseLostError, match=r"past the end of its lease, 51\.0 s ago; POST /binding was held back"
        ):
            await keep
        assert one.election.statistics().refused_writes == 1
        await clock.advance(30.0)
        with pytest.raises(FencedError):
            await write


async def test_a_process_that_never_led_is_reported_at_once_that_it_may_not_write(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one = candidate(server, "a")
    with pytest.raises(FencedError, match="it does not lead"):
        await one.fence.refused("POST /binding")


async def test_without_the_verb_watch_a_follower_asks_each_period_and_is_reported_so_once(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    two.link.can_watch = False
    async with leading(one, clock), following(two, clock) as lead:
        await clock.advance(21.0)
        queried = [at for at, who, _ in server.requests if who == "b"]
        assert 10 <= len(queried) <= 12
        await one.election.release()
        await clock.advance(2.0)
        assert lead.done()
    assert messages(lines).count("lease_watch_fails") == 1


async def test_a_watch_that_breaks_is_opened_again_and_read_meanwhile(clock: VirtualClock, server: LeaseServer) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    async with leading(one, clock), following(two, clock) as lead:
        for _ in range(5):
            server.end_watches()
            await clock.advance(7.0)
        await one.election.release()
        await clock.advance(0)
        assert lead.done()
        reads = [method for _, who, method in server.requests if who == "b" and method == "GET"]
        assert len(reads) <= 1 + 5 * 2


async def test_a_watch_that_brings_nothing_any_more_costs_one_conflict_and_never_the_lease(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    async with leading(one, clock) as keep, following(two, clock) as lead:
        server.watchers.clear()
        server.watchers.append(asyncio.Queue())
        await clock.advance(15.2)
        tried = [method for _, who, method in server.requests if who == "b"]
        assert tried == ["GET", "PUT", "GET"]
        assert not lead.done()
        assert not keep.done()


@pytest.mark.parametrize(
    ("code", "advice"),
    [(403, "give the scheduler a Role in namespace ns"), (404, "the namespace ns does not exist: create it")],
)
async def test_a_lease_that_cannot_be_had_is_a_line_a_reason_and_another_try(
    clock: VirtualClock, server: LeaseServer, lines: Lines, code: int, advice: str
) -> None:
    one = candidate(server, "a")
    one.link.fault = lambda method: refusal(code) if method == "POST" else None
    async with following(one, clock) as lead:
        await clock.advance(30.0)
        assert not lead.done()
        problem = one.election.problem()
        assert problem is not None
        assert advice in problem
        assert one.election.renewal_problem() is None
        (line,) = (line for line in lines if line["event"] == "lease_not_usable")
        assert advice in str(line["advice"])
        one.link.fault = lambda _method: None
        await clock.advance(5.0)
        assert lead.done()
        assert one.election.problem() is None


async def test_a_release_that_crosses_somebody_elses_label_is_sent_once_more(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one = candidate(server, "a")
    async with leading(one, clock):
        assert server.stored is not None
        server.put(StoredLease(server.stored.record, "77", {"uid": "u", "labels": {"a": "b"}}))
        await one.election.release()
        assert server.stored.record.holder == ""


async def test_a_release_that_fails_reports_how_long_the_others_wait(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    one = candidate(server, "a")
    async with leading(one, clock):
        one.link.fault = lambda _method: refusal(500)
        await one.election.release()
        assert not one.fence.is_open()
    (line,) = (line for line in lines if line["event"] == "lease_not_released")
    assert line["others_wait_seconds"] == 15.0


async def test_the_check_fails_for_a_leader_that_has_not_renewed_for_long_and_has_not_ended(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        keep.cancel()
        await clock.advance(35.0)
        assert one.election.renewal_problem() is None
        await clock.advance(0.1)
        assert one.election.renewal_problem() == "failed election to renew leadership on lease ns/x for 35 s"


async def test_as_a_service_its_loss_ends_all_others_and_its_stop_releases(
    clock: VirtualClock, server: LeaseServer
) -> None:
    one = candidate(server, "a")
    await one.election.lead()
    async with running(BackgroundService("election", one.election.keep, one.election.release)):
        await clock.advance(5.0)
    assert server.stored is not None
    assert server.stored.record.holder == ""


async def test_the_note_of_readyz_says_who_leads(clock: VirtualClock, server: LeaseServer) -> None:
    one, two = candidate(server, "a"), candidate(server, "b")
    assert two.election.note() == "lease ns/x: there is no leader; this process follows as b"
    async with leading(one, clock), following(two, clock):
        await clock.advance(1.0)
        assert one.election.note() == "lease ns/x: this process leads as a, renewed 1.0 s ago"
        assert two.election.note() == "lease ns/x: a leads, this process follows as b"


async def test_a_renewal_that_fails_and_succeeds_in_turn_is_reported_once_a_minute_with_a_count(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    """Two lines each few seconds, while nothing comes of it; the second failure in a row is told at once as before."""
    one = candidate(server, "a")
    writes = count()
    async with leading(one, clock):
        one.link.fault = lambda method: NetworkError("cut") if method != "GET" and next(writes) % 2 == 0 else None
        await clock.advance(119.0)
        assert one.fence.is_open()
    reported = [line for line in lines if line["event"] in {"lease_not_renewed", "lease_renewed_again"}]
    assert [line["event"] for line in reported] == ["lease_not_renewed", "lease_renewed_again"] * 2
    assert int(str(reported[2]["times_since"])) >= 5


async def test_what_an_api_server_refuses_while_it_starts_is_not_reported(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    """It answers 403 until it has read the roles; anyone who changes the roles then has been sent to the wrong
    place.
    """
    one, two = candidate(server, "a"), candidate(server, "b")
    two.link.fault = lambda _method: refusal(403) if clock.monotonic() < 1001.6 else None
    two.link.can_watch = False
    async with leading(one, clock), following(two, clock):
        await clock.advance(1.6)
        two.link.can_watch = True
        await clock.advance(60.0)
    assert {"lease_not_usable", "lease_watch_fails"}.isdisjoint(messages(lines))


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        pytest.param(401, "the credentials are not accepted", id="a token that has expired"),
        pytest.param(429, "asks for fewer requests", id="too many requests"),
        pytest.param(500, "the API server answers and fails", id="an error of the server"),
        pytest.param(403, "give the scheduler a Role in namespace ns", id="no right"),
    ],
)
async def test_the_advice_belongs_to_the_cause(
    clock: VirtualClock, server: LeaseServer, lines: Lines, code: int, advice: str
) -> None:
    """Rights are asked for after 403 alone: of a follower's requests, of its watch, and of a leader that loses."""
    one, two = candidate(server, "a"), candidate(server, "b")
    two.link.can_watch = False
    two.link.watch_refusal = refusal(code)
    two.link.fault = lambda _method: refusal(code)
    async with leading(one, clock) as keep, following(two, clock):
        one.link.fault = lambda _method: refusal(code)
        await clock.advance(15.0)
        with pytest.raises(LeaseLostError):
            await keep
    for name in ("lease_not_usable", "lease_watch_fails", "lease_lost"):
        (line,) = (line for line in lines if line["event"] == name)
        assert advice in str(line["advice"]), name
        assert ("Role" in str(line["advice"])) == (code == 403), name


async def test_a_leader_whose_last_renewal_found_nobody_is_reported_to_look_at_the_api_server(
    clock: VirtualClock, server: LeaseServer, lines: Lines
) -> None:
    def away(_method: str) -> NetworkError:
        failure = NetworkError("cannot connect")
        failure.__cause__ = ConnectionRefusedError(111, "refused")
        return failure

    one = candidate(server, "a")
    async with leading(one, clock) as keep:
        one.link.fault = away
        await clock.advance(10.1)
        with pytest.raises(LeaseLostError):
            await keep
    (lost,) = (line for line in lines if line["event"] == "lease_lost")
    assert "is kube-apiserver up" in str(lost["advice"])


async def test_there_is_never_less_than_no_time_left(clock: VirtualClock, server: LeaseServer, lines: Lines) -> None:
    """A renewal is given up at the end of the time that it has, and a little later."""
    announcements = Announcements("ns", "x", "a", RecordedRun(), "profile", clock)
    for left in (0.04, -0.0004, -3.0):
        announcements.not_renewed(NetworkError("no answer"), left)
    assert [str(line["seconds_left"]) for line in lines] == ["0.0"] * 3
