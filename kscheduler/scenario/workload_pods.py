"""What workload controllers add to their pods, as far as a scheduler reads it.

Used by `explain -f` and `simulate -f`, for new pods, and by the embedded cluster's controllers.
"""

from dataclasses import dataclass
from typing import Any, Final

from kscheduler.api.core import Node, Pod
from kscheduler.api.well_known import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from kscheduler.framework.rules.node_match import selects, untolerated

Tree = dict[str, Any]

# Taints that a DaemonSet's pods tolerate.
_DAEMON_TOLERATIONS: Final = (
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    (DISK_PRESSURE, "NoSchedule"),
    (MEMORY_PRESSURE, "NoSchedule"),
    (PID_PRESSURE, "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)
# Tolerated on the host's network, since such a pod may be the one that sets up the network.
_HOST_NETWORK: Final = (NETWORK_UNAVAILABLE, "NoSchedule")


def tolerate_as_daemon(spec: Tree) -> None:
    """Add a DaemonSet's tolerations to its pod's spec, without repeating those of the template."""
    tolerated = (*_DAEMON_TOLERATIONS, _HOST_NETWORK) if spec.get("hostNetwork") else _DAEMON_TOLERATIONS
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    spec["tolerations"] = [
        *(toleration for toleration in spec.get("tolerations") or () if toleration not in added),
        *added,
    ]


@dataclass(frozen=True, slots=True)
class DaemonFit:
    """Whether a DaemonSet's pods belong on a node."""

    should_run: bool
    may_stay: bool
    """Whether existing pods may stay: a NoSchedule taint keeps only new pods away."""


def daemon_fit(pod: Pod, node: Node) -> DaemonFit:
    """Whether the controller makes the pod for the node: of its name, selector and taints, whatever room there is.

    `pod`: with a daemon's tolerations, before it is bound to a node.
    """
    if pod.spec.node_name not in ("", node.metadata.name) or not selects(pod, node):
        return DaemonFit(should_run=False, may_stay=False)
    taints, tolerations = node.spec.taints, pod.spec.tolerations
    return DaemonFit(
        should_run=not any(untolerated(taints, tolerations, ("NoExecute", "NoSchedule"))),
        may_stay=not any(untolerated(taints, tolerations, ("NoExecute",))),
    )


def bound_to(node: str, affinity: Tree) -> Tree:
    """The affinity with required terms replaced by the node's name; they were checked when the node was chosen."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}}


def stateful_labels(pod_name: str, ordinal: int) -> dict[str, str]:
    """The labels of a StatefulSet's pod, in addition to its template's."""
    return {"statefulset.kubernetes.io/pod-name": pod_name, "apps.kubernetes.io/pod-index": str(ordinal)}
