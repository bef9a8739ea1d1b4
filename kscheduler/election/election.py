"""The loop around the rules: sends what an `Elector` asks for, waits as long as it says, watches while it follows.

    lead()            returns when this process leads
    keep()            renews until cancelled; raises `LeaseLostError` when the process may not write any more
    release()         after the last write: lets others take over at once

While it follows, a watch of the one Lease brings each renewal as it happens, so that a follower tries in the instant in
which the lease expires or is released. A watch that ends is opened again at once, one that fails after a
`retryPeriod`; without a watch the Lease is read each `retryPeriod`. A watch that brings nothing for `renewDeadline` is
opened again. Should a follower still miss renewals, it costs one 409: it tries when the lease has expired for all that
it knows, and reads the Lease after the refusal.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final, Protocol

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import WakeupEvent
from kscheduler.client.errors import APIError, ClientError, UnknownOutcomeError
from kscheduler.election.announcements import Announcements
from kscheduler.election.fence import Fence
from kscheduler.election.lease import StoredLease
from kscheduler.election.rules import Elector, GiveUp, Read, RequestFailure, Role, Step, Wait, Write
from kscheduler.election.watchdog import ENDING_SECONDS, GRACE_SECONDS, Watchdog

# Waits do not count the time for which the machine sleeps, the rules do: ask them again now and then.
LONGEST_WAIT_SECONDS: Final = 5.0
# The check `leaderElection` fails if the lease has not been renewed for its duration and this; kube-scheduler's.
RENEWAL_TOLERANCE_SECONDS: Final = 20.0
RELEASE_TRIES: Final = 2
# For all of a release: an orderly end has to fit into a pod's grace period.
RELEASE_SECONDS: Final = 5.0
_BLOCKED: Final = "the event loop was blocked, or the process stopped, past the end of its lease"
_STUCK: Final = "it has lost its lease, and its orderly end takes too long"


class LeaseLostError(Exception):
    """The lease is lost; all that was for its right to write has to end, so that another one may lead."""

    def __init__(self, message: str, *, may_follow: bool = False) -> None:
        """`may_follow`: the event loop was alive at the end of the right, so this process may go on as a follower."""
        super().__init__(message)
        self.may_follow = may_follow


class LeaseAccess(Protocol):
    """One Lease on an API server: `lease_client.LeaseClient`. All raise `ClientError`."""

    name: str

    async def read(self, timeout_seconds: float) -> StoredLease | None:
        """The Lease; `None`: it does not exist."""
        ...

    async def write(self, write: Write) -> StoredLease:
        """Create or replace it; returns it as stored."""
        ...

    def watch(self) -> AsyncGenerator[StoredLease | None]:
        """The Lease, then each change."""
        ...


class ElectionStatistics(msgspec.Struct, frozen=True):
    """A snapshot for metrics and `/readyz?verbose`."""

    name: str
    """The Lease's name: the label of upstream's metrics."""
    role: Role
    leader: str
    identity: str
    transitions: int
    slow_renewals: int
    refused_writes: int
    renewed_seconds_ago: float | None
    """Since the last renewal of ours was sent; `None` for a process that never led."""
    expires_in_seconds: float
    """For a follower: until it may take the lease."""


class Election:
    """One candidate for one Lease."""

    def __init__(
        self,
        elector: Elector,
        lease: LeaseAccess,
        fence: Fence,
        watchdog: Watchdog,
        announcements: Announcements,
        clock: Clock,
        now: Callable[[], float],
    ) -> None:
        """`now` counts suspension (`boot_time`), as the fence's and the watchdog's; `clock` is what waits."""
        self._elector = elector
        self._lease = lease
        self.fence = fence
        self._watchdog = watchdog
        self._announcements = announcements
        self._clock = clock
        self._now = now
        self._wakeup: WakeupEvent | None = None
        self._is_watching = False
        self._read_at = float("-inf")
        """When the Lease was read last; without a watch it is read each `retryPeriod`."""
        self._sending = asyncio.Lock()
        """Held by the request in flight: a release must not cross a renewal."""
        self._refusal: ClientError | None = None
        """Why the API server refused the last request of a follower."""
        self._refused_write = ""
        fence.on_refusal = self._on_refusal

    # --- following --------------------------------------------------------------------------------------------------

    async def lead(self) -> None:
        """Return when this process leads."""
        self._announcements.attempting()
        self._wakeup = WakeupEvent(self._clock)
        watching = asyncio.create_task(self._watch(), name="lease watch")
        try:
            while self._elector.role is Role.FOLLOWING:
                if watching.done():
                    watching.result()  # a bug: rather end than follow blindly
                await self._follow(self._elector.step(self._now(), self._clock.time()))
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        self._move_fence()
        if self._elector.stored is not None:
            self._announcements.acquired(self._elector.stored)

    async def _follow(self, step: Step) -> None:
        if not isinstance(step, Wait):
            await self._send(step)
        elif self._is_watching:
            await self._wait(step.seconds)
        elif (until_look := self._read_at + self._elector.timing.retry_period - self._clock.monotonic()) > 0:
            await self._wait(min(step.seconds, until_look))
        else:
            self._elector.must_look()

    async def _watch(self) -> None:
        """Tell the elector of each change, until cancelled."""
        pause = self._elector.timing.retry_period
        while True:
            began = self._clock.monotonic()
            try:
                async with aclosing(self._lease.watch()) as changes:
                    async for stored in changes:
                        self._is_watching = True
                        self._announcements.watched()
                        self._saw(stored)
                self._announcements.watched()
            except ClientError as failure:
                self._announcements.watch_fails(failure, pause)
            finally:
                self._is_watching = False
            self._notify()  # there is nobody who tells of changes now: read
            if self._clock.monotonic() - began < pause:
                await self._clock.sleep(pause)

    def _saw(self, stored: StoredLease | None) -> None:
        now = self._now()
        if self._elector.saw(stored, now):
            self._notify()
        self._announcements.leader(self._elector.leader, self._elector.expires_in(now))

    # --- leading ----------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Renew until cancelled. Raises `LeaseLostError`; from then on, the fence is closed."""
        self._wakeup = WakeupEvent(self._clock)
        while self._elector.role is not Role.RELEASED:
            late = self._now() - self._elector.may_write_until
            step = self._elector.step(self._now(), self._clock.time())
            if self._refused_write or isinstance(step, GiveUp):
                raise self._lost(step, late)
            if isinstance(step, Wait):
                await self._wait(step.seconds)
            else:
                await self._send(step)
                self._move_fence()
        await asyncio.get_running_loop().create_future()

    def _move_fence(self) -> None:
        """Move the fence and the watchdog with the lease."""
        elector = self._elector
        if elector.role is Role.LEADING:
            self.fence.open_until(elector.may_write_until)
            self._watchdog.expect_before(elector.may_write_until + GRACE_SECONDS, _BLOCKED)
        else:
            self.fence.close()

    def _lost(self, step: Step, late_seconds: float) -> LeaseLostError:
        """`late_seconds`: since the end of the right to write, if it has ended."""
        self.fence.close()
        self._watchdog.expect_before(self._now() + ENDING_SECONDS, _STUCK)
        reason = step.reason if isinstance(step, GiveUp) else _BLOCKED
        # Who was stopped or blocked past its right does not know what else it has missed: a fresh process takes over.
        may_follow = not GRACE_SECONDS < late_seconds < math.inf
        if not may_follow:
            reason = f"{_BLOCKED}, {late_seconds:.1f} s ago"
        if self._refused_write:
            reason = f"{reason}; {self._refused_write} was held back"
        # A renewal that was under way may have succeeded meanwhile: what was held back has ended this process anyway.
        self._elector.lose(reason)
        self._announcements.lost(reason, self._elector.leader, self._elector.stored, may_follow=may_follow)
        return LeaseLostError(f"lost the lease {self._announcements.lease}: {reason}", may_follow=may_follow)

    def next_term(self) -> Elector:
        """The candidate of a process that goes on, after all that this election was for has ended."""
        self._watchdog.lift()
        return self._elector.next_term()

    def _on_refusal(self, write: str) -> None:
        """The fence has held a write back: its clock is ahead of this loop's timers, which were late."""
        self._refused_write = self._refused_write or write
        self._notify()

    async def release(self) -> None:
        """Give the lease up, after the last write: others may take over at once. Does nothing after a loss."""
        if self._elector.role is not Role.LEADING:
            return
        self._elector.stop_leading()
        self.fence.close()
        self._watchdog.lift()
        self._notify()
        try:
            async with _at_most(RELEASE_SECONDS):
                failure = await self._give_up()
        except ClientError as late:
            failure = str(late)
        if failure:
            self._announcements.not_released(failure, self._elector.timing.lease_duration)

    async def _give_up(self) -> str:
        """Returns why others have to wait; empty if they need not."""
        failure = "another client changes it"
        for _ in range(RELEASE_TRIES):
            async with self._sending:
                write = self._elector.release(self._clock.time())
            if write is None:
                return ""
            error = await self._send(write)
            if error is None:
                return ""
            failure = str(error)
            await self._send(Read(write.timeout_seconds))
        return failure

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _send(self, step: Step) -> ClientError | None:
        """Send a read or write and tell the elector how it ended. Returns why it failed."""
        async with self._sending:
            sent_at = self._now()
            try:
                match step:
                    case Read():
                        self._read_at = self._clock.monotonic()
                        async with _at_most(step.timeout_seconds):
                            stored = await self._lease.read(step.timeout_seconds)
                        self._saw(stored)
                    case Write():
                        async with _at_most(step.timeout_seconds):
                            written = await self._lease.write(step)
                        self._elector.wrote(written, sent_at)
                        self._wrote(step, written)
            except ClientError as failure:
                self._failed(step, failure)
                return failure
        self._refusal = None
        self._announcements.usable(is_write=isinstance(step, Write))
        return None

    def _wrote(self, step: Write, written: StoredLease) -> None:
        if step.record.holder:
            self._announcements.leader(written.record.holder, 0.0)
            self._announcements.renewed()
        else:
            self._announcements.released(written)

    def _failed(self, step: Step, failure: ClientError) -> None:
        now = self._now()
        is_conflict = isinstance(failure, APIError) and failure.code == 409
        role = self._elector.role
        self._elector.failed(RequestFailure.CONFLICT if is_conflict else RequestFailure.FAILED, now)
        if role is Role.LEADING:
            self._announcements.not_renewed(failure, self._elector.may_write_until - now)
        elif role is Role.FOLLOWING and not is_conflict:
            self._refusal = failure
            self._announcements.not_usable(failure, is_write=isinstance(step, Write))

    async def _wait(self, seconds: float) -> None:
        if self._wakeup is not None:
            await self._wakeup.wait(min(seconds, LONGEST_WAIT_SECONDS))

    def _notify(self) -> None:
        if self._wakeup is not None:
            self._wakeup.notify()

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def has_lost(self) -> bool:
        """The lease was lost, and not given up in order."""
        return self._elector.role is Role.LOST

    def renewal_problem(self) -> str | None:
        """kube-scheduler's check `leaderElection`: a leader that has not renewed for long, and has not ended."""
        elector = self._elector
        if elector.role is not Role.LEADING:
            return None
        silent = self._now() - elector.renewed_at
        if silent <= elector.timing.lease_duration + RENEWAL_TOLERANCE_SECONDS:
            return None
        return f"failed election to renew leadership on lease {self._announcements.lease} for {silent:.0f} s"

    def problem(self) -> str | None:
        """The same for readiness; a loss, until the process has ended; why a follower could not take the lease."""
        refusal = self._refusal
        if self.has_lost:
            return f"lease {self._announcements.lease} was lost: what this process has begun as its leader ends"
        if self._elector.role is Role.FOLLOWING and isinstance(refusal, APIError):
            return f"lease {self._announcements.lease} cannot be used: {refusal}: {self._announcements.advice(refusal)}"
        return self.renewal_problem()

    def note(self) -> str:
        """Who leads, in a line."""
        found = self.statistics()
        lease = f"lease {self._announcements.lease}"
        match found.role:
            case Role.LEADING:
                since = found.renewed_seconds_ago or 0.0
                return f"{lease}: this process leads as {found.identity}, renewed {since:.1f} s ago"
            case Role.FOLLOWING if found.leader:
                return f"{lease}: {found.leader} leads, this process follows as {found.identity}"
            case Role.FOLLOWING:
                return f"{lease}: there is no leader; this process follows as {found.identity}"
        return f"{lease}: {found.role.value} by this process, {found.identity}"

    def statistics(self) -> ElectionStatistics:
        elector, now = self._elector, self._now()
        has_led = elector.renewed_at > float("-inf")
        return ElectionStatistics(
            name=self._lease.name,
            role=elector.role,
            leader=elector.leader,
            identity=elector.identity,
            transitions=elector.stored.record.transitions if elector.stored is not None else 0,
            slow_renewals=elector.slow_renewals,
            refused_writes=self.fence.refusals,
            renewed_seconds_ago=now - elector.renewed_at if has_led else None,
            expires_in_seconds=elector.expires_in(now),
        )


@asynccontextmanager
async def _at_most(seconds: float) -> AsyncIterator[None]:
    """A limit for all of a request: credentials and connections too. Raises `UnknownOutcomeError`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        message = f"no answer in {seconds:.1f} s"
        raise UnknownOutcomeError(message) from None
