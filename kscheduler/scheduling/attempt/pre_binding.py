"""PreBind: what has to be ready before the Binding is sent (volumes, devices), and whose turn it is.

Every plugin is asked first whether it has something to do (PreBindPreFlight). Those that have run in the profile's
order, one after the other, except that neighbours which allow it run together: a plugin that wants no company ends such
a group even where it has nothing to do itself. The first failure cancels the others of its group.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PreBindPlugin
from kscheduler.framework.plugin_listener import NOBODY, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.scheduling.runtime.attempt_calls import call_pre_bind, call_pre_flight, pre_bind_was_cancelled
from kscheduler.state.holding.pods_in_pre_bind import PodInPreBind

_Call = Callable[[PreBindPlugin], Coroutine[Any, Any, Status]]


@dataclass(frozen=True, slots=True)
class PreBindPlan:
    """Who has something to do before the Binding, and together with whom."""

    groups: tuple[tuple[PreBindPlugin, ...], ...] = ()
    failure: Status = SUCCESS
    """Not a success where a plugin could not even say whether it has."""

    @property
    def code(self) -> Code:
        """Of PreBindPreFlight as a whole: Skip where nobody has anything to do."""
        return self.failure.code if not self.failure.is_success else Code.SUCCESS if self.groups else Code.SKIP


_NOTHING_TO_DO: Final = PreBindPlan()
"""Of nearly all pods."""


def plan_of(
    plugins: Iterable[PreBindPlugin],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    listener: PluginListener = NOBODY,
) -> PreBindPlan:
    """Ask every plugin. The first that fails ends it."""
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
    return PreBindPlan(tuple(groups)) if groups else _NOTHING_TO_DO


async def run(
    plan: PreBindPlan,
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    entry: PodInPreBind | None,
    listener: PluginListener = NOBODY,
) -> Status:
    """Do what is planned. `entry`, where there is one, can cancel it: an error then, that names the cause."""

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
    """As most are, in the task that is there: another one would cost as much as what most plugins do in it.

    So it has to be told who was cancelled: the whole task, the plugin alone, or only what the plugin waited for.
    """
    task, is_called_back = asyncio.current_task(), False
    assert task is not None  # noqa: S101  a coroutine that runs is somebody's

    def call_back() -> None:
        nonlocal is_called_back
        is_called_back = task.cancel()

    cancelled_before = task.cancelling()
    if entry is not None:
        entry.on_cancel(call_back)
    try:
        status = await call(plugin)
    except asyncio.CancelledError:
        if task.cancelling() > cancelled_before + is_called_back:
            raise
        status = pre_bind_was_cancelled(plugin, entry.cause if entry is not None else "")
    finally:
        if entry is not None:
            entry.on_cancel(None)
    if is_called_back:
        task.uncancel()
    if task.cancelling() > cancelled_before:
        raise asyncio.CancelledError  # a plugin that is deaf to it must not keep the whole task alive
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
