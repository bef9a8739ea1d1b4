"""Supervised tasks: many small pieces of work, each of which may fail without affecting the others.

`asyncio.TaskGroup` is right for services, where one failure ends all. Per-pod work is the opposite: its failure is that
pod's failure. A `TaskSet` owns such tasks, hands each error to the handler given with the task, and ends all on demand.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kscheduler.aio.clock import REAL_CLOCK, Clock, finishes_within

ErrorHandler = Callable[[str, BaseException], None]
"""Called with the task's name and its error."""


@dataclass(frozen=True, slots=True)
class TaskSetStatistics:
    """Counts since the start; `running` is now."""

    running: int
    started: int
    failed: int
    cancelled: int


def ends_this_task(failure: BaseException) -> bool:
    """Whether an exception from an `await` means that this task itself is being cancelled.

    Awaiting a future that was cancelled elsewhere raises `CancelledError` too, but that is a failure of the awaiting
    code.
    """
    if isinstance(failure, GeneratorExit):
        return True
    task = asyncio.current_task() if isinstance(failure, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


async def end_others(seconds: float, kept: Collection["asyncio.Task[Any]"] = ()) -> list[str]:
    """Cancel all other tasks of the loop but `kept`; returns the names of those that have not ended after this time.

    `asyncio.run` would wait for such a task for ever.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()} - set(kept)
    for task in others:
        task.cancel()
    _, deaf = await asyncio.wait(others, timeout=seconds) if others else (others, others)
    return sorted(task.get_name() for task in deaf)


@asynccontextmanager
async def while_running(tasks: Collection[asyncio.Future[Any]]) -> AsyncIterator[None]:
    """The tasks go on while the body runs; at its end all are cancelled and waited for.

    What one of them has failed with until then is raised, unless the body has failed itself.
    """
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class TaskSet:
    """Owns tasks that fail independently."""

    def __init__(self, name: str, clock: Clock = REAL_CLOCK) -> None:
        self.name = name
        self._clock = clock
        self._tasks: dict[asyncio.Task[object], ErrorHandler | None] = {}
        self._started = self._failed = self._cancelled = 0

    def spawn(
        self, name: str, work: Coroutine[Any, Any, object], on_error: ErrorHandler | None = None
    ) -> asyncio.Task[object]:
        """Run `work` as a task of its own. With no `on_error` a failure goes to the loop's exception handler."""
        task = asyncio.create_task(work, name=f"{self.name}/{name}")
        self._tasks[task] = on_error
        self._started += 1
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[object]) -> None:
        on_error = self._tasks.pop(task)
        if task.cancelled():
            self._cancelled += 1
        elif (error := task.exception()) is not None:
            self._failed += 1
            self._report(task, error, on_error)

    def _report(self, task: asyncio.Task[object], error: BaseException, on_error: ErrorHandler | None) -> None:
        if on_error is not None:
            on_error(task.get_name().removeprefix(f"{self.name}/"), error)
            return
        context = {"message": f"task {task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait until all tasks have ended, including those spawned meanwhile; whether they did in time."""
        return await finishes_within(self._until_empty(), timeout_seconds, self._clock)

    async def _until_empty(self) -> None:
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def cancel_all(self) -> None:
        """Cancel every task and wait until each has ended."""
        while self._tasks:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.wait(tuple(self._tasks))

    def statistics(self) -> TaskSetStatistics:
        """A snapshot of the counts."""
        return TaskSetStatistics(len(self._tasks), self._started, self._failed, self._cancelled)
