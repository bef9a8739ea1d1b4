"""The scheduler's own series: what `Observations` has counted, and the gauges, which ask their owners."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kscheduler.metrics.samples import Sample, Source, counter, gauge, gauge_by, histograms
from kscheduler.scheduling.observations import LabelValues, MetricSeries, Observations

PENDING_PODS = MetricSeries(
    "scheduler_pending_pods",
    "Pods without a node: active, backoff (both back-off queues), unschedulable (without the gated), gated.",
    ("queue",),
)
CACHE_SIZE = MetricSeries(
    "scheduler_cache_size", "Objects in the cache; assumed_pods are those whose binding is not confirmed.", ("type",)
)
UNSCHEDULABLE_PODS = MetricSeries(
    "scheduler_unschedulable_pods", "Waiting pods that a plugin turned down.", ("plugin", "profile")
)
INFLIGHT_EVENTS = MetricSeries(
    "scheduler_inflight_events", "Events kept for pods that are being decided or bound.", ("event",)
)
GOROUTINES = MetricSeries(
    "scheduler_goroutines", "Concurrent pieces of work (asyncio tasks here), such as binding.", ("operation",)
)
PENDING_API_CALLS = MetricSeries(
    "scheduler_pending_async_api_calls",
    "Requests that no decision waits for and that are not sent yet.",
    ("call_type",),
)


def _nothing() -> Mapping[str, float]:
    return {}


def _nobody() -> Mapping[tuple[str, str], float]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Functions that tell a state, called on the loop at each scrape: each must cost no more than its answer is long.

    What has no function given has no series.
    """

    pending_pods: Callable[[], Mapping[str, float]] = _nothing
    """By queue: `active`, `backoff`, `unschedulable`, `gated`."""
    cache_size: Callable[[], Mapping[str, float]] = _nothing
    """By type: `nodes`, `pods`, `assumed_pods`."""
    unschedulable_pods: Callable[[], Mapping[tuple[str, str], float]] = _nobody
    """By (plugin, profile)."""
    inflight_events: Callable[[], Mapping[str, float]] = _nothing
    """By event label, and `PodPopped` for the pods themselves."""
    goroutines: Callable[[], Mapping[str, float]] = _nothing
    """By operation, such as `binding`."""
    pending_api_calls: Callable[[], Mapping[str, float]] = _nothing
    """By type: `pod_status_patch`. Bindings are sent at once."""


def scheduler_source(observations: Observations, gauges: Gauges) -> Source:
    """All `scheduler_*` series, and `kscheduler_*` ones that `Observations` counts."""
    parked: dict[LabelValues, float] = {}

    def copy() -> Iterable[Sample]:
        # Who once turned pods down and now does not stays at zero: a line in a graph falls, and does not break off.
        parked.update(dict.fromkeys(parked, 0.0))
        parked.update(((plugin, profile), pods) for (plugin, profile), pods in gauges.unschedulable_pods().items())
        return [
            *(counter(metric) for metric in observations.counters),
            *(histograms(metric) for metric in observations.histograms),
            gauge_by(PENDING_PODS, gauges.pending_pods()),
            gauge_by(CACHE_SIZE, gauges.cache_size()),
            gauge(UNSCHEDULABLE_PODS, parked),
            gauge_by(INFLIGHT_EVENTS, gauges.inflight_events()),
            gauge_by(GOROUTINES, gauges.goroutines()),
            gauge_by(PENDING_API_CALLS, gauges.pending_api_calls()),
        ]

    return copy
