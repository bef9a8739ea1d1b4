"""Sets of fields, and their JSON form `fieldsV1`, for server-side apply.

A field is a path of elements: `f:name` for a field of a map, `k:{"name":"x"}` for an element of a keyed list,
`v:"x"` for an element of a set. A set of fields is a set of such paths: scalars, atomic values and empty maps are
members themselves; an element of a keyed list is a member, and so is each of its fields.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.patches.merge_schema import DEFAULT, Fields, Merge

Path = tuple[str, ...]
FieldSet = frozenset[Path]

# Fields without owners: identity and bookkeeping.
_UNOWNED: FieldSet = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "uid",
                "generation",
                "resourceVersion",
                "managedFields",
                "generateName",
            )
        ),
    }
)


def element_key(element: Any, rule: Merge) -> str | None:
    """`k:{...}` of an element of a keyed list; None if a key is missing."""
    if not isinstance(element, dict):
        return None
    keys = {}
    for name in sorted(rule.keys):
        value = element.get(name, rule.defaults.get(name))
        if value is None:
            return None
        keys[name] = value
    return "k:" + msgspec.json.encode(keys).decode()


def set_key(element: Any) -> str:
    """`v:...` of an element of a set."""
    return "v:" + msgspec.json.encode(element).decode()


def field_set(value: Object, fields: Fields) -> FieldSet:
    """All fields of an object that can have owners."""
    return frozenset(
        path for path in _paths_of_map(value, fields, ()) if path[:1] not in _UNOWNED and path[:2] not in _UNOWNED
    )


def _paths_of_map(value: Object, fields: Fields, prefix: Path) -> Iterator[Path]:
    for name, part in value.items():
        yield from _paths(part, fields.get(name, DEFAULT), (*prefix, f"f:{name}"))


def _paths(value: Any, rule: Merge, path: Path) -> Iterator[Path]:
    if isinstance(value, dict) and value and not rule.is_atomic:
        yield from _paths_of_map(value, rule.fields, path)
    elif isinstance(value, list) and rule.is_set:
        for element in value:
            yield (*path, set_key(element))
    elif isinstance(value, list) and rule.keys:
        yield from _paths_of_keyed(value, rule, path)
    else:
        yield path


def _paths_of_keyed(elements: list[Any], rule: Merge, path: Path) -> Iterator[Path]:
    for element in elements:
        key = element_key(element, rule)
        if key is not None:
            yield (*path, key)
            yield from _paths_of_map(element, rule.fields, (*path, key))


def leaf_values(value: Object, fields: Fields) -> dict[Path, Any]:
    """The value of each path of `field_set`; for an element of a list only its presence."""
    found: dict[Path, Any] = {}
    _collect_map(value, fields, (), found)
    return found


def _collect_map(value: Object, fields: Fields, prefix: Path, found: dict[Path, Any]) -> None:
    for name, part in value.items():
        _collect(part, fields.get(name, DEFAULT), (*prefix, f"f:{name}"), found)


def _collect(value: Any, rule: Merge, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and not rule.is_atomic:
        _collect_map(value, rule.fields, path, found)
    elif isinstance(value, list) and rule.is_set:
        found.update({(*path, set_key(element)): True for element in value})
    elif isinstance(value, list) and rule.keys:
        for element in value:
            key = element_key(element, rule)
            if key is not None:
                found[(*path, key)] = True
                _collect_map(element, rule.fields, (*path, key), found)
    else:
        found[path] = value


def to_fields_v1(paths: Iterable[Path]) -> Object:
    """The `fieldsV1` trie of a set."""
    members = set(paths)
    root: Object = {}
    for path in sorted(members):
        place = root
        for element in path:
            place = place.setdefault(element, {})
    for path in members:
        _mark_member(root, path)
    return root


def _mark_member(root: Object, path: Path) -> None:
    """Mark an inner node that is itself a member with `.`."""
    place = root
    for element in path:
        place = place[element]
    if place:
        place["."] = {}


def from_fields_v1(trie: Object) -> FieldSet:
    """The set of a `fieldsV1` trie."""
    return frozenset(_members(trie, ()))


def _members(trie: Object, prefix: Path) -> Iterator[Path]:
    for element, below in trie.items():
        if element == ".":
            yield prefix
        elif below:
            yield from _members(below, (*prefix, element))
        else:
            yield (*prefix, element)


def shown_path(path: Path) -> str:
    """A path as in conflict messages: `.spec.containers[name="c"].image`."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            pairs = msgspec.json.decode(rest).items()
            text += "[" + ",".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in pairs) + "]"
        else:
            text += f"[={rest}]"
    return text
