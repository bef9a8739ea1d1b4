"""Permit: may the pod be bound now, later, or not at all?

Every plugin is called; the first rejection ends the pass. A plugin that answers Wait holds the pod until it allows or
rejects it, for the time that it named, at most 15 minutes. After that the pod counts as rejected.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PermitPlugin
from kscheduler.framework.plugin_listener import NOBODY, PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.scheduling.runtime.attempt_calls import call_permit
from kscheduler.state.holding.waiting_pods import HeldPod

MAX_PERMIT_SECONDS: Final = 15 * 60.0


def run(
    plugins: Iterable[PermitPlugin],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    listener: PluginListener = NOBODY,
) -> tuple[Status, dict[str, float]]:
    """Run all plugins: Success or the first rejection or error, and by plugin the seconds for which the pod waits."""
    timeouts: dict[str, float] = {}
    for plugin in plugins:
        result = call_permit(plugin, listener, state, pod, node_name)
        if result.status.code is Code.WAIT:
            timeouts[plugin.name] = min(result.timeout_seconds, MAX_PERMIT_SECONDS)
        elif not result.status.is_success:
            return result.status, {}
    return SUCCESS, timeouts


async def verdict_of(held: HeldPod, clock: Clock) -> Status:
    """Wait until all plugins that hold the pod have allowed it, one has rejected it, or a time is over."""
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
