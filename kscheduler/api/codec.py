"""Bytes to objects, as lenient as the API and with clear errors.

The API server omits empty fields, but Go clients may write `null` for an empty list or map, and `null` means
"nothing" throughout the API. Decoding is strict and fast first; only if that fails, nulls are removed and the rest is
decoded again. If that fails too, an `UndecodableError` names the object.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class UndecodableError(ValueError):
    """An object does not have the shape of its kind. The message names the field, `identity` the object."""

    def __init__(self, message: str, identity: str = "") -> None:
        super().__init__(message)
        self.identity = identity


class Decoder(Generic[T]):
    """Decodes one type. Build it once and keep it."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._strict = msgspec.json.Decoder(kind)

    def decode(self, line: bytes | str | msgspec.Raw) -> T:
        """Decode a JSON document. Raises `UndecodableError`."""
        try:
            return self._strict.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._decode_without_nulls(line)

    def _decode_without_nulls(self, line: bytes | str | msgspec.Raw) -> T:
        try:
            tree = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodableError(f"not JSON: {error}") from None
        return convert(tree, self._kind)


def copied(tree: Any) -> Any:
    """A JSON tree that shares no dict and no list with the given one; numpy's numbers are Python's, times are texts."""
    if isinstance(tree, Mapping):
        return {key: copied(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [copied(each) for each in tree]
    if isinstance(tree, date):  # YAML reads times as such
        return tree.isoformat()
    return tree.item() if hasattr(tree, "dtype") and hasattr(tree, "item") else tree


def convert(tree: Any, kind: type[T]) -> T:
    """A tree of dicts and lists (from JSON or YAML) to a struct. Raises `UndecodableError` with the field's path."""
    try:
        return msgspec.convert(without_nulls(tree), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UndecodableError(str(error), identity_of(tree)) from None


def without_nulls(tree: Any) -> Any:
    """The tree without its `null` members, as the API reads it."""
    if isinstance(tree, dict):
        return {key: without_nulls(child) for key, child in tree.items() if child is not None}
    if isinstance(tree, list):
        return [without_nulls(child) for child in tree if child is not None]
    return tree


def identity_of(tree: Any) -> str:
    """`namespace/name` as far as the tree has them, for logs about objects that cannot be decoded."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    if not isinstance(metadata, dict):
        return ""
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
