"""A call that never ends is given up, and costs a thread, not the loop nor the process's end."""

import asyncio
import subprocess
import sys
import threading

import pytest

from kscheduler.aio.abandonable_calls import MAX_HANGING, AbandonableCalls, CallHangsError


async def test_what_the_function_returns_or_raises_is_the_callers() -> None:
    threads = AbandonableCalls()
    assert await threads.call(lambda: 7, 5.0) == 7

    def raises() -> None:
        raise FileNotFoundError("gone")

    def times_out() -> None:
        raise TimeoutError("its own")

    with pytest.raises(FileNotFoundError, match="gone"):
        await threads.call(raises, 5.0)
    with pytest.raises(TimeoutError, match="its own"):
        await threads.call(times_out, 5.0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.call(lambda: next(iter(())), 5.0)


async def test_a_call_that_hangs_is_given_up_and_the_next_is_made() -> None:
    threads, comes_back = AbandonableCalls(), threading.Event()
    with pytest.raises(CallHangsError, match=r"not ended within 0\.01 s"):
        await threads.call(lambda: comes_back.wait(30), 0.01)
    assert await threads.call(lambda: "next", 5.0) == "next"
    comes_back.set()


async def test_calls_that_hang_are_bounded_until_one_comes_back() -> None:
    threads, events = AbandonableCalls(), [threading.Event() for _ in range(MAX_HANGING)]
    for event in events:
        with pytest.raises(CallHangsError):
            await threads.call(lambda event=event: event.wait(30), 0.01)  # type: ignore[misc]
    with pytest.raises(CallHangsError, match="4 calls hang already"):
        await threads.call(lambda: "never called", 5.0)
    events[0].set()
    async with asyncio.timeout(20):
        while True:
            try:
                assert await threads.call(lambda: "called", 5.0) == "called"
                break
            except CallHangsError:
                await asyncio.sleep(0.005)
    for event in events:
        event.set()


def test_the_process_ends_while_a_call_hangs() -> None:
    program = (
        "import asyncio, time\nfrom kscheduler.aio.abandonable_calls import AbandonableCalls\n"
        "async def main():\n    await AbandonableCalls().call(lambda: time.sleep(60), 0.05)\n"
        "try:\n    asyncio.run(main())\nexcept TimeoutError as failure:\n    print(failure)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert ended.stdout == "it has not ended within 0.05 s\n"
