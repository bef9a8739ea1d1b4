"""What becomes of each member after the group's cycle, and what the group's condition says.

    group      member     the member
    Success    Success    is bound by its ordinary attempt
    Success    rejected   waits with its own reasons; it never preempts by itself
    rejected   Success    waits with the group's reasons; with its nomination if room is being made for the group
    rejected   rejected   waits with its own reasons
    Error      Error      its own error
    Error      any        the group's error

The last column is what `member_verdict` returns.
"""

from typing import Final

from kscheduler.api.groups import INITIALLY_SCHEDULED
from kscheduler.api.meta import Condition
from kscheduler.framework.status import Code, Status
from kscheduler.scheduling.groups.group_cycle import GROUP_UNSCHEDULABLE, GroupResult, MemberResult

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


def member_verdict(group: GroupResult, member: MemberResult) -> MemberResult:
    """The member's result as it is reported; a success is to be bound."""
    if group.status.code is Code.ERROR:
        status = member.status if member.status.code is Code.ERROR else group.status
        return MemberResult(member.pod, status, member.record, nominated_node_name="")
    if not member.status.is_success or group.status.is_success:
        return member
    if group.waits_for_preemption:
        return MemberResult(member.pod, group.status, member.record, nominated_node_name=member.nominated_node_name)
    status = Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE, group.status.message))
    return MemberResult(member.pod, status, member.record, nominated_node_name="")


def group_condition(status: Status) -> Condition:
    """The group's condition for how its cycle has ended."""
    if status.is_success:
        return Condition(INITIALLY_SCHEDULED, "True", SCHEDULED, status.message)
    reason = UNSCHEDULABLE if status.is_rejected else SCHEDULER_ERROR
    return Condition(INITIALLY_SCHEDULED, "False", reason, status.message)
