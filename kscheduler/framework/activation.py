"""Pods that a plugin wants tried as soon as the pod it looks at has been dealt with.

A gang's last member lets the others go: whoever waits in the queue for it need not wait for an event. Plugins name such
pods in the cycle state at any extension point; they are moved to the active queue after a cycle that found a node, and
once more (for those named since) after the binding.
"""

from collections.abc import Iterable

from kscheduler.framework.cycle_state import CycleState


class PodsToActivate:
    """Keys (`namespace/name`) of such pods; a cycle that names none has none of these."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def take(self) -> tuple[str, ...]:
        """Those named so far, in that order; from now on they are not named any more."""
        keys = tuple(self._keys)
        self._keys.clear()
        return keys

    def add(self, keys: Iterable[str]) -> None:
        """Name some."""
        self._keys.update(dict.fromkeys(keys))


def activate_later(cycle: CycleState, *keys: str) -> None:
    """For plugins: have these pods (`namespace/name`) tried when this one has a node, and when it is bound."""
    pods = cycle.find(PodsToActivate)
    if pods is None:
        pods = PodsToActivate()
        cycle.write(pods)
    pods.add(keys)
