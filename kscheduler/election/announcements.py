"""What is said of an election: log lines with their advice, and the Events about the Lease.

    attempting_to_acquire_lease   once, at the start
    leader_is                     somebody else leads, and for how long its lease runs at most
    lease_acquired, lease_released, lease_lost
    lease_not_renewed             a renewal of ours failed; lease_renewed_again when one succeeds
    lease_not_usable              a follower cannot read or write the Lease, for some seconds; at most once a minute
    lease_watch_fails             a follower asks instead of being told, likewise

The advice belongs to the cause (`client.outage_cause`): rights are asked for where the API server says that they lack.
Failures of a follower while the API server is unreachable are left to `client.reachability`.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kscheduler.aio.clock import Clock
from kscheduler.client.errors import APIError, ClientError, NetworkError
from kscheduler.client.events.recorder import EventReference
from kscheduler.client.outage_cause import advice_about_failure
from kscheduler.election.lease import StoredLease
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import RecurringTrouble

_log = get_logger("election")

REASON: Final = "LeaderElection"
SECONDS_BETWEEN_LINES: Final = 60.0
# How long a follower's requests fail before it is told. An API server that has just started answers 403 for a second or
# two, until it has read the roles: changing them would have been the wrong cure.
QUIET_SECONDS: Final = 5.0


class EventLog(Protocol):
    """The part of `client.events.recorder.EventRecorder` that an election needs."""

    def record(
        self,
        regarding: EventReference,
        *,
        type: str,  # noqa: A002  # the field's name in the API
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
    ) -> None:
        """Record an Event; never waits, never raises."""
        ...


class Announcements:
    """Lines and Events of one election."""

    def __init__(
        self, namespace: str, name: str, identity: str, recorder: EventLog, controller: str, clock: Clock
    ) -> None:
        """`controller`: the Events' reportingController."""
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._recorder = recorder
        self._controller = controller
        self._now: Callable[[], float] = clock.monotonic
        self._unusable = RecurringTrouble(SECONDS_BETWEEN_LINES, QUIET_SECONDS)
        self._unwatched = RecurringTrouble(SECONDS_BETWEEN_LINES, QUIET_SECONDS)
        self._has_failed_to_write = False
        """Reading works where creating or replacing the Lease does not: only a write shows that it works again."""
        self._not_renewed = RecurringTrouble(SECONDS_BETWEEN_LINES)
        self._failed_renewals = 0
        self._last_failure: ClientError | None = None
        self._reported_leader: str | None = None

    @property
    def lease(self) -> str:
        """`namespace/name`."""
        return f"{self._namespace}/{self._name}"

    def attempting(self) -> None:
        """The election begins."""
        _log.info("attempting_to_acquire_lease", lease=self.lease, identity=self._identity)

    def leader(self, leader: str, expires_in_seconds: float) -> None:
        """The Lease names this holder; logged when it changes."""
        if leader == self._reported_leader:
            return
        self._reported_leader = leader
        self._has_failed_to_write = False  # a failed attempt to take the lease counts no more
        if leader == self._identity:
            return
        if not leader:
            _log.info("nobody_leads", lease=self.lease)
            return
        _log.info("leader_is", lease=self.lease, leader=leader, expires_in_seconds=round(expires_in_seconds, 1))

    def acquired(self, stored: StoredLease) -> None:
        """This process leads."""
        _log.info("lease_acquired", lease=self.lease, identity=self._identity, transitions=stored.record.transitions)
        self._event(stored, "became leader")

    def not_renewed(self, failure: ClientError, seconds_left: float) -> None:
        """A renewal failed; the second in a row is logged at once, as there are only a few before the lease is lost."""
        self._failed_renewals += 1
        self._last_failure = failure
        if self._not_renewed.is_due(self._now(), at_once=self._failed_renewals > 1):
            times = self._not_renewed.take_untold()
            seconds = max(0.0, round(seconds_left, 1))
            _log.warning("lease_not_renewed", lease=self.lease, err=str(failure), seconds_left=seconds, **times)

    def renewed(self) -> None:
        """A renewal succeeded."""
        if self._failed_renewals and self._not_renewed.ends():
            _log.info("lease_renewed_again", lease=self.lease, failures=self._failed_renewals)
        self._failed_renewals = 0
        self._last_failure = None

    def lost(self, reason: str, leader: str, stored: StoredLease | None, *, may_follow: bool) -> None:
        """The lease is lost: the process goes on as a follower, or ends."""
        what = "it follows from now on" if may_follow else "the process ends, and a fresh one follows the new leader"
        others = {"leader": leader} if leader not in ("", self._identity) else {}
        _log.error(
            "lease_lost",
            lease=self.lease,
            identity=self._identity,
            reason=reason,
            advice=f"{what}: {self._advice_after_loss(others)}",
            **others,
        )
        if stored is not None:
            self._event(stored, "stopped leading")

    def _advice_after_loss(self, others: Mapping[str, str]) -> str:
        if others:
            return "another writer has changed the Lease; only a replica or an operator should"
        failure = self._last_failure
        about_requests = advice_about_failure(failure) if failure is not None else None
        if about_requests is not None:
            return f"{about_requests}; --leader-elect-renew-deadline says how long that may last"
        if isinstance(failure, APIError) and (failure.is_forbidden or failure.is_not_found):
            return self.advice(failure)
        return (
            "the API server was away or slow, or this process was stopped; --leader-elect-renew-deadline says how long "
            "that may last"
        )

    def released(self, stored: StoredLease) -> None:
        """The lease was given up in order."""
        _log.info("lease_released", lease=self.lease, identity=self._identity)
        self._event(stored, "stopped leading")

    def not_released(self, reason: str, wait_seconds: float) -> None:
        """The others have to wait until the lease expires."""
        _log.warning("lease_not_released", lease=self.lease, err=reason, others_wait_seconds=wait_seconds)

    def not_usable(self, failure: ClientError, *, is_write: bool) -> None:
        """A follower's request failed. What concerns all requests is left to `client.reachability`."""
        self._has_failed_to_write |= is_write
        if isinstance(failure, NetworkError) or not self._unusable.is_due(self._now()):
            return
        _log.warning("lease_not_usable", lease=self.lease, err=str(failure), advice=self.advice(failure))

    def usable(self, *, is_write: bool) -> None:
        """A request has succeeded."""
        if is_write:
            self._has_failed_to_write = False
        if self._unusable.is_there and not self._has_failed_to_write:
            self._unusable.ends()

    def watched(self) -> None:
        """A follower's watch has brought something, or has ended in order."""
        if self._unwatched.is_there:
            self._unwatched.ends()

    def watch_fails(self, failure: ClientError, retry_seconds: float) -> None:
        """A follower cannot watch the Lease."""
        if isinstance(failure, NetworkError) or not self._unwatched.is_due(self._now()):
            return
        meanwhile = f"meanwhile it is read every {retry_seconds:g} s, and a fail-over takes that much longer"
        advice = f"{self.advice(failure, otherwise='the watch is tried again')}; {meanwhile}"
        _log.warning("lease_watch_fails", lease=self.lease, err=str(failure), advice=advice)

    def advice(self, failure: ClientError, otherwise: str = "") -> str:
        """What an operator can do about a failure; `otherwise`: where nobody knows."""
        about_requests = advice_about_failure(failure)
        if about_requests is not None:
            return about_requests
        if isinstance(failure, APIError) and failure.is_forbidden:
            return (
                f"give the scheduler a Role in namespace {self._namespace} with create on leases, and with get, update "
                f"and watch on the lease {self._name} (coordination.k8s.io); or run one replica with "
                "--leader-elect=false"
            )
        if isinstance(failure, APIError) and failure.is_not_found:
            return (
                f"the namespace {self._namespace} does not exist: create it, or name another one with "
                "--leader-elect-resource-namespace"
            )
        return otherwise or "it is retried; no replica schedules under this lease until then, unless another one leads"

    def _event(self, stored: StoredLease, what: str) -> None:
        self._recorder.record(
            stored.reference(),
            type="Normal",
            reason=REASON,
            action=REASON,
            note=f"{self._identity} {what}",
            reporting_controller=self._controller,
        )
