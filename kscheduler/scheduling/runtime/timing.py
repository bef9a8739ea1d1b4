"""The interface of a cycle's stopwatch: the runtime reports to it, and it never influences a decision."""

from dataclasses import dataclass
from typing import Final, Protocol

from kscheduler.framework.status import Status


class CallTimer(Protocol):
    """Counts calls of plugins and measures how long they take."""

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A call has ended that judged this many nodes; 0 if the plugin skipped the pod."""
        ...

    def restart(self) -> None:
        """The next call begins now: the time since the last one is no plugin's."""
        ...

    def call_ended(self, point: str, plugin: str, nodes: int = 1) -> object:
        """A call has ended that is measured, but not counted. `nodes` 0: it failed, nobody knows after how many."""
        ...


class Stopwatch(CallTimer, Protocol):
    """Measures a whole cycle."""

    def lap(self, point: str, status: Status) -> None:
        """An extension point has run."""
        ...

    def post_filtered(self, plugin: str, result: str) -> None:
        """A PostFilter plugin has run."""
        ...


class NoStopwatch:
    """Measures nothing: for explain, what-if and tests."""

    def lap(self, point: str, status: Status) -> None:
        """Pass."""

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """Pass."""

    def restart(self) -> None:
        """Pass."""

    def call_ended(self, point: str, plugin: str, nodes: int = 1) -> None:
        """Pass."""

    def post_filtered(self, plugin: str, result: str) -> None:
        """Pass."""


UNTIMED: Final = NoStopwatch()


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Measures calls without counting them: a dry run is no evaluation of a node, but it may be slow."""

    timer: CallTimer

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A call has ended."""
        self.timer.call_ended(point, plugin, nodes)

    def restart(self) -> None:
        """The next call begins now."""
        self.timer.restart()

    def call_ended(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A call has ended."""
        self.timer.call_ended(point, plugin, nodes)
