"""Series about what is written in the background: conditions of pods, and Kubernetes Events."""

from collections.abc import Callable, Iterable

from kscheduler.client.events.work_queue import SECONDS_BUCKETS, WorkQueueStatistics
from kscheduler.scheduling.failures.status_writer import StatusStatistics
from kscheduler.telemetry.samples import Distribution, Distributions, Numbers, Sample, Source, gauge, gauge_by
from kscheduler.telemetry.series import MetricSeries

PENDING = MetricSeries(
    "kscheduler_status_patches_pending", "Pods whose latest condition or nomination has not been sent yet."
)
CLASSES = MetricSeries(
    "kscheduler_status_classes_pending", "Classes of parked pods whose latest condition has not been sent yet."
)
PATCHES = MetricSeries(
    "kscheduler_status_patches_total",
    "Patches of pod statuses: sent, unchanged (the pod showed it already), retried, dropped (refused for good).",
    ("outcome",),
)


def status_source(statistics: Callable[[], StatusStatistics]) -> Source:
    """Pending and finished status patches."""

    def copy() -> Iterable[Sample]:
        counts = statistics()
        outcomes = {
            "sent": counts.sent,
            "unchanged": counts.unchanged,
            "retried": counts.retried,
            "dropped": counts.dropped,
        }
        return [
            gauge(PENDING, {(): counts.pending + counts.sending}),
            gauge(CLASSES, {(): counts.classes}),
            Numbers("counter", PATCHES, {(outcome,): count for outcome, count in outcomes.items()}),
        ]

    return copy


# `workqueue_*`, as in every controller of Kubernetes, for our queue of Kubernetes Events.
#
# In kube-scheduler these are the queues of the controllers that keep its serving certificates; ours have none.
# Pending status patches are in `scheduler_pending_async_api_calls`, pods in `scheduler_pending_pods`.

_NAME = ("name",)
DEPTH = MetricSeries("workqueue_depth", "Items waiting in the queue.", _NAME)
ADDS = MetricSeries("workqueue_adds_total", "Items put into the queue.", _NAME)
RETRIES = MetricSeries("workqueue_retries_total", "Retries.", _NAME)
WAITED = MetricSeries("workqueue_queue_duration_seconds", "Time that items waited in the queue.", _NAME)
WORKED = MetricSeries("workqueue_work_duration_seconds", "Time to process items.", _NAME)
UNFINISHED = MetricSeries("workqueue_unfinished_work_seconds", "Total time of work in progress so far.", _NAME)
LONGEST = MetricSeries("workqueue_longest_running_processor_seconds", "The longest time of work in progress.", _NAME)


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
