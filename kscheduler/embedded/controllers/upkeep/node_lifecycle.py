"""Node lifecycle: silent nodes, the taints of nodes' conditions, and labels that have an old and a new name.

    Ready is not True                 not-ready (or, Unknown, unreachable) with NoSchedule and NoExecute
    pressure, no network, cordoned    a NoSchedule taint each
    kubernetes.io/os, /arch           the same under the old names, beta.kubernetes.io/os and /arch
    no heartbeat for 50 s             all conditions become Unknown; the node's pods are no longer ready

Unlike in kube-controller-manager, a node without a lease or heartbeats in its conditions never counts as silent, since
hollow nodes send heartbeats only on request. Evictions are not slowed down when a whole zone is gone.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time, timestamp
from kscheduler.api.machinery.resources import LEASES, NODES, PODS, ServedResource
from kscheduler.api.well_known import (
    ARCH,
    BETA_ARCH,
    BETA_OS,
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    OS,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from kscheduler.embedded.controllers.engine.plan import Concerned, News, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import find, is_ready, itself
from kscheduler.embedded.objects.store import Change, Key

GRACE_SECONDS: Final = 50.0
_COMPONENT = "node-controller"
_LEASE_NAMESPACE = "kube-node-lease"
_OBSERVED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_SILENT = "Kubelet stopped posting node status."
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): MEMORY_PRESSURE,
    ("DiskPressure", "True"): DISK_PRESSURE,
    ("PIDPressure", "True"): PID_PRESSURE,
    ("NetworkUnavailable", "True"): NETWORK_UNAVAILABLE,
}
_OURS = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})
_OLD_LABELS = ((OS, BETA_OS), (ARCH, BETA_ARCH))
_DRIVE_OUT = frozenset({NOT_READY, UNREACHABLE})


class NodeLifecycleController:
    """Taints nodes."""

    name = "node-lifecycle-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Nodes, and the first lease of each; later renewals are read when the next one is overdue."""
        return {NODES: itself, LEASES: self._first_lease}

    def _first_lease(self, view: View, change: Change) -> Iterator[Key]:
        del view
        if change.previous is None and change.key[0] == _LEASE_NAMESPACE:
            yield "", change.key[1]

    def reconcile(self, view: View, key: Key) -> Plan:
        """Update conditions, then taints."""
        plan = Plan()
        node = view.get(NODES, key)
        if node is None:
            return plan
        conditions: list[Object] = list((node.get("status") or {}).get("conditions") or [])
        heard = _last_heartbeat(view, node, conditions)
        if heard is not None:
            left = GRACE_SECONDS - (view.now - heard).total_seconds()
            if left > 0:
                plan.look_again(left + 0.1)
            else:
                conditions = _silenced(conditions, view.now)
                plan.set_status(NODES, node, {**(node.get("status") or {}), "conditions": conditions})
        ready = find(conditions, "Ready")
        if ready is not None and ready.get("status") != "True":
            self._mark_pods(plan, view, node)
        self._taint(plan, view, node, conditions)
        return plan

    def _taint(self, plan: Plan, view: View, node: Object, conditions: list[Object]) -> None:
        spec = node.get("spec") or {}
        wanted = set(_wanted_taints(spec, conditions))
        present: list[Object] = spec.get("taints") or []
        kept = [taint for taint in present if not _is_ours(taint) or (taint["key"], taint.get("effect")) in wanted]
        known = {(taint["key"], taint.get("effect")) for taint in kept}
        added = [_taint(key, effect, view.now) for key, effect in sorted(wanted - known)]
        labels = node["metadata"].get("labels") or {}
        old_names = {old: labels[new] for new, old in _OLD_LABELS if new in labels and labels.get(old) != labels[new]}
        if added or old_names or len(kept) != len(present):
            changed = {**spec, "taints": [*kept, *added]}
            if not changed["taints"]:
                del changed["taints"]
            metadata = {**node["metadata"], "labels": {**labels, **old_names}} if old_names else node["metadata"]
            plan.add(Update(NODES, {**node, "metadata": metadata, "spec": changed}))

    def _mark_pods(self, plan: Plan, view: View, node: Object) -> None:
        """Mark the pods of a silent node as not ready."""
        pods = [pod for pod in view.pods_on(node["metadata"]["name"]) if is_ready(pod)]
        if not pods:
            return
        name = node["metadata"]["name"]
        plan.add(News(node, _COMPONENT, "NodeNotReady", f"Node {name} status is now: NodeNotReady"))
        now = timestamp(view.now)
        for pod in pods:
            ready = {"status": "False", "lastTransitionTime": now}
            changed = [
                {**condition, **ready} if condition["type"] == "Ready" else condition
                for condition in pod["status"]["conditions"]
            ]
            plan.add(Update(PODS, {**pod, "status": {**pod["status"], "conditions": changed}}, "status"))
            plan.add(News(pod, _COMPONENT, "NodeNotReady", "Node is not ready", is_warning=True))


def _last_heartbeat(view: View, node: Object, conditions: list[Object]) -> datetime | None:
    lease = view.get(LEASES, (_LEASE_NAMESPACE, node["metadata"]["name"]))
    heard = [parse_time((lease.get("spec") or {}).get("renewTime"))] if lease is not None else []
    heard += [parse_time(condition.get("lastHeartbeatTime")) for condition in conditions]
    return max((moment for moment in heard if moment is not None), default=None)


def _silenced(conditions: list[Object], now: datetime) -> list[Object]:
    """The conditions of a silent node: all Unknown, with the time of the change."""
    found = []
    for kind in _OBSERVED:
        known = find(conditions, kind)
        if known is not None and known.get("status") == "Unknown":
            found.append(known)
            continue
        unknown = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": _SILENT}
        found.append({**(known or {"type": kind}), **unknown, "lastTransitionTime": timestamp(now)})
    return [*found, *(condition for condition in conditions if condition.get("type") not in _OBSERVED)]


def _wanted_taints(spec: Object, conditions: list[Object]) -> Iterator[tuple[str, str]]:
    for condition in conditions:
        key = _BY_CONDITION.get((condition.get("type", ""), condition.get("status", "")))
        if key is not None:
            yield key, "NoSchedule"
            if key in _DRIVE_OUT:
                yield key, "NoExecute"
    if spec.get("unschedulable"):
        yield UNSCHEDULABLE, "NoSchedule"


def _is_ours(taint: Object) -> bool:
    effects = {"NoSchedule", "NoExecute"} if taint["key"] in _DRIVE_OUT else {"NoSchedule"}
    return taint["key"] in _OURS and taint.get("effect") in effects


def _taint(key: str, effect: str, now: datetime) -> Object:
    # As on a real cluster, all taints that a controller adds have a time.
    return {"key": key, "effect": effect, "timeAdded": timestamp(now)}
