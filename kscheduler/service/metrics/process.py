"""Series about this process, under the names that dashboards for Kubernetes use.

`process_*` come from the system. Of Go's series the dashboards of kubernetes-mixin use `go_goroutines`: here it is
the number of asyncio tasks, the counterpart of goroutines (also available as `kscheduler_asyncio_tasks`). Go's heap
and collector have no counterpart, so those series are absent.

`kubernetes_build_info` names the version of Kubernetes whose rules are followed, with kscheduler's version after a
plus: the alert KubeVersionMismatch counts minor versions in a cluster, and a scheduler that follows 1.36 in a cluster
of 1.34 is a mismatch. kscheduler's own version is in `kscheduler_build_info`.
"""

import asyncio
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.election import ElectionStatistics, Role
from kscheduler.telemetry.logs.caught import caught
from kscheduler.telemetry.logs.streams import lost_lines
from kscheduler.telemetry.samples import Numbers, Sample, Source, gauge
from kscheduler.telemetry.series import MetricSeries

# Series about reading the configuration again: how often, with what result, and which file is in force.


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


@dataclass(frozen=True, slots=True)
class ReloadStatistics:
    """A snapshot."""

    last_success: float
    """Wall-clock seconds."""
    results: Mapping[ReloadResult, int] = field(default_factory=dict)
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


# Series about the election, under the names that all Kubernetes components give them, and some of our own.

MASTER = MetricSeries(
    "leader_election_master_status",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
    "'name' is the string used to identify the lease. Please make sure to group by name.",
    ("name",),
)
SLOW_PATH = MetricSeries(
    "leader_election_slowpath_total",
    "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. "
    "Please make sure to group by name.",
    ("name",),
)
SINCE_RENEWAL = MetricSeries(
    "kscheduler_leader_election_renewal_age_seconds",
    "Seconds since this process, which leads, has sent its last successful renewal. At renewDeadline its term ends.",
    ("name",),
)
TRANSITIONS = MetricSeries(
    "kscheduler_leader_election_transitions",
    "How often the lease has changed hands, according to the lease.",
    ("name",),
)
FENCED = MetricSeries("kscheduler_fenced_writes_total", "Writes blocked because the process does not hold the lease.")


def election_source(statistics: Callable[[], ElectionStatistics]) -> Source:
    """What is known of the election."""

    def copy() -> Iterable[Sample]:
        found = statistics()
        name, leads = (found.name,), found.role is Role.LEADING
        renewed, slow = found.renewed_seconds_ago, found.slow_renewals
        return [
            gauge(MASTER, {name: float(leads)}),
            gauge(TRANSITIONS, {name: found.transitions}),
            gauge(SINCE_RENEWAL, {name: renewed} if leads and renewed is not None else {}),
            Numbers("counter", FENCED, {(): found.refused_writes}),
            Numbers("counter", SLOW_PATH, {name: slow} if slow else {}),  # upstream's appears with its first value too
        ]

    return copy


BUILD_INFO = MetricSeries(
    "kscheduler_build_info", "Always 1; the labels identify the build.", ("version", "python_version", "platform")
)
KUBERNETES_BUILD_INFO = MetricSeries(
    "kubernetes_build_info",
    "Always 1; the labels identify the followed version, as in every Kubernetes component.",
    (
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ),
)
VERSION_INFO = MetricSeries(
    "version_info",
    "Always 1; the versions of Kubernetes whose rules are followed (emulation) and known (binary).",
    ("component", "binary", "emulation", "min_compat"),
)
FEATURES = MetricSeries(
    "kubernetes_feature_enabled", "1 where a feature gate is on, 0 where it is off.", ("name", "stage")
)
GOROUTINES = MetricSeries("go_goroutines", "Number of asyncio tasks, reported in place of goroutines.")
TASKS = MetricSeries("kscheduler_asyncio_tasks", "Number of asyncio tasks.")
UNEXPECTED = MetricSeries(
    "kscheduler_unexpected_errors_total",
    "Bugs caught, by the boundary that caught them; a bug may be counted at several, and repeatedly.",
    ("boundary",),
)
LOST_LINES = MetricSeries(
    "kscheduler_log_lines_lost_total", "Log lines that could not be written: a full disk, or a closed pipe."
)

_process = ProcessCollector(registry=None)


def process_families() -> Iterable[Metric]:
    """CPU, memory, file descriptors and start time; read from the system when called, on any thread. Linux only."""
    return _process.collect()


def build_info_source(version: str, followed: Callable[[], str]) -> Source:
    """The version, as gauges that are always 1. `followed`: the version of Kubernetes, `1.37`, as it is now."""
    system = f"{platform.system().lower()}/{platform.machine()}"
    python = platform.python_version()
    compiler = platform.python_implementation().lower()
    kscheduler: dict[tuple[str, ...], float] = {(version, python, system): 1}

    def copy() -> Iterable[Sample]:
        kubernetes = followed()
        git_version = f"v{kubernetes}.0+kscheduler.{version}"
        labels = (*kubernetes.split("."), git_version, "", "", "", f"python{python}", compiler, system)
        versions = ("kube", list(BEHAVIOURS)[-1], kubernetes, next(iter(BEHAVIOURS)))
        return [
            gauge(BUILD_INFO, kscheduler),
            gauge(KUBERNETES_BUILD_INFO, {labels: 1}),
            gauge(VERSION_INFO, {versions: 1}),
        ]

    return copy


def feature_source(features: Callable[[], Mapping[tuple[str, str], bool]]) -> Source:
    """Feature gates by (name, stage); the stage is `ALPHA`, `BETA`, `DEPRECATED` or empty for GA, as in Kubernetes."""

    def copy() -> Iterable[Sample]:
        return [gauge(FEATURES, {labels: float(is_on) for labels, is_on in features().items()})]

    return copy


def program_samples() -> Iterable[Sample]:
    """A `Source`: running tasks, caught bugs, lost log lines. Must be called on the loop."""
    tasks = len(asyncio.all_tasks())
    errors: dict[tuple[str, ...], float] = {(str(boundary),): count for boundary, count in caught().items()}
    return [
        gauge(GOROUTINES, {(): tasks}),
        gauge(TASKS, {(): tasks}),
        Numbers("counter", UNEXPECTED, errors),
        Numbers("counter", LOST_LINES, {(): lost_lines()}),
    ]
