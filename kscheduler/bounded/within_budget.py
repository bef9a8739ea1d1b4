"""Entries with weights, within a budget: a new entry evicts those that were put or used longest ago.

The weight is passed with `put`. An entry whose weight changes during use is taken out first, and put back with its new
weight.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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
