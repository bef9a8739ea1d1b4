"""PreBind: what has to be ready before the Binding is sent (volumes, devices), and whose turn it is.

Every plugin is asked first whether it has something to do (PreBindPreFlight). Those that have run in the profile's
order, one after the other, except that neighbours which allow it run together: a plugin that wants no company ends such
a group even where it has nothing to do itself. The first failure cancels the others of its group.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

from kscheduler.aio.tasks import ends_this_task
from kscheduler.client.errors import ClientError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Point, PreBindPlugin, PreFlightResult
from kscheduler.framework.plugin_answers import checked, words_of
from kscheduler.framework.plugin_listener import NOBODY, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Code, Fault, Status, error
from kscheduler.scheduling.attempt.loop_steps import Steps
from kscheduler.state.pods_in_pre_bind import PodInPreBind

OUTSIDE: Final = (ClientError, OSError)
"""What a plugin that writes may raise because the other end is down: no bug. (A timeout is an OSError.)"""
_Call = Callable[[PreBindPlugin], Coroutine[Any, Any, Status]]
_POINT: Final = Point.PRE_BIND.label
_MISPLACED = "which is unsupported. It is supposed to return Success, Skip, or Error status"


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
    began = perf_counter()
    for plugin in plugins:
        flight = _pre_flight(plugin, state, pod, node_name, listener)
        ended = perf_counter()
        if ended - began > SLOW_CALL_SECONDS:
            listener.slow(plugin.name, "PreBindPreFlight", pod, ended - began)
        began = ended
        if not (flight.status.is_success or flight.status.is_skip):
            return PreBindPlan(failure=_misflown(plugin, flight.status))
        if flight.status.is_skip:
            is_open = is_open and flight.allow_parallel
            continue
        if is_open and flight.allow_parallel:
            groups[-1] = (*groups[-1], plugin)
        else:
            groups.append((plugin,))
        is_open = flight.allow_parallel
    return PreBindPlan(tuple(groups)) if groups else _NOTHING_TO_DO


def _pre_flight(
    plugin: PreBindPlugin, state: CycleState, pod: PodInfo, node_name: str, listener: PluginListener
) -> PreFlightResult:
    try:
        answer = plugin.pre_bind_pre_flight(state, pod, node_name)
        if isinstance(answer, PreFlightResult):
            if answer.status is not SKIP and answer.status is not SUCCESS:
                checked(answer.status, Status)
            return answer
        return PreFlightResult(checked(answer, Status))
    except BaseException as failure:  # noqa: BLE001  a plugin call
        listener.failed(plugin.name, "PreBindPreFlight", pod, failure)
        return PreFlightResult(error(words_of(failure), fault=Fault.BUG))


def _misflown(plugin: PreBindPlugin, status: Status) -> Status:
    if status.code is Code.ERROR:
        message = f'running PreBindPreFlight "{plugin.name}": {status.message}'
    else:
        message = f'PreBindPreFlight {plugin.name} returned "{status.code.label}", {_MISPLACED}'
    return error(message, plugin=plugin.name, fault=status.fault)


async def run(
    plan: PreBindPlan,
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    entry: PodInPreBind | None,
    listener: PluginListener = NOBODY,
) -> Status:
    """Do what is planned. `entry`, where there is one, can cancel it: an error then, that names the cause."""
    call = partial(_run_one, state=state, pod=pod, node_name=node_name, listener=listener)
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
        status = _failed(plugin, error((entry.cause if entry is not None else "") or "it was cancelled"))
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


async def _run_one(
    plugin: PreBindPlugin, state: CycleState, pod: PodInfo, node_name: str, listener: PluginListener
) -> Status:
    is_slow = partial(listener.slow, plugin.name, _POINT, pod)
    try:
        status = checked(await Steps(plugin.pre_bind(state, pod, node_name), is_slow, perf_counter), Status)
    except BaseException as failure:
        if ends_this_task(failure):
            raise
        is_cancelled = isinstance(failure, asyncio.CancelledError)
        status = error("it was cancelled" if is_cancelled else words_of(failure))
        if not isinstance(failure, OUTSIDE):
            listener.failed(plugin.name, _POINT, pod, failure)
    return status if status.is_success else _failed(plugin, status)


def _outcome(plugin: PreBindPlugin, task: "asyncio.Task[Status]", entry: PodInPreBind | None) -> Status:
    if not task.cancelled():
        return task.result()
    cause = entry.cause if entry is not None else ""
    return _failed(plugin, error(cause or "it was cancelled"))


def _failed(plugin: PreBindPlugin, status: Status) -> Status:
    return error(f'running PreBind plugin "{plugin.name}": {status.message}', plugin=plugin.name, fault=status.fault)


async def _end(tasks: list["asyncio.Task[Status]"]) -> None:
    for task in tasks:
        task.cancel()
    left = [task for task in tasks if not task.done()]
    if left:
        await asyncio.wait(left)
