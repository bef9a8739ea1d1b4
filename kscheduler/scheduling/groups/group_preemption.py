"""PodGroupPostFilter: no placement was found for a group. Preemption makes room for all of it, or says why it cannot.

    a plugin answers                     then
    Success                              the pass ends; the members wait, with the nodes that the plugin names
    UnschedulableAndUnresolvable         the pass ends with the plugin's message
    Unschedulable                        the message is remembered, and the next plugin is called
    an Error                             the pass ends, and the group has failed with it

The plugins are those that the profile names at `podGroupPostFilter`. They look at a trial (`group_trial`), and the
attempt carries out what they have chosen.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from kscheduler.api.groups import COMPOSITE_INITIALLY_SCHEDULED, INITIALLY_SCHEDULED, POD_GROUPS
from kscheduler.api.meta import Condition
from kscheduler.api.releases import Behaviours
from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.cluster.preemption import PodGroupPostFilterResult
from kscheduler.framework.status import Code, Fault, Status
from kscheduler.scheduling.failure import SCHEDULER_ERROR, UNSCHEDULABLE
from kscheduler.scheduling.groups.group_cycle import (
    GROUP_UNSCHEDULABLE,
    GroupInputs,
    GroupResult,
    MemberResult,
    rejecting_plugin,
    told_of_group,
)
from kscheduler.scheduling.groups.group_trial import LiveGroupTrial
from kscheduler.scheduling.runtime.attempt_calls import call_pod_group_post_filter

# What becomes of each member after the group's cycle, and what the group's condition says.
#
#     group      member     the member
#     Success    Success    is bound by its ordinary attempt
#     Success    rejected   waits with its own reasons; it never preempts by itself
#     rejected   Success    waits with the group's reasons; with its nomination if room is being made for the group
#     rejected   rejected   waits with its own reasons
#     Error      Error      its own error
#     Error      any        the group's error
#
# From 1.38 on a member is told of its group in place of the group's reasons, and inherits the plugin behind them.
#
# The last column is what `member_verdict` returns.

SCHEDULED: Final = "Scheduled"
# The group, or those in one tree with it, contradict each other.
POD_GROUP_ERROR: Final = "PodGroupError"
COMPOSITE_ERROR: Final = "CompositePodGroupError"


def member_verdict(group: GroupResult, member: MemberResult, behaviours: Behaviours) -> MemberResult:
    """The member's result as it is reported; a success is to be bound."""
    inherits = behaviours.members_inherit_rejections
    if group.status.code is Code.ERROR:
        of_group = told_of_group(group) if inherits else group.status
        status = member.status if member.status.code is Code.ERROR else of_group
        return MemberResult(member.pod, status, member.record, nominated_node_name="")
    if not member.status.is_success or group.status.is_success:
        return member
    nominated = member.nominated_node_name if group.waits_for_preemption else ""
    if inherits:
        status = told_of_group(group)
        return MemberResult(member.pod, status, member.record, rejecting_plugin(status), nominated)
    if group.waits_for_preemption:
        return MemberResult(member.pod, group.status, member.record, nominated_node_name=nominated)
    status = Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE, group.status.message))
    return MemberResult(member.pod, status, member.record, nominated_node_name=nominated)


def group_condition(status: Status, *, is_composite: bool = False) -> Condition:
    """The group's condition for how its cycle has ended."""
    kind = COMPOSITE_INITIALLY_SCHEDULED if is_composite else INITIALLY_SCHEDULED
    if status.is_success:
        return Condition(kind, "True", SCHEDULED, status.message)
    if status.is_rejected:
        return Condition(kind, "False", UNSCHEDULABLE, status.message)
    of_group = COMPOSITE_ERROR if is_composite else POD_GROUP_ERROR
    reason = of_group if status.fault is Fault.POD_GROUP else SCHEDULER_ERROR
    return Condition(kind, "False", reason, status.message)


# The plugin whose calls are searches for victims.
_SEARCHES: Final = "DefaultPreemption"


def run_group_post_filter(inputs: GroupInputs, result: GroupResult, place: Callable[[GroupInputs], GroupResult]) -> str:
    """Add to the result of a group that was rejected whether room can be made for it.

    `place` runs the group's cycle once more, with the judge of `inputs`: it must call all plugins, rather than look up
    what a class's pods were answered. Returns how the search for victims has ended, the label of its status code;
    empty if there was none.
    """
    if result.status.code is not Code.UNSCHEDULABLE:
        return ""
    trial = LiveGroupTrial(inputs, place, result)
    try:
        made, searched = _made_room(inputs, trial)
    finally:
        trial.end()
    result.deallocations = made.deallocations
    if made.status.code is Code.ERROR:
        for each in result.whole:
            each.status = made.status
        return searched
    if made.status.is_success:
        result.preemption = made.preemption
        for each in result.whole:
            each.waits_for_preemption = True
        _nominate(result.all_members, made)
    if made.status.message or _tells_of_nothing(inputs):
        _report(result.whole, made.status.message)
    return searched


def _tells_of_nothing(inputs: GroupInputs) -> bool:
    """Whether an empty answer is appended, too: ", " at the end of the message, as kube-scheduler 1.37 has it.

    In 1.36 there is nothing that could answer, and groups of other APIs kube-scheduler does not decide.
    """
    behaviours = inputs.behaviours
    is_as_upstream = behaviours.has_pod_group_post_filter and inputs.group.key.api == POD_GROUPS.group
    return is_as_upstream and not behaviours.members_inherit_rejections


def _report(results: Sequence[GroupResult], message: str) -> None:
    """Add the answer to what each group is told.

    Groups of a tree that share a status are told once for each of them, all of them: kube-scheduler appends to the one
    status that they share. (From 1.38 on none share one.)
    """
    shared = Counter(id(each.status) for each in results)
    before = {id(each.status): each.status for each in results}
    for each in results:
        status = before[id(each.status)]
        each.status = replace(status, reasons=(*status.reasons, *[message] * shared[id(status)]))


def _made_room(inputs: GroupInputs, trial: LiveGroupTrial) -> tuple[PodGroupPostFilterResult, str]:
    """What the plugins have found, and how the search for victims has ended."""
    reasons: list[str] = []
    freed: list[Deallocation] = []
    first = searched = ""
    for plugin in inputs.profile.pod_group_post_filter:
        made = call_pod_group_post_filter(plugin, inputs.profile.listener, trial)
        if plugin.name == _SEARCHES:
            searched = made.status.code.label
        freed += made.deallocations
        if made.status.code is not Code.UNSCHEDULABLE:
            return msgspec.structs.replace(made, deallocations=freed), searched
        reasons += made.status.reasons
        first = first or plugin.name
    return PodGroupPostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons), first), deallocations=freed), searched


def _nominate(members: Iterable[MemberResult], made: PodGroupPostFilterResult) -> None:
    """The members' nodes from now on. Who has none there keeps what its own cycle has said."""
    for member in members:
        if member.pod.uid in made.nominations:
            member.nominated_node_name = made.nominations[member.pod.uid]
