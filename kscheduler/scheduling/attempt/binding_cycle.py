"""The binding cycle: what follows once a pod has been assumed on a node, as kube-scheduler names it.

Permit says whether the pod may be bound now, later or not at all; then PreBind, Bind and PostBind run plugin by plugin,
and the observers hear the result.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.aio.tasks import TaskSet
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PERMIT_TIMEOUT_SECONDS, PermitPlugin, PostBindPlugin
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.attempt_calls import (
    call_awaited_permit,
    call_awaited_post_bind,
    call_bind,
    call_permit,
    call_post_bind,
)
from kscheduler.scheduling.runtime.points import PERMIT, POST_BIND
from kscheduler.scheduling.supervision.alarm import TimeBudgetError
from kscheduler.state.waiting_pods import PodAtPermit, WaitingPodTable

# Permit: may the pod be bound now, later, or not at all?
#
# Every plugin is called; the first rejection ends the pass. A plugin that answers Wait holds the pod until it allows or
# rejects it, for the time that it named, at most 15 minutes. After that the pod counts as rejected. A plugin whose
# `permit` is a coroutine counts as one that has answered Wait: it is called when the pod waits.

MAX_PERMIT_SECONDS: Final = 15 * 60.0


def call_all_permits(
    profile: Profile, state: CycleState, pod: PodInfo, node_name: str
) -> tuple[Status, dict[str, float]]:
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


async def verdict_of(held: PodAtPermit, clock: Clock) -> Status:
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


# The steps of an attempt in which each plugin of the profile has its turn: Permit, Bind, PostBind.
#
# PreBind is in `pre_bind`.

# How long an `async def permit` may take to end after it was cancelled.
END_SECONDS: Final = 5.0
# How long an `async def post_bind` may take; then it is cancelled.
POST_BIND_SECONDS: Final = 60.0


def run_permit(attempt: Attempt, waiting: WaitingPodTable, clock: Clock) -> Status:
    """All plugins are asked; if some answered Wait and none says no, the attempt holds the pod for them."""
    pod = attempt.queued.pod
    profile, state = attempt.profile, attempt.record.state
    status, timeouts = call_all_permits(profile, state, pod, attempt.node_name)
    if timeouts:
        now = clock.monotonic()
        deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
        attempt.held = PodAtPermit(pod, attempt.node_name, deadlines, timeouts, since=now)
        waiting.hold(attempt.held)
    return status


async def run_bind(attempt: Attempt) -> Status:
    """The first plugin that takes the pod binds it."""
    record, pod, profile = attempt.record, attempt.queued.pod, attempt.profile
    for plugin in profile.bind:
        is_timed = not profile.traits[plugin.name].is_in_tree  # an in-tree plugin only waits
        status = await call_bind(plugin, profile.listener, record.state, pod, record.node_name, is_timed=is_timed)
        if not status.is_skip:
            return status
    return error("no Bind plugin took the pod")


def run_post_bind(attempt: Attempt, awaited: "AwaitedSteps") -> None:
    """All plugins are told."""
    profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
    for plugin in profile.post_bind:
        if profile.traits[plugin.name].awaits_post_bind:
            awaited.report(plugin, attempt)
        else:
            call_post_bind(plugin, profile.listener, state, pod, attempt.node_name)


class AwaitedSteps:
    """Coroutines of plugins that no worker waits for: `permit` while its pod waits, and `post_bind`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks = TaskSet("plugins", clock)
        self._telling: dict[asyncio.Task[object], Profile] = {}

    def profiles(self) -> Iterable[Profile]:
        """The profiles of the plugins that are being told; one may come more than once."""
        return list(self._telling.values())

    @contextmanager
    def permits_at_work(self, attempt: Attempt, held: PodAtPermit) -> Iterator[None]:
        """Within, plugins with `async def permit` are at work; their answers let the pod go or fail it."""
        traits, profile = attempt.profile.traits, attempt.profile
        plugins = [plugin for plugin in profile.permit if traits[plugin.name].awaits_permit]
        key = held.pod.key
        at_work = {
            self._tasks.spawn(f"permit of {plugin.name} for {key}", self._ask(plugin, attempt, held)): plugin
            for plugin in plugins
        }
        try:
            yield
        finally:
            for task, plugin in at_work.items():
                if task.cancel():
                    self._tasks.spawn(f"end of {task.get_name()}", self._end(task, plugin.name, attempt))

    async def _end(self, task: asyncio.Task[object], plugin: str, attempt: Attempt) -> None:
        """A plugin that ignores cancellation would leave a task behind with each pod: that counts as an overrun."""
        ended = await finishes_within(_ended(task), PLUGIN_TIME.at_most(END_SECONDS), self._clock)
        if not ended:
            deaf = TimeoutError(f"it ignores its cancellation, and was at work {END_SECONDS:g} s later")
            deaf.__cause__ = TimeBudgetError("its task has not ended")
            attempt.profile.listener.failed(plugin, PERMIT.label, attempt.queued.pod, deaf, PERMIT.outcome.then)

    async def _ask(self, plugin: PermitPlugin, attempt: Attempt, held: PodAtPermit) -> None:
        listener, state = attempt.profile.listener, attempt.record.state
        status = await call_awaited_permit(plugin, listener, state, held.pod, held.node_name)
        if status.is_success:
            held.allow(plugin.name)
        else:
            held.settle(status)

    def report(self, plugin: PostBindPlugin, attempt: Attempt) -> None:
        """Call the plugin's `async def post_bind`, and return at once."""
        name = f"post_bind of {plugin.name} for {attempt.queued.key}"
        telling = self._tasks.spawn(name, self._report(plugin, attempt))
        self._telling[telling] = attempt.profile
        telling.add_done_callback(self._telling.pop)

    async def _report(self, plugin: PostBindPlugin, attempt: Attempt) -> None:
        profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
        work = call_awaited_post_bind(plugin, profile.listener, state, pod, attempt.node_name)
        if not await finishes_within(work, PLUGIN_TIME.at_most(POST_BIND_SECONDS), self._clock):
            late = TimeoutError(f"it was cancelled after {POST_BIND_SECONDS:g} s")
            profile.listener.failed(plugin.name, POST_BIND.label, pod, late, POST_BIND.outcome.then)

    async def drain(self, seconds: float) -> bool:
        """Wait until all have ended; whether they did in time. What has not is cancelled."""
        if await self._tasks.drain(seconds):
            return True
        for task in list(self._telling):
            task.cancel()
        return False


async def _ended(task: asyncio.Task[object]) -> None:
    await asyncio.wait({task})
