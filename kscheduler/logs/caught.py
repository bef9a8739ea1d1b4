"""Bugs that a boundary has caught, counted in one place.

Whatever catches `Exception` where an answer was due goes on, which is right, and hides a bug, which is not: each such
place counts here, and `kscheduler_unexpected_errors_total` tells it (a test looks for places that do not). Counts are
of the process, as `process_*` are: a bug is the program's, whichever scheduler in it met it, and a dozen layers need no
way to hand a counter down. One bug may count more than once where several layers ask the same plugin again.
"""

from enum import StrEnum


class Boundary(StrEnum):
    """Where a bug is caught; label values."""

    PLUGIN = "plugin"
    """A call of a plugin; `kscheduler_plugin_failures_total` tells by which one, and where."""
    WORKER = "worker"
    """The decision about one pod: it is tried again later."""
    POD_TASK = "pod_task"
    """Binding, waiting, preempting, writing a status: that pod's failure."""
    EVENT_HANDLER = "event_handler"
    """Taking in one object's change."""
    EVENT_RECORDER = "event_recorder"
    """Sending one Kubernetes Event."""
    HTTP = "http"
    """Answering one request."""
    TASK = "task"
    """A task whose failure nobody waits for: asyncio's last resort."""


_counts: dict[Boundary, int] = dict.fromkeys(Boundary, 0)


def count_caught(boundary: Boundary) -> None:
    """One more."""
    _counts[boundary] += 1


def caught() -> dict[Boundary, int]:
    """How many so far, every boundary named."""
    return dict(_counts)
