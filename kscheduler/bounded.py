"""What an entry weighs, estimated from the length of its encoding: a C function, a microsecond for a plain pod.

A walk through the objects would be exact and a hundred times as slow. Short words weigh most: a key of ten characters
takes seventy bytes as a string, and its requirement a few hundred once it is parsed. Limits: a list of empty structs,
as terms of a node selector may be, takes up to nine times its estimate.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

# Between what `tracemalloc` finds for pods of 100 kB: 1.4 to 2.3 of the longest words; of short ones 4 to 13 as they
# are decoded, and 6 to 25 with what is parsed from them; of empty node selector terms, a byte each, 40 and 143.
BYTES_PER_ENCODED_BYTE: Final = 16

_encode: Final = msgspec.msgpack.Encoder(enc_hook=str).encode


def weight_of(value: Any) -> int:
    """Bytes that a value takes in memory, about: structs, tuples, mappings and texts."""
    return BYTES_PER_ENCODED_BYTE * len(_encode(value))


# A dict with a maximal number of entries: a new entry evicts the one that was put or used longest ago.
#
# A number is a bound for entries that are small by their form. What a tenant writes is not: one pod of the API server's
# 1.5 MiB weighs as much as a thousand plain ones. `RecentlyUsedByWeight` has a budget in bytes besides.

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentlyUsed(OrderedDict[K, V]):
    """Plain reads are dict's own: as cheap, and they do not count as a use; `use` does. Values are never `None`.

    An `OrderedDict`, because a dict whose first entry is removed again and again walks over all the removed slots.
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        """`most`: the maximal number of entries, at least 1."""
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def put(self, key: K, value: V) -> V | None:
        """Put an entry, as the newest also if the key exists; returns the evicted value, if there is one."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        return self.popitem(last=False)[1] if len(self) > self.most else None

    def use(self, key: K) -> V | None:
        """The value, which becomes the newest; `None` if the key is missing."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value


# An entry up to this weight counts by its number only.
LIGHT_BYTES: Final = 4096
# No entry may take more than this part of a budget.
LARGEST_SHARE: Final = 4
_MISSING: Final = object()


class RecentlyUsedByWeight(RecentlyUsed[K, V]):
    """The same with a budget for heavy entries, which evict each other and no light one.

    So it holds at most `most` times `LIGHT_BYTES`, and the budget; an entry of more than a quarter of the budget is not
    kept at all: who needs it again works it out again. Tables of plain pods are as without a budget, except that each
    new entry is weighed.
    """

    __slots__ = ("_heavy", "_weigh", "budget", "weight")

    def __init__(self, most: int, budget: int, weigh: Callable[[K, V], int]) -> None:
        """`budget`: of the heavy entries, in bytes. `weigh`: an estimate of an entry's bytes, called when it is put."""
        super().__init__(most)
        self.budget = budget
        self.weight = 0
        """Of all heavy entries, in bytes."""
        self._weigh = weigh
        self._heavy: dict[K, int] = {}
        """Their weights, in the order in which they were put."""

    def put(self, key: K, value: V) -> V | None:
        """Put an entry as the newest; returns a value that is not kept, this one if it is too heavy."""
        weight = self._weigh(key, value)
        if self._heavy:
            self._forget(key)
        if weight <= LIGHT_BYTES:
            evicted = super().put(key, value)
            if evicted is not None and self._heavy:
                self._forget_missing()
            return evicted
        if weight > self.budget // LARGEST_SHARE:
            self.pop(key, None)
            return value
        self._heavy[key] = weight
        self.weight += weight
        evicted = super().put(key, value)
        self._forget_missing()
        while self.weight > self.budget:
            evicted = self.pop(next(iter(self._heavy)), None)
        return evicted

    def _forget(self, key: K) -> None:
        self.weight -= self._heavy.pop(key, 0)

    def _forget_missing(self) -> None:
        """The oldest entry may have been evicted by number: it is the first of the heavy ones, or none of them."""
        while self._heavy and (first := next(iter(self._heavy))) not in self:
            self._forget(first)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        self._forget(key)

    def pop(self, key: K, default: Any = _MISSING) -> Any:
        """Take an entry out."""
        self._forget(key)
        return super().pop(key) if default is _MISSING else super().pop(key, default)

    def popitem(self, last: bool = True) -> tuple[K, V]:
        """Take the newest or the oldest entry out."""
        key, value = super().popitem(last)
        self._forget(key)
        return key, value

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._heavy.clear()
        self.weight = 0

    def use(self, key: K) -> V | None:
        """The value, which becomes the newest; `None` if the key is missing."""
        value = self.get(key)  # and not by `super`: it is used once for each pod
        if value is not None:
            self.move_to_end(key)
            if key in self._heavy:
                self._heavy[key] = self._heavy.pop(key)
        return value


# Entries with weights, within a budget: a new entry evicts those that were put or used longest ago.
#
# The weight is passed with `put`. An entry whose weight changes during use is taken out first, and put back with its
# new weight.


class WithinBudget(Generic[K, V]):
    """The newest entry always stays, whatever its weight. Values are never `None`."""

    __slots__ = ("_budget", "_entries", "_most", "weight")

    def __init__(self, budget: int, most: int) -> None:
        """`budget`: the maximal total weight, in the unit of the weights. `most`: the maximal number of entries."""
        self._budget = budget
        self._most = most
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """The total weight of all entries."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        """The keys, in the order of their last put or use, the oldest first."""
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """The value; does not count as a use."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def take(self, key: K) -> V | None:
        """Take an entry out."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.weight -= entry[1]
        return entry[0]

    def put(self, key: K, value: V, weight: int) -> list[V]:
        """Put an entry as the newest; returns the evicted values, the oldest first."""
        self.take(key)
        self._entries[key] = value, weight
        self.weight += weight
        gone: list[V] = []
        while len(self._entries) > 1 and (self.weight > self._budget or len(self._entries) > self._most):
            _, (oldest, oldest_weight) = self._entries.popitem(last=False)
            self.weight -= oldest_weight
            gone.append(oldest)
        return gone

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self.weight = 0
