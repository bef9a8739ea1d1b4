"""What workload controllers add to their pods, as far as a scheduler reads it.

Used by `explain -f`, for new pods, and by the embedded cluster's controllers.
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
"""Taints that a DaemonSet's pods tolerate."""
_HOST_NETWORK: Final = (NETWORK_UNAVAILABLE, "NoSchedule")
"""Tolerated on the host's network, since such a pod may be the one that sets up the network."""


def tolerate_as_daemon(spec: Tree) -> None:
    """Add a DaemonSet's tolerations to its pod's spec, without repeating those of the template."""
    tolerated = (*_DAEMON_TOLERATIONS, _HOST_NETWORK) if spec.get("hostNetwork") else _DAEMON_TOLERATIONS
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    spec["tolerations"] = [
        *(toleration for toleration in spec.get("tolerations") or () if toleration not in added),
        *added,
    ]


def stateful_labels(pod_name: str, ordinal: int) -> dict[str, str]:
    """The labels of a StatefulSet's pod, in addition to its template's."""
    return {"statefulset.kubernetes.io/pod-name": pod_name, "apps.kubernetes.io/pod-index": str(ordinal)}
