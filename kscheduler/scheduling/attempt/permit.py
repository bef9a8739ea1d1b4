"""Permit: may the pod be bound now, never, or when somebody says so?

Every plugin is asked; the first that says no ends it. Those that ask to wait hold the pod back, each for its own time
and none for longer than 15 minutes: whoever has not let it go by then has turned it down.
"""

import asyncio
import math
from collections.abc import Iterable
from time import perf_counter
from typing import Final

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PermitPlugin, PermitResult, Point
from kscheduler.framework.plugin_answers import WrongAnswerError, checked, shown, words_of
from kscheduler.framework.plugin_listener import NOBODY, SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Fault, Status, error
from kscheduler.state.waiting_pods import HeldPod

MAX_PERMIT_SECONDS: Final = 15 * 60.0
_POINT: Final = Point.PERMIT.label


def ask(
    plugins: Iterable[PermitPlugin],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    listener: PluginListener = NOBODY,
) -> tuple[Status, str, dict[str, float]]:
    """What the plugins say: Success, or a no and who said it; and by plugin for how many seconds it asked to wait."""
    timeouts: dict[str, float] = {}
    for plugin in plugins:
        began = perf_counter()
        result = _ask_one(plugin, state, pod, node_name, listener)
        seconds = perf_counter() - began
        if seconds > SLOW_CALL_SECONDS:
            listener.slow(plugin.name, _POINT, pod, seconds)
        if result.status.code is Code.WAIT:
            timeouts[plugin.name] = min(result.timeout_seconds, MAX_PERMIT_SECONDS)
        elif not result.status.is_success:
            return result.status, plugin.name, {}
    return SUCCESS, "", timeouts


def _ask_one(
    plugin: PermitPlugin, state: CycleState, pod: PodInfo, node_name: str, listener: PluginListener
) -> PermitResult:
    try:
        return _checked(plugin.permit(state, pod, node_name))
    except BaseException as failure:  # noqa: BLE001  a plugin call
        listener.failed(plugin.name, _POINT, pod, failure)
        return PermitResult(error(words_of(failure), fault=Fault.BUG))


def _checked(answer: object) -> PermitResult:
    """The answer, if it is one that can be acted on. Raises `WrongAnswerError`."""
    result = checked(answer, PermitResult)
    seconds: object = result.timeout_seconds
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        raise WrongAnswerError(f"it answered timeout_seconds {shown(seconds)}, where seconds are due")
    checked(result.status, Status)
    return result


async def verdict_of(held: HeldPod, clock: Clock) -> Status:
    """Wait until the plugins that hold the pod have let it go, one of them has not, or its time is over."""
    decided = asyncio.Event()
    held.on_verdict(decided.set)
    while held.verdict is None:
        left = held.next_deadline() - clock.monotonic()
        await finishes_within(_wait(decided), max(0.0, left), clock)
        held.expire(clock.monotonic())
    verdict = held.verdict
    if verdict.is_success or verdict.is_rejected:
        return verdict
    return error(f"waiting on permit for pod: {verdict.message}", plugin=verdict.plugin, fault=verdict.fault)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
