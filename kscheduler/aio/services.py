"""Long-running services, started in order and stopped in reverse, none of which may end unnoticed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kscheduler.aio.tasks import ends_this_task


class ServiceEndedError(RuntimeError):
    """A service that should run until it is stopped returned by itself."""


@dataclass(frozen=True, slots=True)
class BackgroundService:
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
    await until_told(f"service {service.name}", service.run())


async def until_told(name: str, work: Awaitable[object]) -> None:
    """Await what runs until this task is cancelled. Raises `ServiceEndedError` where it ends before, however it does.

    A `CancelledError` that nobody has ordered would else pass for an orderly end: a `TaskGroup` does not mind it.
    """
    try:
        await work
    except asyncio.CancelledError as failure:
        if ends_this_task(failure):
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
