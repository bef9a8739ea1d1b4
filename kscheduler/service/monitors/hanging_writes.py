"""Names the namespaces whose writes hang, or are refused again and again: in the log, `/readyz?verbose` and a metric.

Nobody else waits for them (`aio.shared_slots`), so nothing else would tell: a webhook that does not answer for one
namespace leaves its pods unbound, and the scheduler is ready. Once a second all places are looked at; what has been
unanswered for `LONG_SECONDS` is told, and told again each minute while it lasts. A client knows the requests; anyone
who sends many of them, as workers do, knows what waits before it is sent, too. Reads are not told: no object waits for
one.

Why they hang is told as far as the API server has said it; its first answer may come after the first line, when it has
given up on a webhook, and then that is told at once. Where the API server has been silent for longer than in any quiet
time (`normal_silence`), no webhook is blamed. Nor is the end told before it is heard from again: writes that were given
up may hang as before.

Limits: at most `MAX_REPORTED` at a time, those with the most writes; the others are counted.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from math import inf
from typing import Final

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.aio.shared_slots import SharedSlots, SlowOwner
from kscheduler.bounded import RecentlyUsed
from kscheduler.client.reachability import QUIET_SECONDS
from kscheduler.client.resource_path import RequestOwner
from kscheduler.client.write_failures import WriteFailure, WriteFailures, advice_on_hanging, silence
from kscheduler.config.types import LeaderElectionConfiguration
from kscheduler.scheduling.work.workers import Workers
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import RecurringTrouble
from kscheduler.telemetry.samples import Sample, gauge
from kscheduler.telemetry.series import LabelValues, MetricSeries

_log = get_logger("writes")

LOOK_SECONDS: Final = 1.0
LONG_SECONDS: Final = 5.0
LINE_SECONDS: Final = 60.0
# How much later than expected the API server may be heard from before it counts as silent.
LATE_SECONDS: Final = 2.0
MAX_REPORTED: Final = 10
_MAX_KEPT: Final = 1024
BINDING: Final = "create pods/binding"
STATUS_PATCH: Final = "patch pods/status"
EVENT: Final = "create events"
# All requests of a preemption, by the preemptor's namespace.
PREEMPTION: Final = "preemption"

HANGING_WRITES: Final = MetricSeries(
    "kscheduler_hanging_writes",
    "Writes of a namespace that hang or are refused again and again, with those that wait behind them; the ten "
    "namespaces and kinds with the most.",
    ("namespace", "write"),
)


class HangingWrites(msgspec.Struct, frozen=True):
    """The writes of one kind in one namespace that hang now."""

    namespace: str
    write: str
    unanswered: int
    waiting: int
    seconds: float
    """How long the oldest has been unanswered, since it was first sent."""


class HangingWritesMonitor:
    """Looks once a second."""

    def __init__(
        self,
        workers: Workers,
        clients: Iterable[SharedSlots],
        clock: Clock,
        senders: Mapping[str, tuple[SharedSlots, Callable[[Hashable], int]]] | None = None,
        *,
        is_suspended: Callable[[], bool] = bool,
        last_heard_at: Callable[[], float] = lambda: inf,
        normal_silence_seconds: float = QUIET_SECONDS,
        failures: Iterable[WriteFailures] = (),
    ) -> None:
        """`clients`: the places of the clients. `senders`: by kind of write, the places of those who send it, by
        namespace, and how many wait there before they ask for a place. `is_suspended`: whether nothing is to be told:
        all requests fail, which is told by others and is no namespace's doing, or all writes are being given up.
        `last_heard_at`: when the API server was last known to be alive, in monotonic seconds. `normal_silence_seconds`:
        for how long nothing may come from it though it is well. `failures`: what the clients were answered.
        """
        self._failures = tuple(failures)
        self._is_suspended = is_suspended
        self._last_heard_at = last_heard_at
        self._silent_after_seconds = normal_silence_seconds + LATE_SECONDS
        self._senders = {BINDING: (workers.work_slots, workers.standing.waiting), **(senders or {})}
        self._clients = tuple(clients)
        self._clock = clock
        self.long_seconds = LONG_SECONDS
        self._since: dict[tuple[str, str], float] = {}
        """By namespace and kind, since when it lasts. Ends with it."""
        self._troubles: RecentlyUsed[tuple[str, str], RecurringTrouble] = RecentlyUsed(_MAX_KEPT)
        """What was told of it; also after its end, as it may begin again at once."""
        self._webhooks: dict[tuple[str, str], str] = {}
        """By namespace and kind, the webhook that was told. Ends with it."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_SECONDS)

    def hanging(self) -> list[HangingWrites]:
        """What hangs now, the most first."""
        found: dict[tuple[str, str], HangingWrites] = {}
        for write, (work_slots, waiting) in self._senders.items():
            for slow in work_slots.statistics():
                _add(found, str(slow.owner), write, slow, waiting(slow.owner))
        for work_slots in self._clients:
            for slow in work_slots.statistics():
                if isinstance(slow.owner, RequestOwner) and not slow.owner.is_read:
                    _add(found, *slow.owner, slow, 0)
        long = [one for one in found.values() if one.seconds >= self.long_seconds]
        return sorted(long, key=lambda one: (-one.unanswered - one.waiting, one.namespace, one.write))

    def look(self) -> None:
        """Find what is late, and log what is new, what lasts, and what is over."""
        for work_slots, _ in self._senders.values():
            work_slots.look()
        for work_slots in self._clients:
            work_slots.look()
        if self._is_suspended():
            return
        now, hanging = self._clock.monotonic(), self.hanging()
        for one in hanging[:MAX_REPORTED]:
            key = one.namespace, one.write
            self._since.setdefault(key, now - one.seconds)
            trouble = self._troubles.use(key)
            if trouble is None:
                trouble = self._troubles[key] = RecurringTrouble(LINE_SECONDS)
            failure = self._last_failure(one, now)
            webhook = failure.webhook if failure is not None else ""
            if trouble.is_due(now, at_once=webhook != self._webhooks.get(key, "") and webhook != ""):
                self._webhooks[key] = webhook
                _log.warning(
                    "writes_hang",
                    namespace=one.namespace,
                    write=one.write,
                    unanswered=one.unanswered,
                    waiting=one.waiting,
                    seconds=round(one.seconds, 3),
                    namespaces=len({each.namespace for each in hanging}),
                    err=failure.text if failure is not None else f"no answer for {one.seconds:.0f} s",
                    advice=advice_on_hanging(one.write, failure, silent_seconds=self._silent_seconds()),
                    **trouble.take_untold(),
                )
        still = {(one.namespace, one.write) for one in hanging}
        for namespace, write in () if self._silent_seconds() else self._since.keys() - still:
            since, trouble = self._since.pop((namespace, write)), self._troubles.get((namespace, write))
            self._webhooks.pop((namespace, write), None)
            if trouble is not None and trouble.ends():
                _log.info("writes_hang_no_more", namespace=namespace, write=write, seconds=round(now - since, 3))

    def _silent_seconds(self) -> float:
        """For how long nothing has come from the API server; 0 as long as that is normal."""
        seconds = self._clock.monotonic() - self._last_heard_at()
        return seconds if seconds >= self._silent_after_seconds else 0.0

    def _last_failure(self, hanging: HangingWrites, now: float) -> WriteFailure | None:
        """What the API server has said of them since they hang. A preemption writes several kinds."""
        write = "" if hanging.write == PREEMPTION else hanging.write
        since = min(now - hanging.seconds, self._since.get((hanging.namespace, hanging.write), now))
        known = (each.last(hanging.namespace, write, since) for each in self._failures)
        return max((each for each in known if each is not None), key=lambda each: each.at, default=None)

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` for each namespace and kind of write, at most `MAX_REPORTED`."""
        now = self._clock.monotonic()
        for one in self.hanging()[:MAX_REPORTED]:
            failure = self._last_failure(one, now)
            who = "look at its admission webhooks and quotas"
            if failure is not None and failure.webhook:
                who = f"look at the admission webhook {failure.webhook}"
            elif silent := self._silent_seconds():
                who = f"{silence(silent)}, so look at the API server first"
            behind = f"{round(one.seconds)} s, {one.waiting} more {'waits' if one.waiting == 1 else 'wait'}; {who}"
            writes = "1 write" if one.unanswered == 1 else f"{one.unanswered} writes"
            hang = "hangs or has been refused" if one.unanswered == 1 else "hang or have been refused"
            yield f"namespace {one.namespace}: {writes} ({one.write}) {hang} for {behind}"

    def samples(self) -> Iterable[Sample]:
        """A gauge for each namespace and kind of write, at most `MAX_REPORTED`."""
        reported: dict[LabelValues, float] = {
            (one.namespace, one.write): float(one.unanswered + one.waiting) for one in self.hanging()[:MAX_REPORTED]
        }
        return [gauge(HANGING_WRITES, reported)]


def normal_silence(election: LeaderElectionConfiguration) -> float:
    """For how many seconds nothing comes from a sound API server in a quiet cluster.

    A leader renews its lease each `retryPeriod`; after `QUIET_SECONDS` without an answer a probe is sent.
    """
    return min(election.retry_period.seconds, QUIET_SECONDS) if election.leader_elect else QUIET_SECONDS


def _add(found: dict[tuple[str, str], HangingWrites], namespace: str, write: str, slow: SlowOwner, behind: int) -> None:
    """What the sender of a write knows and what its client knows is the same request."""
    other = found.get((namespace, write))
    unanswered, waiting, seconds = slow.beside, slow.waiting + behind, slow.seconds
    if other is not None:
        unanswered, seconds = max(unanswered, other.unanswered), max(seconds, other.seconds)
        waiting += other.waiting
    found[namespace, write] = HangingWrites(namespace, write, unanswered, waiting, seconds)
