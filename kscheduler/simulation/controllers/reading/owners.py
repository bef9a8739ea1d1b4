"""Owner references: who controls an object, and which free objects a controller takes over or lets go.

As kube-controller-manager: a controller adopts what its selector matches and nobody controls, and releases what it
controls and its selector no longer matches. One that is being deleted adopts nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kscheduler.simulation.controllers.engine.plan import Update
from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.resources import BY_GROUP_KIND, ServedResource
from kscheduler.simulation.kinds.selectors import labels_match
from kscheduler.simulation.objects.store import Change, Key


def key_of(value: Object) -> Key:
    """(namespace, name)."""
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
    """A reference that makes the owner the controller."""
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
    """Key of the controlling owner if it is of this kind."""
    reference = controller_of(value)
    if reference is None or BY_GROUP_KIND.get((reference["apiVersion"], reference["kind"])) is not owner:
        return None
    return str(value["metadata"].get("namespace", "")), str(reference["name"])


def owner_resource(reference: Object) -> ServedResource | None:
    """The kind that a reference names, if it is served."""
    return BY_GROUP_KIND.get((reference["apiVersion"], reference["kind"]))


def itself(_: View, change: Change) -> Iterator[Key]:
    """The changed object is the controller's own."""
    yield change.key


def concerned_owner(owner: ServedResource, view: View, change: Change) -> Iterator[Key]:
    """Keys of owners that a change of a dependent concerns: its controller, the one before, or who might adopt it.

    The way of every pod's every change: a kind of owner of which there are none costs one look into a dictionary.
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
    """The dependents of an owner, and the writes that make it so."""

    values: list[Object] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)


def claim(view: View, owner: Object, resource: ServedResource) -> Claimed:
    """The owner's dependents of a kind, with orphans adopted and strangers released."""
    claimed = Claimed()
    owner_is_going = "deletionTimestamp" in owner["metadata"]
    for value in view.controlled(resource, owner):
        if owner_is_going or selects(owner, labels_of(value)):
            claimed.values.append(value)
        elif "deletionTimestamp" not in value["metadata"]:
            claimed.updates.append(Update(resource, _without_owner(value, owner)))
    if not owner_is_going:
        for value in _orphans(view, owner, resource):
            adopted = _with_owner(value, owner)
            claimed.values.append(adopted)
            claimed.updates.append(Update(resource, adopted))
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
    references = [one for one in value["metadata"].get("ownerReferences") or () if one["uid"] != uid]
    metadata = {**value["metadata"], "ownerReferences": references}
    if not references:
        del metadata["ownerReferences"]
    return {**value, "metadata": metadata}
