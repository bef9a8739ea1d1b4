"""What the runtime tells the stopwatch of a cycle, which measures and never decides."""

from dataclasses import dataclass
from typing import Final, Protocol

from kscheduler.framework.status import Status


class CallTimer(Protocol):
    """Hears how often plugins are asked, and when calls end."""

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A plugin has been asked about so many nodes; about none, if it has skipped the pod."""
        ...

    def asks(self) -> None:
        """What took time so far was no plugin's doing: the next call begins now."""
        ...

    def asked(self, point: str, plugin: str, nodes: int = 1) -> object:
        """A call of a plugin has ended that is not to be counted."""
        ...


class Stopwatch(CallTimer, Protocol):
    """Hears of a whole cycle."""

    def lap(self, point: str, status: Status) -> None:
        """An extension point has run."""
        ...

    def post_filtered(self, plugin: str) -> None:
        """A PostFilter plugin has been asked."""
        ...


class NoStopwatch:
    """Measures nothing: for explain, what-if and tests."""

    def lap(self, point: str, status: Status) -> None:
        """Pass."""

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """Pass."""

    def asks(self) -> None:
        """Pass."""

    def asked(self, point: str, plugin: str, nodes: int = 1) -> None:
        """Pass."""

    def post_filtered(self, plugin: str) -> None:
        """Pass."""


UNTIMED: Final = NoStopwatch()


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Counts nothing, and times all the same: a dry run is no evaluation of a node, but it may be slow."""

    timer: CallTimer

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A plugin has been asked."""
        self.timer.asked(point, plugin, nodes)

    def asks(self) -> None:
        """Plugins are about to be asked."""
        self.timer.asks()

    def asked(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A call has ended."""
        self.timer.asked(point, plugin, nodes)
