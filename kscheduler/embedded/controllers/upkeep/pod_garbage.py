"""Removes pods that no kubelet will end: their node is gone or out of service.

A node must have been gone for 40 s, since a kubelet that registers again keeps its pods.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, ServedResource
from kscheduler.embedded.controllers.engine.plan import Action, Concerned, Create, Delete, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import find, is_finished, is_terminating, node_of, with_condition
from kscheduler.embedded.objects.store import Change, ChangeType, Key

# Gives each namespace a ServiceAccount called `default`, the default of pods.

_NAME = "default"


class ServiceAccountController:
    """Keyed by the ServiceAccount that should exist."""

    name = "serviceaccount-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Namespaces, and deleted ServiceAccounts."""
        return {NAMESPACES: self._of_namespace, SERVICE_ACCOUNTS: self._gone}

    def _of_namespace(self, view: View, change: Change) -> Iterator[Key]:
        del view
        if change.type is not ChangeType.DELETED:
            yield change.key[1], _NAME

    def _gone(self, view: View, change: Change) -> Iterator[Key]:
        del view
        if change.type is ChangeType.DELETED and change.key[1] == _NAME:
            yield change.key

    def reconcile(self, view: View, key: Key) -> Plan:
        """Create it if it is missing."""
        namespace = view.get(NAMESPACES, ("", key[0]))
        is_alive = namespace is not None and "deletionTimestamp" not in namespace["metadata"]
        if not is_alive or view.get(SERVICE_ACCOUNTS, key) is not None:
            return Plan()
        metadata = {"name": key[1], "namespace": key[0]}
        return Plan([Create(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})])


QUARANTINE_SECONDS: Final = 40.0
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGarbageController:
    """Keyed by the name of a node, which may be gone."""

    name = "pod-garbage-collector-controller"

    def __init__(self) -> None:
        self._away_since: dict[str, datetime] = {}

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Nodes that are deleted or fail, and pods on nodes that do not exist."""
        return {NODES: self._concerned_by_node, PODS: self._concerned_by_pod}

    def _concerned_by_node(self, view: View, change: Change) -> Iterator[Key]:
        node = view.get(NODES, change.key)
        if node is None or _is_out_of_service(node) or change.key[1] in self._away_since:
            yield change.key

    def _concerned_by_pod(self, view: View, change: Change) -> Iterator[Key]:
        name = node_of(change.record.value)
        node = view.get(NODES, ("", name)) if name else None
        if name and (node is None or _is_out_of_service(node)):
            yield "", name

    def reconcile(self, view: View, key: Key) -> Plan:
        """Remove the pods of a node, or wait."""
        plan = Plan()
        name, node, pods = key[1], view.get(NODES, key), view.pods_on(key[1])
        if node is not None or not pods:
            self._away_since.pop(name, None)
        if node is None and pods:
            since = self._away_since.setdefault(name, view.now)
            left = QUARANTINE_SECONDS - (view.now - since).total_seconds()
            if left > 0:
                plan.look_again(left)
                return plan
            for pod in pods:
                plan.add(*_removal(pod, view.now))
        elif node is not None and _is_out_of_service(node):
            plan.add(*(Delete(PODS, pod, grace_seconds=0) for pod in pods if is_terminating(pod)))
        return plan


def _is_out_of_service(node: Object) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    ready = find((node.get("status") or {}).get("conditions") or [], "Ready")
    is_down = ready is not None and ready.get("status") != "True"
    return is_down and any(taint.get("key") == _OUT_OF_SERVICE for taint in taints)


def _removal(pod: Object, now: datetime) -> list[Action]:
    """Mark the pod as failed, for its owner, and delete it without a grace period."""
    status = pod.get("status") or {}
    actions: list[Action] = []
    if not is_finished(pod):
        reason = "PodGC: node no longer exists"
        conditions = status.get("conditions") or []
        conditions = with_condition(conditions, "DisruptionTarget", "True", "DeletionByPodGC", reason, now)
        failed = {**status, "phase": "Failed", "conditions": conditions}
        actions.append(Update(PODS, {**pod, "status": failed}, "status"))
    return [*actions, Delete(PODS, pod, grace_seconds=0)]
