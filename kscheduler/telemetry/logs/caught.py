"""Counts the bugs that are caught at a boundary.

A boundary that catches `Exception` keeps the service going, but also hides a bug. So each boundary counts what it
caught here, and `kscheduler_unexpected_errors_total` shows it (a test finds boundaries that do not count). The counts
belong to the process, as `process_*` metrics do: a dozen layers need no counter handed down to them. A bug may be
counted more than once where several layers call the same plugin again.
"""

from enum import StrEnum


class Boundary(StrEnum):
    """Where a bug is caught; label values."""

    PLUGIN = "plugin"
    """A call of a plugin; `kscheduler_plugin_failures_total` says of which plugin, and at which extension point."""
    WORKER = "worker"
    """The decision about one pod: it is tried again later."""
    POD_TASK = "pod_task"
    """Binding, waiting, preempting, writing a status: that pod's failure."""
    EVENT_HANDLER = "event_handler"
    """Handling the change of one object."""
    EVENT_RECORDER = "event_recorder"
    """Sending one Kubernetes Event."""
    HTTP = "http"
    """Answering one request."""
    CONFIG = "config"
    """Reading the configuration again: the one before goes on."""
    TASK = "task"
    """A failed task that nothing awaits, as asyncio's exception handler reports it."""


_counts: dict[Boundary, int] = dict.fromkeys(Boundary, 0)


def count_caught(boundary: Boundary) -> None:
    """Count one caught bug."""
    _counts[boundary] += 1


def caught() -> dict[Boundary, int]:
    """The counts so far, with an entry for every boundary."""
    return dict(_counts)
