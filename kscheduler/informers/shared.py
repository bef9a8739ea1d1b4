"""Replaces equal values by a shared one, kept while it is in use.

The problem: a hundred thousand pods hold a hundred thousand copies of the same two tolerations. The idea: keep values
by their encoding, which takes half a microsecond to write, and hand out the first of equal values. Values must never
change. Values that are no longer in use are dropped when the table has grown by a quarter since the last sweep, so
containers, owners and labels of past releases and Jobs do not stay; a sweep costs each new value half a microsecond.
Limit: a table full of values in use is emptied; later equal values are then not recognised, which costs memory only.
A table is bounded by bytes, too: values whose encodings are long are not shared (no two of them are alike but by will),
and a sweep is due as soon as a quarter of a megabyte of encodings has come: values take up to sixteen times as much.

Strings are shared here rather than by `sys.intern`, which never frees them in Python 3.12 before 3.12.5.
"""

from collections.abc import Callable, Collection, Hashable
from sys import getrefcount
from typing import Final, Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MOST: Final = 65_536
# No sweep with fewer entries than this, unless they are long.
_LEAST_SWEPT: Final = 512
# Bytes of encoding of the longest value that is shared.
LONGEST: Final = 16_384
# Characters of the longest text that is shared.
LONGEST_TEXT: Final = 1024
# Bytes of new encodings after which a sweep is due.
_SWEPT_BYTES: Final = 2**18
# The same for a table that is large already: what was in use at its last sweep may be gone by now.
_MAX_SWEPT_BYTES: Final = 2**20
_encode = msgspec.msgpack.Encoder().encode


class Shared(Generic[T]):
    """Recently seen values of one type, or tuples of one type."""

    __slots__ = ("_bytes_left", "_first", "_most", "_prepare", "_sweep_at")

    def __init__(self, most: int = _MOST, prepare: Callable[[T], T] | None = None) -> None:
        """`prepare` turns the first of equal values into the equal value that is kept."""
        self._first: dict[bytes, T] = {}
        self._most = most
        self._prepare = prepare
        self._sweep_at = min(_LEAST_SWEPT, most)
        self._bytes_left = _SWEPT_BYTES
        """New encodings until the next sweep."""

    def __len__(self) -> int:
        return len(self._first)

    def of(self, value: T) -> T:
        """The shared value that equals `value`."""
        encoded = _encode(value)
        first = self._first.get(encoded)
        if first is None:
            length = len(encoded)
            if length > LONGEST:
                return value
            self._bytes_left -= length
            if len(self._first) >= self._sweep_at or self._bytes_left < 0:
                self._sweep()
            first = self._first[encoded] = value if self._prepare is None else self._prepare(value)
        return first

    def _sweep(self) -> None:
        self._first = _in_use(self._first, _UNUSED_COUNT)
        if len(self._first) >= self._most:
            self._first = {}
        self._sweep_at = _next_sweep(len(self._first), self._most)
        self._bytes_left = _next_bytes(self._first)


class SharedText(dict[str, str]):
    """The same for strings, which are their own encoding. A dict, so that a known string costs a single look-up."""

    __slots__ = ("_bytes_left", "_most", "_sweep_at")

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self._most = most
        self._sweep_at = min(_LEAST_SWEPT, most)
        self._bytes_left = _SWEPT_BYTES

    of = dict.__getitem__
    """The shared string that equals the argument."""

    def __missing__(self, text: str) -> str:
        length = len(text)
        if length > LONGEST_TEXT:
            return text
        self._bytes_left -= length
        if len(self) >= self._sweep_at or self._bytes_left < 0:
            self._sweep()
        self[text] = text
        return text

    def _sweep(self) -> None:
        used = _in_use(self, _UNUSED_TEXT_COUNT)
        self.clear()
        if len(used) < self._most:
            self.update(used)
        self._sweep_at = _next_sweep(len(self), self._most)
        self._bytes_left = _next_bytes(self)


def _next_sweep(kept: int, most: int) -> int:
    """The size at which a table that keeps so many values is swept again."""
    return min(most, max(_LEAST_SWEPT, kept + kept // 4))


def _next_bytes(kept: Collection[bytes] | Collection[str]) -> int:
    """How much is new in a table that keeps these before it is swept again."""
    return min(_MAX_SWEPT_BYTES, max(_SWEPT_BYTES, sum(map(len, kept)) // 4))


def _in_use(first: dict[K, T], unused_count: int) -> dict[K, T]:
    """The entries whose values are referenced elsewhere too; takes 0.1 us each.

    `unused_count`: the references of a value that is only in its table.
    """
    counts = _references(first)
    return {key: value for (key, value), count in zip(first.items(), counts, strict=True) if count > unused_count}


def _references(first: dict[K, T]) -> list[int]:
    return [getrefcount(first[key]) for key in first]


def _references_of_unused() -> int:
    """The references counted of a value that is only in its table, which depends on the interpreter's version."""
    return _references({b"": [b""]})[0]


def _references_of_unused_text() -> int:
    first: dict[str, str] = {}
    for text in map("".join, [("of ", "nobody")]):
        first[text] = text
    del text
    return _references(first)[0]


_UNUSED_COUNT: Final = _references_of_unused()
_UNUSED_TEXT_COUNT: Final = _references_of_unused_text()
