"""Who owns which field: `metadata.managedFields`, kept for clients that name themselves.

The real server tracks every writer. Here a write without `fieldManager` is tracked only if the object has owners
already, so that a benchmark's binds cost nothing and `kubectl apply --server-side` still finds what it needs. Fields of
an object without owners belong to `before-first-apply` from the first apply on, as on the real server.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.durations import timestamp
from kscheduler.simulation.patches.field_sets import FieldSet, field_set, from_fields_v1, leaf_values, to_fields_v1
from kscheduler.simulation.patches.merge_schema import fields_of

BEFORE_FIRST_APPLY = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of managedFields."""

    manager: str
    operation: str
    """`Apply` or `Update`."""
    fields: FieldSet
    group_version: str
    time: str = ""
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes two entries the same owner."""
        return (self.manager, self.operation, self.subresource)

    def as_object(self) -> Object:
        """The entry as managedFields holds it."""
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
    """Owners as a first apply finds them: what nobody claimed belongs to `before-first-apply`."""
    owners = owners_of(value)
    if owners:
        return owners
    fields = field_set({name: part for name, part in value.items() if name != "status"}, fields_of(value["kind"]))
    return [
        Owner(BEFORE_FIRST_APPLY, "Update", fields, value["apiVersion"], value["metadata"].get("creationTimestamp", ""))
    ]


def write_owners(value: Object, owners: Sequence[Owner]) -> None:
    """Set the object's managedFields; owners of nothing are left out."""
    entries = [owner.as_object() for owner in owners if owner.fields]
    if entries:
        value["metadata"]["managedFields"] = entries
    else:
        value["metadata"].pop("managedFields", None)


def track(old: Object | None, new: Object, manager: str, now: datetime, subresource: str = "") -> None:
    """Note in `new` that `manager` made of `old` what it is: it owns what it added or changed, others lose that."""
    fields = fields_of(new["kind"])
    before = leaf_values(old, fields) if old else {}
    after = leaf_values(new, fields)
    owned = field_set(new, fields)
    changed = frozenset(path for path in owned if path not in before or before[path] != after.get(path))
    owners = [replace(owner, fields=(owner.fields - changed) & owned) for owner in owners_of(old or new)]
    if changed:
        mine = Owner(manager, "Update", changed, new["apiVersion"], timestamp(now), subresource)
        owners = with_owner(owners, mine, keep_fields=True)
    write_owners(new, owners)


def with_owner(owners: Sequence[Owner], owner: Owner, *, keep_fields: bool) -> list[Owner]:
    """The owners with this one's entry replaced; with `keep_fields` it also keeps what it owned."""
    known = next((other for other in owners if other.identity == owner.identity), None)
    if known is None:
        return [*owners, owner]
    if keep_fields:
        owner = replace(owner, fields=known.fields | owner.fields)
    return [owner if other is known else other for other in owners]
