"""A heap whose entries can be taken out by key."""

import heapq
from collections.abc import Callable, Collection, Hashable, Iterator
from itertools import count
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class KeyedHeap(Generic[T]):
    """Smallest first, by `order(item)`; one item per key. Removal is lazy: dead entries sink out when they surface."""

    __slots__ = ("_entries", "_live", "_order", "_serial")

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._entries: list[tuple[Any, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, T]] = {}
        self._serial = count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._live.values())

    def keys(self) -> Collection[Hashable]:
        """The keys, live: what is pushed and taken out later shows."""
        return self._live.keys()

    def get(self, key: Hashable) -> T | None:
        """The item with this key."""
        entry = self._live.get(key)
        return entry[1] if entry is not None else None

    def push(self, key: Hashable, item: T) -> None:
        """Add an item, or replace the one with the same key; its order is worked out anew."""
        serial = next(self._serial)
        self._live[key] = (serial, item)
        heapq.heappush(self._entries, (self._order(item), serial, key))
        if len(self._entries) > 2 * len(self._live) + 64:
            self._compact()

    def peek(self) -> T | None:
        """The smallest item."""
        while self._entries:
            _, serial, key = self._entries[0]
            entry = self._live.get(key)
            if entry is not None and entry[0] == serial:
                return entry[1]
            heapq.heappop(self._entries)
        return None

    def pop(self) -> T | None:
        """Take the smallest item out."""
        item = self.peek()
        if item is not None:
            _, _, key = heapq.heappop(self._entries)
            del self._live[key]
        return item

    def remove(self, key: Hashable) -> T | None:
        """Take the item with this key out."""
        entry = self._live.pop(key, None)
        return entry[1] if entry is not None else None

    def _compact(self) -> None:
        self._entries = [entry for entry in self._entries if self._live.get(entry[2], (-1,))[0] == entry[1]]
        heapq.heapify(self._entries)
