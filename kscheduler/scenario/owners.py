"""Whose replica a pod is: of the Deployment above its ReplicaSet, whatever version of the template that one has."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import OwnerReference
from kscheduler.api.well_known import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from kscheduler.api.workloads import ReplicaSet
from kscheduler.framework.rules.node_match import selects, untolerated

# Set by the Deployment controller alone; the name of its ReplicaSet ends with the value.
HASH_LABEL: Final = "pod-template-hash"
_REPLICA_SET: Final = "ReplicaSet"

# Kind and name, in the pod's namespace.
Owner = tuple[str, str]
Owners = Callable[[Pod], Owner | None]


def owner_of(pod: Pod, above: Mapping[str, OwnerReference | None] | None = None) -> Owner | None:
    """The controller at the top, as far as it is known; `None` for a pod that nobody has made.

    `above`: by `namespace/name` of ReplicaSets the controller of each. Of others it is told by the name.
    """
    controller = pod.metadata.controller
    if controller is None:
        return None
    if controller.kind != _REPLICA_SET:
        return controller.kind, controller.name
    known, key = above or {}, f"{pod.metadata.namespace}/{controller.name}"
    if key in known:
        top = known[key] or controller
        return top.kind, top.name
    template_hash = pod.metadata.labels.get(HASH_LABEL, "")
    if template_hash and controller.name.endswith(f"-{template_hash}"):
        return "Deployment", controller.name.removesuffix(f"-{template_hash}")
    return controller.kind, controller.name


def owners_in(replica_sets: Iterable[ReplicaSet]) -> Owners:
    """The owners of pods in a cluster with these ReplicaSets."""
    above = {each.key: each.metadata.controller for each in replica_sets}
    return lambda pod: owner_of(pod, above)


# Who has set a pod's scheduling gates: the API server notes in `managedFields` who has set which field.

_GATES: Final = "f:schedulingGates"


def gate_owners(pod: dict[str, Any]) -> tuple[str, ...]:
    """The managers that have set gates of a pod, as JSON has it; empty where nothing says so."""
    return tuple(dict.fromkeys(_managers(pod)))


def _managers(pod: dict[str, Any]) -> Iterator[str]:
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict) or not spec.get("schedulingGates"):
        return
    listed = metadata.get("managedFields")
    for entry in listed if isinstance(listed, list) else ():
        fields = entry.get("fieldsV1") if isinstance(entry, dict) else None
        of_spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(of_spec, dict) and _GATES in of_spec and isinstance(entry.get("manager"), str):
            yield entry["manager"]


# What workload controllers add to their pods, as far as a scheduler reads it.
#
# Used by `explain -f` and `simulate -f`, for new pods, and by the embedded cluster's controllers.

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
