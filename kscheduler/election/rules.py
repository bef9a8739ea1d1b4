"""Who leads: the rules of the election, without I/O and without a clock of their own.

One process at a time may schedule. All of them agree by one object, a Lease, which the leader renews; anyone who sees
that it was not renewed for as long as it says may take it. The API server orders the writes (each carries the version
that it replaces), so of two that try at once one gets a 409. What it cannot know is whether the old leader has stopped.
That follows from time, and each process uses only its own clock:

    leader      sends a renewal at s; if it succeeds, it may write until s + renewDeadline, then never again
    follower    sees that renewal at o, which is after s; tries at o + leaseDuration, not before

As renewDeadline < leaseDuration, the leader has stopped before anybody else begins, however long requests and watches
take, and whatever the wall clocks say. The difference (5 s by default) is there for clocks that do not run equally fast
and for requests that were sent last. Both intervals must count the time for which a machine sleeps or a process is
stopped (`boot_time`).

    following --absent, released or expired: write--> leading --renewed in time--> leading
        ^            | 409: another one was faster       |  '--not renewed in time, or another holder--> lost (the end)
        '------------'                                   '--release--> released (the end)

An elector leads once. A process that goes on after a loss does so with another one (`next_term`) of the same identity,
after all that the first one's right was for has ended. It finds its own name in the Lease, which nobody has written
over, and may take it when it would have expired for anybody else: `not_before`, a lease_duration after the last
renewal was sent. So what was sent in the old term has the same time to arrive as before any other leader.

An `Elector` gets what was seen and how requests ended, and `step` says what to do now. The rules are client-go's
(`tools/leaderelection`): observed times by the own clock, 409 as a lost race, jitter of 1 to 2.2 retry periods, a read
after a renewal that has failed, half the renew deadline for each request (`resourcelock.NewFromKubeconfig`). The
differences, each towards safety or a faster fail-over:

- The leader's time counts from when a renewal was *sent*, not from when its answer came, and ends `renewDeadline` later
  exactly; client-go adds up to a `retryPeriod`.
- A follower is told of each change (by a watch) and tries at the moment at which the lease expires or is released;
  client-go asks every 2 to 4.4 s.
- A renewal whose answer is lost counts, from when it was sent, if a read shows it. client-go has to write once more.
- A Lease that somebody deletes is taken only when its last record has expired: its holder may still be leading.
- A duration that is no whole number of seconds is written rounded up; rounded down, others would take over too early.
"""

import math
import random
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from kscheduler.client.events.recorder import micro_time
from kscheduler.election.lease import LeaseRecord, StoredLease

# A follower's request may take this many times `retryPeriod`.
REQUEST_PERIODS: Final = 2.0
# client-go's: followers whose try has failed wait for 1 to 2.2 times `retryPeriod`.
JITTER_FACTOR: Final = 1.2
# Followers that see a lease expire try within this time of each other, so that mostly only one of them writes.
EXPIRY_JITTER_SECONDS: Final = 0.1
# `leaseDurationSeconds` of a released lease, as client-go writes it (0 is not valid).
RELEASED_SECONDS: Final = 1


class Timing(msgspec.Struct, frozen=True):
    """The configured times, in seconds. `config` has checked that renewDeadline lies between the other two."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def renewal_seconds(self) -> float:
        """How long a leader's request may take, as in client-go: after one that hangs there is time for another."""
        return self.renew_deadline / 2

    @property
    def try_seconds(self) -> float:
        """How long a follower's request may take: nobody waits for it, and another one may be quicker."""
        return min(REQUEST_PERIODS * self.retry_period, self.renew_deadline)

    @property
    def recorded_seconds(self) -> int:
        """The duration as it is written to the Lease."""
        return math.ceil(self.lease_duration)


class Role(Enum):
    """What an elector is. It never leads a second time: see `next_term`."""

    FOLLOWING = "following"
    LEADING = "leading"
    LOST = "lost"
    RELEASED = "released"


class RequestFailure(Enum):
    """How a request of an elector failed."""

    CONFLICT = "conflict"
    """409: the object has changed, or was just created by somebody else."""
    FAILED = "failed"
    """Refused, or without an answer: then a write may have been applied, or may still be."""


class Read(msgspec.Struct, frozen=True):
    """Get the Lease, then call `saw` or `failed`."""

    timeout_seconds: float


class Write(msgspec.Struct, frozen=True):
    """Create the Lease (`over` is `None`) or replace that version, then call `wrote` or `failed`."""

    record: LeaseRecord
    over: StoredLease | None
    timeout_seconds: float


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do for so long, unless news comes."""

    seconds: float


class GiveUp(msgspec.Struct, frozen=True):
    """The lease is lost: no write may leave this process any more."""

    reason: str


Step = Read | Write | Wait | GiveUp


class Elector:
    """One candidate. All times are of its own clock, in seconds; `wall` is the time of day, written for people."""

    def __init__(
        self,
        identity: str,
        timing: Timing,
        rng: Callable[[], float] = random.random,
        not_before: float = -math.inf,
    ) -> None:
        """`rng` spreads tries; `identity` must belong to this process alone. `not_before`: see `next_term`."""
        self._not_before = not_before
        """Before this time it does not lead, whatever the Lease says."""
        self.identity = identity
        self.timing = timing
        self.role = Role.FOLLOWING
        self.stored: StoredLease | None = None
        """The Lease as last seen; `None`: it does not exist, or nothing was read yet."""
        self.may_write_until = -math.inf
        """The end of this process's right to write, which each renewal moves."""
        self.renewed_at = -math.inf
        """When the last successful write of the lease was sent."""
        self.slow_renewals = 0
        """Renewals for which the Lease had to be read first (client-go's slow path)."""
        self._rng = rng
        self._expires_at = -math.inf
        """When a follower may take what it has seen."""
        self._must_read = True
        self._in_doubt: tuple[LeaseRecord, float] | None = None
        """The renewal of ours whose outcome is unknown, and when it was sent."""
        self._has_failed = False
        """A request has failed since the last success or news: the next failure waits for its period."""
        self._next_try = -math.inf
        self._end = "it was released"
        """Why this process does not lead any more."""

    # --- what to do -------------------------------------------------------------------------------------------------

    def step(self, now: float, wall: float) -> Step:
        """What to do now. A request is taken for sent at `now`."""
        if self.role is Role.LEADING:
            return self._lead(now, wall)
        if self.role is Role.FOLLOWING:
            return self._follow(now, wall)
        return GiveUp(self._end)

    def _lead(self, now: float, wall: float) -> Step:
        left = self.may_write_until - now
        if left <= 0:
            return self.lose(f"it could not be renewed for {self.timing.renew_deadline:g} s")
        if now < self._next_try:
            return Wait(min(left, self._next_try - now))
        timeout = min(self.timing.renewal_seconds, left)
        self._next_try = now + self.timing.retry_period
        if self._must_read:
            return Read(timeout)
        stamp = micro_time(wall)
        if self.stored is None:  # somebody has deleted it
            write = Write(self._first_record(stamp), None, timeout)
        else:
            write = Write(self._renewal(self.stored.record, stamp), self.stored, timeout)
        # A wall clock that was set back may give a renewal the time of the one before: then a read tells nothing.
        is_new = write.over is None or write.over.record != write.record
        self._in_doubt = (write.record, now) if is_new else None
        return write

    def _follow(self, now: float, wall: float) -> Step:
        due = self._next_try if self._must_read else max(self._next_try, self._expires_at, self._not_before)
        if now < due:
            return Wait(due - now)
        timeout = self.timing.try_seconds
        self._next_try = now + self.timing.retry_period * (1.0 + JITTER_FACTOR * self._rng())
        if self._must_read:
            return Read(timeout)
        stamp = micro_time(wall)
        if self.stored is None:
            return Write(self._first_record(stamp), None, timeout)
        last = self.stored.record
        if last.holder == self.identity:  # an answer of ours was lost
            return Write(self._renewal(last, stamp), self.stored, timeout)
        return Write(replace(self._first_record(stamp), transitions=last.transitions + 1), self.stored, timeout)

    def _first_record(self, stamp: str) -> LeaseRecord:
        return LeaseRecord(self.identity, self.timing.recorded_seconds, stamp, stamp)

    def _renewal(self, last: LeaseRecord, stamp: str) -> LeaseRecord:
        """Our own last record, renewed; an administrator may have changed the other fields of the Lease."""
        return replace(last, holder=self.identity, duration_seconds=self.timing.recorded_seconds, renewed=stamp)

    def stop_leading(self) -> None:
        """End this process's right to write, before `release` tells the others."""
        if self.role is Role.LEADING:
            self.role, self.may_write_until = Role.RELEASED, -math.inf

    def release(self, wall: float) -> Write | None:
        """The write that lets others take over at once; `None`: there is nothing to release. After `stop_leading`."""
        if self.role is not Role.RELEASED or self.stored is None or self.stored.record.holder != self.identity:
            return None
        stamp = micro_time(wall)
        record = LeaseRecord("", RELEASED_SECONDS, stamp, stamp, self.stored.record.transitions)
        return Write(record, self.stored, self.timing.try_seconds)

    def next_term(self) -> "Elector":
        """A follower of the same identity, for a process that has lost its lease and goes on. See the module."""
        return Elector(self.identity, self.timing, self._rng, self.renewed_at + self.timing.lease_duration)

    # --- what has happened ------------------------------------------------------------------------------------------

    def saw(self, stored: StoredLease | None, now: float) -> bool:
        """The Lease as a read or the watch shows it at `now`; `None`: it does not exist. Returns whether that is news.

        The watch may be behind our own reads and writes; what is older than what is known is skipped.
        """
        if stored is not None and self.stored is not None and stored.is_older_than(self.stored):
            return False
        if self._must_read:
            self._next_try = now  # what the read allows may follow at once
        self._must_read = False
        previous, self.stored = self.stored, stored
        is_news = (previous and previous.record) != (stored and stored.record)
        if self.role is Role.LEADING:
            if stored is not None and stored.record.holder != self.identity:
                self.lose(f"{stored.record.holder or 'nobody'} holds it now")
            elif stored is not None and self._in_doubt is not None and stored.record == self._in_doubt[0]:
                self.wrote(stored, self._in_doubt[1])  # only its answer was lost
                self._next_try = now  # much of its time is over: renew again at once
        elif is_news:
            self._has_failed = False
            self._next_try = now
            self._expires_at = self._expiry(previous, stored, now)
        return is_news

    def _expiry(self, previous: StoredLease | None, stored: StoredLease | None, now: float) -> float:
        """When a follower may write over this. A deleted Lease counts as its last record, whose holder may be alive."""
        if stored is None:
            return self._expires_at if previous is not None else -math.inf
        if stored.record.holder in ("", self.identity):
            return -math.inf
        return now + stored.record.duration_seconds + EXPIRY_JITTER_SECONDS * self._rng()

    def wrote(self, stored: StoredLease, sent_at: float) -> None:
        """A `Write` of `step` was applied; it was sent at `sent_at`."""
        if self.role is Role.LEADING and self._has_failed:
            self.slow_renewals += 1
        self.stored, self._must_read, self._has_failed = stored, False, False
        self._in_doubt = None
        if self.role not in (Role.FOLLOWING, Role.LEADING):
            return
        self.role, self.renewed_at = Role.LEADING, sent_at
        self.may_write_until = sent_at + self.timing.renew_deadline
        self._next_try = sent_at + self.timing.retry_period  # at once, if the answer took longer than that

    def failed(self, outcome: RequestFailure, now: float) -> None:
        """The last request of `step` failed at `now`.

        The Lease is read next: at once after the first failure of a renewal, or if somebody else was faster; otherwise
        after the period that `step` has set.
        """
        self._must_read = True
        if not self._has_failed and (self.role is Role.LEADING or outcome is RequestFailure.CONFLICT):
            self._next_try = now
        self._has_failed = True

    def must_look(self) -> None:
        """Read the Lease next, at once: a follower has nobody who tells it of changes."""
        self._must_read, self._next_try = True, -math.inf

    def lose(self, reason: str) -> GiveUp:
        """End this process's right to write for good; there is nothing to release any more."""
        self.role, self.may_write_until, self._end = Role.LOST, -math.inf, reason
        return GiveUp(reason)

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def leader(self) -> str:
        """The identity in the last record seen; empty if there is none, or it was released."""
        return self.stored.record.holder if self.stored is not None else ""

    def expires_in(self, now: float) -> float:
        """Seconds until a follower may take the lease; 0 if it may already."""
        return max(0.0, self._expires_at - now, self._not_before - now)
