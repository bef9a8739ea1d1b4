"""`workqueue_*`, as in every controller of Kubernetes, for our queue of Kubernetes Events.

In kube-scheduler these are the queues of the controllers that keep its serving certificates; they will come with TLS.
Pending status patches are in `scheduler_pending_async_api_calls`, pods in `scheduler_pending_pods`.
"""

from collections.abc import Callable, Iterable

from kscheduler.client.events.work_queue import SECONDS_BUCKETS, WorkQueueStatistics
from kscheduler.counts.series import MetricSeries
from kscheduler.metrics.samples import Distribution, Distributions, Numbers, Sample, Source, gauge_by

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
    """The series of a queue."""

    def copy() -> Iterable[Sample]:
        queue = statistics()
        waited, worked = Distribution((queue.name,), *queue.waited), Distribution((queue.name,), *queue.worked)
        return [
            gauge_by(DEPTH, {queue.name: queue.depth}),
            Numbers("counter", ADDS, {(queue.name,): queue.adds}),
            Numbers("counter", RETRIES, {(queue.name,): queue.retries}),
            Distributions(WAITED, SECONDS_BUCKETS, [waited]),
            Distributions(WORKED, SECONDS_BUCKETS, [worked]),
            gauge_by(UNFINISHED, {queue.name: queue.unfinished_seconds}),
            gauge_by(LONGEST, {queue.name: queue.longest_seconds}),
        ]

    return copy
