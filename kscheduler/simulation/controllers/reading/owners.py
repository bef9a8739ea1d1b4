"""Owner references: an object's controller, and the objects that a controller adopts or releases.

As in kube-controller-manager: a controller adopts objects that its selector matches and that have no controller, and
releases objects that its selector no longer matches. A controller that is being deleted adopts nothing.
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
    references = [
        known_reference
        for known_reference in value["metadata"].get("ownerReferences") or ()
        if known_reference["uid"] != uid
    ]
    metadata = {**value["metadata"], "ownerReferences": references}
    if not references:
        del metadata["ownerReferences"]
    return {**value, "metadata": metadata}
