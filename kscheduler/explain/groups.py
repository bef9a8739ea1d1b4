"""A decision about a pod group as one JSON object, and as text.

`podGroupOutcome` has the shape of the recorded outcomes (tests/vectors): the group's condition and what becomes of each
member, or what PreEnqueue says of each member if it keeps any of them out. Of a tree of groups, `condition` is that of
the whole, which nobody writes, and `groups` has those of the groups of pods, as they would be written.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from kscheduler.api.meta import Condition
from kscheduler.explain.devices import reserved_devices
from kscheduler.explain.in_service import InService
from kscheduler.explain.suggestions.of_group import group_suggestion_lines, group_suggestion_trees
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.explain.text.group_head import group_head, reported_condition
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.status import Status
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scheduling.groups.group_cycle import MemberResult, TriedPlacement
from kscheduler.scheduling.groups.group_preemption import group_condition

Tree = dict[str, Any]

KIND: Final = "PodGroupExplanation"
_MOST_NAMED: Final = 3
_GOES_TO: Final = "goes to "
_NOTHING: Final[Tree] = dict.fromkeys(
    ("preEnqueue", "preFilter", "preFilterNodes", "filter", "feasible", "scores", "best")
)


def group_tree(
    decision: GroupDecision,
    api_version: str,
    suggestions: Sequence[Suggestion] | None = None,
    in_service: InService | None = None,
    notes: Sequence[str] = (),
) -> Tree:
    """The decision as plain dicts and lists, always with the same keys.

    `suggestions`: what would make the group fit; `None` if that was not looked for, or the group fits. `in_service`:
    what the running service knows of it.
    """
    return {
        "apiVersion": api_version,
        "kind": KIND,
        "id": decision.scenario.id or decision.scenario.group,
        "podGroup": decision.scenario.group,
        "error": decision.error or None,
        **_NOTHING,
        "preemption": _preemption_tree(decision),
        "message": decision.lacks,
        "podGroupOutcome": None if decision.error else outcome_tree(decision),
        "devices": _devices_tree(decision),
        "placements": [_placement_tree(tried) for tried in decision.placements],
        "suggestions": group_suggestion_trees(suggestions, decision),
        "situation": _situation_tree(decision, in_service),
        "notes": list(dict.fromkeys((*notes, *decision.notes))),
    }


def _situation_tree(decision: GroupDecision, in_service: InService | None) -> Tree:
    """What is true of the group now, whatever would be decided."""
    condition = reported_condition(decision)
    return {
        "condition": None
        if condition is None
        else {**_condition_tree(condition), "lastTransitionTime": condition.last_transition_time},
        "minimum": None if decision.definition is None else decision.definition.least,
        "onNodes": dict(decision.on_nodes),
        "ofOtherSchedulers": {pod.metadata.name: pod.spec.scheduler_name for pod in decision.foreign},
        "inService": None if in_service is None else in_service.tree,
    }


def outcome_tree(decision: GroupDecision) -> Tree:
    """The outcome as recorded ones are written."""
    if decision.pre_enqueue is not None:
        return {"preEnqueue": {name: _gate_tree(status) for name, status in decision.pre_enqueue.items()}}
    if decision.status is None:
        return {"pods": {name: {"node": node} for name, node in decision.on_nodes.items()}} if decision.on_nodes else {}
    groups = {group.key.name: _condition_tree(group_condition(status)) for group, status in decision.groups}
    return {
        "condition": _condition_tree(group_condition(decision.status)),
        **({"groups": groups} if groups else {}),
        "pods": {member.pod.name: _member_tree(member) for member in decision.members},
    }


def _placement_tree(tried: TriedPlacement) -> Tree:
    """A placement that the group was tried in. `points`: null if it was not compared with others."""
    return {
        "name": tried.placement.name,
        "nodeCount": len(tried.placement.rows),
        "fits": tried.status.is_success,
        "message": tried.status.message,
        "points": tried.points,
        "chosen": tried.is_chosen,
    }


def _devices_tree(decision: GroupDecision) -> Tree | None:
    """By member that has a node the devices of its claims there; null if no claim gets any."""
    placed = [each for each in decision.members if each.status.is_success and each.record is not None]
    found = {each.pod.name: reserved_devices(each.record) for each in placed if each.record is not None}
    return {name: [each.tree for each in devices] for name, devices in found.items() if devices} or None


def _preemption_tree(decision: GroupDecision) -> Tree | None:
    """Whom the group would evict, and the nodes that its members would wait for."""
    preemption = decision.preemption
    if preemption is None:
        return None
    return {
        "nominatedNodes": {pod.name: node_name for pod, node_name in preemption.nominations},
        "victims": [
            {"namespace": victim.namespace, "name": victim.name, "node": victim.node_name, "priority": victim.priority}
            for victim in preemption.victims
        ],
        "brokenBudgets": preemption.broken_budgets,
        "disruptedGroups": preemption.disrupted_groups,
    }


def _gate_tree(status: Status) -> Tree | None:
    if status.is_success:
        return None
    return {"status": status.code.label, "plugin": status.plugin, "reasons": list(status.reasons)}


def _condition_tree(condition: Condition) -> Tree:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }


def _member_tree(member: MemberResult) -> Tree:
    if member.status.is_success and member.record is not None:
        return {"node": member.record.node_name}
    return {"code": member.status.code.label, "message": member.message}


def group_text(
    decision: GroupDecision,
    suggestions: Sequence[Suggestion] | None = None,
    in_service: InService | None = None,
    left_off: str = "",
) -> str:
    """The decision in lines. `left_off`: why there may be other suggestions."""
    helping = [] if suggestions is None else group_suggestion_lines(suggestions, decision, left_off)
    return "\n".join((*_lines(decision, in_service), *helping))


def _lines(decision: GroupDecision, in_service: InService | None) -> list[str]:
    name = _name(decision)
    if decision.error:
        return [f"{name}: {decision.error}"]
    if decision.pre_enqueue is not None:
        gates = [
            (pod, "ready" if status.is_success else f"{status.message} ({status.plugin})")
            for pod, status in decision.pre_enqueue.items()
        ]
        return [*group_head(name, decision, in_service, ""), *_each_text_once(gates)]
    if decision.status is None:
        homes = sorted(decision.on_nodes.items())
        return [*group_head(name, decision, in_service, ""), *(f"  {member}: is on {node}" for member, node in homes)]
    message = _without_repetition(group_condition(decision.status).message)
    has_new = any(member.status.is_success for member in decision.members)
    return [
        *group_head(name, decision, in_service, message),
        *(_group_line(group, status) for group, status in decision.groups),
        *(_placement_line(tried) for tried in decision.placements if has_new or not tried.status.is_success),
        *_each_text_once((member.pod.name, _member_text(member)) for member in decision.members),
        *_victim_lines(decision),
    ]


def _name(decision: GroupDecision) -> str:
    """The group that was asked about; below a composite one the root, which is decided about with all that is below."""
    group = decision.scenario.group
    root = decision.inputs.group.key.text if decision.inputs is not None and decision.groups else group
    return f"pod group {group}" if root == group else f"composite pod group {root}, with pod group {group}"


def _each_text_once(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of members, each with its text; of those with the same text one line. Anyone who gets a node has its
    own.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for name, text in texts:
        names.setdefault((text, name if text.startswith(_GOES_TO) else ""), []).append(name)
    return [f"  {_named(same)}: {text}" for (text, _), same in names.items()]


def _named(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{len(names)} members ({', '.join(names[:_MOST_NAMED])}{more})"


def _without_repetition(message: str) -> str:
    """Each level of a tree puts the same words beside what the level below says: people read them once."""
    parts = message.split(", ")
    return ", ".join(part for before, part in pairwise(("", *parts)) if part != before)


def _group_line(group: GroupDefinition, status: Status) -> str:
    condition = group_condition(status)
    message = f": {_without_repetition(condition.message)}" if condition.message else ""
    return f"  pod group {group.key.text} of the tree: {condition.reason}{message}"


def _placement_line(tried: TriedPlacement) -> str:
    name = f'placement "{tried.placement.name}"' if tried.placement.name else "all nodes"
    points = "" if tried.points is None else f", {tried.points} points"
    fits = f"fits{points}" if tried.status.is_success else tried.status.message
    count = len(tried.placement.rows)
    return f"  {name} ({count} {'node' if count == 1 else 'nodes'}): {fits}{' - chosen' if tried.is_chosen else ''}"


def _victim_lines(decision: GroupDecision) -> list[str]:
    preemption = decision.preemption
    if preemption is None:
        return []
    count = len(preemption.victims)
    broken = f", {preemption.broken_budgets} of them against a disruption budget" if preemption.broken_budgets else ""
    head = f"it would evict {count} {'pod' if count == 1 else 'pods'}{broken}:"
    return [head, *(f"  {pod.key} on {pod.node_name}, priority {pod.priority}" for pod in preemption.victims)]


def _member_text(member: MemberResult) -> str:
    tree = _member_tree(member)
    if "node" in tree:
        devices = [] if member.record is None else reserved_devices(member.record)
        named = ", ".join(f"{each.text} ({each.claim}, {each.request})" for each in devices)
        return f"{_GOES_TO}{tree['node']}{f' with {named}' if named else ''}"
    waits = f" (waits for room on {member.nominated_node_name})" if member.nominated_node_name else ""
    return f"{_without_repetition(tree['message'])}{waits}"
