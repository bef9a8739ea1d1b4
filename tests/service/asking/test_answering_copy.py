"""A copy of the process answers: exactly, alone, within bounds, and nothing is left behind."""

import asyncio
import gc
import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kscheduler.service.asking.memory_headroom import MemoryHeadroom, cgroup_used
from kscheduler.service.asking.query_errors import (
    CopyFailedError,
    CopyLimits,
    CopyRefusedError,
    CopyTimeoutError,
    ResponseTooLargeError,
)
from tests.service.asking.asked import Copies, Run, sleep, until_queried


def test_a_query_sees_the_state_of_its_moment_and_what_it_changes_stays_in_the_copy(run: Run) -> None:
    state = {"pods": 3}

    def query() -> bytes:
        state["pods"] += 1
        return str(state["pods"]).encode()

    async def main() -> None:
        async with Copies() as live:
            assert await live.ask(query) == b"4"
            state["pods"] = 10
            assert await live.ask(query) == b"11"
            assert state["pods"] == 10

    run(main())


def test_a_query_may_run_an_event_loop_of_its_own(run: Run) -> None:
    async def inner() -> bytes:
        reading, writing = asyncio.Event(), []
        asyncio.get_running_loop().call_later(0, reading.set)
        await reading.wait()
        writing.append(b"waited")
        return b"".join(writing)

    async def main() -> None:
        async with Copies() as live:
            assert await live.ask(lambda: asyncio.run(inner())) == b"waited"

    run(main())


def test_a_copy_has_no_descriptor_but_nowhere_and_its_channel(run: Run) -> None:
    ours, theirs = socket.socketpair()

    def query() -> bytes:
        found = {entry.name: str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.exists()}
        where = sorted(where.partition(":")[0] for where in found.values())
        return repr(where).encode()

    async def main() -> None:
        async with Copies() as live:
            assert await live.ask(query) == b"['/dev/null', '/dev/null', '/dev/null', 'socket']"

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

    def query() -> bytes:
        attempt()
        return b"it did"

    async def main() -> None:
        async with Copies() as live:
            with pytest.raises(CopyFailedError, match="must not reach outside its process"):
                await live.ask(query)

    asyncio.run(main())
    assert not list(tmp_path.iterdir())


def test_a_lock_that_another_thread_holds_at_the_fork_does_not_hold_up_the_copy(run: Run) -> None:
    held, done = threading.Event(), threading.Event()
    handler = logging.StreamHandler()

    def hold() -> None:
        with handler.lock or threading.Lock():
            held.set()
            done.wait()

    def query() -> bytes:
        handler.handle(logging.makeLogRecord({"msg": "said by a copy"}))
        return b"done"

    async def main() -> None:
        async with Copies() as live:
            assert await live.ask(query) == b"done"

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        run(main())
    finally:
        done.set()
        thread.join()


def test_what_a_question_raises_is_reported(run: Run) -> None:
    async def main() -> None:
        async with Copies() as live:
            with pytest.raises(CopyFailedError, match="ZeroDivisionError: integer"):
                await live.ask(lambda: bytes(1 % 0))

    run(main())


def test_a_copy_that_is_killed_is_reported_with_its_signal(run: Run) -> None:
    def query() -> bytes:
        signal.raise_signal(signal.SIGKILL)
        return b""

    async def main() -> None:
        async with Copies() as live:
            with pytest.raises(CopyFailedError, match=r"without an answer \(signal 9\)"):
                await live.ask(query)

    run(main())


def loop_forever() -> bytes:
    return str(sum(iter(int, 1))).encode()  # in C, where no signal handler of Python's would run


@pytest.mark.parametrize("query", [sleep, loop_forever])
def test_a_copy_that_takes_too_long_is_killed_and_the_next_query_is_answered(
    run: Run, query: Callable[[], bytes]
) -> None:
    async def main() -> None:
        async with Copies(limits=CopyLimits(seconds=1.0)) as live:
            with pytest.raises(CopyTimeoutError, match=r"no answer within 1 s"):
                await live.ask(query)
            assert await live.ask(lambda: b"next") == b"next"

    run(main())


def test_an_answer_that_is_too_large_is_not_taken(run: Run) -> None:
    async def main() -> None:
        async with Copies(limits=CopyLimits(response_bytes=1 << 20)) as live:
            assert len(await live.ask(lambda: bytes(1 << 20))) == 1 << 20
            with pytest.raises(ResponseTooLargeError, match="more than 1 MiB"):
                await live.ask(lambda: bytes((1 << 20) + 1))

    run(main())


def test_a_copy_may_not_grow_without_bound(run: Run) -> None:
    async def main() -> None:
        async with Copies(limits=CopyLimits(growth_bytes=64 << 20)) as live:
            with pytest.raises(CopyRefusedError, match="more memory than a copy may have"):
                await live.ask(lambda: bytes(256 << 20))

    run(main())


def test_no_copy_begins_where_memory_is_short_and_one_that_makes_it_short_ends(run: Run) -> None:
    used = 80

    async def main() -> None:
        nonlocal used
        async with Copies(MemoryHeadroom(lambda: 100, lambda: used)) as live:
            with pytest.raises(CopyRefusedError, match="80 % of the memory limit is used"):
                await live.ask(lambda: b"")
            used = 50
            queried = asyncio.ensure_future(live.ask(sleep))
            await until_queried()
            used = 95
            with pytest.raises(CopyRefusedError, match="more memory than the limit"):
                await queried
            assert live.waiting == 0

    run(main())


def test_signals_to_the_service_are_no_business_of_the_copy(run: Run) -> None:
    """The wakeup descriptor is a socket that both have: a signal to the copy must not look like one to the service."""
    heard: list[int] = []
    is_registered = asyncio.Event()

    def hear(number: int) -> None:
        heard.append(number)
        is_registered.set()

    def query() -> bytes:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        return b"it survived"

    async def main() -> None:
        async with Copies() as live:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGHUP, signal.SIGTERM):
                loop.add_signal_handler(number, hear, number)
            with pytest.raises(CopyFailedError, match=f"signal {signal.SIGTERM.value}"):
                await live.ask(query)
            await asyncio.sleep(0.05)
            assert heard == []
            signal.raise_signal(signal.SIGHUP)
            await is_registered.wait()
            assert heard == [signal.SIGHUP]

    run(main())


def test_a_copy_collects_no_garbage(run: Run) -> None:
    async def main() -> None:
        async with Copies() as live:
            assert await live.ask(lambda: str(gc.isenabled()).encode()) == b"False"
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
