"""A priority queue whose entries can be removed by key.

Most items arrive in the order in which they leave: pods of equal priority, by time. Such an item is appended to a line
in constant time; only items that must overtake an earlier one are kept in a heap.

If the order function or a comparison raises, nothing changes: all items from before the call can still be found,
iterated and removed. (Keys of pods never raise: `runtime.sort_keys`.)
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

# An item's order, its serial number (among equals the older goes first), and its key.
_Entry = tuple[Any, int, Hashable]

# After so many items it is looked whether dead entries must go; there are never more than these above the live ones.
_LOOK_EVERY: Final = 64


class KeyedHeap(Generic[T]):
    """Smallest first, by `order(item)`; an item per key. Removal is lazy: dead entries are dropped at the front."""

    __slots__ = ("_heap", "_line", "_live", "_order", "_serial", "_until_look")

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._line: deque[_Entry] = deque()
        """Ascending."""
        self._heap: list[_Entry] = []
        self._live: dict[Hashable, tuple[int, T]] = {}
        self._serial = 0
        self._until_look = _LOOK_EVERY

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._live.values())

    def in_order(self) -> list[T]:
        """All items as they would be popped, a copy."""
        entries = sorted(entry for entry in (*self._line, *self._heap) if self._is_live(entry))
        return [self._live[key][1] for _, _, key in entries]

    def keys(self) -> Collection[Hashable]:
        """The keys, as a live view that follows later changes."""
        return self._live.keys()

    def get(self, key: Hashable) -> T | None:
        """The item with this key."""
        entry = self._live.get(key)
        return entry[1] if entry is not None else None

    def push(self, key: Hashable, item: T) -> None:
        """Add an item, or replace the item with the same key; its order is computed again."""
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = _LOOK_EVERY
            if len(self._line) + len(self._heap) > 2 * len(self._live) + _LOOK_EVERY:
                self._compact()
        serial = self._serial = self._serial + 1
        entry = self._order(item), serial, key
        if not self._line or self._line[-1] < entry:
            self._line.append(entry)
        else:
            heapq.heappush(self._heap, entry)
        # Last, because everything above may raise: an entry that is not in `_live` is dead, wherever the heap left it.
        self._live[key] = entry[1], item

    def peek(self) -> T | None:
        """The smallest item."""
        if len(self._live) == 1:  # most equivalence groups have one member, and each event asks for it
            return next(iter(self._live.values()))[1]
        entry = self._smallest()
        return self._live[entry[2]][1] if entry is not None else None

    def pop(self) -> T | None:
        """Take the smallest item out."""
        entry = self._smallest()
        if entry is None:
            return None
        if self._line and self._line[0] is entry:
            self._line.popleft()
        else:
            self._pop_heap(entry)
        return self._live.pop(entry[2])[1]

    def remove(self, key: Hashable) -> T | None:
        """Take the item with this key out."""
        entry = self._live.pop(key, None)
        return entry[1] if entry is not None else None

    def _smallest(self) -> _Entry | None:
        """The next live entry; dead entries in front of it are dropped."""
        line, heap = self._line, self._heap
        while line and not self._is_live(line[0]):
            line.popleft()
        while heap and not self._is_live(heap[0]):
            heapq.heappop(heap)
        if line and heap:
            return min(line[0], heap[0])
        return line[0] if line else heap[0] if heap else None

    def _pop_heap(self, entry: _Entry) -> None:
        """Remove `entry`, which is the heap's first."""
        try:
            heapq.heappop(self._heap)
        except BaseException:
            self._heap.append(entry)  # heapq has removed it before a comparison raised
            raise

    def _is_live(self, entry: _Entry) -> bool:
        live = self._live.get(entry[2])
        return live is not None and live[0] == entry[1]

    def _compact(self) -> None:
        self._line = deque(filter(self._is_live, self._line))
        self._heap = list(filter(self._is_live, self._heap))
        heapq.heapify(self._heap)
