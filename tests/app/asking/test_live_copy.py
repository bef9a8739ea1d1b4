"""A copy of the process answers: exactly, alone, within bounds, and nothing is left behind."""

import asyncio
import gc
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kscheduler.aio.event_loop import new_event_loop
from kscheduler.app.asking.live_copy import (
    AnswerTooLargeError,
    CopyBusyError,
    CopyFailedError,
    CopyLimits,
    CopyRefusedError,
    CopyTimeoutError,
    LiveCopy,
    rest_after,
)
from kscheduler.app.asking.room import MemoryRoom, cgroup_used

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def to_the_end(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return to_the_end


def _children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_a_question_sees_the_state_of_its_moment_and_what_it_changes_stays_in_the_copy(run: Run) -> None:
    state = {"pods": 3}

    def question() -> bytes:
        state["pods"] += 1
        return str(state["pods"]).encode()

    async def main() -> None:
        live = LiveCopy()
        assert await live.ask(question) == b"4"
        state["pods"] = 10
        assert await live.ask(question) == b"11"
        assert state["pods"] == 10
        assert _children() == ""

    run(main())


def test_a_question_may_run_an_event_loop_of_its_own(run: Run) -> None:
    async def inner() -> bytes:
        reading, writing = asyncio.Event(), []
        asyncio.get_running_loop().call_later(0, reading.set)
        await reading.wait()
        writing.append(b"waited")
        return b"".join(writing)

    async def main() -> None:
        assert await LiveCopy().ask(lambda: asyncio.run(inner())) == b"waited"

    run(main())


def test_a_copy_has_no_descriptor_but_its_pipe_and_nowhere(run: Run) -> None:
    ours, theirs = socket.socketpair()

    def question() -> bytes:
        found = {entry.name: str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.exists()}
        return repr(sorted({where.partition(":")[0] for where in found.values()})).encode()

    async def main() -> None:
        assert await LiveCopy().ask(question) == b"['/dev/null', 'pipe']"

    run(main())
    ours.sendall(b"still ours")
    assert theirs.recv(100) == b"still ours"
    ours.close()
    theirs.close()


_NOWHERE = ("127.0.0.1", 9)
_FORBIDDEN: dict[str, Callable[[], object]] = {
    "a connection": lambda: socket.create_connection(_NOWHERE),
    "asyncio's connection": lambda: asyncio.run(_connect()),
    "a datagram": lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", _NOWHERE),
    "a server": lambda: socket.create_server(("127.0.0.1", 0)),
    "a program": lambda: subprocess.run(["/bin/true"], check=True),
    "a shell": lambda: os.system("true"),
    "another process": os.fork,
    "a file": lambda: Path("written").write_text("x"),
    "a file's end": lambda: Path("written").unlink(),
    "a signal to its parent": lambda: os.kill(os.getppid(), signal.SIGTERM),
}


async def _connect() -> None:
    await asyncio.open_connection(*_NOWHERE)


@pytest.mark.parametrize("attempt", _FORBIDDEN.values(), ids=_FORBIDDEN)
def test_a_copy_cannot_reach_outside(
    attempt: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def question() -> bytes:
        attempt()
        return b"it did"

    async def main() -> None:
        with pytest.raises(CopyFailedError, match="must not reach outside its process"):
            await LiveCopy().ask(question)

    asyncio.run(main())
    assert not list(tmp_path.iterdir())


def test_a_lock_that_another_thread_holds_at_the_fork_does_not_hold_up_the_copy(run: Run) -> None:
    held, done = threading.Event(), threading.Event()
    handler = logging.StreamHandler()

    def hold() -> None:
        with handler.lock or threading.Lock():
            held.set()
            done.wait()

    def question() -> bytes:
        handler.handle(logging.makeLogRecord({"msg": "said by a copy"}))
        return b"done"

    async def main() -> None:
        assert await LiveCopy().ask(question) == b"done"

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        run(main())
    finally:
        done.set()
        thread.join()


def test_what_a_question_raises_is_told(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(CopyFailedError, match="ZeroDivisionError: integer"):
            await LiveCopy().ask(lambda: bytes(1 % 0))

    run(main())


def test_a_copy_that_is_killed_is_told_with_its_signal(run: Run) -> None:
    def question() -> bytes:
        signal.raise_signal(signal.SIGKILL)
        return b""

    async def main() -> None:
        with pytest.raises(CopyFailedError, match=r"without an answer \(signal 9\)"):
            await LiveCopy().ask(question)

    run(main())


def test_a_copy_that_takes_too_long_is_killed_and_the_next_question_is_answered(run: Run) -> None:
    def question() -> bytes:
        time.sleep(60)
        return b""

    async def main() -> None:
        live = LiveCopy(limits=CopyLimits(seconds=2.0))
        with pytest.raises(CopyTimeoutError, match=r"no answer within 2 s"):
            await live.ask(question)
        assert await live.ask(lambda: b"next") == b"next"
        assert _children() == ""

    run(main())


def test_an_answer_that_is_too_large_is_not_taken(run: Run) -> None:
    async def main() -> None:
        live = LiveCopy(limits=CopyLimits(answer_bytes=1 << 20))
        assert len(await live.ask(lambda: bytes(1 << 20))) == 1 << 20
        with pytest.raises(AnswerTooLargeError, match="more than 1 MiB"):
            await live.ask(lambda: bytes((1 << 20) + 1))

    run(main())


def test_a_copy_may_not_grow_without_bound(run: Run) -> None:
    async def main() -> None:
        live = LiveCopy(limits=CopyLimits(growth_bytes=64 << 20))
        with pytest.raises(CopyRefusedError, match="more memory than a copy may have"):
            await live.ask(lambda: bytes(256 << 20))

    run(main())


def test_no_copy_begins_where_memory_is_short_and_one_that_makes_it_short_ends(run: Run) -> None:
    used = [80, 50, 50, 95]

    def question() -> bytes:
        time.sleep(60)
        return b""

    async def main() -> None:
        live = LiveCopy(MemoryRoom(lambda: 100, lambda: used.pop(0)))
        with pytest.raises(CopyRefusedError, match="80 % of the memory limit is used"):
            await live.ask(lambda: b"")
        with pytest.raises(CopyRefusedError, match="more memory than the limit"):
            await live.ask(question)
        assert live.waiting == 0

    run(main())


def test_questions_come_one_after_another_and_only_so_many_wait(run: Run) -> None:
    async def main() -> None:
        live = LiveCopy(limits=CopyLimits(waiting=2))
        asked = [asyncio.ensure_future(live.ask(lambda: str(os.getpid()).encode())) for _ in range(4)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [bytes, bytes, bytes, CopyBusyError]
        assert len(set(answers)) == 4

    run(main())


def test_a_question_waits_only_so_long_for_its_turn(run: Run) -> None:
    def question() -> bytes:
        time.sleep(60)
        return b""

    async def main() -> None:
        live = LiveCopy(limits=CopyLimits(waiting_seconds=0.05, seconds=0.5))
        first = asyncio.ensure_future(live.ask(question))
        await asyncio.sleep(0)
        with pytest.raises(CopyBusyError, match="1 questions are before it"):
            await live.ask(lambda: b"")
        with pytest.raises(CopyTimeoutError):
            await first

    run(main())


@pytest.mark.parametrize("turns", range(6))
def test_whoever_goes_away_takes_the_copy_along(run: Run, turns: int) -> None:
    def question() -> bytes:
        time.sleep(60)
        return b""

    async def main() -> None:
        live = LiveCopy()
        asking = asyncio.ensure_future(live.ask(question))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await live.ask(lambda: b"next") == b"next"
        await live.aclose()
        assert _children() == ""

    run(main())


def test_signals_to_the_service_are_no_business_of_the_copy(run: Run) -> None:
    """The wakeup descriptor is a socket that both have: a signal to the copy must not look like one to the service."""
    heard: list[int] = []
    hears = asyncio.Event()

    def hear(number: int) -> None:
        heard.append(number)
        hears.set()

    def question() -> bytes:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        return b"it survived"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, hear, number)
        with pytest.raises(CopyFailedError, match=f"signal {signal.SIGTERM.value}"):
            await LiveCopy().ask(question)
        await asyncio.sleep(0.05)
        assert heard == []
        signal.raise_signal(signal.SIGHUP)
        await hears.wait()
        assert heard == [signal.SIGHUP]

    run(main())


def test_forking_takes_a_twentieth_of_the_loops_time_at_most_and_a_slow_fork_does_not_close_the_door() -> None:
    assert rest_after(0.005) == pytest.approx(0.095)
    assert rest_after(1.0) == 2.0


def test_a_copy_collects_no_garbage(run: Run) -> None:
    async def main() -> None:
        assert await LiveCopy().ask(lambda: str(gc.isenabled()).encode()) == b"False"
        assert gc.isenabled()

    run(main())


def test_memory_that_counts_is_read_from_the_container(tmp_path: Path) -> None:
    assert cgroup_used(lambda: 7, tmp_path) == 7
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.stat").write_text("cache 5\ntotal_rss 50\n")
    assert cgroup_used(lambda: 7, tmp_path) == 50
    (tmp_path / "memory.stat").write_text("anon 60\nfile 900\n")
    assert cgroup_used(lambda: 7, tmp_path) == 60
    assert cgroup_used(lambda: 70, tmp_path) == 70, "the cgroup's own count lags behind"
