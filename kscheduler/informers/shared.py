"""Equal values become one value, for as long as somebody holds it.

The problem: a hundred thousand pods hold a hundred thousand copies of the same two tolerations. The idea: remember
values by their encoding, which the decoder's counterpart writes in half a microsecond, and hand out the first of those
that are equal. Values must never change. What nobody else holds any more is forgotten when there are twice as many as
were held the last time: containers, owners and labels of releases and Jobs that are gone do not stay. Limit: when the
memory is full of values that are held it begins anew, and a value of before is not recognised; nothing but room is lost
by that.

Strings are shared here, too, and not by `sys.intern`: Python 3.12 keeps what that has seen for ever (until 3.12.5).
"""

from collections.abc import Callable, Hashable
from sys import getrefcount
from typing import Final, Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MOST: Final = 65_536
_LEAST_SWEPT: Final = 512
"""Entries, below which nobody looks who is held."""
_encode = msgspec.msgpack.Encoder().encode


class Shared(Generic[T]):
    """Values of one type, or tuples of one type, that were seen lately."""

    __slots__ = ("_first", "_most", "_prepare", "_sweep_at")

    def __init__(self, most: int = _MOST, prepare: Callable[[T], T] | None = None) -> None:
        """`prepare`: what is kept of the first of equal values, an equal one."""
        self._first: dict[bytes, T] = {}
        self._most = most
        self._prepare = prepare
        self._sweep_at = min(_LEAST_SWEPT, most)

    def __len__(self) -> int:
        return len(self._first)

    def of(self, value: T) -> T:
        """The value that equals this one and was seen first."""
        encoded = _encode(value)
        first = self._first.get(encoded)
        if first is None:
            if len(self._first) >= self._sweep_at:
                self._sweep()
            first = self._first[encoded] = value if self._prepare is None else self._prepare(value)
        return first

    def _sweep(self) -> None:
        self._first = _held(self._first, _UNHELD)
        if len(self._first) >= self._most:
            self._first = {}
        self._sweep_at = min(self._most, max(_LEAST_SWEPT, 2 * len(self._first)))


class SharedText(dict[str, str]):
    """The same for strings, which are their own encoding. A dict, so that a known one costs a look-up and no more."""

    __slots__ = ("_most", "_sweep_at")

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self._most = most
        self._sweep_at = min(_LEAST_SWEPT, most)

    of = dict.__getitem__
    """The string that equals this one and was seen first."""

    def __missing__(self, text: str) -> str:
        if len(self) >= self._sweep_at:
            self._sweep()
        self[text] = text
        return text

    def _sweep(self) -> None:
        held = _held(self, _UNHELD_TEXT)
        self.clear()
        if len(held) < self._most:
            self.update(held)
        self._sweep_at = min(self._most, max(_LEAST_SWEPT, 2 * len(self)))


def _held(first: dict[K, T], unheld: int) -> dict[K, T]:
    """The entries whose values somebody holds besides: 0.1 us each."""
    counts = _references(first)
    return {key: value for (key, value), count in zip(first.items(), counts, strict=True) if count > unheld}


def _references(first: dict[K, T]) -> list[int]:
    return [getrefcount(first[key]) for key in first]


def _references_of_unheld() -> int:
    """How many references to a value are counted that only its table holds: a matter of the interpreter's version."""
    return _references({b"": [b""]})[0]


def _references_of_unheld_text() -> int:
    first: dict[str, str] = {}
    for text in map("".join, [("of ", "nobody")]):
        first[text] = text
    del text
    return _references(first)[0]


_UNHELD: Final = _references_of_unheld()
_UNHELD_TEXT: Final = _references_of_unheld_text()
