"""Pods of namespaces whose Bindings hang: they stand in the line of their namespace until it has a turn for them.

A pod in line costs an entry of a heap: it has no place and no task, it is not judged yet, so it holds no node's room,
and no events are kept for it. When a turn comes free the most important one is called, and decided by the cluster as
it is then; so is the whole line once the namespace is not slow any more.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from kscheduler.framework.pods.queued_pod import QueuedPodInfo

# Pods that may stand in line before those that are gone are looked for; then twice as many as are left.
LEAST_SWEPT: Final = 1024


class NamespaceBacklog:
    """The lines, by namespace. A line ends with its last pod."""

    def __init__(self, let_go: Callable[[QueuedPodInfo], bool]) -> None:
        """`let_go`: ends the attempt of a pod that is gone, or needs no node any more; whether it was so."""
        self._let_go = let_go
        self._lines: dict[Hashable, list[tuple[int, int, QueuedPodInfo]]] = {}
        """Heaps: by priority, then in the order in which they came."""
        self._arrivals = 0
        self._count = 0
        self._sweep_at = LEAST_SWEPT

    def __len__(self) -> int:
        return self._count

    def add(self, namespace: Hashable, queued: QueuedPodInfo) -> None:
        """The pod stands in line from now on."""
        self._arrivals += 1
        self._count += 1
        heappush(self._lines.setdefault(namespace, []), (-queued.pod.priority, self._arrivals, queued))
        if self._count >= self._sweep_at:
            self._sweep()

    def first(self, namespace: Hashable) -> QueuedPodInfo | None:
        """The most important pod of the line."""
        line = self._lines.get(namespace)
        return line[0][2] if line else None

    def take(self, namespace: Hashable) -> QueuedPodInfo:
        """Remove that pod. Raises `KeyError` if nobody stands in line."""
        line = self._lines[namespace]
        _, _, queued = heappop(line)
        self._count -= 1
        if not line:
            del self._lines[namespace]
        return queued

    def waiting(self, namespace: Hashable) -> int:
        """How many stand in the line."""
        return len(self._lines.get(namespace, ()))

    def all(self) -> Iterable[tuple[Hashable, QueuedPodInfo]]:
        """A copy of all that stand in line, with their namespace, unordered."""
        return [(namespace, queued) for namespace, line in self._lines.items() for _, _, queued in line]

    def _sweep(self) -> None:
        for namespace, line in list(self._lines.items()):
            left = [entry for entry in line if not self._let_go(entry[2])]
            heapify(left)
            if left:
                self._lines[namespace] = left
            else:
                del self._lines[namespace]
        self._count = sum(map(len, self._lines.values()))
        self._sweep_at = max(LEAST_SWEPT, 2 * self._count)
