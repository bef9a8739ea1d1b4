"""The listener for plugins that fail, answer with a wrong type, or block the event loop.

The problem: an exception that is caught where a plugin is called must not get lost there. The idea: the plugin runtime
(`scheduling.runtime`), which makes all these calls, goes on as the extension point requires and calls a listener; the
service's listener (`scheduling.plugin_reports`) logs, counts and creates Events.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pods.pod_info import PodInfo

# A call that holds the event loop for longer is reported: watches, binds and probes wait for it.
SLOW_CALL_SECONDS: Final = 0.1


class PluginListener(Protocol):
    """Hears how plugins behave. Never raises, never waits."""

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """A plugin has raised, or answered with a wrong type.

        `point`: the extension point as metrics name it (the rows of `scheduling.runtime.points`). `then`: the
        consequence for the pod, if no failed attempt reports the failure to its owner: the pod gets an Event.
        """
        ...

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """A call has held the event loop for longer than `SLOW_CALL_SECONDS`. `nodes`: how many it covered."""
        ...


class _NoListener:
    """Ignores all reports: for what-if, explain and tests."""

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """Pass."""

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """Pass."""


NO_LISTENER: Final[PluginListener] = _NoListener()


# Pods that a plugin wants to be tried right after the current pod.
#
# A gang's last member releases the others: the pods that wait for it in the queue need not wait for an event. Plugins
# name such pods in the cycle state at any extension point; they are moved to the active queue after a cycle that found
# a node, and again (those named since then) after the binding.


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
