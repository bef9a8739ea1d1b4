"""One copy a question: whose turn it is, how often the process is forked, and that no copy is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from kscheduler.service.asking import live_copies
from kscheduler.service.asking.live_copies import next_fork_at
from kscheduler.service.asking.query_errors import (
    CopyBusyError,
    CopyFailedError,
    CopyLimits,
    CopyRefusedError,
    CopyStoppedError,
    CopyTimeoutError,
)
from tests.service.asking.asked import (
    Copies,
    Run,
    copies,
    my_pid,
    open_descriptors,
    sleep,
    until_gone,
    until_queried,
)

PROCESSES = pytest.mark.slow("starts a service as a process, and ends it")


def test_each_query_has_a_copy_of_its_own_which_is_gone_after_the_answer(run: Run) -> None:
    async def main() -> None:
        async with Copies() as live:
            answers = [int(await live.ask(my_pid)) for _ in range(3)]
            assert len({*answers, os.getpid()}) == 4
            await until_gone(*answers)
            assert live.forks == 3

    run(main())


def test_what_a_query_changes_the_next_one_does_not_see(run: Run) -> None:
    seen: list[int] = []

    def query() -> bytes:
        seen.append(1)
        return b"%d" % len(seen)

    async def main() -> None:
        async with Copies() as live:
            assert [await live.ask(query) for _ in range(3)] == [b"1"] * 3

    run(main())


def test_so_many_queries_are_answered_at_once_and_only_so_many_wait(run: Run) -> None:
    async def main() -> None:
        async with Copies(limits=CopyLimits(waiting=2, at_once=2)) as live:
            answers = await asyncio.gather(*(live.ask(my_pid) for _ in range(6)), return_exceptions=True)
            assert [type(answer) for answer in answers] == [*[bytes] * 4, *[CopyBusyError] * 2]
            assert len(set(answers[:4])) == 4

    run(main())


def test_a_slow_query_does_not_hold_up_the_others(run: Run) -> None:
    async def main() -> None:
        async with Copies() as live:
            slow = asyncio.ensure_future(live.ask(sleep))
            answers = [await live.ask(lambda: b"quick") for _ in range(3)]
            assert answers == [b"quick"] * 3
            assert not slow.done()
            slow.cancel()

    run(main())


def test_a_query_waits_only_so_long_for_its_turn(run: Run) -> None:
    async def main() -> None:
        async with Copies(limits=CopyLimits(waiting_seconds=0.5, at_once=1)) as live:
            first = asyncio.ensure_future(live.ask(sleep))
            await asyncio.sleep(0)
            with pytest.raises(CopyBusyError, match="1 questions are before it"):
                await live.ask(lambda: b"")
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first

    run(main())


@pytest.mark.parametrize("turns", range(6))
def test_whoever_goes_away_takes_the_copy_along(run: Run, turns: int) -> None:
    async def main() -> None:
        async with Copies() as live:
            querying = asyncio.ensure_future(live.ask(sleep))
            for _ in range(turns):
                await asyncio.sleep(0)
            querying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await querying
            assert await live.ask(lambda: b"next") == b"next"

    run(main())


def test_a_copy_that_is_killed_harms_no_other(run: Run) -> None:
    def nap() -> bytes:
        time.sleep(0.2)
        return b"answered"

    async def main() -> None:
        async with Copies() as live:
            killed = asyncio.ensure_future(live.ask(sleep))
            (pid,) = await until_queried()
            other = asyncio.ensure_future(live.ask(nap))
            await until_queried(2)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(CopyFailedError, match=r"without an answer \(signal 9\)"):
                await killed
            assert await other == b"answered"

    run(main())


def test_forks_take_a_share_of_the_time_and_the_first_ones_after_a_rest_need_not_wait() -> None:
    first = next_fork_at(allowed=0.0, now=100.0, pause=0.006, waiting=1)
    assert first == pytest.approx(97.0)
    assert next_fork_at(first, now=100.0, pause=0.006, waiting=1) == pytest.approx(99.0)
    assert next_fork_at(101.0, now=101.0, pause=0.006, waiting=1) == pytest.approx(103.0)


def test_the_more_wait_the_sooner_is_the_next_fork_and_a_slow_fork_does_not_close_the_door() -> None:
    assert next_fork_at(allowed=100.0, now=100.0, pause=0.006, waiting=4) == pytest.approx(100.5)
    assert next_fork_at(allowed=100.0, now=100.0, pause=1.0, waiting=1) == 103.0


def test_a_query_waits_until_the_process_may_be_forked_again(run: Run) -> None:
    async def main() -> None:
        async with Copies() as live:
            await live.ask(my_pid)
            live._next_fork_at = time.perf_counter() + 0.3
            began = time.perf_counter()
            await live.ask(my_pid)
            assert time.perf_counter() - began >= 0.3

    run(main())


def test_the_end_does_not_wait_for_what_is_worked_on_or_waits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_copies, "next_fork_at", lambda *_: time.perf_counter() + 600.0)

    async def main() -> None:
        async with Copies() as live:
            queried = [asyncio.ensure_future(live.ask(sleep)) for _ in range(3)]
            await until_queried()  # the second one waits for a fork, and the third for its turn
            live.stop()
            for each in queried:
                with pytest.raises(CopyStoppedError, match="the service is stopping"):
                    await each
            with pytest.raises(CopyStoppedError):
                await live.ask(my_pid)
            assert live.forks == 1

    run(main())


def test_a_fork_that_fails_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    async def main() -> None:
        before = open_descriptors()
        async with Copies() as live:
            monkeypatch.setattr(os, "fork", refuse)
            with pytest.raises(CopyRefusedError, match="could be made: Resource temporarily unavailable"):
                await live.ask(my_pid)
            monkeypatch.undo()
            assert await live.ask(lambda: b"next") == b"next"
            assert live.waiting == 0
        assert open_descriptors() == before

    run(main())


def test_no_descriptor_and_no_process_is_left(run: Run) -> None:
    """After answers, failures, timeouts, deaths and clients that have left."""

    def fail() -> bytes:
        raise ValueError

    async def main() -> None:
        await asyncio.sleep(0)
        before = open_descriptors()
        async with Copies() as live:
            await live.ask(my_pid)
            with pytest.raises(CopyFailedError):
                await live.ask(fail)
            queried = asyncio.ensure_future(live.ask(sleep))
            (pid,) = await until_queried()
            queried.cancel()
            await asyncio.wait([queried])
            await until_gone(pid)
            await live.ask(my_pid)
        async with Copies(limits=CopyLimits(seconds=0.05)) as live:
            with pytest.raises(CopyTimeoutError):
                await live.ask(sleep)
        assert open_descriptors() == before
        assert copies() == []

    run(main())


_PROGRAM = """
import asyncio
from tests.service.asking.asked import Copies, sleep, until_queried

async def main():
    async with Copies() as live:
        asked = asyncio.ensure_future(live.ask(sleep))
        print(*await until_queried(), flush=True)
        await asked

asyncio.run(main())
"""


@PROCESSES
def test_no_copy_survives_the_service() -> None:
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        pids = [int(pid) for pid in service.stdout.readline().split()]
        service.kill()
    assert len(pids) == 1
    asyncio.run(until_gone(*pids))
