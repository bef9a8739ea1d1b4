"""Field ownership: `metadata.managedFields`, kept for clients that name themselves.

The real server tracks every writer. Here a write without `fieldManager` is tracked only if the object already has
owners, so that benchmarks' binds cost nothing and `kubectl apply --server-side` still works. Fields of an object
without owners belong to `before-first-apply` after the first apply, as on the real server.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.patches.field_sets import FieldSet, field_set, from_fields_v1, leaf_values, to_fields_v1
from kscheduler.api.patches.merge_schema import fields_of

BEFORE_FIRST_APPLY = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Owner:
    """An entry of managedFields."""

    manager: str
    operation: str
    """`Apply` or `Update`."""
    fields: FieldSet
    group_version: str
    time: str = ""
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equal for two entries of the same owner."""
        return (self.manager, self.operation, self.subresource)

    def as_object(self) -> Object:
        """The entry as JSON."""
        entry: Object = {"manager": self.manager, "operation": self.operation, "apiVersion": self.group_version}
        if self.time:
            entry["time"] = self.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(self.fields)}
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def owners_of(value: Object) -> list[Owner]:
    """Entries of an object's managedFields."""
    entries = value["metadata"].get("managedFields") or ()
    return [
        Owner(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            from_fields_v1(entry.get("fieldsV1") or {}),
            entry.get("apiVersion", value.get("apiVersion", "")),
            entry.get("time", ""),
            entry.get("subresource", ""),
        )
        for entry in entries
    ]


def owners_before_apply(value: Object) -> list[Owner]:
    """The owners before a first apply: fields without an owner belong to `before-first-apply`."""
    owners = owners_of(value)
    if owners:
        return owners
    fields = field_set(
        {name: part for name, part in value.items() if name != "status"}, fields_of(value["kind"], value["apiVersion"])
    )
    return [
        Owner(BEFORE_FIRST_APPLY, "Update", fields, value["apiVersion"], value["metadata"].get("creationTimestamp", ""))
    ]


def write_owners(value: Object, owners: Sequence[Owner]) -> None:
    """Set the object's managedFields, without owners of no fields."""
    entries = [owner.as_object() for owner in owners if owner.fields]
    if entries:
        value["metadata"]["managedFields"] = entries
    else:
        value["metadata"].pop("managedFields", None)


def track(old: Object | None, new: Object, manager: str, now: datetime, subresource: str = "") -> None:
    """Record that `manager` changed `old` to `new`: it owns the fields that it added or changed; others lose them."""
    fields = fields_of(new["kind"], new["apiVersion"])
    before = leaf_values(old, fields) if old else {}
    after = leaf_values(new, fields)
    owned = field_set(new, fields)
    changed = frozenset(path for path in owned if path not in before or before[path] != after.get(path))
    owners = [replace(owner, fields=(owner.fields - changed) & owned) for owner in owners_of(old or new)]
    if changed:
        own_entry = Owner(manager, "Update", changed, new["apiVersion"], timestamp(now), subresource)
        owners = with_owner(owners, own_entry, keep_fields=True)
    write_owners(new, owners)


def with_owner(owners: Sequence[Owner], owner: Owner, *, keep_fields: bool) -> list[Owner]:
    """The owners with this owner's entry replaced; with `keep_fields` it keeps its earlier fields too."""
    known = next((entry for entry in owners if entry.identity == owner.identity), None)
    if known is None:
        return [*owners, owner]
    if keep_fields:
        owner = replace(owner, fields=known.fields | owner.fields)
    return [owner if entry is known else entry for entry in owners]
