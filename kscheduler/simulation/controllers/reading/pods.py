"""Facts about pods for controllers: active, ready, available."""

from datetime import datetime

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.durations import parse_time
from kscheduler.simulation.kinds.table_cells import condition

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


def phase_of(pod: Object) -> str:
    """The pod's phase; Pending if it is not set."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_finished(pod: Object) -> bool:
    """Whether its containers have ended for good."""
    return phase_of(pod) in FINISHED_PHASES


def is_terminating(pod: Object) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def is_active(pod: Object) -> bool:
    """Whether it counts among its controller's pods."""
    return not is_finished(pod) and not is_terminating(pod)


def is_ready(pod: Object) -> bool:
    """Whether its Ready condition is true."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def ready_since(pod: Object) -> datetime | None:
    """Since when it is ready; None when it is not."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    return parse_time(ready.get("lastTransitionTime"))


def seconds_until_available(pod: Object, min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until the pod has been ready for long enough: 0 when it has, None when it is not ready at all."""
    if not is_ready(pod):
        return None
    since = ready_since(pod)
    if not min_ready_seconds or since is None:
        return 0.0
    return max(min_ready_seconds - (now - since).total_seconds(), 0.0)


def is_available(pod: Object, min_ready_seconds: int, now: datetime) -> bool:
    """Whether the pod has been ready for `minReadySeconds`."""
    return seconds_until_available(pod, min_ready_seconds, now) == 0.0


def node_of(pod: Object) -> str:
    """The node it is bound to; empty while it waits."""
    return str(pod["spec"].get("nodeName") or "")


def created(value: Object) -> str:
    """Creation time as text, which sorts as the times do."""
    return str(value["metadata"].get("creationTimestamp") or "")
