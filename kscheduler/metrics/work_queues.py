"""`workqueue_*` as every controller of Kubernetes has them, for our queue of Kubernetes Events.

kube-scheduler's own queues under these names are those of the controllers that keep its serving certificates; they come
with TLS. Words about pods' statuses are in `scheduler_pending_async_api_calls`, pods in `scheduler_pending_pods`.
"""

from collections.abc import Callable, Iterable

from kscheduler.client.work_queue import SECONDS_BUCKETS, WorkQueueStatistics
from kscheduler.metrics.samples import Distribution, Distributions, Numbers, Sample, Source, gauge_by
from kscheduler.scheduling.observations import MetricSeries

_NAME = ("name",)
DEPTH = MetricSeries("workqueue_depth", "Items that wait in the queue.", _NAME)
ADDS = MetricSeries("workqueue_adds_total", "Items put into the queue.", _NAME)
RETRIES = MetricSeries("workqueue_retries_total", "Tries again.", _NAME)
WAITED = MetricSeries("workqueue_queue_duration_seconds", "Time that items waited in the queue.", _NAME)
WORKED = MetricSeries("workqueue_work_duration_seconds", "Time that it took to deal with items.", _NAME)
UNFINISHED = MetricSeries(
    "workqueue_unfinished_work_seconds", "Time that work under way has taken so far, added up.", _NAME
)
LONGEST = MetricSeries("workqueue_longest_running_processor_seconds", "The longest time of work under way.", _NAME)


def work_queue_source(statistics: Callable[[], WorkQueueStatistics]) -> Source:
    """One queue."""

    def copy() -> Iterable[Sample]:
        now = statistics()
        waited, worked = Distribution((now.name,), *now.waited), Distribution((now.name,), *now.worked)
        return [
            gauge_by(DEPTH, {now.name: now.depth}),
            Numbers("counter", ADDS, {(now.name,): now.adds}),
            Numbers("counter", RETRIES, {(now.name,): now.retries}),
            Distributions(WAITED, SECONDS_BUCKETS, [waited]),
            Distributions(WORKED, SECONDS_BUCKETS, [worked]),
            gauge_by(UNFINISHED, {now.name: now.unfinished_seconds}),
            gauge_by(LONGEST, {now.name: now.longest_seconds}),
        ]

    return copy
