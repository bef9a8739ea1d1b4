"""Fields of the API's structs, found by themselves, and trees in which one of them is filled to a size.

    paths(Pod)                            every list, map and single value that a pod may have
    Filling(path, words).tree(1_000_000)  a pod with a megabyte of `spec.affinity...matchExpressions[].values`

Where the innermost list has a limit, the list around it gets as many entries as are needed, and so on outwards.
"""

import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import FieldInfo, fields

from kscheduler.api.meta import KubeObject, ObjectMeta
from kscheduler.api.quantity import Quantity
from tests.hostile.sound import FORMS, KEYS, LARGEST_ANNOTATIONS, MOST, VALUES, Tree, finish
from tests.hostile.words import Form, Words

# What each object gets when it is made; a deletion is not written but asked for.
_GIVEN_METADATA: Final = frozenset({"name", "namespace", "uid", "resource_version", "deletion_timestamp"})
_MANY: Final = 10**9


class UnknownFieldError(LookupError):
    """Nobody has said what the texts of a field look like: a line in `tests.hostile.sound` is missing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A field of a struct."""

    struct: type[msgspec.Struct]
    field: FieldInfo
    shape: str
    """`one`, `list` or `map`."""
    inner: Any
    """The type of the value, or of an entry."""

    @property
    def key(self) -> tuple[str, str]:
        """The names of struct and field, as in Python."""
        return self.struct.__name__, self.field.name

    @property
    def most(self) -> int:
        """The most entries that the API server takes."""
        return MOST.get(".".join(self.key), _MANY) if self.shape != "one" else 1

    @property
    def holds_struct(self) -> bool:
        """Whether the value, or each entry, is a struct."""
        return isinstance(self.inner, type) and issubclass(self.inner, msgspec.Struct)


Path = tuple[Step, ...]


def steps(struct: type[msgspec.Struct]) -> Iterator[Step]:
    """All fields of a struct."""
    for field in fields(struct):
        kind = _without_none(field.type)
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple:
            yield Step(struct, field, "list", inside[0])
        elif origin is dict:
            yield Step(struct, field, "map", inside[1])
        else:
            yield Step(struct, field, "one", kind)


def _without_none(kind: Any) -> Any:
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return kind
    left = [one for one in typing.get_args(kind) if one is not types.NoneType]
    return left[0] if len(left) == 1 else Quantity


def paths(struct: type[msgspec.Struct], before: Path = ()) -> Iterator[Path]:
    """The way to each field from here, structs themselves left out, but for those without fields."""
    for step in steps(struct):
        if struct is ObjectMeta and step.field.name in _GIVEN_METADATA:
            continue
        path = (*before, step)
        if not step.holds_struct or step.shape != "one" or not fields(step.inner):
            yield path
        if step.holds_struct:
            yield from paths(step.inner, path)


def named(path: Path) -> str:
    """The path as in JSON, each list as often as it is entered: `spec.affinity.nodeAffinity...`."""
    return ".".join(step.field.encode_name for step in path)


def is_collection(path: Path) -> bool:
    """Whether the path ends in a list or a map."""
    return path[-1].shape != "one"


class Filling:
    """A path of a kind that is filled."""

    def __init__(self, root: type[KubeObject], path: Path, words: Words) -> None:
        self._root, self._path, self._words = root, path, words

    def tree(self, size: int, metadata: Tree) -> Tree:
        """The object, of about `size` bytes at most. `metadata`: its identity."""
        if any(step.field.name == "annotations" for step in self._path):
            size = min(size, LARGEST_ANNOTATIONS - 1024)
        tree: Tree = {"metadata": dict(metadata)}
        return self._struct(self._root, self._path, size, tree)

    def _struct(self, struct: type[msgspec.Struct], path: Path, size: int, tree: Tree) -> Tree:
        if path:
            name = path[0].field.encode_name
            filled = self._value(path[0], path[1:], size)
            tree[name] = {**tree[name], **filled} if isinstance(tree.get(name), dict) else filled
        elif self._words.is_full:
            self._fill(struct, tree)
        finish(struct.__name__, tree, self._words)
        return tree

    def _fill(self, struct: type[msgspec.Struct], tree: Tree) -> None:
        """All single values of a struct, and of the structs in it that are no lists."""
        for step in steps(struct):
            name = step.field.encode_name
            if step.shape == "one" and name not in tree and struct is not ObjectMeta:
                tree[name] = self._struct(step.inner, (), 0, {}) if step.holds_struct else self._single(step)

    def _value(self, step: Step, rest: Path, size: int) -> Any:
        if step.shape == "one":
            return self._struct(step.inner, rest, size, {}) if step.holds_struct else self._single(step)
        entries: list[Any] = []
        if any(inner.shape != "one" for inner in rest):
            room = self._room(step.inner, rest)
            count = 1 if room >= size else min(step.most, -(-size // room))
            entries = [self._struct(step.inner, rest, size // count, {}) for _ in range(count)]
        else:
            while size > 0 and len(entries) < step.most:
                entry = self._struct(step.inner, rest, 0, {}) if step.holds_struct else self._single(step)
                entries.append(entry)
                size -= len(json.dumps(entry, ensure_ascii=False)) + 2
                size -= len(self._words.text(self._key_form(step))) + 4 if step.shape == "map" else 0
        if step.shape == "list":
            return entries
        form = self._key_form(step)
        return {self._words.text(form, must_differ=True): entry for entry in entries}

    def _room(self, inner: type[msgspec.Struct], rest: Path) -> int:
        """The most bytes that one entry can hold along the rest of the path."""
        room, bounded = 1, [step for step in rest if step.shape != "one"]
        for step in bounded:
            room *= step.most
            if room >= _MANY:
                return _MANY
        sample = self._struct(inner, rest, 1, {})
        return room * len(json.dumps(sample, ensure_ascii=False))

    def _single(self, step: Step) -> Any:
        kind, words = step.inner, self._words
        if kind is bool:
            return True
        if kind is int:
            return words.odd_number()
        if kind is typing.Any:
            return {"apiVersion": "x.io/v1", "kind": "C", "list": [[words.number()]] * 10}
        form = self._form(step)
        return words.one_of(form) if isinstance(form, tuple) else words.text(form)

    def _form(self, step: Step) -> Form | tuple[str, ...]:
        if step.inner is Quantity or step.inner == Quantity:
            return Form.QUANTITY
        return _message(VALUES if step.shape == "map" else FORMS, step)

    def _key_form(self, step: Step) -> Form:
        form = _message(KEYS, step)
        assert isinstance(form, Form)
        return form


def _message(table: Any, step: Step) -> Form | tuple[str, ...]:
    found: Form | tuple[str, ...] | None = table.get(".".join(step.key), table.get(step.field.name))
    if found is None:
        raise UnknownFieldError(f"what does {'.'.join(step.key)} look like? tests/hostile/sound.py does not say")
    return found
