"""Series about the status writer."""

from collections.abc import Callable, Iterable

from kscheduler.counts.series import MetricSeries
from kscheduler.metrics.samples import Numbers, Sample, Source, gauge
from kscheduler.scheduling.failures.status_writer import StatusStatistics

PENDING = MetricSeries(
    "kscheduler_status_patches_pending", "Pods whose newest condition or nomination is not sent yet."
)
CLASSES = MetricSeries(
    "kscheduler_status_classes_pending", "Classes of parked pods whose newest condition is not sent yet."
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
