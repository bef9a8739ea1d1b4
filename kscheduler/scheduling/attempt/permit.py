"""Permit: may the pod be bound now, later, or not at all?

Every plugin is called; the first rejection ends the pass. A plugin that answers Wait holds the pod until it allows or
rejects it, for the time that it named, at most 15 minutes. After that the pod counts as rejected. A plugin whose
`permit` is a coroutine counts as one that has answered Wait: it is called when the pod waits (`plugin_steps`).
"""

import asyncio
from typing import Final

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PERMIT_TIMEOUT_SECONDS
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.attempt_calls import call_permit
from kscheduler.state.holding.waiting_pods import HeldPod

MAX_PERMIT_SECONDS: Final = 15 * 60.0


def run(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, dict[str, float]]:
    """Run all plugins: Success or the first rejection or error, and by plugin the seconds for which the pod waits."""
    timeouts: dict[str, float] = {}
    listener = profile.listener
    for plugin in profile.permit:
        if profile.traits[plugin.name].awaits_permit:
            seconds: float = getattr(plugin, "permit_timeout_seconds", PERMIT_TIMEOUT_SECONDS)
            timeouts[plugin.name] = PLUGIN_TIME.at_most(min(seconds, MAX_PERMIT_SECONDS))
            continue
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
