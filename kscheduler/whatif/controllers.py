"""What workload controllers give the pods that they make, as far as a scheduler reads it.

Here for both who make such pods: `explain -f`, for one that does not exist yet, and the embedded cluster's controllers.
"""

from typing import Any, Final

from kscheduler.api.well_known import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)

Tree = dict[str, Any]

_DAEMON_TOLERATIONS: Final = (
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    (DISK_PRESSURE, "NoSchedule"),
    (MEMORY_PRESSURE, "NoSchedule"),
    (PID_PRESSURE, "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)
"""What a node may suffer from without losing its daemons."""
_HOST_NETWORK: Final = (NETWORK_UNAVAILABLE, "NoSchedule")
"""For daemons on the host's network, which may be what brings the network up."""


def tolerate_as_daemon(spec: Tree) -> None:
    """Add a DaemonSet's tolerations to its pod's spec; one that the template has as well is not there twice."""
    tolerated = (*_DAEMON_TOLERATIONS, _HOST_NETWORK) if spec.get("hostNetwork") else _DAEMON_TOLERATIONS
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    spec["tolerations"] = [*(one for one in spec.get("tolerations") or () if one not in added), *added]


def stateful_labels(pod_name: str, ordinal: int) -> dict[str, str]:
    """The labels of a StatefulSet's pod, beside its template's."""
    return {"statefulset.kubernetes.io/pod-name": pod_name, "apps.kubernetes.io/pod-index": str(ordinal)}
