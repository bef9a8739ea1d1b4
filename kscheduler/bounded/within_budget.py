"""Entries that weigh differently, within a budget: a new one pushes out those that were put or used longest ago.

What an entry weighs is said when it is put. One whose weight changes while it is used is taken out first, and put again
with what it weighs then.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WithinBudget(Generic[K, V]):
    """The newest entry stays, whatever it weighs. Values are never `None`."""

    __slots__ = ("_budget", "_entries", "_most", "weight")

    def __init__(self, budget: int, most: int) -> None:
        """`budget`: what all weigh together at most, in the unit of the weights. `most`: entries."""
        self._budget = budget
        self._most = most
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """Of all entries together."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        """The keys, the one put or used longest ago first."""
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """The value, which is no use of it."""
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
        """Put an entry as the newest; the values that had to go for it, the one used longest ago first."""
        self.take(key)
        self._entries[key] = value, weight
        self.weight += weight
        gone: list[V] = []
        while len(self._entries) > 1 and (self.weight > self._budget or len(self._entries) > self._most):
            _, (oldest, its_weight) = self._entries.popitem(last=False)
            self.weight -= its_weight
            gone.append(oldest)
        return gone

    def clear(self) -> None:
        """Forget all of them."""
        self._entries.clear()
        self.weight = 0
