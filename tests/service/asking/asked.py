"""Closures as questions to a copy of the test's own process."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self

from kscheduler.service.asking.live_copy import LiveCopy, LiveResponse
from kscheduler.service.asking.memory_headroom import NO_LIMIT, MemoryHeadroom
from kscheduler.service.asking.query_errors import CopyLimits

PodSelection = Callable[[], bytes]
Run = Callable[[Coroutine[Any, Any, None]], None]


class Closures:
    """A `ForkedState` whose questions are closures: a copy answers those that there were when it was made."""

    def __init__(self) -> None:
        self.marked: object = None
        self.slowly_marked: object = None
        self.known: dict[bytes, PodSelection] = {}

    def mark(self) -> object:
        return self.marked

    def slow_mark(self) -> object:
        return self.slowly_marked

    def begin(self) -> None:
        pass

    def knows(self, facts: bytes) -> bool:
        return facts in self.known

    def answer(self, query: bytes) -> bytes:
        return self.known[query.partition(b" ")[0]]()


class LiveClosures(LiveCopy):
    """Answers closures. A question that the copy does not know makes a new one; the same one again is shared."""

    def __init__(self, room: MemoryHeadroom = NO_LIMIT, limits: CopyLimits | None = None) -> None:
        self.state = Closures()
        super().__init__(self.state, room, limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def answer(self, closure: PodSelection, padding: int = 0) -> bytes:
        return (await self.whole_answer(closure, padding)).body

    async def whole_answer(self, closure: PodSelection, padding: int = 0, *, fresh: bool = False) -> LiveResponse:
        name = str(id(closure)).encode()
        self.state.known[name] = closure
        return await self.ask(name + b" " * padding, name, fresh=fresh)


def copies() -> list[int]:
    """The process ids of this process' copies: children that lead a group (multiprocessing's tracker does not)."""
    return [pid for pid in children_of(os.getpid()) if _leads_a_group(pid)]


def _leads_a_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def children_of(pid: int) -> list[int]:
    """Those of a process that may be gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def my_pid() -> bytes:
    return str(os.getpid()).encode()


def my_copy() -> bytes:
    """The process id of the copy that the child who answers was made of."""
    return str(os.getppid()).encode()


async def until_queried(children: int = 1) -> int:
    """Waits until so many children are at work; returns the process id of their copy."""
    async with asyncio.timeout(60):
        while True:
            for pid in copies():
                if len(children_of(pid)) == children:
                    return pid
            await asyncio.sleep(0.005)


def open_descriptors() -> int:
    """How many descriptors this process has."""
    return len([*Path("/proc/self/fd").iterdir()])
