"""The listener for plugins that fail, answer with a wrong type, or block the event loop.

The problem: an exception that is caught where a plugin is called must not get lost there. The idea: the plugin runtime
(`scheduling.runtime`), which makes all these calls, goes on as the extension point requires and calls a listener; the
service's listener (`scheduling.plugin_reports`) logs, counts and creates Events.
"""

from typing import Final, Protocol

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
