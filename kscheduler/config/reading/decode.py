"""A tree to typed settings: strict, with all mistakes at once and the set of fields that were given.

The problem: with a decoder that stops at the first mistake, correcting a file takes many attempts. The idea: walk
through the tree along the types that msgspec describes, and note each unknown field, wrong type and number out of range
with its path. In place of a wrong value the field keeps its default, so that the walk can continue.

`null` means "not given", as everywhere in the API.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from kscheduler.config.durations import Duration, DurationError, parse_duration
from kscheduler.config.errors import Problem, shown
from kscheduler.config.reading.yaml_tree import MAX_DEPTH, MAX_VALUES, Tree

S = TypeVar("S", bound=msgspec.Struct)

# Allowed in every object that has a kind; the caller that decodes such an object checks them.
TYPE_FIELDS = frozenset(("apiVersion", "kind"))


@dataclass(slots=True)
class Walk:
    """What decoding has found so far: the problems, and the paths of the given fields."""

    problems: list[Problem] = field(default_factory=list)
    given: set[str] = field(default_factory=set)

    def wrong(self, path: str, message: str) -> None:
        """Note a mistake."""
        self.problems.append(Problem(path, message))


class _Wrong:
    """Marks a value that could not be read; its mistake has been noted."""


_WRONG = _Wrong()
# How similar (0 to 1) a name must be to a field's to be taken for a misspelling.
_ALIKE: Final = 0.8
_MAX_FLOAT32 = 3.4028234663852886e38


def child(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


def decode_struct(tree: Tree, kind: type[S], path: str, walk: Walk, *, allowed: frozenset[str] = frozenset()) -> S:
    """Read an object and note mistakes in the walk. `allowed` fields are skipped: the caller reads them."""
    if not isinstance(tree, dict):
        walk.wrong(path, f"expected an object, got {_described(tree)}")
        return kind()
    fields = _fields(kind)
    values: dict[str, Any] = {}
    for name, subtree in tree.items():
        if name in allowed:
            continue
        if name not in fields:
            walk.wrong(child(path, name[:80]), _unknown(name, fields))
            continue
        if subtree is not None:
            value = _decode(subtree, fields[name].type, child(path, name), walk)
            if value is not _WRONG:
                values[fields[name].name] = value
    return kind(**values)


def _unknown(name: str, fields: dict[str, inspect.Field]) -> str:
    """Names the field that was probably meant. Mostly only capitals are wrong, or two letters are swapped."""
    by_plain = {known.lower(): known for known in fields}
    near = get_close_matches(name[:80].lower(), by_plain, n=1, cutoff=_ALIKE)
    return f"unknown field: did you mean {by_plain[near[0]]}?" if near else "unknown field"


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, inspect.Field]:
    described = inspect.type_info(kind)
    if not isinstance(described, inspect.StructType):
        raise TypeError(f"{kind} is no struct")
    return {field.encode_name: field for field in described.fields}


def _decode(tree: Tree, kind: inspect.Type, path: str, walk: Walk) -> Any:
    walk.given.add(path)
    match kind:
        case inspect.UnionType():
            return _decode(tree, _optional(kind), path, walk)
        case inspect.StructType():
            return decode_struct(tree, kind.cls, path, walk)
        case inspect.VarTupleType():
            return _items(tree, kind.item_type, path, walk)
        case inspect.DictType():
            return _members(tree, kind.value_type, path, walk)
        case inspect.AnyType():
            return tree
        case _:
            return _scalar(tree, kind, path, walk)


def _optional(kind: inspect.UnionType) -> inspect.Type:
    return next(member for member in kind.types if not isinstance(member, inspect.NoneType))


def _items(tree: Tree, kind: inspect.Type, path: str, walk: Walk) -> Any:
    if not isinstance(tree, list):
        walk.wrong(path, f"expected a list, got {_described(tree)}")
        return _WRONG
    items = (_decode(_null_item(item, kind), kind, f"{path}[{index}]", walk) for index, item in enumerate(tree))
    return tuple(item for item in items if item is not _WRONG)


def _null_item(item: Tree, kind: inspect.Type) -> Tree:
    """A null in a list is the empty value of its type, as Go reads it: `profiles: [null]` is one default profile."""
    if item is not None:
        return item
    match kind:
        case inspect.StructType():
            return {}
        case inspect.StrType():
            return ""
    return item


def _members(tree: Tree, kind: inspect.Type, path: str, walk: Walk) -> Any:
    if not isinstance(tree, dict):
        walk.wrong(path, f"expected an object, got {_described(tree)}")
        return _WRONG
    members = {name: _decode(value, kind, child(path, name), walk) for name, value in tree.items()}
    return {name: value for name, value in members.items() if value is not _WRONG}


def _scalar(tree: Tree, kind: inspect.Type, path: str, walk: Walk) -> Any:
    match kind:
        case inspect.StrType() if isinstance(tree, str):
            return tree
        case inspect.BoolType() if isinstance(tree, bool):
            return tree
        case inspect.FloatType() if isinstance(tree, (int, float)) and not isinstance(tree, bool):
            return _float(tree, path, walk)
        case inspect.IntType() if isinstance(tree, (int, float)) and not isinstance(tree, bool):
            return _integer(tree, kind, path, walk)
        case inspect.CustomType() if kind.cls is Duration and isinstance(tree, str):
            return _duration(tree, path, walk)
    walk.wrong(path, f"expected {_expected(kind)}, got {_described(tree)}")
    return _WRONG


def _float(number: float, path: str, walk: Walk) -> Any:
    """A float within the range of Go's float32."""
    if abs(number) > _MAX_FLOAT32:
        walk.wrong(path, f"{shown(number)} is outside [-{_MAX_FLOAT32}, {_MAX_FLOAT32}]")
        return _WRONG
    return float(number)


def _integer(number: float, kind: inspect.IntType, path: str, walk: Walk) -> Any:
    low, high = kind.ge, kind.le
    if not math.isfinite(number) or number != int(number):
        walk.wrong(path, f"expected a whole number, got {number}")
        return _WRONG
    if (low is not None and number < low) or (high is not None and number > high):
        walk.wrong(path, f"{shown(number)} is outside [{low}, {high}]")
        return _WRONG
    return int(number)


def _duration(text: str, path: str, walk: Walk) -> Any:
    try:
        return parse_duration(text)
    except DurationError as error:
        walk.wrong(path, str(error))
        return _WRONG


def _expected(kind: inspect.Type) -> str:
    match kind:
        case inspect.StrType():
            return "text (in quotes, if it looks like a number or yes or no)"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a number"
        case inspect.CustomType():
            return "a duration such as 15s or 1m30s"
    return str(kind)


def _described(tree: Tree) -> str:
    if tree is None:
        return "nothing"
    if isinstance(tree, dict):
        return "an object"
    return "a list" if isinstance(tree, list) else shown(tree)


def excess(tree: Tree) -> str:
    """Why a tree that a caller built (say, from JSON) is larger than a file may be; empty if it is not."""
    level, values = [tree], 1
    for _ in range(MAX_DEPTH + 1):
        level = [item for node in level for item in _inner(node)]
        values += len(level)
        if values > MAX_VALUES:
            return f"more than {MAX_VALUES:,} values"
        if not level:
            return ""
    return f"nested more than {MAX_DEPTH} deep"


def _inner(node: Tree) -> Iterable[Tree]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
