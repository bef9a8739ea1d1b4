"""The rules of the election, one situation at a time: what is sent, when, and until when writes may leave."""

from typing import Any

import pytest

from kscheduler.election.lease import LeaseRecord, StoredLease
from kscheduler.election.rules import Elector, GiveUp, Read, RequestFailure, Role, Timing, Wait, Write

WALL = 1_790_000_000.0
STAMP = "2026-09-21T14:13:20.000000Z"
TIMING = Timing(15.0, 10.0, 2.0)


def elector(draw: float = 0.0) -> Elector:
    return Elector("me", TIMING, lambda: draw)


def stored(version: str = "1", uid: str = "u", **record: Any) -> StoredLease:
    facts: dict[str, Any] = {
        "holder": "other",
        "duration_seconds": 15,
        "acquired": "a",
        "renewed": "r1",
        "transitions": 3,
    }
    return StoredLease(LeaseRecord(**(facts | record)), version, {"uid": uid})


def about(seconds: float) -> Any:
    """Equal to a `Wait` for so long, rounding apart."""
    return Wait(pytest.approx(seconds))  # type: ignore[arg-type]


def leading(sent_at: float = 0.0) -> Elector:
    """An elector that has created the Lease with a request sent at `sent_at`."""
    found = elector()
    found.saw(None, sent_at)
    step = found.step(sent_at, WALL)
    assert isinstance(step, Write)
    found.wrote(StoredLease(step.record, "1", {"uid": "u"}), sent_at)
    return found


def test_a_fresh_process_reads_before_it_writes() -> None:
    assert isinstance(elector().step(0.0, WALL), Read)


def test_a_lease_that_does_not_exist_is_created_at_once() -> None:
    found = elector()
    found.saw(None, 1.0)
    step = found.step(1.0, WALL)
    assert step == Write(LeaseRecord("me", 15, STAMP, STAMP, 0), None, 4.0)


def test_a_lease_that_somebody_holds_is_taken_its_own_duration_after_it_was_seen() -> None:
    found = elector()
    lease = stored(duration_seconds=40)
    found.saw(lease, 100.0)
    assert found.step(100.0, WALL) == Wait(40.0)
    assert found.step(139.9, WALL) == about(0.1)
    step = found.step(140.0, WALL)
    assert step == Write(LeaseRecord("me", 15, STAMP, STAMP, 4), lease, 4.0)


def test_each_renewal_that_is_seen_starts_the_wait_again_and_a_changed_label_does_not() -> None:
    found = elector()
    found.saw(stored("1"), 100.0)
    found.saw(stored("2", renewed="r2"), 110.0)
    found.saw(stored("3", renewed="r2"), 124.0)
    assert found.step(124.9, WALL) == about(0.1)
    step = found.step(125.0, WALL)
    assert isinstance(step, Write)
    assert step.over is not None
    assert step.over.version == "3"


def test_a_released_lease_is_taken_at_once() -> None:
    found = elector()
    found.saw(stored("1"), 100.0)
    found.saw(stored("2", holder="", duration_seconds=1), 101.0)
    assert isinstance(found.step(101.0, WALL), Write)


def test_a_lease_that_somebody_deletes_is_taken_when_its_last_record_has_expired() -> None:
    found = elector()
    found.saw(stored("1"), 100.0)
    found.saw(None, 105.0)
    assert found.step(105.0, WALL) == Wait(10.0)
    step = found.step(115.0, WALL)
    assert isinstance(step, Write)
    assert step.over is None


def test_followers_try_a_little_apart_from_each_other() -> None:
    found = elector(draw=0.5)
    found.saw(stored(), 100.0)
    assert found.step(100.0, WALL) == about(15.05)


def test_the_watch_may_be_behind_what_was_read_or_written() -> None:
    found = leading()
    newest = found.stored
    assert newest is not None
    assert not found.saw(stored("0", holder="old"), 1.0)
    assert found.stored is newest
    assert found.role is Role.LEADING


def test_versions_that_are_no_numbers_and_leases_made_again_are_taken_as_they_come() -> None:
    found = elector()
    found.saw(stored("9"), 100.0)
    assert found.saw(stored("x", renewed="r2"), 101.0)
    assert found.saw(stored("3", uid="another", renewed="r3"), 102.0)


def test_the_right_to_write_counts_from_when_the_renewal_was_sent() -> None:
    found = leading(sent_at=100.0)
    assert found.may_write_until == 110.0
    assert found.step(101.0, WALL) == Wait(1.0)
    step = found.step(102.0, WALL)
    assert isinstance(step, Write)
    assert step.record.renewed == STAMP
    found.wrote(StoredLease(step.record, "2"), 102.0)  # its answer comes at 105
    assert found.may_write_until == 112.0
    assert isinstance(found.step(105.0, WALL), Write)
    assert found.slow_renewals == 0


def test_a_renewal_keeps_when_and_how_often_the_lease_was_acquired() -> None:
    found = elector()
    found.saw(stored("1", holder="", acquired="a", transitions=7), 0.0)
    first = found.step(0.0, WALL)
    assert isinstance(first, Write)
    found.wrote(StoredLease(first.record, "2"), 0.0)
    second = found.step(2.0, WALL + 2.0)
    assert isinstance(second, Write)
    assert (second.record.acquired, second.record.transitions) == (STAMP, 8)
    assert second.record.renewed != STAMP


def test_a_failed_renewal_is_followed_by_a_read_at_once_and_another_renewal() -> None:
    found = leading()
    first = found.step(2.0, WALL)
    assert isinstance(first, Write)
    found.failed(RequestFailure.FAILED, 3.0)
    assert isinstance(found.step(3.0, WALL), Read)
    found.saw(StoredLease(first.record, "5", {"uid": "u"}), 3.1)  # it was applied: the answer was lost
    second = found.step(3.1, WALL)
    assert isinstance(second, Write)
    assert second.over is not None
    assert second.over.version == "5"
    found.wrote(StoredLease(second.record, "6", {"uid": "u"}), 3.1)
    assert found.may_write_until == 13.1
    assert found.slow_renewals == 1


def test_the_second_failure_waits_for_the_next_period() -> None:
    found = leading()
    found.step(2.0, WALL)
    found.failed(RequestFailure.FAILED, 2.0)
    found.step(2.0, WALL)
    found.failed(RequestFailure.FAILED, 2.0)
    assert found.step(2.0, WALL) == Wait(2.0)


def test_requests_of_a_leader_never_outlast_its_right_to_write() -> None:
    found = leading()
    found.step(2.0, WALL)
    found.failed(RequestFailure.FAILED, 6.0)
    assert found.step(6.0, WALL) == Read(4.0)
    found.failed(RequestFailure.FAILED, 9.0)
    step = found.step(9.0, WALL)
    assert step == Read(1.0)


def test_a_leader_that_cannot_renew_gives_up_at_the_deadline_for_ever() -> None:
    found = leading()
    assert isinstance(found.step(9.99, WALL), Write)
    assert found.step(10.0, WALL) == GiveUp("it could not be renewed for 10 s")
    assert (found.role, found.may_write_until) == (Role.LOST, float("-inf"))
    found.wrote(stored("2", holder="me"), 9.0)
    assert found.may_write_until == float("-inf")
    assert isinstance(found.step(11.0, WALL), GiveUp)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_leader_that_reads_another_holder_has_lost(holder: str) -> None:
    found = leading()
    found.step(2.0, WALL)
    found.failed(RequestFailure.CONFLICT, 2.1)
    found.step(2.1, WALL)
    found.saw(stored("2", holder=holder), 2.2)
    assert found.step(2.2, WALL) == GiveUp(f"{holder or 'nobody'} holds it now")
    assert found.may_write_until == float("-inf")


def test_a_leader_whose_lease_was_deleted_creates_it_again() -> None:
    found = leading()
    found.step(2.0, WALL)
    found.failed(RequestFailure.FAILED, 2.1)
    found.step(2.1, WALL)
    found.saw(None, 2.2)
    step = found.step(2.2, WALL)
    assert isinstance(step, Write)
    assert step.over is None


def test_a_follower_that_was_slower_reads_who_was_faster_and_waits() -> None:
    found = elector()
    found.saw(stored("1"), 0.0)
    assert isinstance(found.step(15.0, WALL), Write)
    found.failed(RequestFailure.CONFLICT, 15.1)
    assert isinstance(found.step(15.1, WALL), Read)
    found.saw(stored("2", holder="third", renewed="r2"), 15.2)
    assert found.step(15.2, WALL) == Wait(15.0)


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 2.0), (1.0, 4.4)])
def test_a_follower_whose_request_fails_tries_again_after_a_jittered_period(draw: float, seconds: float) -> None:
    found = elector(draw)
    found.step(100.0, WALL)
    found.failed(RequestFailure.FAILED, 101.0)
    assert found.step(101.0, WALL) == about(seconds - 1.0)
    assert isinstance(found.step(100.0 + seconds, WALL), Read)


def test_refused_again_and_again_a_follower_asks_only_once_a_period() -> None:
    """A webhook that answers 409 to every write must not make it spin."""
    found = elector()
    requests, now = 0, 0.0
    while now < 20.0:
        step = found.step(now, WALL)
        match step:
            case Wait():
                now += step.seconds
            case Read():
                requests += 1
                found.saw(None, now)
            case Write():
                requests += 1
                found.failed(RequestFailure.CONFLICT, now)
    assert requests <= 2 + 2 * 10 + 2


def test_a_lost_answer_to_the_acquisition_leads_to_a_renewal_that_keeps_its_time() -> None:
    found = elector()
    found.saw(stored("1", holder=""), 0.0)
    first = found.step(0.0, WALL)
    assert isinstance(first, Write)
    found.failed(RequestFailure.FAILED, 4.0)
    found.saw(StoredLease(first.record, "2", {"uid": "u"}), 4.0)
    second = found.step(4.0, WALL + 4.0)
    assert isinstance(second, Write)
    assert (second.record.acquired, second.record.transitions) == (first.record.acquired, first.record.transitions)
    found.wrote(StoredLease(second.record, "3"), 4.0)
    assert (found.role, found.may_write_until) == (Role.LEADING, 14.0)


def test_a_release_ends_the_right_to_write_before_it_is_sent() -> None:
    found = leading()
    found.stop_leading()
    assert found.may_write_until == float("-inf")
    write = found.release(WALL + 5.0)
    assert write is not None
    assert (write.record.holder, write.record.duration_seconds, write.record.transitions) == ("", 1, 0)
    found.wrote(StoredLease(write.record, "9"), 5.0)
    assert found.role is Role.RELEASED
    assert found.release(WALL) is None


def test_a_follower_has_nothing_to_release() -> None:
    found = elector()
    found.saw(stored(), 0.0)
    found.stop_leading()
    assert found.release(WALL) is None
    assert found.role is Role.FOLLOWING


@pytest.mark.parametrize(("seconds", "written"), [(15.0, 15), (1.5, 2), (0.3, 1)])
def test_others_are_never_reported_a_shorter_duration_than_the_configured_one(seconds: float, written: int) -> None:
    assert Timing(lease_duration=seconds).recorded_seconds == written


def test_a_renewal_may_take_half_of_the_renew_deadline_as_in_client_go() -> None:
    found = leading()
    renewal = found.step(2.0, WALL)
    assert isinstance(renewal, Write)
    assert renewal.timeout_seconds == 5.0
    found.wrote(StoredLease(renewal.record, "2", {"uid": "u"}), 2.0)
    assert isinstance(found.step(6.9, WALL), Write)  # the next one is due at once


def test_a_renewal_that_a_read_shows_counts_from_when_it_was_sent() -> None:
    """Its answer was lost, or was a proxy's page: every follower has seen it."""
    found = leading()
    renewal = found.step(2.0, WALL + 2.0)
    assert isinstance(renewal, Write)
    found.failed(RequestFailure.FAILED, 7.0)
    found.saw(StoredLease(renewal.record, "2", {"uid": "u"}), 7.1)
    assert (found.role, found.renewed_at, found.may_write_until) == (Role.LEADING, 2.0, 12.0)


def test_what_a_read_shows_of_an_older_renewal_does_not_count() -> None:
    found = leading()
    before = found.stored
    assert before is not None
    found.step(2.0, WALL + 2.0)
    found.failed(RequestFailure.FAILED, 7.0)
    found.saw(StoredLease(before.record, "2", {"uid": "u", "labels": {"a": "b"}}), 7.1)
    assert (found.renewed_at, found.may_write_until) == (0.0, 10.0)


def test_a_read_reports_nothing_of_a_renewal_whose_time_is_that_of_the_one_before() -> None:
    """A wall clock that was set back by just so much."""
    found = leading()
    before = found.stored
    assert before is not None
    found.step(2.0, WALL)
    found.failed(RequestFailure.FAILED, 7.0)
    found.saw(before, 7.1)
    assert (found.renewed_at, found.may_write_until) == (0.0, 10.0)


def test_a_process_that_goes_on_may_lead_when_its_own_lease_has_run_out_and_not_before() -> None:
    """What it had sent has the same time to arrive as before any other leader."""
    lost = leading()
    own = lost.stored
    assert own is not None
    assert isinstance(lost.step(10.0, WALL), GiveUp)
    found = lost.next_term()
    assert found.identity == lost.identity
    assert isinstance(found.step(10.1, WALL), Read)
    found.saw(own, 10.2)
    assert found.step(10.2, WALL) == Wait(15.0 - 10.2)
    assert found.expires_in(10.2) == 15.0 - 10.2
    renewal = found.step(15.0, WALL)
    assert isinstance(renewal, Write)
    assert renewal.over == own
    assert renewal.record.transitions == own.record.transitions


def test_not_before_holds_for_a_lease_that_was_deleted_or_released_as_well() -> None:
    for seen in (None, StoredLease(LeaseRecord(), "9", {"uid": "u"})):
        lost = leading()
        lost.lose("for a test")
        found = lost.next_term()
        found.saw(seen, 10.2)
        assert found.step(10.2, WALL) == Wait(15.0 - 10.2)
