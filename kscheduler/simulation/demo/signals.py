"""Ctrl-C and SIGTERM as an orderly end.

Within `StopSignals` a signal cancels the task that entered it, so that every `async with` ends what it started. While
that task is in `wait`, a signal ends the wait instead.
"""

import asyncio
import signal
from types import TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Turns signals into the end of a task; must be entered in that task."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        # A SIGHUP that nohup ignores stays ignored.
        self._handled = [number for number in _SIGNALS if not _is_hangup_ignored(number)]
        for number in self._handled:
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._handled:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def wait(self) -> None:
        """Return when a signal comes."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _stop(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self._task is not None:
            self._task.cancel()


def _is_hangup_ignored(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
