"""The overview's sections, each a value that can be compared: a section is rendered again only when it has changed."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from kscheduler.answers.pending_in_queue import PendingInQueue
from kscheduler.answers.scarce_resources import MAX_SCARCE, ScarceResource, scarcest
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.scheduling.observations import AttemptResult, Observations
from kscheduler.scheduling.pod_log.recent_attempts import BindingAttempt, FailedAttempt, RecentPreemption
from kscheduler.server.status_page.facts.devices import DeviceTotals
from kscheduler.server.status_page.facts.heat import HeatMap, Summary
from kscheduler.server.status_page.facts.in_words import seconds_of
from kscheduler.server.status_page.sources import PageSources
from kscheduler.telemetry.series import Histogram

# On the overview; its own page has more.
MAX_REASONS: Final = 12
MAX_DECISIONS: Final = 12
MAX_PREEMPTIONS: Final = 8
# Of plugins' times.
MAX_ROWS: Final = 20
# All but the picture of the nodes.
SECTIONS: Final = ("standing", "figures", "queues", "pending", "decisions", "preemptions", "plugins")
# A rate is worked out against a reading that is no older than this.
_RATE_SECONDS: Final = 30.0
_QUEUES: Final = (
    ("active", "are tried next"),
    ("backoff", "are in backoff"),
    ("unschedulable", "wait for an event that may make them schedulable"),
    ("gated", "are gated"),
)


class QueueRow(msgspec.Struct, frozen=True):
    """Pods in one place."""

    name: str
    meaning: str
    pods: int
    oldest: float | None
    """Wall-clock seconds at which the oldest of them was created."""


class UnusableRoom(msgspec.Struct, frozen=True):
    """Of a resource what is free and of no use to any pod like those that run or wait."""

    name: str
    share: float
    """Of what is free."""
    why: str


class OverviewFigures(msgspec.Struct, frozen=True):
    """The cluster and the work in numbers."""

    cluster: Summary
    scarce: tuple[ScarceResource, ...]
    """Extended resources, devices by class, or by driver where no class has them: the scarcest first."""
    unusable: tuple[UnusableRoom, ...]
    """Of devices and extended resources, then of all others; only where something is of no use."""
    pending: int
    scheduled: int
    unschedulable: int
    errors: int
    per_second: float | None
    """Pods bound a second, lately; `None`: nobody has looked before."""
    median_seconds: float
    """From the start of a bound pod's attempt to the end of its bind; upper bounds of buckets."""
    slow_seconds: float


class Decisions(msgspec.Struct, frozen=True):
    """What was decided last."""

    entries: tuple[BindingAttempt | FailedAttempt, ...]


class Preemptions(msgspec.Struct, frozen=True):
    """Preemptions of this process, and the last ones."""

    attempts: int
    victims: int
    entries: tuple[RecentPreemption, ...]


class Pending(msgspec.Struct, frozen=True):
    """Reasons, those of most pods first."""

    count: int
    reasons: tuple[Any, ...]
    more: int
    """Reasons that are left off."""
    by_plugin: Mapping[str, int]


class PluginTime(msgspec.Struct, frozen=True):
    """The calls of one plugin at one extension point."""

    plugin: str
    point: str
    calls: int
    """That were timed: of one cycle in ten."""
    mean_seconds: float
    slow_seconds: float
    """99 of 100 calls took no longer; an upper bound of a histogram's bucket."""
    share: float
    """Of the time of all plugins."""


class PluginTimes(msgspec.Struct, frozen=True):
    """Times of plugins."""

    rows: tuple[PluginTime, ...]


class OverviewReader:
    """Reads the sections; keeps the last count of bound pods, for the rate."""

    def __init__(self, sources: PageSources, heat: HeatMap) -> None:
        self._sources = sources
        self._heat = heat
        self._devices = DeviceTotals(sources.cache.devices)
        self._last: tuple[float, int] | None = None

    def sections(self, pending: PendingInQueue) -> dict[str, object]:
        """All of them by name. `pending`: the pods that wait, by reason."""
        return {
            "standing": self._sources.standing(),
            "figures": self._figures(pending.count),
            "queues": self._queues(pending),
            "pending": _pending(pending),
            "decisions": Decisions(self._decisions()),
            "preemptions": self._preemptions(),
            "plugins": PluginTimes(plugin_times(self._sources.observations)),
        }

    def _by_driver(self) -> Iterator[ScarceResource]:
        """Of drivers whose devices are in no class, as far as that is known."""
        by_class = self._heat.drivers_of_classes()
        return (each for each in self._devices.by_driver() if each.name not in by_class)

    def _figures(self, pending: int) -> OverviewFigures:
        observations = self._sources.observations
        by_result = dict.fromkeys(AttemptResult, 0)
        for (result, _profile), count in observations.schedule_attempts.items():
            by_result[AttemptResult(result)] += count
        bound = [
            histogram
            for (result, _profile), histogram in observations.attempt_seconds.items()
            if result == AttemptResult.SCHEDULED
        ]
        return OverviewFigures(
            cluster=self._heat.summary(),
            scarce=scarcest((*self._by_driver(), *self._heat.scarce())),
            unusable=tuple(_unusable(self._sources.fragments()))[:MAX_SCARCE],
            pending=pending,
            scheduled=by_result[AttemptResult.SCHEDULED],
            unschedulable=by_result[AttemptResult.UNSCHEDULABLE],
            errors=by_result[AttemptResult.ERROR],
            per_second=self._rate(by_result[AttemptResult.SCHEDULED]),
            median_seconds=quantile(0.5, *bound),
            slow_seconds=quantile(0.99, *bound),
        )

    def _rate(self, scheduled: int) -> float | None:
        now, last = self._sources.clock.monotonic(), self._last
        self._last = now, scheduled
        if last is None or not 0 < now - last[0] <= _RATE_SECONDS:
            return None
        return round((scheduled - last[1]) / (now - last[0]), 1)

    def _queues(self, pending: PendingInQueue) -> tuple[QueueRow, ...]:
        sizes = self._sources.queue.statistics()
        oldest: dict[str, float] = {}
        for reason in pending.reasons:
            at = seconds_of(reason.since)
            if at is not None:
                oldest[reason.queue] = min(at, oldest.get(reason.queue, at))
        rows = [QueueRow(name, meaning, getattr(sizes, name), oldest.get(name)) for name, meaning in _QUEUES]
        held = self._sources.at_permit.all()
        now = self._sources.clock
        waits = now.time() - now.monotonic() + held[0].since if held else None
        rows.append(QueueRow("permit", "have a node, wait for a plugin", len(held), waits))
        rows.append(QueueRow("binding", "have a node, are being bound", self._sources.binding(), None))
        if sizes.incomplete is not None:
            rows.append(QueueRow("incomplete", "wait for a pod group that does not exist", sizes.incomplete, None))
        return tuple(rows)

    def _decisions(self) -> tuple[BindingAttempt | FailedAttempt, ...]:
        recent = self._sources.recent
        ends = (_last(recent.bound, MAX_DECISIONS), _last(recent.failed, MAX_DECISIONS))
        return tuple(heapq.nlargest(MAX_DECISIONS, [*ends[0], *ends[1]], key=lambda entry: entry.at))

    def _preemptions(self) -> Preemptions:
        observations = self._sources.observations
        victims = int(observations.victims.total)
        attempts = observations.preemption_attempts[()]
        return Preemptions(attempts, victims, tuple(_last(self._sources.recent.preemptions, MAX_PREEMPTIONS)[::-1]))


def _unusable(found: Iterable[ResourceFragmentation]) -> Iterator[UnusableRoom]:
    for each in sorted(found, key=lambda each: ("/" not in each.resource, each.resource, each.driver, each.pool)):
        if each.unusable:
            name = f"class {each.device_class}" if each.device_class else each.resource
            yield UnusableRoom(name, each.unusable / each.free, each.why_text)


def _last(ring: Any, most: int) -> list[Any]:
    """The newest entries, the newest last."""
    return [ring[at] for at in range(max(len(ring) - most, 0), len(ring))]


def _pending(answer: PendingInQueue) -> Pending:
    left_off = max(len(answer.reasons) - MAX_REASONS, 0) + answer.reasons_left_off
    return Pending(answer.count, answer.reasons[:MAX_REASONS], left_off, answer.by_plugin)


def plugin_times(observations: Observations) -> tuple[PluginTime, ...]:
    """From the samples that metrics have; the most expensive first, by time in all."""
    sums: dict[tuple[str, str], list[Histogram]] = {}
    for (plugin, point, _status), histogram in observations.plugin_seconds.items():
        sums.setdefault((plugin, point), []).append(histogram)
    whole = sum(each.total for found in sums.values() for each in found)
    rows = [_row(plugin, point, found, whole) for (plugin, point), found in sums.items()]
    return tuple(sorted((row for row in rows if row.calls), key=lambda row: -row.share)[:MAX_ROWS])


def _row(plugin: str, point: str, found: list[Histogram], whole: float) -> PluginTime:
    calls, total = sum(each.count for each in found), sum(each.total for each in found)
    slow = quantile(0.99, *found)
    return PluginTime(plugin, point, calls, total / calls if calls else 0.0, slow, total / whole if whole else 0.0)


def quantile(part: float, *histograms: Histogram) -> float:
    """The upper bound of the bucket that holds this part of all values; the last bound for all above it; 0: none."""
    counts = [sum(column) for column in zip(*(each.counts for each in histograms), strict=True)]
    left = part * sum(counts)
    for bound, count in zip(histograms[0].bounds if histograms else (), counts, strict=False):
        left -= count
        if left <= 0 and count:
            return bound
    return histograms[0].bounds[-1] if sum(counts) else 0.0
