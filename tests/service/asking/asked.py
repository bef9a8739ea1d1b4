"""Closures as questions to copies of the test's own process."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self

from kscheduler.service.asking.live_copies import LiveCopies

Run = Callable[[Coroutine[Any, Any, None]], None]


class Copies(LiveCopies):
    """Whose copies end with a block."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


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


def sleep() -> bytes:
    time.sleep(60)
    return b""


async def until_queried(count: int = 1) -> list[int]:
    """Waits until so many copies are at work; returns their process ids."""
    async with asyncio.timeout(60):
        while len(found := copies()) != count:  # noqa: ASYNC110  a process that begins rings no bell here
            await asyncio.sleep(0.005)
    return found


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


def open_descriptors() -> int:
    """How many descriptors this process has."""
    return len([*Path("/proc/self/fd").iterdir()])
