"""Several pieces of one work at the same time: all results, or one failure and nothing that goes on behind it."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_of(name: str, works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results, in order. The first failure ends the others, which are waited for; it is raised alone.

    `asyncio.gather` would let the others go on, and `asyncio.TaskGroup` raises a group, which no caller looks into.
    `name` is that of the tasks.
    """
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += (group.create_task(work, name=f"{name}/{index}") for index, work in enumerate(works))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
