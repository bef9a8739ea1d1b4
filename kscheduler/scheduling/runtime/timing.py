"""The interface of a cycle's stopwatch: the runtime reports to it, and it never influences a decision."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS
from kscheduler.framework.plugin_results import WrongAnswerError, shown
from kscheduler.framework.status import Status

# How long a plugin's coroutine holds the event loop: its steps are timed, not its waits.
#
# Bind and PreBind may wait for minutes without harm; what delays all pods is the code between two waits. So the
# coroutine is driven by hand, and each step is timed from where the loop enters it to where it gives the loop back.

T = TypeVar("T")


class Steps(Generic[T]):
    """Awaits a coroutine, and reports each step that held the loop for too long."""

    __slots__ = ("_coroutine", "_now", "_on_slow")

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], on_slow: Callable[[float], None], now: Callable[[], float]
    ) -> None:
        """`on_slow` is called with the seconds of a slow step. Raises `WrongAnswerError` if this is no coroutine."""
        if getattr(coroutine, "send", None) is None:
            text = f"it returned {shown(coroutine)}, expected a coroutine: declare the method with `async def`"
            raise WrongAnswerError(text)
        self._coroutine = coroutine
        self._on_slow = on_slow
        self._now = now

    def __await__(self) -> Generator[Any, Any, T]:
        # Each turn of the loop runs one step: send the result of the last wait into the coroutine (or throw the
        # exception of it), then hand on what the coroutine awaits.
        go_on: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            began = self._now()
            try:
                awaited = go_on(value)
            except StopIteration as end:
                result: T = end.value
                return result
            except GeneratorExit as failure:  # raised by the plugin: `close` is never called inside this `try`
                raise RuntimeError("it raised GeneratorExit") from failure
            finally:
                seconds = self._now() - began
                if seconds > SLOW_CALL_SECONDS:
                    self._on_slow(seconds)
            try:
                value, go_on = (yield awaited), self._coroutine.send
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as failure:  # noqa: BLE001  the plugin handles a cancellation itself
                value, go_on = failure, self._coroutine.throw


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

    def repeated(self) -> None:
        """The points of a cycle have run as one, for a pod like the one before."""
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

    def repeated(self) -> None:
        """Pass."""

    def post_filtered(self, plugin: str, result: str) -> None:
        """Pass."""


UNTIMED: Final = NoStopwatch()


class Uncounted(msgspec.Struct, frozen=True):
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
