"""Series about consistency: cache against stores, stores against the API server."""

from collections.abc import Callable, Iterable

from kscheduler.counts.series import LabelValues, MetricSeries
from kscheduler.informers.audit import AuditStatistics
from kscheduler.metrics.samples import Numbers, Sample, Source
from kscheduler.scheduling.truth.truth_check import TruthStatistics

CHECKS = MetricSeries("kscheduler_cache_checks_total", "Comparisons of the cache with the informers' stores.")
CACHE_DRIFT = MetricSeries(
    "kscheduler_cache_drift_objects_total",
    "Objects in the cache or the queue that were not as the stores have them, by what was wrong.",
    ("kind", "what"),
)
UNMENDED = MetricSeries(
    "kscheduler_cache_drift_unmended_total", "Of those, objects that were wrong still after the repair."
)
AUDITS = MetricSeries(
    "kscheduler_store_audits_total",
    "Comparisons of an informer's store with the API server, by outcome.",
    ("resource", "outcome"),
)
STORE_DRIFT = MetricSeries(
    "kscheduler_store_drift_objects_total",
    "Objects that were not in an informer's store as the API server has them, by what was wrong.",
    ("resource", "what"),
)


def truth_source(check: Callable[[], TruthStatistics], audits: Callable[[], Iterable[AuditStatistics]]) -> Source:
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
