"""A coroutine run to its end by code that cannot await: also in a thread whose event loop runs already.

A notebook has such a loop in its main thread, and so have coroutine tests; asyncio starts no second loop in a thread.
There the coroutine gets a thread of its own, with a loop of its own, and the caller waits. An interrupt of the waiting
caller (Ctrl+C, a notebook's stop button) cancels the coroutine.

Limit: on another thread than the main one no signal can end a plugin's call that exceeds its time.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from threading import Thread
from typing import Any, Final, TypeVar

T = TypeVar("T")

# A signal that comes just before a wait begins is looked at after it: so none is long.
_LONGEST_WAIT_SECONDS: Final = 0.1


def run_synchronously(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or what it raises."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # no loop runs here
        return asyncio.run(work)
    began: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    done: Future[T] = Future()
    thread = Thread(target=_run, args=(work, began, done), name="kscheduler-synchronous")
    try:
        # No pool: it would not know of a thread whose start was interrupted, and not wait for it.
        thread.start()
        while not wait((done,), timeout=_LONGEST_WAIT_SECONDS).done:
            pass
        return done.result()
    except (KeyboardInterrupt, SystemExit):
        if not done.done():  # the caller was interrupted, and the thread is waited for
            either: tuple[Future[Any], ...] = began, done
            wait(either, return_when=FIRST_COMPLETED)
            if began.done():
                loop, task = began.result()
                with suppress(RuntimeError):  # it has ended meanwhile
                    loop.call_soon_threadsafe(task.cancel)
            wait((done,))
        raise
    finally:
        if done.done():
            thread.join()


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, or what it raises; no event loop is needed.

    Raises `RuntimeError` if it waits.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise RuntimeError(f"{work!r} waits, and nothing runs here that it could wait for")


def _run(
    work: Coroutine[Any, Any, T],
    began: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]]",
    done: "Future[T]",
) -> None:
    try:
        result = asyncio.run(_telling_when_begun(work, began))
    except BaseException as error:  # noqa: BLE001  the caller raises it
        done.set_exception(error)
    else:
        done.set_result(result)


async def _telling_when_begun(
    work: Coroutine[Any, Any, T], began: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]]"
) -> T:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  a coroutine that `asyncio.run` runs is one
    began.set_result((asyncio.get_running_loop(), task))
    return await work
