"""Names the namespaces whose writes hang, or are refused again and again: in the log, `/readyz?verbose` and a metric.

Nobody else waits for them (`aio.shared_places`), so nothing else would tell: a webhook that does not answer for one
namespace leaves its pods unbound, and the scheduler is ready. Once a second all places are looked at; what has been
unanswered for `LONG_SECONDS` is told, and told again each minute while it lasts.

Limits: at most `MOST_TOLD` at a time, those with the most writes; the others are counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.aio.shared_places import SharedPlaces, SlowOwner
from kscheduler.client.resource_path import RequestOwner
from kscheduler.counts.series import LabelValues, MetricSeries
from kscheduler.logs import get_logger
from kscheduler.metrics.samples import Sample, gauge
from kscheduler.scheduling.work.workers import Workers

_log = get_logger("writes")

LOOK_SECONDS: Final = 1.0
LONG_SECONDS: Final = 5.0
LINE_SECONDS: Final = 60.0
MOST_TOLD: Final = 10
BINDING: Final = "create pods/binding"

HANGING_WRITES: Final = MetricSeries(
    "kscheduler_hanging_writes",
    "Writes of a namespace that hang or are refused again and again, with those that wait behind them; the ten "
    "namespaces and kinds with the most.",
    ("namespace", "write"),
)


@dataclass(frozen=True, slots=True)
class HangingWrites:
    """The writes of one kind in one namespace that hang now."""

    namespace: str
    write: str
    unanswered: int
    waiting: int
    seconds: float
    """How long the oldest has been unanswered; of a Binding since it was first sent."""


class HangingWritesMonitor:
    """Looks once a second."""

    def __init__(self, workers: Workers, others: Iterable[SharedPlaces], clock: Clock) -> None:
        """`others`: the places of the clients; Bindings are told as the workers see them, with retries and lines."""
        self._workers = workers
        self._others = tuple(others)
        self._clock = clock
        self.long_seconds = LONG_SECONDS
        self._told: dict[tuple[str, str], tuple[float, float]] = {}
        """By namespace and kind: when it was told last, and since when it lasts. Ends with it."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_SECONDS)

    def hanging(self) -> list[HangingWrites]:
        """What hangs now, the most first."""
        found = [self._of_bindings(slow) for slow in self._workers.places.statistics()]
        for places in self._others:
            found += [one for slow in places.statistics() if (one := _of_request(slow)) is not None]
        long = [one for one in found if one.seconds >= self.long_seconds]
        return sorted(long, key=lambda one: (-one.unanswered - one.waiting, one.namespace, one.write))

    def look(self) -> None:
        """Find what is late, and log what is new, what lasts, and what is over."""
        self._workers.places.look()
        for places in self._others:
            places.look()
        now, hanging = self._clock.monotonic(), self.hanging()
        for one in hanging[:MOST_TOLD]:
            at, since = self._told.get((one.namespace, one.write), (float("-inf"), now - one.seconds))
            if now - at >= LINE_SECONDS:
                self._told[one.namespace, one.write] = now, since
                _log.warning(
                    "writes_hang",
                    namespace=one.namespace,
                    write=one.write,
                    unanswered=one.unanswered,
                    waiting=one.waiting,
                    seconds=round(one.seconds, 3),
                    namespaces=len({each.namespace for each in hanging}),
                )
        still = {(one.namespace, one.write) for one in hanging}
        for namespace, write in self._told.keys() - still:
            _, since = self._told.pop((namespace, write))
            _log.info("writes_hang_no_more", namespace=namespace, write=write, seconds=round(now - since, 3))

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` for each namespace and kind of write, at most `MOST_TOLD`."""
        for one in self.hanging()[:MOST_TOLD]:
            behind = (
                f"{round(one.seconds)} s, {one.waiting} wait behind them; look at its admission webhooks and quotas"
            )
            yield f"namespace {one.namespace}: {one.unanswered} writes ({one.write}) have hung for up to {behind}"

    def samples(self) -> Iterable[Sample]:
        """A gauge for each namespace and kind of write, at most `MOST_TOLD`."""
        told: dict[LabelValues, float] = {}
        for one in self.hanging()[:MOST_TOLD]:  # two clients may write the same kind for a namespace
            labels = one.namespace, one.write
            told[labels] = told.get(labels, 0.0) + one.unanswered + one.waiting
        return [gauge(HANGING_WRITES, told)]

    def _of_bindings(self, slow: SlowOwner) -> HangingWrites:
        waiting = slow.waiting + self._workers.standing.waiting(slow.owner)
        return HangingWrites(str(slow.owner), BINDING, slow.beside, waiting, slow.seconds)


def _of_request(slow: SlowOwner) -> HangingWrites | None:
    """What a client knows; of Bindings the workers know more."""
    if not isinstance(slow.owner, RequestOwner) or slow.owner.write == BINDING:
        return None
    return HangingWrites(slow.owner.namespace, slow.owner.write, slow.beside, slow.waiting, slow.seconds)
