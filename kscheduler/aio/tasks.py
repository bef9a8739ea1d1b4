"""Supervised tasks: many small pieces of work, each of which may fail without affecting the others.

`asyncio.TaskGroup` is right for services, where one failure ends all. Per-pod work is the opposite: its failure is that
pod's failure. A `TaskSet` owns such tasks, hands each error to the handler given with the task, and ends all on demand.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Generator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock, finishes_within

T = TypeVar("T")

# Called with the task's name and its error.
ErrorHandler = Callable[[str, BaseException], None]


class TaskSetStatistics(msgspec.Struct, frozen=True):
    """Counts since the start; `running` is now."""

    running: int
    started: int
    failed: int
    cancelled: int


def is_own_cancellation(failure: BaseException) -> bool:
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

    `asyncio.run` would wait for such a task forever.
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


# Long-running services, started in order and stopped in reverse, none of which may end unnoticed.


class ServiceEndedError(RuntimeError):
    """A service that should run until it is stopped returned by itself."""


class BackgroundService(msgspec.Struct, frozen=True):
    """A named piece of work that runs until it is stopped."""

    name: str
    run: Callable[[], Coroutine[Any, Any, object]]
    """Runs until cancelled."""
    stop: Callable[[], Awaitable[object]] | None = None
    """Called before `run` is cancelled, for an orderly end; it bounds its own time."""


@asynccontextmanager
async def running(*services: BackgroundService) -> AsyncIterator[None]:
    """Run the services while the body runs; stop them in reverse order at its end.

    A service that raises, or returns early (`ServiceEndedError`), cancels the body and all others; the errors come out
    as an `ExceptionGroup`, as from any `asyncio.TaskGroup`.
    """
    async with asyncio.TaskGroup() as group, AsyncExitStack() as ends:
        for service in services:
            task = group.create_task(_keep(service), name=service.name)
            ends.push_async_callback(_end, service, task)
        yield


async def _keep(service: BackgroundService) -> None:
    await until_cancelled(f"service {service.name}", service.run())


async def until_cancelled(name: str, work: Awaitable[object]) -> None:
    """Await `work`, which should run until this task is cancelled. Raises `ServiceEndedError` if it ends by itself.

    That includes a stray `CancelledError` (the work awaited something that was cancelled): a `TaskGroup` would take it
    for an orderly end.
    """
    try:
        await work
    except asyncio.CancelledError as failure:
        if is_own_cancellation(failure):
            raise
        message = f"{name} ended by itself: something that it awaits was cancelled"
        raise ServiceEndedError(message) from failure
    message = f"{name} ended by itself"
    raise ServiceEndedError(message)


async def _end(service: BackgroundService, task: asyncio.Task[None]) -> None:
    try:
        if service.stop is not None and not task.done():
            await service.stop()
    finally:
        task.cancel()
        await asyncio.wait({task})


# Waiting for something to happen, with a time limit and without a task: a future, set by a caller or by an alarm.
#
# `finishes_within` is for work and costs two tasks, too much for a thousand pods a second that each wait briefly for
# their volumes.


class WakeupEvent:
    """Any caller may ring it, one task waits for it. Must be created inside a running loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._notified: asyncio.Future[None] = self._loop.create_future()

    def notify(self) -> None:
        """Something has happened: wake the task that waits, or let the next wait return at once."""
        if not self._notified.done():
            self._notified.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Return once the bell has been rung since the last call, or after `seconds`."""
        if not self._notified.done():
            alarm = self._clock.call_later(seconds, self.notify)
            try:
                await self._notified
            finally:
                alarm.cancel()
        self._notified = self._loop.create_future()


# Splits long work into short slices, so that watches, binds and probes get their turn on the event loop.


class Slicer:
    """Says when a slice of work is used up; `await turn()` then lets the event loop run once.

    It measures real time on purpose: a virtual clock stands still while the loop is blocked for real.
    """

    __slots__ = ("_seconds", "ends_at")

    def __init__(self, seconds: float = 0.005) -> None:
        self._seconds = seconds
        self.ends_at = time.perf_counter() + seconds
        """When the slice is over, for loops that read `time.perf_counter` themselves."""

    def begin(self) -> None:
        """Begin a new slice: the work has just waited for something."""
        self.ends_at = time.perf_counter() + self._seconds

    def used_up(self) -> bool:
        """Whether the slice is over."""
        return time.perf_counter() >= self.ends_at

    async def turn(self) -> None:
        """Let others run, then begin a new slice."""
        await asyncio.sleep(0)
        self.begin()


async def run_in_slices(steps: Generator[None, None, T], slicer: Slicer) -> T:
    """Run a generator that pauses often, and let the event loop run whenever a slice is used up. Returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
        if slicer.used_up():
            await slicer.turn()


def finished(steps: Generator[None, None, T]) -> T:
    """The result of a generator that pauses, without the pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


# Several pieces of one work at the same time: all results, or one failure and nothing that goes on behind it.


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
