"""Server-side apply: an applied object has exactly the fields that its manager wants.

    1. the manager owns the fields of the applied object; fields that it drops and nobody else owns are removed;
    2. changing a field of another manager is a conflict (409), or with `force` takes the field over;
    3. managers that apply equal values own a field together.

Lists merge by the keys of `merge_schema`; atomic values are replaced as a whole.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kscheduler.api.machinery.api_errors import ApiError, Object
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.shapes import without_nulls
from kscheduler.api.patches.field_managers import Owner, owners_before_apply, with_owner, write_owners
from kscheduler.api.patches.field_sets import (
    FieldSet,
    Path,
    element_key,
    field_set,
    leaf_values,
    set_key,
    shown_path,
)
from kscheduler.api.patches.merge_schema import DEFAULT, Fields, Merge, fields_of


def apply(
    current: Object | None,
    applied: Object,
    manager: str,
    now: datetime,
    *,
    force: bool = False,
    subresource: str = "",
) -> Object:
    """The object after the apply, with managedFields. Raises 409 with all conflicts."""
    applied = without_nulls(applied)
    fields = fields_of(applied["kind"], applied["apiVersion"])
    wanted = field_set(applied, fields)
    own_entry = Owner(manager, "Apply", wanted, applied["apiVersion"], timestamp(now), subresource)
    if current is None:
        created = {**applied, "metadata": dict(applied["metadata"])}
        write_owners(created, [own_entry])
        return created
    owners = owners_before_apply(current)
    merged = merge_map(current, applied, fields)
    lost = _conflicts(current, merged, wanted, owners, own_entry, fields)
    if lost and not force:
        raise _conflict_error(lost)
    previous = next((owner.fields for owner in owners if owner.identity == own_entry.identity), frozenset())
    others = [owner for owner in owners if owner.identity != own_entry.identity]
    pruned = prune(merged, _abandoned(previous - wanted, others), fields)
    return _with_owners(current, pruned, owners, own_entry, lost)


def _with_owners(
    current: Object, merged: Object, owners: Sequence[Owner], own_entry: Owner, lost: Sequence[tuple[Owner, Path]]
) -> Object:
    taken: dict[tuple[str, str, str], set[Path]] = {}
    for owner, path in lost:
        taken.setdefault(owner.identity, set()).add(path)
    kept = [replace(owner, fields=owner.fields - taken.get(owner.identity, set())) for owner in owners]
    known = next((owner for owner in owners if owner.identity == own_entry.identity), None)
    if known is not None and known.fields == own_entry.fields:
        own_entry = replace(own_entry, time=known.time)  # repeating an apply changes nothing
    merged = {**merged, "metadata": {**merged["metadata"]}}
    for name in ("resourceVersion", "uid"):
        merged["metadata"][name] = current["metadata"][name]
    write_owners(merged, with_owner(kept, own_entry, keep_fields=False))
    return merged


def _conflicts(
    current: Object, merged: Object, wanted: FieldSet, owners: Sequence[Owner], own_entry: Owner, fields: Fields
) -> list[tuple[Owner, Path]]:
    """Fields that this apply would change and that another manager owns."""
    before, after = leaf_values(current, fields), leaf_values(merged, fields)
    changed = frozenset(path for path in wanted if before.get(path) != after.get(path))
    return [
        (owner, path)
        for owner in owners
        if owner.identity != own_entry.identity
        for path in sorted(changed & owner.fields)
    ]


def _conflict_error(lost: Sequence[tuple[Owner, Path]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{owner.manager}"{_using(owner)}',
            "field": shown_path(path),
        }
        for owner, path in lost
    ]
    plural = "s" if len(lost) > 1 else ""
    managers = sorted({cause["message"] for cause in causes})
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            f"{text}:\n" + "\n".join(f"- {c['field']}" for c in causes if c["message"] == text) for text in managers
        ]
        message = f"Apply failed with {len(causes)} conflict{plural}: " + "\n".join(
            ["conflicts " + line.removeprefix("conflict ") for line in lines]
        )
    return ApiError(409, "Conflict", message, {"causes": causes})


def _using(owner: Owner) -> str:
    if owner.operation == "Apply":
        return ""
    return (
        f' with subresource "{owner.subresource}" using {owner.group_version}'
        if owner.subresource
        else f" using {owner.group_version}"
    )


def _abandoned(dropped: FieldSet, others: Sequence[Owner]) -> FieldSet:
    """Fields that this manager dropped and that nobody else owns, including everything inside them."""
    owned = frozenset(path[:length] for owner in others for path in owner.fields for length in range(1, len(path) + 1))
    return dropped - owned


def merge_map(current: Object, applied: Object, fields: Fields) -> Object:
    """`current` with the fields of `applied` merged in."""
    merged = dict(current)
    for name, value in applied.items():
        merged[name] = _merge_value(merged.get(name), value, fields.get(name, DEFAULT))
    return merged


def _merge_value(current: Any, applied: Any, rule: Merge) -> Any:
    if isinstance(applied, dict) and isinstance(current, dict) and not rule.is_atomic:
        return merge_map(current, applied, rule.fields)
    if isinstance(applied, list) and isinstance(current, list) and (rule.is_set or rule.keys):
        return _merge_elements(current, applied, rule)
    return applied


def _merge_elements(current: list[Any], applied: list[Any], rule: Merge) -> list[Any]:
    """The elements of both lists: those of the applier in the applier's order, the others where they stood among them.

    An element that is only in `current` comes before the next applied one that is in both, as it does in `current`:
    `[x, a, y]` with `[n, a, b]` applied is `[x, n, a, y, b]`.
    """
    keys = [_key_of(element, rule) for element in current]
    known = dict(zip(keys, current, strict=True))
    wanted = {_key_of(element, rule): element for element in applied}
    shared = [key for key in wanted if key in known]
    merged: list[Any] = []
    place = 0
    for key, element in wanted.items():
        # The next of both that is not yet merged is never passed over; with none left, what follows is `current`'s own.
        stop = shared[0] if shared else None
        while place < len(keys) and keys[place] != stop:
            if keys[place] not in wanted:
                merged.append(current[place])
            place += 1
        if key == stop:
            shared.pop(0)
            place += 1 if place < len(keys) else 0
        is_map = isinstance(element, dict) and isinstance(known.get(key), dict)
        merged.append(merge_map(known[key], element, rule.fields) if is_map else element)
    return [*merged, *(current[rest] for rest in range(place, len(keys)) if keys[rest] not in wanted)]


def _key_of(element: Any, rule: Merge) -> str:
    """What identifies the element; without its keys an element is like no other but an equal one."""
    return (None if rule.is_set else element_key(element, rule)) or set_key(element)


def prune(value: Object, abandoned: FieldSet, fields: Fields) -> Object:
    """The object without the abandoned fields; maps that lose their last field go too."""
    return _prune_map(value, abandoned, fields, ()) if abandoned else value


def _prune_map(value: Object, abandoned: FieldSet, fields: Fields, prefix: Path) -> Object:
    kept: Object = {}
    for name, part in value.items():
        path = (*prefix, f"f:{name}")
        if path in abandoned:
            continue
        pruned = _prune_value(part, abandoned, fields.get(name, DEFAULT), path)
        if part and not pruned and pruned is not part:
            continue
        kept[name] = pruned
    return kept


def _prune_value(value: Any, abandoned: FieldSet, rule: Merge, path: Path) -> Any:
    if isinstance(value, dict) and not rule.is_atomic:
        return _prune_map(value, abandoned, rule.fields, path)
    if isinstance(value, list) and rule.is_set:
        return [element for element in value if (*path, set_key(element)) not in abandoned]
    if isinstance(value, list) and rule.keys:
        kept = []
        for element in value:
            place = (*path, element_key(element, rule) or "")
            if place not in abandoned:
                kept.append(_prune_map(element, abandoned, rule.fields, place))
        return kept
    return value
