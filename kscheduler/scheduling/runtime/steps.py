"""How long a plugin's coroutine holds the event loop: its steps are timed, not its waits.

Bind and PreBind may wait for minutes without harm; what delays all pods is the code between two waits. So the coroutine
is driven by hand, and each step is timed from where the loop enters it to where it gives the loop back.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from kscheduler.framework.plugin_answers import WrongAnswerError, shown
from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS

T = TypeVar("T")


class Steps(Generic[T]):
    """Awaits a coroutine, and reports each step that held the loop for too long."""

    __slots__ = ("_coroutine", "_now", "_on_slow")

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], on_slow: Callable[[float], None], now: Callable[[], float]
    ) -> None:
        """`on_slow` is called with the seconds of a slow step. Raises `WrongAnswerError` if this is no coroutine."""
        if getattr(coroutine, "send", None) is None:
            text = f"it answered {shown(coroutine)}, where a coroutine is due: declare the method with `async def`"
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
