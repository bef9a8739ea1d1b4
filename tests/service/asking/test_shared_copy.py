"""One copy answers many questions: until it is too old, does not know what is asked about, or dies."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kscheduler.service.asking import live_copy
from kscheduler.service.asking.memory_headroom import MemoryHeadroom
from kscheduler.service.asking.query_errors import (
    CopyBusyError,
    CopyFailedError,
    CopyLimits,
    CopyRefusedError,
    CopyTimeoutError,
)
from tests.service.asking.asked import (
    Closures,
    LiveClosures,
    Run,
    children_of,
    copies,
    my_copy,
    my_pid,
    open_descriptors,
    until_queried,
)

PROCESSES = pytest.mark.slow("starts a service as a process, and ends it")

_SUBREAPER = 36


@pytest.fixture
def _long_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_copy, "life_after", lambda *_, **__: 600.0)


long_lived = pytest.mark.usefixtures("_long_lived")


def sleep() -> bytes:
    time.sleep(60)
    return b""


async def until_gone(*pids: int) -> None:
    """Waits until none of these processes runs; one that nobody has reaped yet does not run."""
    async with asyncio.timeout(60):
        while any(_runs(pid) for pid in pids):  # noqa: ASYNC110  a process that ends rings no bell here
            await asyncio.sleep(0.005)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@long_lived
def test_queries_that_come_soon_are_answered_by_children_of_one_copy(run: Run) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            assert not (await live.whole_answer(my_copy)).is_older_than_query
            answers = [await live.whole_answer(my_copy) for _ in range(3)]
            assert {int(answer.body) for answer in answers} == set(copies())
            assert all(answer.is_older_than_query and answer.age_seconds > 0 for answer in answers)
            assert live.forks == 1

    run(main())


@long_lived
def test_what_a_query_changes_the_next_one_does_not_see(run: Run) -> None:
    seen: list[int] = []

    def query() -> bytes:
        seen.append(1)
        return b"%d" % len(seen)

    async def main() -> None:
        async with LiveClosures() as live:
            assert [await live.answer(query) for _ in range(3)] == [b"1"] * 3
            assert live.forks == 1

    run(main())


@long_lived
@pytest.mark.parametrize("padding", [0, 1 << 20], ids=["small", "a MiB"])
def test_a_copy_that_does_not_know_what_is_queried_about_is_replaced(run: Run, padding: int) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            first = int(await live.answer(my_copy, padding))
            second = int(await live.answer(partial(my_copy), padding))
            assert first != second
            assert live.forks == 2
            await until_gone(first)
            assert second in copies()

    run(main())


@long_lived
def test_a_copy_made_under_another_mark_is_queried_no_more(run: Run) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            first = await live.answer(my_copy)
            live.state.marked = "another configuration"
            assert await live.answer(my_copy) != first
            assert live.forks == 2

    run(main())


@long_lived
def test_who_wants_a_fresh_answer_gets_a_copy_of_now(run: Run) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            first = await live.answer(my_copy)
            answer = await live.whole_answer(my_copy, fresh=True)
            assert answer.body != first
            assert not answer.is_older_than_query

    run(main())


def test_a_copy_that_is_too_old_ends_by_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_copy, "life_after", lambda *_, **__: 0.2)

    async def main() -> None:
        async with LiveClosures() as live:
            first = int(await live.answer(my_copy))
            async with asyncio.timeout(60):
                while copies():  # noqa: ASYNC110  a process that ends rings no bell here
                    await asyncio.sleep(0.01)
            assert not _runs(first)
            assert int(await live.answer(my_copy)) != first

    run(main())


@long_lived
def test_the_next_child_is_there_before_the_next_query_and_may_be_killed(run: Run) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            last = int(await live.answer(my_pid))
            (copy,) = copies()
            for is_killed in (False, True, False):
                spare = await _spare(copy, last)
                if is_killed:
                    os.kill(spare, signal.SIGKILL)
                    await until_gone(spare)
                last = int(await live.answer(my_pid))
                assert (last == spare) is not is_killed
            assert live.forks == 1

    run(main())


@long_lived
def test_a_child_that_is_killed_before_it_has_read_the_question_is_reported(run: Run) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            last = int(await live.answer(my_pid))
            (copy,) = copies()
            spare = await _spare(copy, last)
            os.kill(spare, signal.SIGSTOP)
            queried = asyncio.ensure_future(live.answer(my_pid, padding=1000))
            await asyncio.sleep(0.1)  # as long as a copy takes to give it the channel; less tests less
            os.kill(spare, signal.SIGKILL)
            with pytest.raises(CopyFailedError, match=r"without an answer \(signal 9\)"):
                await queried
            await live.answer(my_pid)
            assert live.forks == 1

    run(main())


async def _spare(copy: int, last: int) -> int:
    """The child of a copy that is there when the last one has ended."""
    async with asyncio.timeout(60):
        while len(children := children_of(copy)) != 1 or last in children:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.005)
    return children[0]


@pytest.mark.parametrize("is_queried", [True, False], ids=["is asked", "nobody asks"])
def test_a_copy_that_was_queried_is_followed_by_another_before_anybody_waits_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_queried: bool
) -> None:
    lives = {1: 0.2}
    monkeypatch.setattr(live_copy, "_RENEWED_SECONDS", 60.0 if is_queried else 0.0)
    monkeypatch.setattr(live_copy, "rest_after", lambda _: 0.0)

    async def main() -> None:
        async with LiveClosures() as live:
            monkeypatch.setattr(live_copy, "life_after", lambda *_, **__: lives.get(live.forks, 600.0))
            first = int(await live.answer(my_copy))
            await until_gone(first)
            assert live.forks == 1 + is_queried
            second = int(await live.answer(my_copy))
            await until_gone(first)
            assert second in copies()
            assert live.forks == 2

    run(main())


def test_a_copy_answers_for_longer_while_nothing_changes_but_pods(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_copy, "life_after", lambda _, has_changed: 0.0 if has_changed else 600.0)

    async def main() -> None:
        async with LiveClosures() as live:
            first = await live.answer(my_copy)
            assert await live.answer(my_copy) == first
            live.state.slowly_marked = "a node has come"
            second = await live.answer(my_copy)
            assert second != first
            assert await live.answer(my_copy) == second
            live.state.known[b"of-the-cluster"] = my_copy
            assert (await live.ask(b"of-the-cluster")).body != second

    run(main())


@long_lived
def test_a_copy_that_is_replaced_finishes_its_answers_first(run: Run, tmp_path: Path) -> None:
    goes_on = tmp_path / "goes-on"

    def query() -> bytes:
        while not goes_on.exists():
            time.sleep(0.01)
        return b"finished"

    async def main() -> None:
        async with LiveClosures() as live:
            queried = asyncio.ensure_future(live.answer(query))
            first = await until_queried()
            assert int(await live.answer(my_copy)) != first
            goes_on.touch()
            assert await queried == b"finished"
            await until_gone(first)

    run(main())


@contextmanager
def _as_init() -> Iterator[None]:
    """Whose parent dies becomes a child of this process, as in a container without an init of its own."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(_SUBREAPER, 1) == 0
    try:
        yield
    finally:
        prctl(_SUBREAPER, 0)


@long_lived
def test_a_copy_that_dies_takes_its_children_along_and_its_questions_are_queried_again(run: Run) -> None:
    is_second_time = False

    def query() -> bytes:
        return my_copy() if is_second_time else sleep()

    async def main() -> None:
        nonlocal is_second_time
        async with LiveClosures() as live:
            queried = [asyncio.ensure_future(live.answer(query)) for _ in range(2)]
            first = await until_queried(children=2)
            children = children_of(first)
            is_second_time = True
            os.kill(first, signal.SIGKILL)
            answers = await asyncio.gather(*queried)
            assert answers[0] == answers[1] != b"%d" % first
            assert live.forks == 2
            await until_gone(first, *children)

    with _as_init():  # nobody else would reap them
        run(main())


def test_copies_that_die_again_and_again_are_the_queries_fault(run: Run) -> None:
    class Dying(Closures):
        def begin(self) -> None:
            os._exit(1)

    async def main() -> None:
        async with LiveClosures() as live:
            live._state = Dying()
            with pytest.raises(CopyFailedError, match="2 copies of the process died"):
                await live.answer(my_pid)
            assert live.forks == 2

    run(main())


@long_lived
def test_a_copy_that_dies_between_two_queries_is_replaced(run: Run) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            first = int(await live.answer(my_copy))
            os.kill(first, signal.SIGKILL)
            assert int(await live.answer(my_copy)) != first
            assert live.waiting == 0

    run(main())


@long_lived
@pytest.mark.parametrize(("percent", "is_queried"), [(80, True), (95, False)], ids=["when asked", "at once"])
def test_a_copy_ends_where_memory_becomes_short(run: Run, percent: int, is_queried: bool) -> None:
    used = 50

    async def main() -> None:
        nonlocal used
        async with LiveClosures(MemoryHeadroom(lambda: 100, lambda: used)) as live:
            copy = int(await live.answer(my_copy))
            used = percent
            if is_queried:
                with pytest.raises(CopyRefusedError, match="80 % of the memory limit is used"):
                    await live.answer(my_copy)
            await until_gone(copy)

    run(main())


@long_lived
def test_who_needs_a_new_copy_does_not_hold_up_who_does_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_copy, "rest_after", lambda _: 600.0)

    async def main() -> None:
        async with LiveClosures() as live:
            first = await live.answer(my_copy)
            waits = asyncio.ensure_future(live.whole_answer(my_copy, fresh=True))
            assert [await live.answer(my_copy) for _ in range(2)] == [first] * 2
            assert not waits.done()
            waits.cancel()

    run(main())


@long_lived
def test_who_goes_away_takes_the_child_along_and_not_the_copy(run: Run) -> None:
    async def main() -> None:
        async with LiveClosures() as live:
            live.state.known[b"copy"] = my_copy
            queried = asyncio.ensure_future(live.answer(sleep))
            copy = await until_queried()
            children = children_of(copy)
            queried.cancel()
            await until_gone(*children)
            assert (await live.ask(b"copy")).body == b"%d" % copy

    run(main())


@long_lived
def test_many_queries_at_once_are_answered_two_at_a_time_by_one_copy(run: Run) -> None:
    def query() -> bytes:
        return b"%d" % len(children_of(os.getppid()))

    async def main() -> None:
        async with LiveClosures() as live:
            queried = (live.answer(query) for _ in range(40))
            answers = await asyncio.gather(*queried, return_exceptions=True)
            assert [answer for answer in answers if not isinstance(answer, bytes | CopyBusyError)] == []
            refused = ["wait already" in str(answer) for answer in answers]
            assert refused == [False] * 18 + [True] * 22
            taken = [answer for answer in answers[:18] if isinstance(answer, bytes)]
            assert len(taken) >= 10, "on a busy machine the last ones wait too long for their turn"
            assert live.forks == 1

    run(main())


@pytest.mark.parametrize("has_pidfd", [True, False], ids=["pidfd", "no pidfd"])
def test_no_descriptor_and_no_process_is_left(run: Run, has_pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After answers, failures, timeouts, deaths and askers that have gone."""
    if not has_pidfd:

        def refuse(_: int) -> int:
            raise OSError

        monkeypatch.setattr(os, "pidfd_open", refuse)

    def fail() -> bytes:
        raise ValueError

    async def main() -> None:
        await asyncio.sleep(0)
        before = open_descriptors()
        async with LiveClosures() as live:
            await live.answer(my_pid)
            with pytest.raises(CopyFailedError):
                await live.answer(fail)
            queried = asyncio.ensure_future(live.answer(sleep))
            copy = await until_queried()
            queried.cancel()
            os.kill(copy, signal.SIGKILL)
            await asyncio.wait([queried])
            await live.answer(my_pid)
        async with LiveClosures(limits=CopyLimits(seconds=0.05)) as live:
            with pytest.raises(CopyTimeoutError):
                await live.answer(sleep)
        assert open_descriptors() == before
        assert copies() == []

    run(main())


_PROGRAM = """
import asyncio, os, sys, time
from tests.service.asking.asked import LiveClosures, children_of, until_queried

async def main():
    async with LiveClosures() as live:
        asked = asyncio.ensure_future(live.answer(lambda: time.sleep(60)))
        copy = await until_queried()
        print(copy, *children_of(copy), flush=True)
        if await asyncio.to_thread(sys.stdin.readline) == "exec\\n":
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"])

asyncio.run(main())
"""


@PROCESSES
@pytest.mark.parametrize("how", ["is killed", "becomes another program"])
def test_no_copy_survives_the_service(how: str) -> None:
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        assert service.stdin is not None
        pids = [int(pid) for pid in service.stdout.readline().split()]
        try:
            assert len(pids) == 2
            if how == "is killed":
                service.kill()
            else:
                service.stdin.write(b"exec\n")
                service.stdin.flush()
            asyncio.run(until_gone(*pids))
        finally:
            service.kill()
