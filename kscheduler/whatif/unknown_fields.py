"""Fields that nobody reads because they are misspelt.

The problem: objects come from real clusters with hundreds of fields that no scheduler reads, and with newer ones that
nobody here knows, so an unknown field is no error. But `spec.nodeSelectr` changes the answer in silence. The idea: an
unknown field that is two letters or less away from one that is read, and that one is not there, is a typing mistake.
"""

import typing
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

_SHORTEST: Final = 5
"""Letters; shorter names are two letters away from too many others."""
_MOST_EDITS: Final = 2


def misspelt(tree: Any, kind: type, path: str = "") -> Iterator[str]:
    """`path is not a field: do you mean name?` for each, in the order of the tree."""
    if isinstance(tree, Mapping) and issubclass(kind, msgspec.Struct):
        known = _fields(kind)
        for name, child in tree.items():
            place = f"{path}.{name}" if path else str(name)
            if name in known:
                yield from misspelt(child, known[name], place)
            else:
                meant = _meant(str(name), known, tree)
                if meant:
                    yield f"{place} is not a field: do you mean {meant}?"
    elif isinstance(tree, (list, tuple)):
        for position, child in enumerate(tree):
            yield from misspelt(child, kind, f"{path}[{position}]")


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """The known name that is two letters or less away (whatever the case); empty where there is none."""
    if len(name) < _SHORTEST:
        return ""
    near = [(distance, one) for one in known if (distance := _distance(name.lower(), one.lower())) <= _MOST_EDITS]
    return min(near)[1] if near else ""


def _meant(name: str, known: Mapping[str, type], tree: Mapping[Any, Any]) -> str:
    meant = nearest(name, (one for one in known if len(one) >= _SHORTEST))
    return "" if meant in tree else meant


@lru_cache(maxsize=256)
def _fields(kind: type) -> dict[str, type]:
    """By the name in JSON the struct that a field holds, in a list or alone; `object` for everything else."""
    hints = typing.get_type_hints(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)  # type: ignore[attr-defined]
    return {encoded: _struct_in(hints[name]) for name, encoded in names}


def _struct_in(hint: Any) -> type:
    origin = typing.get_origin(hint)
    if origin is None:
        return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else object
    if origin is dict:
        return object
    found = (_struct_in(one) for one in typing.get_args(hint) if one is not Ellipsis)
    return next((one for one in found if one is not object), object)


def _distance(one: str, other: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours; stops counting beyond `_MOST_EDITS`."""
    if abs(len(one) - len(other)) > _MOST_EDITS:
        return _MOST_EDITS + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        row = [at]
        for to, its in enumerate(other, 1):
            cost = min(last[to] + 1, row[to - 1] + 1, last[to - 1] + (letter != its))
            if before and to > 1 and letter == other[to - 2] and one[at - 2] == its:
                cost = min(cost, before[to - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
