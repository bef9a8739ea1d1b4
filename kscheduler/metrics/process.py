"""Series about this process: `process_*` as every Prometheus client has them, and which build it is."""

import platform
from collections.abc import Iterable

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from kscheduler.metrics.samples import Sample, Source, gauge
from kscheduler.scheduling.observations import Series

BUILD_INFO = Series(
    "kscheduler_build_info", "Always 1; the labels tell which build runs.", ("version", "python_version", "platform")
)

_process = ProcessCollector(registry=None)


def process_families() -> Iterable[Metric]:
    """CPU, memory, file descriptors and start time; read from the system when called, on any thread. Linux only."""
    return _process.collect()


def build_info_source(version: str) -> Source:
    """The version, as a gauge that is always 1."""
    values: dict[tuple[str, ...], float] = {
        (version, platform.python_version(), f"{platform.system().lower()}/{platform.machine()}"): 1
    }

    def copy() -> Iterable[Sample]:
        return [gauge(BUILD_INFO, values)]

    return copy
