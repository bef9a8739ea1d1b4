"""What the writer of conditions tells about itself."""

from collections.abc import Callable, Iterable

from kscheduler.metrics.samples import Numbers, Sample, Source, gauge
from kscheduler.scheduling.failures.status_writer import StatusStatistics
from kscheduler.scheduling.observations import MetricSeries

PENDING = MetricSeries(
    "kscheduler_status_patches_pending", "Pods whose newest condition or nomination is not sent yet."
)
CLASSES = MetricSeries(
    "kscheduler_status_classes_pending", "Classes of parked pods not told their newest condition yet."
)
PATCHES = MetricSeries(
    "kscheduler_status_patches_total",
    "Words about a pod's status: sent, unchanged (the pod showed it already), retried, dropped (refused for good).",
    ("outcome",),
)


def status_source(statistics: Callable[[], StatusStatistics]) -> Source:
    """Pending and finished status patches."""

    def copy() -> Iterable[Sample]:
        now = statistics()
        outcomes = {"sent": now.sent, "unchanged": now.unchanged, "retried": now.retried, "dropped": now.dropped}
        return [
            gauge(PENDING, {(): now.pending + now.sending}),
            gauge(CLASSES, {(): now.classes}),
            Numbers("counter", PATCHES, {(outcome,): count for outcome, count in outcomes.items()}),
        ]

    return copy
