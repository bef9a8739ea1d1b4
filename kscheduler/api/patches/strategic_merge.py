"""Strategic merge patches: merging by keys, with kubectl's directives.

    {"spec": {"containers": [{"name": "a", "image": "x"}]}}       merges into the container called a
    {"$patch": "delete", "name": "a"}                              removes it
    {"$patch": "replace", ...}                                     replaces a map, or (as an element) a list
    {"$deleteFromPrimitiveList/finalizers": ["x"]}                 removes elements from a set
    {"$setElementOrder/containers": [...]}                         orders the elements of a list
    {"$retainKeys": ["name", "emptyDir"]}                          drops the other keys of a union

A null removes a field. All functions return new values; arguments are never changed.
"""

from typing import Any

from kscheduler.api.machinery.api_errors import Object, bad_request
from kscheduler.api.patches.merge_schema import DEFAULT, Fields, Merge

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def apply(current: Object, patch: Object, fields: Fields) -> Object:
    """`current` with `patch` merged in by the rules in `fields`. Raises 400 for an invalid directive."""
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    if directive == "replace":
        replaced: Object = _stripped(patch)
        return replaced
    if directive not in {None, "merge"}:
        raise bad_request(f"Unknown patch type: {directive} found in a strategic merge patch")
    fields = _with_ordered(patch, fields)
    merged = _retained(current, patch)
    for name, value in patch.items():
        _apply_field(merged, name, value, fields)
    _apply_orders(merged, current, patch, fields)
    return merged


def _with_ordered(patch: Object, fields: Fields) -> Fields:
    """The rules, and for a list without one what its order says: its elements are values, or keys alone."""
    for name, order in patch.items():
        field = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and field not in fields and order:
            keys = {key for element in order for key in element} if isinstance(order[0], dict) else set()
            rule = Merge(merge_key=keys.pop()) if len(keys) == 1 else Merge(is_set=not isinstance(order[0], dict))
            fields = {**fields, field: rule}
    return fields


def _stripped(value: Any) -> Any:
    """The value without directives and nulls, for a new field."""
    if isinstance(value, dict):
        return {name: _stripped(part) for name, part in value.items() if not name.startswith("$") and part is not None}
    if isinstance(value, list):
        return [_stripped(part) for part in value if not _is_deletion(part)]
    return value


def _is_deletion(element: Any) -> bool:
    return isinstance(element, dict) and element.get(_DIRECTIVE) == "delete"


def _retained(current: Object, patch: Object) -> Object:
    keep = patch.get(_RETAIN)
    return dict(current) if keep is None else {name: value for name, value in current.items() if name in keep}


def _apply_field(merged: Object, name: str, value: Any, fields: Fields) -> None:
    if name.startswith(_DELETE):
        _delete_from_list(merged, name.removeprefix(_DELETE), value)
    elif name.startswith("$"):
        return
    elif value is None:
        merged.pop(name, None)
    elif isinstance(value, dict):
        present = merged.get(name)
        rule = fields.get(name, DEFAULT)
        merged[name] = apply(present if isinstance(present, dict) else {}, value, rule.fields)
    elif isinstance(value, list):
        merged[name] = _merge_list(merged.get(name) or [], value, fields.get(name, DEFAULT))
    else:
        merged[name] = value


def _delete_from_list(merged: Object, name: str, unwanted: list[Any]) -> None:
    if name in merged:
        merged[name] = [element for element in merged[name] if element not in unwanted]


def _merge_list(current: list[Any], patch: list[Any], rule: Merge) -> list[Any]:
    if rule.is_set:
        union = [*current, *(element for element in patch if element not in current)]
        return _interleaved(union, patch, current, "")
    if not rule.merge_key:
        return [_stripped(element) for element in patch]
    if any(isinstance(element, dict) and element == {_DIRECTIVE: "replace"} for element in patch):
        return [_stripped(element) for element in patch if element != {_DIRECTIVE: "replace"}]
    return _merge_by_key(current, patch, rule)


def _merge_by_key(current: list[Any], patch: list[Any], rule: Merge) -> list[Any]:
    merged = list(current)
    for element in patch:
        if not isinstance(element, dict) or rule.merge_key not in element:
            raise bad_request(f"map: {element!r} does not contain declared merge key: {rule.merge_key}")
        place = _index(merged, rule.merge_key, element[rule.merge_key])
        if _is_deletion(element):
            merged = [m for m in merged if m.get(rule.merge_key) != element[rule.merge_key]]
        elif place is None:
            merged.append(_stripped(element))
        else:
            merged[place] = apply(merged[place], element, rule.fields)
    return _interleaved(merged, patch, current, rule.merge_key)


def _index(elements: list[Any], key: str, value: Any) -> int | None:
    return next((place for place, element in enumerate(elements) if element.get(key) == value), None)


def _apply_orders(merged: Object, current: Object, patch: Object, fields: Fields) -> None:
    for name, order in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            if isinstance(merged.get(field), list):
                key = fields.get(field, DEFAULT).merge_key
                merged[field] = _interleaved(merged[field], order, current.get(field) or [], key)


def _interleaved(elements: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """The elements of the patch in its order and the others in their old order, merged as by the API server.

    An element of the server comes before an element of the patch if it did so before; if that is unknown, the
    element of the patch comes first.
    """

    def identity(element: Any) -> Any:
        return element.get(key) if isinstance(element, dict) and key else element

    places = [identity(element) for element in before]
    wanted = [identity(element) for element in order]
    patched = sorted((e for e in elements if identity(e) in wanted), key=lambda e: wanted.index(identity(e)))
    kept = [element for element in elements if identity(element) not in wanted]
    merged: list[Any] = []
    while kept and patched:
        left, right = identity(kept[0]), identity(patched[0])
        stood_before = left in places and right in places and places.index(left) < places.index(right)
        merged.append((kept if stood_before else patched).pop(0))
    return [*merged, *patched, *kept]
