"""Creates and deletes a controller's pods, with Events."""

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time
from kscheduler.api.machinery.resources import CONTROLLER_REVISIONS, PODS
from kscheduler.embedded.controllers.engine.plan import Create, Delete, News, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import (
    hash_of,
    is_ready,
    key_of,
    labels_of,
    node_of,
    phase_of,
    ready_since,
    reference_to,
)

# Pods created or deleted for an object in a plan; the rest follows in the next plan.
BURST = 500


def create_pod(pod: Object, owner: Object, component: str) -> Create:
    """Create a pod, with an Event of the owner."""
    done = News(owner, component, "SuccessfulCreate", "Created pod: {name}")
    failed = News(owner, component, "FailedCreate", "Error creating: {error}", is_warning=True)
    return Create(PODS, pod, done, failed)


def delete_pod(pod: Object, owner: Object, component: str) -> Delete:
    """Delete a pod with its own grace period, with an Event of the owner."""
    return Delete(PODS, pod, done=News(owner, component, "SuccessfulDelete", "Deleted pod: {name}"))


def has_labels(pod: Object, wanted: dict[str, str]) -> bool:
    """Whether the pod has all labels of its template."""
    labels = labels_of(pod)
    return all(labels.get(key) == value for key, value in wanted.items())


def text_of(value: Object) -> str:
    """`namespace/name`."""
    return "/".join(key_of(value))


# The order in which a ReplicaSet deletes surplus pods.
#
# First pods without a node, then pods further from running, not ready, with a lower `pod-deletion-cost`, with more pods
# of the same workload on their node, ready for a shorter time (by powers of two), with more restarts, and younger pods
# (by powers of two).

_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def in_deletion_order(pods: Iterable[Object], related: Iterable[Object], now: datetime) -> list[Object]:
    """The pods in the order of deletion; `related` are the active pods of the whole workload."""
    crowd = Counter(node_of(pod) for pod in related)

    def firmness(pod: Object) -> tuple[object, ...]:
        return bool(node_of(pod)), _PHASES.get(phase_of(pod), 2), is_ready(pod), _cost(pod), -crowd[node_of(pod)]

    def compare(left: Object, right: Object) -> int:
        first, second = firmness(left), firmness(right)
        if first != second:
            return -1 if first < second else 1
        if is_ready(left) and (order := _by_age(ready_since(left), ready_since(right), left, right, now)):
            return order
        restarts = _restarts(right) - _restarts(left)
        return restarts or _by_age(_created(left), _created(right), left, right, now)

    return sorted(pods, key=cmp_to_key(compare))


def _by_age(first: datetime | None, second: datetime | None, left: Object, right: Object, now: datetime) -> int:
    """The younger first; for ages within a power of two the UID decides, so that rollouts spread over nodes."""
    if first == second:
        return 0
    if first is None or second is None:
        return -1 if first is None else 1
    order = _power(first, now) - _power(second, now)
    return order or (-1 if left["metadata"]["uid"] < right["metadata"]["uid"] else 1)


def _power(moment: datetime, now: datetime) -> int:
    nanoseconds = int((now - moment).total_seconds() * 1e9)
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def _created(pod: Object) -> datetime | None:
    return parse_time(pod["metadata"].get("creationTimestamp"))


def _cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)


# ControllerRevisions: the numbered templates of a StatefulSet or DaemonSet, which `kubectl rollout` reads.
#
# A template that is used again gives its old revision the newest number. The data is a strategic merge patch that
# restores the template, which `kubectl rollout undo` sends unchanged.

HASH_LABEL = "controller.kubernetes.io/hash"
_DIRECTIVE = "$patch"


@dataclass(frozen=True, slots=True)
class History:
    """The revisions, oldest first, and the revision of the current template, which is the newest."""

    revisions: list[Object]
    update: Object
    collisions: int


def template_of(revision: Object) -> Object:
    """The pod template that a revision restores."""
    template = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != _DIRECTIVE}


def name_of(revision: Object) -> str:
    """The revision's name, which pods of a StatefulSet carry as a label."""
    return str(revision["metadata"]["name"])


def brought_up_to_date(plan: Plan, view: View, owner: Object) -> History:
    """The history including the owner's current template; adds the necessary writes to the plan."""
    known = sorted(
        view.controlled(CONTROLLER_REVISIONS, owner), key=lambda revision: (revision["revision"], name_of(revision))
    )
    collisions = int((owner.get("status") or {}).get("collisionCount") or 0)
    data = {"spec": {"template": {**owner["spec"]["template"], _DIRECTIVE: "replace"}}}
    newest = known[-1]["revision"] if known else 0
    equal = next((revision for revision in reversed(known) if revision["data"] == data), None)
    if equal is None:
        made, collisions = _made(view, owner, data, newest + 1, collisions)
        plan.add(Create(CONTROLLER_REVISIONS, made))
        return History([*known, made], made, collisions)
    if equal["revision"] == newest:
        return History(known, equal, collisions)
    renewed = {**equal, "revision": newest + 1}
    plan.add(Update(CONTROLLER_REVISIONS, renewed))
    return History([*(revision for revision in known if revision is not equal), renewed], renewed, collisions)


def cut(plan: Plan, owner: Object, history: History, in_use: Collection[str]) -> None:
    """Delete the oldest unused revisions beyond `revisionHistoryLimit`."""
    idle = [
        revision for revision in history.revisions if name_of(revision) not in in_use and revision is not history.update
    ]
    surplus = len(idle) - int(owner["spec"].get("revisionHistoryLimit", 10))
    plan.add(*(Delete(CONTROLLER_REVISIONS, revision) for revision in idle[: max(surplus, 0)]))


def _made(view: View, owner: Object, data: Object, revision: int, collisions: int) -> tuple[Object, int]:
    metadata = owner["metadata"]
    while True:
        digest = hash_of(data, collisions)
        name = f"{metadata['name']}-{digest}"
        if view.get(CONTROLLER_REVISIONS, (metadata["namespace"], name)) is None:
            break
        collisions += 1
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    made: Object = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": {**labels, HASH_LABEL: digest},
        "ownerReferences": [reference_to(owner)],
    }
    if metadata.get("annotations"):
        made["annotations"] = dict(metadata["annotations"])
    body = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": made}
    return {**body, "data": data, "revision": revision}, collisions
