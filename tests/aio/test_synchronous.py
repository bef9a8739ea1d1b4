"""`run_synchronously`: a coroutine runs to its end, whether a loop runs or not; `run_at_once`: without a loop."""

import asyncio
import inspect
import os
import signal
import threading

import pytest

from kscheduler.aio.synchronous import run_at_once, run_synchronously


async def name_of_thread() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def failing() -> None:
    await asyncio.sleep(0)
    raise LookupError("no such thing")


def test_without_a_loop_it_runs_in_the_callers_thread() -> None:
    assert run_synchronously(name_of_thread()) == threading.current_thread().name
    with pytest.raises(LookupError, match="no such thing"):
        run_synchronously(failing())


async def test_below_a_running_loop_it_runs_in_a_thread_of_its_own_that_is_gone_then() -> None:
    before = threading.active_count()
    assert run_synchronously(name_of_thread()) != threading.current_thread().name
    with pytest.raises(LookupError, match="no such thing"):
        run_synchronously(failing())
    assert threading.active_count() == before


def test_an_interrupt_of_the_caller_cancels_it() -> None:
    """As the stop button of a notebook, whose loop handles no signals."""
    ended: list[str] = []

    async def forever() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def cell() -> None:
        run_synchronously(forever())

    loop = asyncio.new_event_loop()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()
    assert ended == ["cancelled"]


async def at_once(value: str) -> str:
    return value


def test_what_never_waits_needs_no_loop() -> None:
    assert run_at_once(at_once("done")) == "done"


async def test_what_waits_is_refused_and_ended() -> None:
    work = name_of_thread()
    with pytest.raises(RuntimeError, match="waits"):
        run_at_once(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
