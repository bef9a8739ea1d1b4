"""Copies of numbers, taken on the event loop, and their conversion to prometheus-client's families, in a thread.

A family without samples is left out, as in Go's client: a labelled series appears with its first value.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, Literal, TypeVar

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, UntypedMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from kscheduler.telemetry.series import Counter, Histograms, LabelValues, MetricSeries

# Makes a computing thread give way to the event loop.
#
# The problem: a computing thread keeps the interpreter lock for the switch interval of 5 ms each time the loop wants to
# go on; while ten thousand lines are rendered every turn of the loop is 5 ms late, and some are 20. The idea: the
# thread sleeps briefly after each millisecond of work, so that the loop finds the lock free. Measured by
# `benchmarks/exposition.py`. Limit: if the loop never rests, each pause lasts for the loop's own 5 ms, so a rendering
# of 70 ms takes half a second; a scraper's timeout is ten seconds.

T = TypeVar("T")

_WORK_SECONDS = 0.001
# Long enough for a waiting loop to wake up and take the lock; a pause of 0 is too short.
_PAUSE_SECONDS = 0.00005
_STEP = 16


class Pace:
    """Pauses a piece of work in a thread."""

    def __init__(self) -> None:
        self._pause_at = time.perf_counter() + _WORK_SECONDS

    def step(self) -> None:
        """Pause if it is time; to be called every few microseconds of work."""
        if time.perf_counter() >= self._pause_at:
            time.sleep(_PAUSE_SECONDS)
            self._pause_at = time.perf_counter() + _WORK_SECONDS


class PacedList(list[T]):
    """A list that pauses while it is iterated, as prometheus-client's encoders do with a family's samples."""

    def __init__(self, items: Iterable[T], pace: Pace) -> None:
        super().__init__(items)
        self._pace = pace

    def __iter__(self) -> Iterator[T]:
        for number, item in enumerate(super().__iter__()):
            if number % _STEP == 0:
                self._pace.step()
            yield item


class Numbers(msgspec.Struct, frozen=True):
    """The values of a counter or gauge at a moment."""

    kind: Literal["counter", "gauge", "untyped"]
    series: MetricSeries
    values: Mapping[LabelValues, float]


class Distribution(msgspec.Struct, frozen=True):
    """A histogram: counts per bucket (not cumulative, the last without a bound) and the sum of the values."""

    labels: LabelValues
    counts: Sequence[int]
    total: float


class Distributions(msgspec.Struct, frozen=True):
    """The histograms of a series at a moment."""

    series: MetricSeries
    bounds: tuple[float, ...]
    children: Sequence[Distribution]


Sample = Numbers | Distributions
# Called on the loop; returns copies of its numbers, which do not change afterwards.
Source = Callable[[], Iterable[Sample]]
# How a bucket's bound is written: `1` in Go's text format, `1.0` in OpenMetrics.
BoundFormat = Callable[[float], str]


def go_bound(bound: float) -> str:
    """A bucket's bound as Go's text format prints it: shortest, whole numbers without a point."""
    return openmetrics_bound(bound).removesuffix(".0")


def openmetrics_bound(bound: float) -> str:
    """A bucket's bound in OpenMetrics' canonical form, always with a point or an exponent."""
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]  # prometheus-client leaves it without types


def counter(metric: Counter) -> Numbers:
    """A copy of a counter."""
    return Numbers("counter", metric.series, dict(metric))


def untyped(metric: Counter) -> Numbers:
    """A copy of a counter whose name does not end in `_total`, as a few of Kubernetes' own do not."""
    return Numbers("untyped", metric.series, dict(metric))


def histograms(metric: Histograms) -> Distributions:
    """A copy of a series of histograms."""
    children = [Distribution(labels, child.counts.copy(), child.total) for labels, child in metric.items()]
    return Distributions(metric.series, metric.bounds, children)


def gauge(series: MetricSeries, values: Mapping[LabelValues, float]) -> Numbers:
    """A gauge; `values` must be a copy."""
    return Numbers("gauge", series, values)


def gauge_by(series: MetricSeries, values: Mapping[str, float]) -> Numbers:
    """A gauge with one label."""
    return Numbers("gauge", series, {(label,): value for label, value in values.items()})


def families(samples: Iterable[Sample], bound_format: BoundFormat, pace: Pace) -> Iterable[Metric]:
    """The families of all samples that are not empty, built with pauses for the loop."""
    for sample in samples:
        if isinstance(sample, Numbers):
            if sample.values:
                yield _numbers(sample)
        elif sample.children:
            family = _distributions(sample, bound_format, pace)
            family.samples = PacedList(family.samples, pace)
            yield family


_Family = CounterMetricFamily | GaugeMetricFamily | UntypedMetricFamily
_FAMILIES: Final[dict[str, type[_Family]]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "untyped": UntypedMetricFamily,
}


def _numbers(sample: Numbers) -> Metric:
    series = sample.series
    family: _Family = _FAMILIES[sample.kind](series.name, series.help, labels=series.labels)
    for labels, value in sample.values.items():
        family.add_metric(labels, value)
    return family


def _distributions(sample: Distributions, bound_format: BoundFormat, pace: Pace) -> Metric:
    series = sample.series
    family = HistogramMetricFamily(series.name, series.help, labels=series.labels)
    bounds = [*(bound_format(bound) for bound in sample.bounds), "+Inf"]
    for child in sample.children:
        cumulative = accumulate(child.counts)
        family.add_metric(child.labels, list(zip(bounds, cumulative, strict=True)), child.total)
        pace.step()
    return family
