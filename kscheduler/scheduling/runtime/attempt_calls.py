"""Calls of plugins once a node has been chosen: Reserve, Permit, PreBind, Bind, PostBind, Unreserve.

Each function returns a Status that the caller can act on: success, a rejection in the plugin's own words, or an Error
that names the extension point and the plugin. None of them raises, except when the task that awaits it is cancelled.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from kscheduler.framework.cluster.pod_groups import GroupDefinition, PlacementProgress
from kscheduler.framework.cluster.preemption import (
    GroupPlacement,
    GroupTrial,
    PodGroupPostFilterResult,
    ProposedPlacement,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Scores
from kscheduler.framework.plugin import (
    BindPlugin,
    PermitPlugin,
    PermitResult,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFlightResult,
    ReservePlugin,
)
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code, Status, error
from kscheduler.scheduling.runtime.guard import PluginCall, PluginFailure
from kscheduler.scheduling.runtime.points import (
    BIND,
    PERMIT,
    PERMIT_AWAITED,
    PLACEMENT_FEASIBLE,
    PLACEMENT_GENERATE,
    PLACEMENT_SCORE,
    POD_GROUP_POST_FILTER,
    POST_BIND,
    POST_BIND_AWAITED,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    RESERVE,
    UNRESERVE,
)

_MISPLACED: Final = "which is unsupported. It is supposed to return Success, Skip, or Error status"


def call_reserve(
    plugin: ReservePlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> Status:
    """Success, a rejection or an Error."""
    try:
        status = RESERVE.call_and_report(plugin.name, listener, pod, plugin.reserve, state, pod, node_name)
    except PluginFailure as failure:
        return failure.status.by(plugin.name)
    return status if status.is_success else _rejection_or_error(RESERVE, plugin.name, status)


def call_unreserve(
    plugin: ReservePlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> None:
    """Let the plugin release what it reserved. A failure is reported, and the other plugins still release theirs."""
    try:
        UNRESERVE.call_and_report(plugin.name, listener, pod, plugin.unreserve, state, pod, node_name)
    except PluginFailure:
        return


def call_permit(
    plugin: PermitPlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> PermitResult:
    """Success, Wait, a rejection or an Error."""
    try:
        result = PERMIT.call_and_report(plugin.name, listener, pod, plugin.permit, state, pod, node_name)
    except PluginFailure as failure:
        return PermitResult(failure.status.by(plugin.name))
    if result.status.is_success or result.status.code is Code.WAIT:
        return result
    return PermitResult(_rejection_or_error(PERMIT, plugin.name, result.status))


def call_placement_feasible(
    plugin: PlacementFeasiblePlugin, listener: PluginListener, group: GroupDefinition, progress: PlacementProgress
) -> Status:
    """Success, Wait, Unschedulable or an Error."""
    point = PLACEMENT_FEASIBLE
    try:
        status = point.call_and_report(plugin.name, listener, None, plugin.placement_feasible, group, progress)
    except PluginFailure as failure:
        return failure.status.by(plugin.name)
    if status.is_success or status.code in (Code.WAIT, Code.UNSCHEDULABLE):
        return status.by(plugin.name)
    return _error_of(point, plugin.name, status)


def call_generate_placements(
    plugin: PlacementGeneratePlugin, listener: PluginListener, group: GroupDefinition, parent: GroupPlacement
) -> Sequence[GroupPlacement] | Status:
    """The placements to try, or why the plugin gives none. Raises `PluginFailure`."""
    try:
        found = PLACEMENT_GENERATE.call(plugin.name, plugin.generate_placements, group, parent)
    except PluginFailure as failure:
        failure.report(listener, None)
        raise
    return found.by(plugin.name) if isinstance(found, Status) else found


def call_score_placements(
    plugin: PlacementScorePlugin,
    listener: PluginListener,
    group: GroupDefinition,
    proposals: Sequence[ProposedPlacement],
) -> Scores:
    """0..100, an int64 per proposal. Raises `PluginFailure`."""
    try:
        return PLACEMENT_SCORE.call(plugin.name, plugin.score_placements, group, proposals)
    except PluginFailure as failure:
        failure.report(listener, None)
        raise


async def call_awaited_permit(
    plugin: PermitPlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> Status:
    """Success, a rejection or an Error, of a `permit` that is a coroutine."""
    permit: Any = plugin.permit
    try:
        status = await PERMIT_AWAITED.run(plugin.name, listener, pod, permit, state, pod, node_name)
    except PluginFailure as failure:
        return failure.status.by(plugin.name)
    return status if status.is_success else _rejection_or_error(PERMIT_AWAITED, plugin.name, status)


def call_pod_group_post_filter(
    plugin: PodGroupPostFilterPlugin, listener: PluginListener, trial: GroupTrial
) -> PodGroupPostFilterResult:
    """What the plugin has found for a group that was rejected. After a failure: an Error that names the plugin."""
    point = POD_GROUP_POST_FILTER
    try:
        result = point.call_and_report(plugin.name, listener, None, plugin.pod_group_post_filter, trial)
    except PluginFailure as failure:
        return PodGroupPostFilterResult(failure.status.by(plugin.name))
    status = result.status
    if status.is_success or status.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
        return replace(result, status=status.by(plugin.name))
    return PodGroupPostFilterResult(_error_of(point, plugin.name, status))


def call_pre_flight(
    plugin: PreBindPlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> PreFlightResult:
    """Success if the plugin's PreBind has work to do, Skip if not, or an Error."""
    point = PRE_BIND_PRE_FLIGHT
    try:
        result = point.call_and_report(plugin.name, listener, pod, plugin.pre_bind_pre_flight, state, pod, node_name)
    except PluginFailure as failure:
        return PreFlightResult(failure.status.by(plugin.name))
    status = result.status
    if status.is_success or status.is_skip:
        return result
    if status.code is Code.ERROR:
        return PreFlightResult(_error_of(point, plugin.name, status))
    message = f'{point.label} {plugin.name} returned "{status.code.label}", {_MISPLACED}'
    return PreFlightResult(error(message, plugin=plugin.name, fault=status.fault))


async def call_pre_bind(
    plugin: PreBindPlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> Status:
    """Success or an Error."""
    try:
        status = await PRE_BIND.run(plugin.name, listener, pod, plugin.pre_bind, state, pod, node_name)
    except PluginFailure as failure:
        return failure.status.by(plugin.name)
    return status if status.is_success else _error_of(PRE_BIND, plugin.name, status)


def pre_bind_was_cancelled(plugin: PreBindPlugin, cause: str) -> Status:
    """The Error of a PreBind that was cancelled; `cause` may be empty if it is not known."""
    return _error_of(PRE_BIND, plugin.name, error(cause or "it was cancelled"))


async def call_bind(
    plugin: BindPlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str, *, is_timed: bool
) -> Status:
    """Success, Skip (the plugin does not handle this pod) or an Error.

    `is_timed`: whether to time each step of the coroutine. In-tree plugins only wait, so theirs are not timed.
    """
    try:
        status = await BIND.run(plugin.name, listener, pod, plugin.bind, state, pod, node_name, is_timed=is_timed)
    except PluginFailure as failure:
        return failure.status.by(plugin.name)
    return status if status.is_success or status.is_skip else _error_of(BIND, plugin.name, status)


def call_post_bind(
    plugin: PostBindPlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> None:
    """Notify the plugin that the pod is bound. A failure is reported; the pod stays bound."""
    try:
        POST_BIND.call_and_report(plugin.name, listener, pod, plugin.post_bind, state, pod, node_name)
    except PluginFailure:
        return


async def call_awaited_post_bind(
    plugin: PostBindPlugin, listener: PluginListener, state: CycleState, pod: PodInfo, node_name: str
) -> None:
    """As `call_post_bind`, of a `post_bind` that is a coroutine."""
    post_bind: Any = plugin.post_bind
    with suppress(PluginFailure):
        await POST_BIND_AWAITED.run(plugin.name, listener, pod, post_bind, state, pod, node_name)


def _rejection_or_error(call: PluginCall[Status] | PluginCall[PermitResult], plugin: str, status: Status) -> Status:
    """A plugin's rejection unchanged, any other status as an Error."""
    return status.by(plugin) if status.is_rejected else _error_of(call, plugin, status)


def _error_of(
    call: PluginCall[Status]
    | PluginCall[PermitResult]
    | PluginCall[PreFlightResult]
    | PluginCall[PodGroupPostFilterResult],
    plugin: str,
    status: Status,
) -> Status:
    return error(call.text_of(plugin, status.message), plugin=plugin, fault=status.fault)
