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

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.telemetry.logs.caught import caught
from kscheduler.telemetry.logs.streams import lost_lines
from kscheduler.telemetry.samples import Numbers, Sample, Source, gauge
from kscheduler.telemetry.series import MetricSeries

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
