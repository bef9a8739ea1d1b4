"""The steps of an attempt in which each plugin of the profile has its turn: Reserve, Permit, Unreserve, Bind, PostBind.

How long a pod waits for Permit, and PreBind, have modules of their own.
"""

from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.scheduling.attempt import permit
from kscheduler.scheduling.attempt.surroundings import Attempt, Surroundings
from kscheduler.scheduling.runtime.attempt_calls import call_bind, call_post_bind, call_reserve, call_unreserve
from kscheduler.state.holding.waiting_pods import HeldPod


def run_reserve(attempt: Attempt) -> Status:
    """One after the other, until one does not succeed."""
    profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
    for plugin in profile.reserve:
        status = call_reserve(plugin, profile.listener, state, pod, attempt.node_name)
        if not status.is_success:
            return status
    return SUCCESS


def run_permit(attempt: Attempt, context: Surroundings) -> Status:
    """All plugins are asked; if some answered Wait and none says no, the attempt holds the pod for them."""
    pod = attempt.queued.pod
    profile, state = attempt.profile, attempt.record.state
    status, timeouts = permit.run(profile.permit, state, pod, attempt.node_name, profile.listener)
    if timeouts:
        now = context.clock.monotonic()
        deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
        attempt.held = HeldPod(pod, attempt.node_name, deadlines, timeouts)
        context.waiting.hold(attempt.held)
    return status


def run_unreserve(attempt: Attempt) -> None:
    """All plugins with Reserve, in reverse order, whether they have reserved or not."""
    profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
    for plugin in reversed(profile.reserve):
        call_unreserve(plugin, profile.listener, state, pod, attempt.node_name)


async def run_bind(attempt: Attempt) -> Status:
    """The first plugin that takes the pod binds it."""
    state, pod, profile = attempt.record.state, attempt.queued.pod, attempt.profile
    for plugin in profile.bind:
        is_timed = not profile.traits[plugin.name].is_in_tree  # an in-tree plugin only waits
        status = await call_bind(plugin, profile.listener, state, pod, attempt.node_name, is_timed=is_timed)
        if not status.is_skip:
            return status
    return error("no Bind plugin took the pod")


def run_post_bind(attempt: Attempt) -> None:
    """All plugins are told."""
    profile, state, pod = attempt.profile, attempt.record.state, attempt.queued.pod
    for plugin in profile.post_bind:
        call_post_bind(plugin, profile.listener, state, pod, attempt.node_name)
