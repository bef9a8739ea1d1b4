"""PreBind: preparing volumes, devices and the like before the Binding is sent, in the right order.

First every plugin says whether it has something to do (PreBindPreFlight). Those that have run in the profile's order,
one after the other, except that neighbours which allow parallel runs form a group and run together. A plugin that
does not allow it ends a group even if it has nothing to do itself. The first failure cancels the others of its group.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PreBindPlugin
from kscheduler.framework.plugin_listener import NO_LISTENER, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.scheduling.runtime.attempt_calls import call_pre_bind, call_pre_flight, pre_bind_was_cancelled
from kscheduler.state.pods_in_pre_bind import PodInPreBind

_Call = Callable[[PreBindPlugin], Coroutine[Any, Any, Status]]


class PreBindPlan(msgspec.Struct, frozen=True):
    """The plugins that have something to do before the Binding, in groups that run together."""

    groups: tuple[tuple[PreBindPlugin, ...], ...] = ()
    failure: Status = SUCCESS
    """Not a success if PreBindPreFlight of a plugin failed."""

    @property
    def code(self) -> Code:
        """The code of PreBindPreFlight as a whole: Skip if no plugin has anything to do."""
        return self.failure.code if not self.failure.is_success else Code.SUCCESS if self.groups else Code.SKIP


# The plan of nearly all pods.
NOTHING_TO_DO: Final = PreBindPlan()


def plan_of(
    plugins: Iterable[PreBindPlugin],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    listener: PluginListener = NO_LISTENER,
) -> PreBindPlan:
    """Run PreBindPreFlight of every plugin. The first failure ends it."""
    # `is_open`: the last plugin allows parallel runs, so the next one may join its group. Example, with P for a plugin
    # that allows it: P, P, not-P, P gives (P, P), (not-P), (P).
    groups: list[tuple[PreBindPlugin, ...]] = []
    is_open = False
    for plugin in plugins:
        flight = call_pre_flight(plugin, listener, state, pod, node_name)
        if not (flight.status.is_success or flight.status.is_skip):
            return PreBindPlan(failure=flight.status)
        if flight.status.is_skip:
            is_open = is_open and flight.allow_parallel
            continue
        if is_open and flight.allow_parallel:
            groups[-1] = (*groups[-1], plugin)
        else:
            groups.append((plugin,))
        is_open = flight.allow_parallel
    return PreBindPlan(tuple(groups)) if groups else NOTHING_TO_DO


async def run_pre_bind(
    plan: PreBindPlan,
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    entry: PodInPreBind | None,
    listener: PluginListener = NO_LISTENER,
) -> Status:
    """Carry out the plan. Preemption can cancel it by `entry`; then the result is an Error that names the cause."""

    async def call(plugin: PreBindPlugin) -> Status:
        return await call_pre_bind(plugin, listener, state, pod, node_name)

    if not plan.failure.is_success:
        return plan.failure
    for group in plan.groups:
        if entry is not None and entry.is_cancelled:
            return error(entry.cause)
        if len(group) == 1:
            status = await _alone(group[0], call, entry)
        else:
            status = await _together(group, call, entry)
        if not status.is_success:
            return status
    return SUCCESS


async def _alone(plugin: PreBindPlugin, call: _Call, entry: PodInPreBind | None) -> Status:
    """Run one plugin, the usual case, in the current task: a new task would cost as much as most plugins do.

    So a cancellation can mean three things: the whole task was cancelled (raise), `entry` cancelled the plugin (an
    Error with the cause), or a future that the plugin awaited was cancelled (an Error of the plugin). The count of
    `task.cancelling()` tells them apart.
    """
    task, is_cancelled = asyncio.current_task(), False
    assert task is not None  # noqa: S101  a running coroutine always has a task

    def cancel_plugin() -> None:
        nonlocal is_cancelled
        is_cancelled = task.cancel()

    cancelled_before = task.cancelling()
    if entry is not None:
        entry.on_cancel(cancel_plugin)
    try:
        status = await call(plugin)
    except asyncio.CancelledError:
        if task.cancelling() > cancelled_before + is_cancelled:
            raise
        status = pre_bind_was_cancelled(plugin, entry.cause if entry is not None else "")
    finally:
        if entry is not None:
            entry.on_cancel(None)
    if is_cancelled:
        task.uncancel()
    if task.cancelling() > cancelled_before:
        raise asyncio.CancelledError  # a plugin that swallows the cancellation must not keep the task alive
    return status


async def _together(group: tuple[PreBindPlugin, ...], call: _Call, entry: PodInPreBind | None) -> Status:
    tasks = [asyncio.ensure_future(call(plugin)) for plugin in group]
    if entry is not None:
        entry.on_cancel(lambda: [task.cancel() for task in tasks])
    try:
        left = set(tasks)
        while left:
            ended, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for plugin, task in zip(group, tasks, strict=True):
                if task in ended and not (status := _outcome(plugin, task, entry)).is_success:
                    return status
        return SUCCESS
    finally:
        if entry is not None:
            entry.on_cancel(None)
        await _end(tasks)


def _outcome(plugin: PreBindPlugin, task: "asyncio.Task[Status]", entry: PodInPreBind | None) -> Status:
    if not task.cancelled():
        return task.result()
    return pre_bind_was_cancelled(plugin, entry.cause if entry is not None else "")


async def _end(tasks: list["asyncio.Task[Status]"]) -> None:
    for task in tasks:
        task.cancel()
    left = [task for task in tasks if not task.done()]
    if left:
        await asyncio.wait(left)
