"""What the service writes about itself: a line when it has begun, one a minute while something happens, one at its end.

    scheduling   version, the API server's version, profiles, how much was synced and how long that took
    summary      once a minute if anything happened since the last one: pods bound, turned down, failed, preempted, and
                 how many wait where; a quiet service says nothing, except once an hour that it is there
    stopped      why, how long the end took, how long it ran

Limits: the numbers of a summary are counted from the metrics since the line before it. While something happens that is
a minute; after a quiet time it is as long as that was, an hour at most: `seconds` tells. A reset of the metrics begins
anew.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kscheduler import __version__
from kscheduler.aio.clock import Clock
from kscheduler.app.parts import Parts
from kscheduler.client.errors import ClientError
from kscheduler.client.rest import APIClient
from kscheduler.logs import get_logger, report_suppressed
from kscheduler.scheduling.observations import AttemptResult, Observations

_log = get_logger("kscheduler")

SUMMARY_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 3600.0
VERSION_SECONDS: Final = 5.0
"""How long the API server may take to tell its version; nothing waits for it."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened since the start."""

    bound: int
    unschedulable: int
    errors: int
    preempted: int

    def since(self, before: "Counts") -> "Counts":
        """The difference; all of it after a reset."""
        pairs = [(getattr(self, name), getattr(before, name)) for name in self.__slots__]
        return Counts(*(now - then if now >= then else now for now, then in pairs))

    def __bool__(self) -> bool:
        return bool(self.bound or self.unschedulable or self.errors or self.preempted)


def counts_of(observations: Observations) -> Counts:
    """From the metrics, over all profiles."""
    by_result: dict[str, int] = {}
    for (result, *_), number in observations.schedule_attempts.items():
        by_result[result] = by_result.get(result, 0) + number
    return Counts(
        bound=by_result.get(AttemptResult.SCHEDULED, 0),
        unschedulable=by_result.get(AttemptResult.UNSCHEDULABLE, 0),
        errors=by_result.get(AttemptResult.ERROR, 0),
        preempted=round(observations.victims.total),
    )


class Diary:
    """One service's."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock: Clock = parts.clock
        self._began = parts.clock.monotonic()
        self.server_version = ""
        """As the API server tells it; empty before."""
        self._stopping_at: float | None = None
        self._last = Counts(0, 0, 0, 0)
        self._last_waiting: dict[str, int] = {}
        self._told_at = self._began

    async def ask_for_version(self) -> None:
        """Find out what the API server is; runs until cancelled, as services do."""
        self.server_version = await _version_of(self._parts.client)
        await asyncio.get_running_loop().create_future()

    def scheduling(self) -> None:
        """Everything is synced, and the first pod may be tried."""
        statistics = self._parts.assembly.cache.statistics()
        self._told_at, self._last_waiting = self._clock.monotonic(), self._waiting()
        _log.info(
            "scheduling",
            version=__version__,
            server_version=self.server_version or "not told yet",
            profiles=sorted(self._parts.assembly.profiles),
            nodes=statistics.nodes,
            pods=statistics.pods,
            assumed_pods=statistics.assumed_pods,
            **self._last_waiting,
            seconds=round(self._told_at - self._began, 3),
        )

    def stopping(self, reason: str) -> None:
        """The end begins."""
        self._stopping_at = self._clock.monotonic()
        _log.info("stopping", reason=reason, binding=self._parts.workers.binding)

    def stopped(self, reason: str) -> None:
        """It has come."""
        now = self._clock.monotonic()
        self._flush()
        total = counts_of(self._parts.observations)
        _log.info(
            "stopped",
            reason=reason,
            seconds=round(now - (self._stopping_at or now), 3),
            uptime_seconds=round(now - self._began, 3),
            bound=total.bound,
        )

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._clock.sleep(1.0)
            self._flush()
            if self._clock.monotonic() - self._told_at >= SUMMARY_SECONDS:
                self.summarise()

    def summarise(self) -> None:
        """A summary, if there is anything to tell."""
        now, total, waiting = self._clock.monotonic(), counts_of(self._parts.observations), self._waiting()
        happened = total.since(self._last)
        if not happened and waiting == self._last_waiting and now - self._told_at < QUIET_SECONDS:
            return
        numbers = {name: getattr(happened, name) for name in Counts.__slots__}
        _log.info("summary", **numbers, **waiting, seconds=round(now - self._told_at, 1))
        self._last, self._last_waiting, self._told_at = total, waiting, now

    def _waiting(self) -> dict[str, int]:
        sizes = self._parts.assembly.queue.statistics()
        return {
            "active": sizes.active,
            "backoff": sizes.backoff,
            "unschedulable_pods": sizes.unschedulable,
            "gated": sizes.gated,
            "waiting_at_permit": len(self._parts.assembly.waiting),
        }

    def _flush(self) -> None:
        self._parts.pod_log.flush()
        report_suppressed(_log_suppressed)


def _log_suppressed(logger: str, message: str, lines: int) -> None:
    _log.info("lines_suppressed", of=message, of_logger=logger, lines=lines)


async def _version_of(client: APIClient) -> str:
    try:
        body = await client.get("/version", retries=0, timeout_seconds=VERSION_SECONDS)
        answer: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (ClientError, msgspec.DecodeError, msgspec.ValidationError):
        return "unknown"
    return str(answer.get("gitVersion", "unknown"))
