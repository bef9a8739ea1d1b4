"""The extension points before a cycle and after it, tried through the service's guard.

Each is asked about one pod and the first node that the plugin itself lets through. What writes to the API server, or
tells somebody that a pod is bound, is not tried: here is no API server, and what a plugin tells the outside is real.
"""

import asyncio
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PERMIT_TIMEOUT_SECONDS
from kscheduler.framework.plugin_listener import NO_LISTENER
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import (
    EVENTS_TO_REGISTER,
    GATING_OBJECTS,
    MAY_LET_IN,
    PERMIT,
    PERMIT_AWAITED,
    PRE_BIND_PRE_FLIGHT,
    PRE_ENQUEUE,
    QUEUE_SORT,
    RESERVE,
    UNRESERVE,
)
from kscheduler.testing.trial.tried_plugin import TriedPlugin

# How long an `async def permit` is awaited here, whatever it asks for.
MAX_SECONDS: Final = PERMIT_TIMEOUT_SECONDS
_OUTSIDE: Final = "what it does reaches beyond the scheduler; test it with `Cluster(...).enable(...).running()`"
_NO_GROUPS: Final = "it is asked about pod groups, of which there are none here"
_NOT_TRIED: Final = {
    "post_filter": ("PostFilter", "it is asked for pods that other plugins rejected; test it with `Cluster.decide`"),
    "pre_bind": ("PreBind", _OUTSIDE),
    "bind": ("Bind", _OUTSIDE),
    "post_bind": ("PostBind", _OUTSIDE),
    "placement_feasible": ("PlacementFeasible", _NO_GROUPS),
    "pod_group_post_filter": ("PodGroupPostFilter", _NO_GROUPS),
    "generate_placements": ("PlacementGenerate", _NO_GROUPS),
    "score_placements": ("PlacementScore", _NO_GROUPS),
}


def reasons_not_to_try(plugin: Any) -> dict[str, str]:
    """The extension points that the plugin has and `take_steps` leaves out, each with the reason."""
    return {label: why for method, (label, why) in _NOT_TRIED.items() if hasattr(plugin, method)}


async def take_steps(tried: TriedPlugin, pod: Pod) -> str:
    """Ask about the pod. Returns advice about a `permit` that waits for others, or nothing.

    Raises `PluginFailure` for what would fail in the service, too.
    """
    plugin: Any = tried.plugin
    info, state = PodInfo(pod), CycleState()
    _ask_in_queue(plugin, info)
    passing = [node for node, (reason, _) in tried.answers(pod, state=state).items() if not reason]
    if not passing:
        return ""
    arguments = (state, info, passing[0])
    advice = ""
    if hasattr(plugin, "reserve"):
        RESERVE.call(plugin.name, plugin.reserve, *arguments)
    if tried.traits.awaits_permit:
        advice = await _awaited_permit(plugin, arguments)
    elif hasattr(plugin, "permit"):
        PERMIT.call(plugin.name, plugin.permit, *arguments)
    if hasattr(plugin, "pre_bind_pre_flight"):
        PRE_BIND_PRE_FLIGHT.call(plugin.name, plugin.pre_bind_pre_flight, *arguments)
    if hasattr(plugin, "unreserve"):
        UNRESERVE.call(plugin.name, plugin.unreserve, *arguments)
    return advice


def _ask_in_queue(plugin: Any, info: PodInfo) -> None:
    if hasattr(plugin, "events_to_register"):
        EVENTS_TO_REGISTER.call(plugin.name, plugin.events_to_register)
    if hasattr(plugin, "pre_enqueue"):
        PRE_ENQUEUE.call(plugin.name, plugin.pre_enqueue, info)
    if hasattr(plugin, "may_let_in"):
        MAY_LET_IN.call(plugin.name, plugin.may_let_in)
    if hasattr(plugin, "gating_objects"):
        GATING_OBJECTS.call(plugin.name, plugin.gating_objects, info)
    if hasattr(plugin, "changed_gating_objects"):
        GATING_OBJECTS.call(plugin.name, plugin.changed_gating_objects)
    if hasattr(plugin, "sort_key"):
        QUEUE_SORT.call(plugin.name, plugin.sort_key, QueuedPodInfo(info))


async def _awaited_permit(plugin: Any, arguments: tuple[Any, ...]) -> str:
    """A coroutine asks somebody outside, who is mostly not here: that it fails then is told, and is no mistake."""
    seconds = min(getattr(plugin, "permit_timeout_seconds", PERMIT_TIMEOUT_SECONDS), MAX_SECONDS)
    permit = PERMIT_AWAITED.run(plugin.name, NO_LISTENER, arguments[1], plugin.permit, *arguments)
    try:
        await asyncio.wait_for(permit, PLUGIN_TIME.at_most(seconds))
    except TimeoutError:
        return f"`permit` has not ended after {seconds:g} s, and the pod would be rejected: what does it wait for?"
    except PluginFailure as failure:
        why = "that is correct while its source is unavailable, and there is no API server here"
        return f"{failure}: {why} (`handle.client` is None)"
    return ""
