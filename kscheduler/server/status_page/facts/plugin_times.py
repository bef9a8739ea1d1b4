"""What each plugin's calls take, by extension point: from the samples that metrics have."""

from dataclasses import dataclass
from typing import Final

from kscheduler.scheduling.observations import Observations
from kscheduler.telemetry.series import Histogram

MOST_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class PluginTime:
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


def plugin_times(observations: Observations) -> tuple[PluginTime, ...]:
    """The most expensive first, by time in all."""
    sums: dict[tuple[str, str], list[Histogram]] = {}
    for (plugin, point, _status), histogram in observations.plugin_seconds.items():
        sums.setdefault((plugin, point), []).append(histogram)
    whole = sum(each.total for found in sums.values() for each in found)
    rows = [_row(plugin, point, found, whole) for (plugin, point), found in sums.items()]
    return tuple(sorted((row for row in rows if row.calls), key=lambda row: -row.share)[:MOST_ROWS])


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
