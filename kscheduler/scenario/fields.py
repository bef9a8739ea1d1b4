"""Names of fields in manifests: which are misspelt, and which name was probably meant.

The problem: objects of real clusters have hundreds of fields that no scheduler reads, and some that are newer than
this code, so an unknown field is not an error. But `spec.nodeSelectr` would silently change the answer. The idea: an
unknown field within two letters of a known field that is absent is a typing mistake.
"""

import typing
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

# Letters; shorter names are within two letters of too many others.
_SHORTEST: Final = 5
_MAX_EDITS: Final = 2
# With which an unknown name is compared.
_MAX_NODES: Final = 10_000


def misspelt(tree: Any, kind: type, path: str = "") -> Iterator[str]:
    """Yields `path is not a field: do you mean name?` for each misspelt field, in the order of the tree."""
    if isinstance(tree, Mapping) and issubclass(kind, msgspec.Struct):
        known = _fields(kind)
        for name, child in tree.items():
            place = f"{path}.{name}" if path else str(name)
            if name in known:
                yield from misspelt(child, known[name], place)
            else:
                suggestion = _nearest_field(str(name), kind)
                if suggestion and suggestion not in tree:
                    yield f"{place} is not a field: do you mean {suggestion}?"
    elif isinstance(tree, (list, tuple)):
        for position, child in enumerate(tree):
            yield from misspelt(child, kind, f"{path}[{position}]")


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """The nearest known name within two letters (ignoring case); empty if there is none."""
    if len(name) < _SHORTEST:
        return ""
    distances = ((_distance(name.lower(), candidate.lower()), candidate) for candidate in known)
    near = [(distance, candidate) for distance, candidate in distances if distance <= _MAX_EDITS]
    return min(near)[1] if near else ""


def nearest_node(name: str, known: typing.Collection[str]) -> str:
    """`: do you mean node-007?`, to stand behind "there is no node node-7"; empty: none is near, or there are many."""
    near = nearest(name, known) if len(known) < _MAX_NODES else ""
    return f": do you mean {near}?" if near else ""


@lru_cache(maxsize=4096)
def _nearest_field(name: str, kind: type) -> str:
    """The known field that an unknown one may mean. Kept: a thousand pods of one template ask the same."""
    return nearest(name, (candidate for candidate in _fields(kind) if len(candidate) >= _SHORTEST))


@lru_cache(maxsize=256)
def _fields(kind: type) -> dict[str, type]:
    """For each name in JSON the struct that the field holds, also within a list; `object` for other types."""
    hints = typing.get_type_hints(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)  # type: ignore[attr-defined]
    return {encoded: _struct_in(hints[name]) for name, encoded in names}


def _struct_in(hint: Any) -> type:
    origin = typing.get_origin(hint)
    if origin is None:
        return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else object
    if origin is dict:
        return object
    found = (_struct_in(argument) for argument in typing.get_args(hint) if argument is not Ellipsis)
    return next((struct for struct in found if struct is not object), object)


def _distance(source: str, target: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours; `_MAX_EDITS + 1` if the lengths differ by more."""
    if abs(len(source) - len(target)) > _MAX_EDITS:
        return _MAX_EDITS + 1
    # `row[j]` is the distance from the first i letters of `source` to the first j of `target`, for rising i.
    second_last: list[int] = []
    last = list(range(len(target) + 1))
    for i, letter in enumerate(source, 1):
        row = [i]
        for j, target_letter in enumerate(target, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != target_letter))
            if second_last and j > 1 and letter == target[j - 2] and source[i - 2] == target_letter:
                cost = min(cost, second_last[j - 2] + 1)
            row.append(cost)
        second_last, last = last, row
    return last[-1]
