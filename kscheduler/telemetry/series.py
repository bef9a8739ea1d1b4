"""Counters and histograms by label values, each with the name, help text and labels of its series."""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable
from itertools import repeat

import msgspec

# A histogram: counts of values by upper bound.


def exponential_bounds(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds start, start * factor, ... (the +Inf bucket is implied).

    Multiplied step by step as Prometheus' Go library does, so that each bound is the same float and prints the same.
    """
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Histogram:
    """Counts of values by upper bound; `counts` has one element more than `bounds`, for values above the last."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value in the first bucket whose bound is not below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def reset(self) -> None:
        """Back to zero in place, so that bound children go on counting."""
        self.counts[:] = [0] * len(self.counts)
        self.total = 0.0


class BatchedHistogram(Histogram):
    """The same for values that come by the ten thousand a second: they are kept, and counted together.

    `observe` is the `append` of a list, so a value costs a single call of C code. Whoever reads sees all values. The
    owner calls `settle` from time to time, or the list grows until somebody reads.
    """

    __slots__ = ("_counts", "_pending", "_total", "observe")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._pending: list[float] = []
        self._counts: list[int] = []
        self._total = 0.0
        self.observe: Callable[[float], None] = self._pending.append  # type: ignore[assignment]
        super().__init__(bounds)

    def settle(self) -> None:
        """Count what was observed since the last time."""
        pending = self._pending
        if pending:
            for place, number in Tally(map(bisect_left, repeat(self.bounds), pending)).items():
                self._counts[place] += number
            self._total = sum(pending, self._total)  # one after the other, as `Histogram` adds them
            pending.clear()

    @property
    def counts(self) -> list[int]:
        """As of `Histogram`."""
        self.settle()
        return self._counts

    @counts.setter
    def counts(self, counts: list[int]) -> None:
        self._counts = counts

    @property
    def total(self) -> float:
        """As of `Histogram`."""
        self.settle()
        return self._total

    @total.setter
    def total(self, total: float) -> None:
        self._total = total


LabelValues = tuple[str, ...]


class MetricSeries(msgspec.Struct, frozen=True):
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

    def __init__(self, series: MetricSeries, bounds: tuple[float, ...], child: type[Histogram] = Histogram) -> None:
        """`child`: the class of the histograms, `BatchedHistogram` where somebody calls its `settle`."""
        super().__init__()
        self.series = series
        self.bounds = bounds
        self._child = child
        if not series.labels:
            self[()] = child(bounds)

    def __missing__(self, values: LabelValues) -> Histogram:
        child = self[values] = self._child(self.bounds)
        return child

    def reset(self) -> None:
        """Reset all children to zero; they are kept, because callers hold references to them."""
        for child in self.values():
            child.reset()
