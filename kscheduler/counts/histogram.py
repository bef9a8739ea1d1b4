"""A histogram: counts of values by upper bound."""

from bisect import bisect_left


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
