"""Counters and histograms by label values, each with the name, help text and labels of its series."""

from dataclasses import dataclass

from kscheduler.counts.histogram import Histogram

LabelValues = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A metric's name, its help text, and the names of its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


class Counter(dict[LabelValues, int]):
    """Counts by label values; a metric without labels counts under `()`."""

    def __init__(self, series: MetricSeries) -> None:
        super().__init__({} if series.labels else {(): 0})
        self.series = series

    def __missing__(self, _values: LabelValues) -> int:
        return 0

    def reset(self) -> None:
        """Forget all label values; without labels, back to zero."""
        self.clear()
        if not self.series.labels:
            self[()] = 0


class Histograms(dict[LabelValues, Histogram]):
    """A histogram per combination of label values, made at its first use and then kept."""

    def __init__(self, series: MetricSeries, bounds: tuple[float, ...]) -> None:
        super().__init__()
        self.series = series
        self.bounds = bounds
        if not series.labels:
            self[()] = Histogram(bounds)

    def __missing__(self, values: LabelValues) -> Histogram:
        child = self[values] = Histogram(self.bounds)
        return child

    def reset(self) -> None:
        """Reset all children to zero; they are kept, because callers hold references to them."""
        for child in self.values():
            child.reset()
