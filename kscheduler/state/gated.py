"""Gated pods, by who gates them.

Only an event that the gating plugin registered can let a gated pod in, so an event that it did not costs nothing,
however many pods wait behind the gate.
"""

from collections.abc import Callable, Iterator

from kscheduler.framework.queued_pod import QueuedPodInfo


class GatedPods:
    """Pods that PreEnqueue turned down."""

    def __init__(self) -> None:
        self._behind: dict[tuple[str, str], dict[str, QueuedPodInfo]] = {}
        """By profile and gating plugin, then by key."""

    def __len__(self) -> int:
        return sum(map(len, self._behind.values()))

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (queued for pods in self._behind.values() for queued in pods.values())

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod with this key."""
        return next((pods[key] for pods in self._behind.values() if key in pods), None)

    def put(self, queued: QueuedPodInfo) -> None:
        """A pod is gated by `queued.gating_plugin`; it must not be here already."""
        gate = queued.pod.pod.spec.scheduler_name, queued.gating_plugin
        self._behind.setdefault(gate, {})[queued.key] = queued

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod with this key out."""
        for gate, pods in self._behind.items():
            if key in pods:
                queued = pods.pop(key)
                if not pods:
                    del self._behind[gate]
                return queued
        return None

    def behind(self, is_asked: Callable[[str, str], bool]) -> list[QueuedPodInfo]:
        """The pods whose gate (profile, plugin) is asked."""
        return [queued for gate, pods in self._behind.items() if is_asked(*gate) for queued in pods.values()]
