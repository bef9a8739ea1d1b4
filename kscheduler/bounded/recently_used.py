"""A dict with a maximal number of entries: a new entry evicts the one that was put or used longest ago."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

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
