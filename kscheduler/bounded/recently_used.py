"""A dict of at most so many entries: a new one pushes out the one that was put or used longest ago."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentlyUsed(OrderedDict[K, V]):
    """Reading is a dict's: it costs as little, and is no use. `use` reads and counts as one. Values are never `None`.

    An `OrderedDict` because a dict from which the first entry is taken again and again walks over the places of all
    that went before it.
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        """`most`: entries, one at least."""
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def put(self, key: K, value: V) -> V | None:
        """Put an entry, as the newest also if its key was there; the value that had to go for it, if one had."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        return self.popitem(last=False)[1] if len(self) > self.most else None

    def use(self, key: K) -> V | None:
        """The value, which is the newest from now on; `None` where there is none."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value
