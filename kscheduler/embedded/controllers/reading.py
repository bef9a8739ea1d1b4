"""What controllers read of objects: owners, conditions, pods, templates and their hashes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time, timestamp
from kscheduler.api.machinery.resources import BY_GROUP_KIND, ServedResource
from kscheduler.api.machinery.selectors import labels_match
from kscheduler.embedded.controllers.engine.plan import Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.objects.store import Change, Key
from kscheduler.embedded.table_cells import condition

# Status conditions and numbers that may be percentages.


def find(conditions: list[Object], kind: str) -> Object | None:
    """The condition of this type."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def with_condition(
    conditions: list[Object], kind: str, status: str, reason: str, message: str, now: datetime, **fields: Any
) -> list[Object]:
    """The list with this condition: unchanged when status and reason are the same, in place otherwise.

    `lastTransitionTime` moves with the status only. `fields` are further fields, such as `lastUpdateTime`.
    """
    known = find(conditions, kind)
    if known is not None and (known.get("status"), known.get("reason")) == (status, reason):
        return conditions
    moment = timestamp(now)
    since = known["lastTransitionTime"] if known is not None and known.get("status") == status else moment
    made = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since, **fields}
    if known is None:
        return [*conditions, made]
    return [made if condition is known else condition for condition in conditions]


def without_condition(conditions: list[Object], kind: str) -> list[Object]:
    """The list without this condition."""
    return [condition for condition in conditions if condition.get("type") != kind]


def compact(status: Mapping[str, Any], *always: str) -> Object:
    """A status as Go writes it: zeros and empty lists are left out, except for the fields named."""
    return {name: value for name, value in status.items() if name in always or value not in (0, "", None, [])}


def scaled(amount: Any, total: int, *, round_up: bool) -> int:
    """A number, or a percentage of the total."""
    if isinstance(amount, str) and amount.endswith("%"):
        product = int(amount.removesuffix("%")) * total
        return -(-product // 100) if round_up else product // 100
    return int(amount)


# Typed nodes and pods from stored ones, for DaemonSets. Nodes are decoded once per version.


class NodeReader:
    """Stored nodes as typed ones, each version decoded once."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[str, Node]] = {}

    def node(self, value: Object) -> Node:
        """The typed node."""
        metadata = value["metadata"]
        name, version = metadata["name"], metadata["resourceVersion"]
        known = self._nodes.get(name)
        if known is None or known[0] != version:
            known = self._nodes[name] = version, msgspec.convert(value, Node, strict=False)
        return known[1]

    def forget(self, name: str) -> None:
        """Forget a deleted node."""
        self._nodes.pop(name, None)


def decoded_pod(value: Object) -> Pod:
    """A stored pod as a typed one."""
    return msgspec.convert(value, Pod, strict=False)


# Owner references: an object's controller, and the objects that a controller adopts or releases.
#
# As in kube-controller-manager: a controller adopts objects that its selector matches and that have no controller, and
# releases objects that its selector no longer matches. A controller that is being deleted adopts nothing.


def key_of(value: Object) -> Key:
    metadata = value["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])


def labels_of(value: Object) -> dict[str, str]:
    """The object's labels."""
    labels: dict[str, str] = value["metadata"].get("labels") or {}
    return labels


def controller_of(value: Object) -> Object | None:
    """The reference to the controlling owner."""
    for reference in value["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def reference_to(owner: Object) -> Object:
    """A controller reference to the owner."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_key(value: Object, owner: ServedResource) -> Key | None:
    """The key of the controlling owner if it is of this kind."""
    reference = controller_of(value)
    if reference is None or BY_GROUP_KIND.get((reference["apiVersion"], reference["kind"])) is not owner:
        return None
    return str(value["metadata"].get("namespace", "")), str(reference["name"])


def owner_resource(reference: Object) -> ServedResource | None:
    """The kind that a reference names, if it is served."""
    return BY_GROUP_KIND.get((reference["apiVersion"], reference["kind"]))


def itself(_: View, change: Change) -> Iterator[Key]:
    """The key of the changed object itself."""
    yield change.key


def concerned_owner(owner: ServedResource, view: View, change: Change) -> Iterator[Key]:
    """Keys of owners that a change of a dependent concerns: old and new controller, or owners that might adopt it.

    Called for each change of a pod, so a kind without objects costs only a dictionary look-up.
    """
    if not view.has_any(owner):
        return
    value = change.record.value
    keys = {owner_key(value, owner)}
    if change.previous is not None:
        keys.add(owner_key(change.previous.value, owner))
    found = [key for key in keys if key is not None and view.get(owner, key) is not None]
    yield from found
    if not found and controller_of(value) is None:
        labels = labels_of(value)
        for candidate in view.in_namespace(owner, change.key[0]) if labels else ():
            if selects(candidate, labels):
                yield key_of(candidate)


def selects(owner: Object, labels: dict[str, str]) -> bool:
    """Whether the owner's selector matches; an empty selector matches nothing."""
    selector = (owner.get("spec") or {}).get("selector")
    if owner["kind"] == "ReplicationController":
        selector = {"matchLabels": selector} if selector else None
    return bool(selector) and labels_match(selector, labels)


@dataclass(slots=True)
class Claimed:
    """The dependents of an owner, and the writes that adopt and release."""

    values: list[Object] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)


def claim(view: View, owner: Object, resource: ServedResource) -> Claimed:
    """The owner's dependents of a kind, with orphans adopted and non-matching objects released."""
    claimed = Claimed()
    owner_is_going = "deletionTimestamp" in owner["metadata"]
    for value in view.controlled(resource, owner):
        if owner_is_going or selects(owner, labels_of(value)):
            claimed.values.append(value)
        elif "deletionTimestamp" not in value["metadata"]:
            claimed.updates.append(Update(resource, _without_owner(value, owner)))
    if not owner_is_going:
        for value in _orphans(view, owner, resource):
            applied = _with_owner(value, owner)
            claimed.values.append(applied)
            claimed.updates.append(Update(resource, applied))
    return claimed


def _orphans(view: View, owner: Object, resource: ServedResource) -> Iterable[Object]:
    for value in view.in_namespace(resource, key_of(owner)[0]):
        is_free = controller_of(value) is None and "deletionTimestamp" not in value["metadata"]
        is_over = resource.key == "pods" and (value.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        if is_free and not is_over and selects(owner, labels_of(value)):
            yield value


def _with_owner(value: Object, owner: Object) -> Object:
    references = [*(value["metadata"].get("ownerReferences") or ()), reference_to(owner)]
    return {**value, "metadata": {**value["metadata"], "ownerReferences": references}}


def _without_owner(value: Object, owner: Object) -> Object:
    uid = owner["metadata"]["uid"]
    references = [
        known_reference
        for known_reference in value["metadata"].get("ownerReferences") or ()
        if known_reference["uid"] != uid
    ]
    metadata = {**value["metadata"], "ownerReferences": references}
    if not references:
        del metadata["ownerReferences"]
    return {**value, "metadata": metadata}


# Facts about pods for controllers: active, ready, available.

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


# Pod templates: pods made from them, and the hash that names a version of a template.

HASH_LABEL = "pod-template-hash"
REVISION_LABEL = "controller-revision-hash"

# Without vowels and ambiguous characters, so that a hash is never a word.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619
_encode = msgspec.json.Encoder(order="deterministic").encode


def hash_of(value: Any, collisions: int = 0) -> str:
    """A hash of up to ten letters; `collisions` changes it when another template has the same hash."""
    number = _FNV_OFFSET
    for byte in _encode([value, collisions]):
        number = ((number ^ byte) * _FNV_PRIME) % 2**32
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def pod_of(template: Object, owner: Object, *, name: str = "") -> Object:
    """A pod from a template, controlled by the owner; without a name, one is generated from the owner's."""
    given = template.get("metadata") or {}
    metadata: Object = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [reference_to(owner)]}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    for name_of_field in ("labels", "annotations", "finalizers"):
        if given.get(name_of_field):
            metadata[name_of_field] = type(given[name_of_field])(given[name_of_field])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}


def without_hash(template: Object, label: str = HASH_LABEL) -> Object:
    """The template as its owner wrote it."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != label}
    return {**template, "metadata": {**metadata, "labels": labels}}


def with_label(template: Object, key: str, value: str) -> Object:
    """The template with an additional label."""
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), key: value}}}
