"""Log lines about the service itself: at the start, once a minute while there is activity, and at the end.

    scheduling   version, the API server's version, whose rules are followed and why, profiles, the number of synced
                 objects and the time it took
    summary      once a minute if there was activity since the last summary: pods bound, rejected, failed, preempted,
                 and the numbers of waiting pods; a quiet service logs a summary once an hour
    stopped      the reason, the duration of the shutdown, the uptime

Limits: a summary's numbers are differences of metrics since the line before. While there is activity that is a minute;
after a quiet time it is longer, an hour at most, as the field `seconds` says. A reset of the metrics restarts the
count.
"""

from typing import Final

import msgspec

from kscheduler import __version__
from kscheduler.aio.clock import Clock
from kscheduler.scheduling.observations import AttemptResult, Observations
from kscheduler.service.parts import Parts
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import report_suppressed

_log = get_logger("kscheduler")

SUMMARY_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 3600.0


class Counts(msgspec.Struct, frozen=True):
    """Counts since the start."""

    bound: int
    unschedulable: int
    errors: int
    preempted: int

    def since(self, earlier: "Counts") -> "Counts":
        """The difference; a count that is lower than before was reset, and counts in full."""
        pairs = [(getattr(self, name), getattr(earlier, name)) for name in self.__struct_fields__]
        return Counts(*(new - old if new >= old else new for new, old in pairs))

    def __bool__(self) -> bool:
        return bool(self.bound or self.unschedulable or self.errors or self.preempted)


def counts_of(observations: Observations) -> Counts:
    """Counts from the metrics, summed over all profiles."""
    by_result: dict[str, int] = {}
    for (result, *_), number in observations.schedule_attempts.items():
        by_result[result] = by_result.get(result, 0) + number
    return Counts(
        bound=by_result.get(AttemptResult.SCHEDULED, 0),
        unschedulable=by_result.get(AttemptResult.UNSCHEDULABLE, 0),
        errors=by_result.get(AttemptResult.ERROR, 0),
        preempted=round(observations.victims.total),
    )


class ServiceLog:
    """Writes the lines of a service."""

    def __init__(self, parts: Parts, bound_before: int = 0) -> None:
        """`bound_before`: in earlier terms of the process."""
        self._parts = parts
        self._bound_before = bound_before
        self._clock: Clock = parts.clock
        self._began = parts.clock.monotonic()
        self._stopping_at: float | None = None
        self._last = Counts(0, 0, 0, 0)
        self._last_waiting: dict[str, int] = {}
        self._logged_at = self._began

    def scheduling(self, decides_as: str, because: str) -> None:
        """Log that everything is synced and scheduling begins, and by the rules of which Kubernetes."""
        statistics = self._parts.assembly.cache.statistics()
        self._logged_at, self._last_waiting = self._clock.monotonic(), self._waiting()
        _log.info(
            "scheduling",
            version=__version__,
            server_version=self._parts.server_version.text or "unknown yet",
            decides_as=decides_as,
            because=because,
            profiles=sorted(self._parts.assembly.profiles),
            nodes=statistics.nodes,
            pods=statistics.pods,
            assumed_pods=statistics.assumed_pods,
            **self._last_waiting,
            seconds=round(self._logged_at - self._began, 3),
        )

    def stopping(self, reason: str) -> None:
        """Log that the shutdown begins."""
        self._stopping_at = self._clock.monotonic()
        _log.info("stopping", reason=reason, binding=self._parts.workers.binding)

    def stopped(self, reason: str, *, has_failed: bool = False, not_done: str = "") -> None:
        """Log that the shutdown is complete: an error where nobody has asked for it.

        `not_done`: what an end that was asked for could not do; a warning.
        """
        now = self._clock.monotonic()
        self._flush()
        log = _log.error if has_failed else _log.warning if not_done else _log.info
        log(
            "stopped",
            reason=reason,
            seconds=round(now - (self._stopping_at or now), 3),
            uptime_seconds=round(now - self._parts.process_began, 3),
            bound=self.bound,
            **({"not_done": not_done} if not_done else {}),
        )

    @property
    def bound(self) -> int:
        """How many pods the process has bound."""
        return self._bound_before + counts_of(self._parts.observations).bound

    def term_ended(self, reason: str) -> None:
        """Log that all that a lost lease has ended has ended, and that the process goes on."""
        self._flush()
        _log.info(
            "term_ended",
            reason=reason,
            then="the process goes on as a follower, once all tasks of this term have ended",
            seconds=round(self._clock.monotonic() - self._began, 3),
            bound=counts_of(self._parts.observations).bound,
        )

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._clock.sleep(1.0)
            self._flush()
            self._parts.pod_log.repeat_errors(self._clock.time(), self._parts.assembly.queue.find)
            self._parts.permit_waits.look()
            self._parts.incomplete_waits.look()
            await self._parts.topology_reports.look()
            self._parts.removed_profiles.look()
            if self._clock.monotonic() - self._logged_at >= SUMMARY_SECONDS:
                self.summarise()

    def summarise(self) -> None:
        """Log a summary, if there was any activity or the quiet time is over."""
        now, total, waiting = self._clock.monotonic(), counts_of(self._parts.observations), self._waiting()
        activity = total.since(self._last)
        if not activity and waiting == self._last_waiting and now - self._logged_at < QUIET_SECONDS:
            return
        numbers = {name: getattr(activity, name) for name in Counts.__struct_fields__}
        _log.info("summary", **numbers, **waiting, seconds=round(now - self._logged_at, 1))
        self._last, self._last_waiting, self._logged_at = total, waiting, now

    def _waiting(self) -> dict[str, int]:
        sizes = self._parts.assembly.queue.statistics()
        return {
            "active": sizes.active,
            "backoff": sizes.backoff,
            "unschedulable_pods": sizes.unschedulable,
            "gated": sizes.gated,
            "waiting_at_permit": len(self._parts.assembly.waiting),
            "waiting_at_pre_bind": self._parts.workers.in_pre_bind,
            "waiting_for_extenders": sum(line.waiting for line in self._parts.assembly.scheduler.lines.statistics()),
        }

    def _flush(self) -> None:
        self._parts.pod_log.flush()
        report_suppressed(_log_suppressed)


def _log_suppressed(logger: str, message: str, lines: int) -> None:
    _log.info("lines_suppressed", of=message, of_logger=logger, lines=lines)
