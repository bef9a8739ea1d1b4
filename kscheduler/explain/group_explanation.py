"""A decision about a pod group as its typed answer."""

from collections.abc import Sequence

from msgspec import UNSET

from kscheduler.api.groups import INITIALLY_SCHEDULED
from kscheduler.api.meta import Condition
from kscheduler.explain.answer import ClaimedDevice
from kscheduler.explain.devices import reserved_devices
from kscheduler.explain.group_answer import (
    GroupCondition,
    GroupOutcomeAnswer,
    GroupPreemption,
    GroupSituation,
    GroupVictim,
    MemberOutcome,
    PlacementAnswer,
    PodGroupExplanation,
    ReportedGroupCondition,
)
from kscheduler.explain.in_service import InService
from kscheduler.explain.pod_explanation import status_answer
from kscheduler.explain.suggestions.of_group import group_suggestion_answers
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scheduling.groups.group_cycle import MemberResult, TriedPlacement
from kscheduler.scheduling.groups.group_preemption import group_condition


def group_explanation(
    decision: GroupDecision,
    suggestions: Sequence[Suggestion] | None = None,
    in_service: InService | None = None,
    notes: Sequence[str] = (),
) -> PodGroupExplanation:
    """The answer about a group.

    `suggestions`: what would make the group fit; `None` if that was not looked for, or the group fits. `in_service`:
    what the running service knows of it.
    """
    return PodGroupExplanation(
        id=decision.scenario.id or decision.scenario.group,
        pod_group=decision.scenario.group,
        error=decision.error or None,
        preemption=_preemption(decision),
        message=decision.lacks,
        outcome=None if decision.error else group_outcome(decision),
        devices=_devices(decision),
        placements=tuple(map(_placement, decision.placements)),
        suggestions=group_suggestion_answers(suggestions, decision),
        situation=_situation(decision, in_service),
        emulation_version=decision.scenario.config.gates.version,
        notes=tuple(dict.fromkeys((*notes, *decision.notes))),
    )


def group_outcome(decision: GroupDecision) -> GroupOutcomeAnswer:
    """The outcome as recorded ones are written."""
    if decision.pre_enqueue is not None:
        gates = decision.pre_enqueue.items()
        return GroupOutcomeAnswer(
            pre_enqueue={name: None if status.is_success else status_answer(status) for name, status in gates}
        )
    if decision.status is None:
        on_nodes = {name: MemberOutcome(node=node) for name, node in decision.on_nodes.items()}
        return GroupOutcomeAnswer(pods=on_nodes or UNSET)
    groups = {group.key.name: _condition(group_condition(status)) for group, status in decision.groups}
    return GroupOutcomeAnswer(
        condition=_condition(group_condition(decision.status, is_composite=decision.reports_composite)),
        groups=groups or UNSET,
        pods={member.pod.name: member_outcome(member) for member in decision.members},
    )


def member_outcome(member: MemberResult) -> MemberOutcome:
    """Its node, or why it gets none."""
    if member.status.is_success and member.record is not None:
        return MemberOutcome(node=member.record.node_name)
    return MemberOutcome(code=member.status.code.label, message=member.message)


def reported_condition(decision: GroupDecision) -> Condition | None:
    """What has been reported of the group; `None`: nothing, or it is of an API whose groups get no conditions."""
    known = () if decision.definition is None else decision.definition.conditions
    return next((each for each in known if each.type == INITIALLY_SCHEDULED), None)


def _situation(decision: GroupDecision, in_service: InService | None) -> GroupSituation:
    condition = reported_condition(decision)
    return GroupSituation(
        condition=None
        if condition is None
        else ReportedGroupCondition(
            condition.type, condition.status, condition.reason, condition.message, condition.last_transition_time
        ),
        minimum=None if decision.definition is None else decision.definition.least,
        on_nodes=dict(decision.on_nodes),
        of_other_schedulers={pod.metadata.name: pod.spec.scheduler_name for pod in decision.foreign},
        in_service=None if in_service is None else in_service.answer,
    )


def _placement(tried: TriedPlacement) -> PlacementAnswer:
    return PlacementAnswer(
        name=tried.placement.name,
        node_count=len(tried.placement.rows),
        fits=tried.status.is_success,
        message=tried.status.message,
        points=tried.points,
        chosen=tried.is_chosen,
    )


def _devices(decision: GroupDecision) -> dict[str, tuple[ClaimedDevice, ...]] | None:
    """By member that has a node the devices of its claims there; `None` if no claim gets any."""
    placed = [(each.pod.name, each.record) for each in decision.members if each.status.is_success]
    found = {name: tuple(reserved_devices(record)) for name, record in placed if record is not None}
    return {name: devices for name, devices in found.items() if devices} or None


def _preemption(decision: GroupDecision) -> GroupPreemption | None:
    preemption = decision.preemption
    if preemption is None:
        return None
    return GroupPreemption(
        nominated_nodes={pod.name: node_name for pod, node_name in preemption.nominations},
        victims=tuple(
            GroupVictim(victim.namespace, victim.name, victim.node_name, victim.priority)
            for victim in preemption.victims
        ),
        broken_budgets=preemption.broken_budgets,
        disrupted_groups=preemption.disrupted_groups,
    )


def _condition(condition: Condition) -> GroupCondition:
    return GroupCondition(condition.type, condition.status, condition.reason, condition.message)
