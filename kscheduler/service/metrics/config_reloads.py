"""Series about reading the configuration again: how often, with what result, and which file is in force."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import msgspec

from kscheduler.telemetry.samples import Numbers, Sample, Source, gauge
from kscheduler.telemetry.series import MetricSeries


class ReloadResult(StrEnum):
    """What became of a file that was read again; label values."""

    TAKEN_OVER = "taken_over"
    UNCHANGED = "unchanged"
    """It means the same as before: only comments or the order of fields differ, or nothing."""
    REFUSED = "refused"


RELOADS = MetricSeries(
    "kscheduler_config_reloads_total", "How often the configuration file was read again, by result.", ("result",)
)
LAST_SUCCESSFUL = MetricSeries(
    "kscheduler_config_reload_last_successful",
    "1 if the file as it was last read is in force, 0 if it was refused and the configuration before goes on.",
)
LAST_SUCCESS = MetricSeries(
    "kscheduler_config_reload_last_success_timestamp_seconds",
    "When the configuration in force was read, in seconds since 1970.",
)
INFO = MetricSeries(
    "kscheduler_config_reload_info",
    "1; the label is the SHA-256 of the file in force, empty without a file.",
    ("hash",),
)

UNSERVED_PODS = MetricSeries(
    "kscheduler_unserved_pods",
    "Pods without a node that name a profile which this process served until it was removed from the configuration.",
)


class ReloadStatistics(msgspec.Struct, frozen=True):
    """A snapshot."""

    last_success: float
    """Wall-clock seconds."""
    results: Mapping[ReloadResult, int] = {}
    is_last_successful: bool = True
    digest: str = ""
    """As `sha256:...`."""
    unserved_pods: int = 0
    """Pods that name a profile which a changed configuration has removed."""


def config_reload_source(statistics: Callable[[], ReloadStatistics]) -> Source:
    """The series; each result counts from 0, so that `increase()` sees the first one."""

    def copy() -> Iterable[Sample]:
        now = statistics()
        return [
            Numbers("counter", RELOADS, {(result,): now.results.get(result, 0) for result in ReloadResult}),
            gauge(LAST_SUCCESSFUL, {(): float(now.is_last_successful)}),
            gauge(LAST_SUCCESS, {(): now.last_success}),
            gauge(INFO, {(now.digest,): 1.0}),
            gauge(UNSERVED_PODS, {(): float(now.unserved_pods)}),
        ]

    return copy
