"""The steps of an attempt in which each plugin of the profile has its turn: Reserve, Permit, Unreserve, Bind, PostBind.

How long a pod waits for Permit, and PreBind, have modules of their own.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.aio.tasks import TaskSet
from kscheduler.framework.plugin import PermitPlugin, PostBindPlugin
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.status import Status, error
from kscheduler.scheduling.attempt import permit
from kscheduler.scheduling.attempt.surroundings import Attempt, Surroundings
from kscheduler.scheduling.groups import reservations
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.attempt_calls import (
    call_awaited_permit,
    call_awaited_post_bind,
    call_bind,
    call_post_bind,
)
from kscheduler.scheduling.runtime.points import PERMIT, POST_BIND
from kscheduler.scheduling.supervision.alarm import TimeBudgetError
from kscheduler.state.holding.waiting_pods import HeldPod

END_SECONDS: Final = 5.0
"""How long an `async def permit` may take to end after it was cancelled."""
POST_BIND_SECONDS: Final = 60.0
"""How long an `async def post_bind` may take; then it is cancelled."""


def run_reserve(attempt: Attempt) -> Status:
    """One after the other, until one does not succeed."""
    return reservations.reserve(attempt.profile, attempt.record.state, attempt.queued.pod, attempt.node_name)


def run_permit(attempt: Attempt, context: Surroundings) -> Status:
    """All plugins are asked; if some answered Wait and none says no, the attempt holds the pod for them."""
    pod = attempt.queued.pod
    profile, state = attempt.profile, attempt.record.state
    status, timeouts = permit.run(profile, state, pod, attempt.node_name)
    if timeouts:
        now = context.clock.monotonic()
        deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
        attempt.held = HeldPod(pod, attempt.node_name, deadlines, timeouts, since=now)
        context.waiting.hold(attempt.held)
    return status


def run_unreserve(attempt: Attempt) -> None:
    """All plugins with Reserve, in reverse order, whether they have reserved or not."""
    reservations.unreserve(attempt.profile, attempt.record.state, attempt.queued.pod, attempt.node_name)


async def run_bind(attempt: Attempt) -> Status:
    """The first plugin that takes the pod binds it."""
    state, pod, profile = attempt.record.state, attempt.queued.pod, attempt.profile
    for plugin in profile.bind:
        is_timed = not profile.traits[plugin.name].is_in_tree  # an in-tree plugin only waits
        status = await call_bind(plugin, profile.listener, state, pod, attempt.node_name, is_timed=is_timed)
        if not status.is_skip:
            return status
    return error("no Bind plugin took the pod")


def run_post_bind(attempt: Attempt, awaited: "AwaitedSteps") -> None:
    """All plugins are told."""
    profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
    for plugin in profile.post_bind:
        if profile.traits[plugin.name].awaits_post_bind:
            awaited.tell(plugin, attempt)
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
    def asked(self, attempt: Attempt, held: HeldPod) -> Iterator[None]:
        """Within, plugins with `async def permit` are at work; their answers let the pod go or fail it."""
        traits, profile = attempt.profile.traits, attempt.profile
        plugins = [plugin for plugin in profile.permit if traits[plugin.name].awaits_permit]
        key = held.pod.key
        asking = {
            self._tasks.spawn(f"permit of {plugin.name} for {key}", self._ask(plugin, attempt, held)): plugin
            for plugin in plugins
        }
        try:
            yield
        finally:
            for task, plugin in asking.items():
                if task.cancel():
                    self._tasks.spawn(f"end of {task.get_name()}", self._end(task, plugin.name, attempt))

    async def _end(self, task: asyncio.Task[object], plugin: str, attempt: Attempt) -> None:
        """Whoever ignores its cancellation would leave a task behind with each pod: that counts as an overrun."""
        ended = await finishes_within(_ended(task), PLUGIN_TIME.at_most(END_SECONDS), self._clock)
        if not ended:
            deaf = TimeoutError(f"it ignores its cancellation, and was at work {END_SECONDS:g} s later")
            deaf.__cause__ = TimeBudgetError("its task has not ended")
            attempt.profile.listener.failed(plugin, PERMIT.label, attempt.queued.pod, deaf, PERMIT.fate.then)

    async def _ask(self, plugin: PermitPlugin, attempt: Attempt, held: HeldPod) -> None:
        listener, state = attempt.profile.listener, attempt.record.state
        status = await call_awaited_permit(plugin, listener, state, held.pod, held.node_name)
        if status.is_success:
            held.allow(plugin.name)
        else:
            held.settle(status)

    def tell(self, plugin: PostBindPlugin, attempt: Attempt) -> None:
        """Call the plugin's `async def post_bind`, and return at once."""
        name = f"post_bind of {plugin.name} for {attempt.queued.key}"
        telling = self._tasks.spawn(name, self._tell(plugin, attempt))
        self._telling[telling] = attempt.profile
        telling.add_done_callback(self._telling.pop)

    async def _tell(self, plugin: PostBindPlugin, attempt: Attempt) -> None:
        profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
        work = call_awaited_post_bind(plugin, profile.listener, state, pod, attempt.node_name)
        if not await finishes_within(work, PLUGIN_TIME.at_most(POST_BIND_SECONDS), self._clock):
            late = TimeoutError(f"it was cancelled after {POST_BIND_SECONDS:g} s")
            profile.listener.failed(plugin.name, POST_BIND.label, pod, late, POST_BIND.fate.then)

    async def drain(self, seconds: float) -> bool:
        """Wait until all have ended; whether they did in time. What has not is cancelled."""
        if await self._tasks.drain(seconds):
            return True
        for task in list(self._telling):
            task.cancel()
        return False


async def _ended(task: asyncio.Task[object]) -> None:
    await asyncio.wait({task})
