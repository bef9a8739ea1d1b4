"""Services and supervised tasks."""

import asyncio
from typing import Any

import pytest

from kscheduler.aio import BackgroundService, ServiceEndedError, Slicer, TaskSet, VirtualClock, running
from kscheduler.aio.tasks import while_running


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_services_stop_in_reverse_order_before_they_are_cancelled() -> None:
    story: list[str] = []

    def service(name: str) -> BackgroundService:
        async def run() -> None:
            story.append(f"start {name}")
            try:
                await for_ever()
            finally:
                story.append(f"end {name}")

        async def stop() -> None:
            story.append(f"stop {name}")

        return BackgroundService(name, run, stop)

    async with running(service("a"), service("b")):
        await asyncio.sleep(0)
        story.append("body")
    assert story == ["start a", "start b", "body", "stop b", "end b", "stop a", "end a"]


async def test_a_service_that_returns_early_ends_everything() -> None:
    async def returns() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ExceptionGroup) as caught:
        async with running(BackgroundService("good", for_ever), BackgroundService("early", returns)):
            await for_ever()
    assert caught.group_contains(ServiceEndedError, match="early ended by itself")


async def test_a_service_that_meets_a_stray_cancellation_ends_everything() -> None:
    """To the task group it would be an orderly end, and nobody would notice that the service is gone."""

    async def awaits_what_somebody_cancels() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        await future

    with pytest.raises(ExceptionGroup) as caught:
        async with running(
            BackgroundService("good", for_ever), BackgroundService("deaf", awaits_what_somebody_cancels)
        ):
            await for_ever()
    assert caught.group_contains(
        ServiceEndedError, match="deaf ended by itself: something that it awaits was cancelled"
    )


async def test_a_failing_service_ends_the_body_and_its_error_comes_out() -> None:
    async def fails() -> None:
        raise LookupError("broken")

    with pytest.raises(ExceptionGroup) as caught:
        async with running(BackgroundService("bad", fails)):
            await for_ever()
    assert caught.group_contains(LookupError, match="broken")


async def test_a_stop_that_fails_does_not_keep_others_from_stopping() -> None:
    stopped = asyncio.Event()

    async def good() -> None:
        stopped.set()

    async def bad() -> None:
        raise LookupError("cannot stop")

    with pytest.raises(ExceptionGroup) as caught:
        async with running(BackgroundService("first", for_ever, good), BackgroundService("second", for_ever, bad)):
            await asyncio.sleep(0)
    assert stopped.is_set()
    assert caught.group_contains(LookupError)


async def test_the_failure_of_one_task_never_touches_its_siblings() -> None:
    tasks, failures, go = TaskSet("pods"), list[tuple[str, str]](), asyncio.Event()

    async def fails() -> None:
        raise LookupError("this pod only")

    sibling = tasks.spawn("b", go.wait())
    tasks.spawn("a", fails(), lambda name, error: failures.append((name, str(error))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert failures == [("a", "this pod only")]
    assert not sibling.done()
    go.set()
    assert await tasks.drain(5.0)
    assert (tasks.statistics().running, tasks.statistics().failed, tasks.statistics().started) == (0, 1, 2)


@pytest.mark.parametrize(("body_fails", "raised"), [(False, KeyError), (True, ValueError)], ids=["task", "body-first"])
async def test_tasks_beside_a_body_end_with_it_and_what_failed_comes_out(
    body_fails: bool, raised: type[Exception]
) -> None:
    async def fails() -> None:
        raise KeyError

    tasks = [asyncio.create_task(for_ever()), asyncio.create_task(fails())]

    async def body() -> None:
        async with while_running(tasks):
            await asyncio.sleep(0)
            if body_fails:
                raise ValueError

    with pytest.raises(raised):
        await body()
    assert tasks[0].cancelled()
    assert tasks[1].done()


async def test_draining_is_bounded_in_time_and_cancels_nothing() -> None:
    clock = VirtualClock()
    tasks = TaskSet("pods", clock)
    tasks.spawn("slow", for_ever())
    draining = asyncio.create_task(tasks.drain(10.0))
    await clock.run_to_next()
    assert await draining is False
    assert tasks.statistics().running == 1
    await tasks.cancel_all()
    assert (tasks.statistics().running, tasks.statistics().cancelled) == (0, 1)


async def test_a_failure_that_nobody_handles_reaches_the_loops_handler() -> None:
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context))

    async def fails() -> None:
        raise LookupError

    tasks = TaskSet("pods")
    tasks.spawn("x", fails())
    await tasks.drain(5.0)
    assert [context["message"] for context in seen] == ["task pods/x failed"]


async def test_a_slice_is_used_up_after_its_time_and_a_turn_begins_a_new_one() -> None:
    slicer = Slicer(seconds=0.0)
    assert slicer.used_up()
    patient = Slicer(seconds=60.0)
    assert not patient.used_up()
    await patient.turn()
    assert not patient.used_up()
