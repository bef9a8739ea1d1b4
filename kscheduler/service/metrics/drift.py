"""Series about consistency: cache against stores, stores against the API server."""

from collections.abc import Callable, Iterable

from kscheduler.informers.audit import AuditStatistics
from kscheduler.scheduling.drift.drift_check import DriftStatistics
from kscheduler.telemetry.samples import Numbers, Sample, Source
from kscheduler.telemetry.series import LabelValues, MetricSeries

CHECKS = MetricSeries("kscheduler_cache_checks_total", "Comparisons of the cache with the informers' stores.")
CACHE_DRIFT = MetricSeries(
    "kscheduler_cache_drift_objects_total",
    "Objects in the cache or the queue that differed from the informers' stores, by kind of drift.",
    ("kind", "what"),
)
UNMENDED = MetricSeries(
    "kscheduler_cache_drift_unmended_total", "Drifted objects not repaired: they still differed after the repair."
)
AUDITS = MetricSeries(
    "kscheduler_store_audits_total",
    "Comparisons of an informer's store with the API server, by outcome.",
    ("resource", "outcome"),
)
STORE_DRIFT = MetricSeries(
    "kscheduler_store_drift_objects_total",
    "Objects in an informer's store that differed from the API server, by kind of drift.",
    ("resource", "what"),
)


def drift_source(check: Callable[[], DriftStatistics], audits: Callable[[], Iterable[AuditStatistics]]) -> Source:
    """The results of both checks."""

    def copy() -> Iterable[Sample]:
        checked, audited = check(), tuple(audits())
        outcomes: dict[LabelValues, float] = {
            (audit.resource, outcome): count for audit in audited for outcome, count in audit.audits.items()
        }
        drift: dict[LabelValues, float] = {
            (audit.resource, difference): count for audit in audited for difference, count in audit.drift.items()
        }
        cached: dict[LabelValues, float] = {
            (kind, difference): count for (kind, difference), count in checked.drift.items()
        }
        return [
            Numbers("counter", CHECKS, {(): checked.checks}),
            Numbers("counter", CACHE_DRIFT, cached),
            Numbers("counter", UNMENDED, {(): checked.unmended}),
            Numbers("counter", AUDITS, outcomes),
            Numbers("counter", STORE_DRIFT, drift),
        ]

    return copy
