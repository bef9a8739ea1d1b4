"""Pods that a plugin wants to be tried right after the current pod.

A gang's last member releases the others: the pods that wait for it in the queue need not wait for an event. Plugins
name such pods in the cycle state at any extension point; they are moved to the active queue after a cycle that found
a node, and again (those named since then) after the binding.
"""

from collections.abc import Iterable

from kscheduler.framework.cycle_state import CycleState


class PodsToActivate:
    """Keys (`namespace/name`) of such pods; a cycle state without named pods has no such value."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def take(self) -> tuple[str, ...]:
        """Remove and return the keys named so far, in that order."""
        keys = tuple(self._keys)
        self._keys.clear()
        return keys

    def add(self, keys: Iterable[str]) -> None:
        """Name more pods."""
        self._keys.update(dict.fromkeys(keys))


def activate_later(cycle: CycleState, *keys: str) -> None:
    """For plugins: try these pods (`namespace/name`) when the current pod has a node, and when it is bound."""
    pods = cycle.find(PodsToActivate)
    if pods is None:
        pods = PodsToActivate()
        cycle.write(pods)
    pods.add(keys)
