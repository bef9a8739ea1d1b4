"""Equal values become one value, as far as they were seen lately.

The problem: a hundred thousand pods hold a hundred thousand copies of the same two tolerations. The idea: remember
values by their encoding, which the decoder's counterpart writes in half a microsecond, and hand out the first of those
that are equal. Values must never change. Limit: when the memory is full it begins anew, and a value of before is not
recognised; nothing but room is lost by that.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

_MOST: Final = 65_536
_encode = msgspec.msgpack.Encoder().encode


class Shared(Generic[T]):
    """Values of one type, or tuples of one type, that were seen lately."""

    __slots__ = ("_first", "_most", "_prepare")

    def __init__(self, most: int = _MOST, prepare: Callable[[T], T] | None = None) -> None:
        """`prepare`: what is kept of the first of equal values, an equal one."""
        self._first: dict[bytes, T] = {}
        self._most = most
        self._prepare = prepare

    def __len__(self) -> int:
        return len(self._first)

    def of(self, value: T) -> T:
        """The value that equals this one and was seen first."""
        encoded = _encode(value)
        first = self._first.get(encoded)
        if first is None:
            if len(self._first) >= self._most:
                self._first.clear()
            first = self._first[encoded] = value if self._prepare is None else self._prepare(value)
        return first
