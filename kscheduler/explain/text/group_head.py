"""What is true of a pod group now, before the decision about it: its condition, its place in the queue, its members."""

from collections.abc import Iterator
from typing import Final

from kscheduler.api.groups import INITIALLY_SCHEDULED
from kscheduler.api.meta import Condition
from kscheduler.explain.in_service import InService, service_lines
from kscheduler.framework.status import Status
from kscheduler.scenario.decide_group import GroupDecision, foreign_text
from kscheduler.scheduling.groups.group_preemption import group_condition

_SAID_BY_THE_QUEUE: Final = ("active", "backoff", "extenderLine")
_KEPT_OUT: Final = ("gated", "incomplete")
_WITHIN_AN_ATTEMPT: Final = ("underWay", "pending", "permit")


def group_head(name: str, decision: GroupDecision, in_service: InService | None, message: str) -> Iterator[str]:
    """The first lines: where the group stands, its condition, and what a decision at this moment would be.

    `message`: of the decision's condition.
    """
    condition = reported_condition(decision)
    if decision.pre_enqueue is not None:
        yield f"{name} is not tried: {decision.lacks or 'some of its members may not enter the queue'}"
    elif decision.status is None:
        yield f"{name}: {decision.lacks}"
    elif place := _place(in_service):
        yield f"{name}: {condition.reason}; {place}" if condition is not None else f"{name}: {place}"
        yield f"  decided at this moment: {_outcome(decision, message)}"
    else:
        yield f"{name}: {_outcome(decision, message)}"
    if in_service is not None and not in_service.leads:
        yield "  this replica is not the leader: another one schedules, with its own queue"
    if condition is not None:
        yield f"  {_condition_text(condition, message)}"
    if decision.status is not None and decision.foreign:
        yield f"  {foreign_text(decision.foreign).removeprefix('; ')}"
    if key := missing_topology(decision):
        yield f"  no node has label {key}, which its topology constraint names"


def reported_condition(decision: GroupDecision) -> Condition | None:
    """What has been reported of the group; `None`: nothing, or it is of an API whose groups get no conditions."""
    known = () if decision.definition is None else decision.definition.conditions
    return next((each for each in known if each.type == INITIALLY_SCHEDULED), None)


def missing_topology(decision: GroupDecision) -> str:
    """The label of a topology constraint that no node has; empty: there is none such."""
    groups = [decision.definition, decision.inputs.group if decision.inputs is not None else None]
    keys = [group.topology_key for group in groups if group is not None and group.topology_key]
    nodes = decision.scenario.objects.nodes
    return next((key for key in keys if not any(key in node.metadata.labels for node in nodes)), "")


def _place(in_service: InService | None) -> str:
    """Where the group is in the queue; empty: nobody knows, or nowhere."""
    if in_service is None:
        return ""
    if in_service.place in _KEPT_OUT:
        return "is gated"
    if in_service.place in _WITHIN_AN_ATTEMPT:
        return "is being decided about, or its members are being bound, at this moment"
    if in_service.place not in _SAID_BY_THE_QUEUE:
        return ""
    return [*service_lines(in_service)][-1 if in_service.leads else 1]


def _outcome(decision: GroupDecision, message: str) -> str:
    status = decision.status or Status()
    least = 1 if decision.definition is None else decision.definition.least
    more = len(decision.members)
    has_its_minimum = not decision.groups and bool(decision.on_nodes) and len(decision.on_nodes) >= least
    if has_its_minimum:
        minimum = f"its minimum of {least} is on nodes"
        if status.is_success:
            return f"{minimum}, and {_members(more)} more would be scheduled now"
        return f"{minimum}, and {_members(more)} more {'waits' if more == 1 else 'wait'}: {message}"
    if status.is_success:
        return "would be scheduled now"
    return f"{group_condition(status).reason}: {message}"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _condition_text(condition: Condition, message: str) -> str:
    since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
    reason = f" ({condition.reason})" if condition.reason else ""
    text = f": {condition.message}" if condition.message else ""
    if message and condition.message == message:
        text = ", with the same text"
    return f"condition {INITIALLY_SCHEDULED}={condition.status}{reason}{since}{text}"
