"""Evicts pods that do not tolerate a NoExecute taint, at once or after `tolerationSeconds`."""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from kscheduler.api.core import Taint, Toleration
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time
from kscheduler.api.machinery.resources import NODES, PODS, ServedResource
from kscheduler.embedded.controllers.engine.plan import Action, Concerned, Delete, News, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import created, is_finished, is_terminating, node_of, with_condition
from kscheduler.embedded.objects.store import Change, Key
from kscheduler.framework.rules.node_match import covers

_COMPONENT = "taint-eviction-controller"
_WHY = "Taint manager: deleting due to NoExecute taint"

# (key, value, UID of the node).
_Seen = tuple[str, str, str]


class TaintEvictionController:
    """Keyed by node; handles all of its pods together."""

    name = "taint-eviction-controller"

    def __init__(self) -> None:
        self._since: dict[str, dict[_Seen, datetime]] = {}
        """When each node's taints were first seen, for taints without a time."""

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Nodes with NoExecute taints, and pods on them."""
        return {NODES: self._concerned_by_node, PODS: self._concerned_by_pod}

    def _concerned_by_node(self, view: View, change: Change) -> Iterator[Key]:
        del view
        before = _driving_taints(change.previous.value) if change.previous else []
        if before or _driving_taints(change.record.value):
            yield change.key

    def _concerned_by_pod(self, view: View, change: Change) -> Iterator[Key]:
        name = node_of(change.record.value)
        node = view.get(NODES, ("", name)) if name else None
        if node is not None and _driving_taints(node):
            yield "", name

    def reconcile(self, view: View, key: Key) -> Plan:
        """Evict pods whose time is over; reconcile again for the next one."""
        plan = Plan()
        node = view.get(NODES, key)
        taints = _driving_taints(node) if node is not None else []
        if node is None or not taints:
            self._since.pop(key[1], None)
            return plan
        since = self._first_seen(node, taints, view.now)
        for pod in view.pods_on(key[1]):
            if is_terminating(pod) or is_finished(pod):
                continue
            left = _seconds_left(pod, taints, since, view.now)
            if left is not None and left > 0:
                plan.look_again(left)
            elif left is not None:
                plan.add(*_eviction(pod, view.now))
        return plan

    def _first_seen(self, node: Object, taints: list[Taint], now: datetime) -> dict[_Seen, datetime]:
        """When each of the node's taints was first seen; other taints are forgotten."""
        uid, before = node["metadata"]["uid"], self._since.get(node["metadata"]["name"], {})
        stated = {taint["key"]: parse_time(taint.get("timeAdded")) for taint in node["spec"]["taints"]}
        found = {}
        for taint in taints:
            seen = taint.key, taint.value, uid
            found[seen] = stated.get(taint.key) or before.get(seen) or now
        self._since[node["metadata"]["name"]] = found
        return found


def _driving_taints(node: Object) -> list[Taint]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [msgspec.convert(taint, Taint, strict=False) for taint in taints if taint.get("effect") == "NoExecute"]


def _seconds_left(pod: Object, taints: list[Taint], since: dict[_Seen, datetime], now: datetime) -> float | None:
    """Seconds until the pod's eviction, None for never; counted from the taint or the pod, whichever is newer."""
    tolerations = [
        msgspec.convert(toleration, Toleration, strict=False) for toleration in pod["spec"].get("tolerations") or ()
    ]
    arrival = parse_time((pod.get("status") or {}).get("startTime")) or parse_time(created(pod))
    limits = []
    for taint in taints:
        borne = [toleration for toleration in tolerations if covers(toleration, taint)]
        if not borne:
            return 0.0
        tolerated_seconds = [
            toleration.toleration_seconds for toleration in borne if toleration.toleration_seconds is not None
        ]
        if tolerated_seconds:
            first = next(
                moment for (key, value, _), moment in since.items() if (key, value) == (taint.key, taint.value)
            )
            begin = max(first, arrival) if arrival is not None else first
            limits.append(max(min(tolerated_seconds), 0) - (now - begin).total_seconds())
    return min(limits, default=None)


def _eviction(pod: Object, now: datetime) -> list[Action]:
    status = pod.get("status") or {}
    conditions = with_condition(
        status.get("conditions") or [], "DisruptionTarget", "True", "DeletionByTaintManager", _WHY, now
    )
    metadata = pod["metadata"]
    text = f"Marking for deletion Pod {metadata['namespace']}/{metadata['name']}"
    return [
        News(pod, _COMPONENT, "TaintManagerEviction", text),
        Update(PODS, {**pod, "status": {**status, "conditions": conditions}}, "status"),
        Delete(PODS, pod),
    ]
