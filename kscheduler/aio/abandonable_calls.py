"""Blocking calls that may never end: reading a file of a network file system that has gone, for one.

`asyncio.to_thread` would wait forever, also at the end of the process: its threads are joined. Here a call has a time;
after that its thread is left to itself, as a daemon, and nobody hears of it any more. Of such threads there are only so
many: once those are there, nothing is called until one of them has come back.

Limit: a call that was given up goes on. What it changes when it comes back is its own business.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_HANGING: Final = 4


class CallHangsError(TimeoutError):
    """A call has not ended in its time, or too many before it have not."""


class AbandonableCalls:
    """Calls functions in threads of their own, and gives them up."""

    def __init__(self) -> None:
        self._hanging: set[threading.Thread] = set()

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """What the function returns or raises. Raises `CallHangsError` after `seconds` of real time."""
        self._hanging = {thread for thread in self._hanging if thread.is_alive()}
        if len(self._hanging) >= MAX_HANGING:
            raise CallHangsError(f"{len(self._hanging)} calls hang already")
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            answer: Callable[[], Any]
            try:
                found = function()
            except BaseException as failure:  # noqa: BLE001  it is raised where the call was made
                answer = _setter(ended, failure=failure)
            else:
                answer = _setter(ended, found)
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(answer)

        thread = threading.Thread(target=run, name="may-hang", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(ended)
        except TimeoutError:
            if ended.done():
                return ended.result()  # the function's own timeout
            raise CallHangsError(f"it has not ended within {seconds:g} s") from None
        finally:
            if not ended.done():
                ended.cancel()
                self._hanging.add(thread)


def _setter(ended: "asyncio.Future[T]", found: Any = None, failure: BaseException | None = None) -> Callable[[], None]:
    def answer() -> None:
        if ended.done():
            return  # it was given up
        if failure is None:
            ended.set_result(found)
        elif isinstance(failure, StopIteration):
            ended.set_exception(RuntimeError(f"it raised {failure!r}"))  # a future takes none
        else:
            ended.set_exception(failure)

    return answer
