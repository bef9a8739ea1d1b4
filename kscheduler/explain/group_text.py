"""A decision about a pod group as text: what is true of it now, the decision, what becomes of each member."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from kscheduler.api.groups import INITIALLY_SCHEDULED
from kscheduler.api.meta import Condition
from kscheduler.explain.devices import reserved_devices
from kscheduler.explain.group_explanation import reported_condition
from kscheduler.explain.in_service import InService, service_lines
from kscheduler.explain.suggestions.of_group import group_suggestion_lines
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.status import Status
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scenario.group_facts import foreign_text
from kscheduler.scheduling.groups.group_cycle import MemberResult, TriedPlacement
from kscheduler.scheduling.groups.group_preemption import group_condition
from kscheduler.scheduling.groups.topology_placement import topology_of

_MAX_NAMED: Final = 3
_MAX_DOMAINS: Final = 10
_GOES_TO: Final = "goes to "
_SAID_BY_THE_QUEUE: Final = ("active", "backoff", "extenderLine")
_KEPT_OUT: Final = ("gated", "incomplete")
_WITHIN_AN_ATTEMPT: Final = ("underWay", "pending", "permit")


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
        return [*_head(name, decision, in_service, ""), *_each_text_once(gates)]
    if decision.status is None:
        homes = sorted(decision.on_nodes.items())
        on_nodes = (f"  {member}: is on {node}" for member, node in homes)
        return [*_head(name, decision, in_service, ""), *_domain_lines(decision), *on_nodes]
    message = _without_repetition(group_condition(decision.status).message)
    has_new = any(member.status.is_success for member in decision.members)
    return [
        *_head(name, decision, in_service, message),
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
    """Lines of members, each with its text; of those with the same text one line. A member that gets a node has its
    own.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for name, text in texts:
        names.setdefault((text, name if text.startswith(_GOES_TO) else ""), []).append(name)
    return [f"  {_named(same)}: {text}" for (text, _), same in names.items()]


def _named(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{len(names)} members ({', '.join(names[:_MAX_NAMED])}{more})"


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
    chosen = f"{' - chosen' if tried.is_chosen else ''}{f': {tried.why}' if tried.why else ''}"
    return f"  {name} ({count} {'node' if count == 1 else 'nodes'}): {fits}{chosen}"


def _victim_lines(decision: GroupDecision) -> list[str]:
    preemption = decision.preemption
    if preemption is None:
        return []
    count = len(preemption.victims)
    broken = f", {preemption.broken_budgets} of them against a disruption budget" if preemption.broken_budgets else ""
    head = f"it would evict {count} {'pod' if count == 1 else 'pods'}{broken}:"
    return [head, *(f"  {pod.key} on {pod.node_name}, priority {pod.priority}" for pod in preemption.victims)]


def _member_text(member: MemberResult) -> str:
    if member.status.is_success and member.record is not None:
        devices = reserved_devices(member.record)
        named = ", ".join(f"{each.text} ({each.claim}, {each.request})" for each in devices)
        return f"{_GOES_TO}{member.record.node_name}{f' with {named}' if named else ''}"
    waits = f" (waits for room on {member.nominated_node_name})" if member.nominated_node_name else ""
    return f"{_without_repetition(member.message)}{waits}"


# --- what is true of it now -------------------------------------------------------------------------------------------


def _head(name: str, decision: GroupDecision, in_service: InService | None, message: str) -> Iterator[str]:
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
    if key := _missing_topology(decision):
        yield f"  no node has label {key}, which its topology constraint names"


def _domain_lines(decision: GroupDecision) -> Iterator[str]:
    """In which domains of the labels that a placed group names its members are, the fullest first."""
    homes = Counter(decision.on_nodes.values())
    nodes = [node for node in decision.scenario.objects.nodes if node.metadata.name in homes]
    for key in _named_labels(decision):
        counts: Counter[str] = Counter()
        for node in nodes:
            counts[node.metadata.labels.get(key, "none")] += homes[node.metadata.name]
        ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        more = f", and {len(ordered) - _MAX_DOMAINS} more" if len(ordered) > _MAX_DOMAINS else ""
        yield f"  {key}: {', '.join(f'{domain} ({count})' for domain, count in ordered[:_MAX_DOMAINS])}{more}"


def _named_labels(decision: GroupDecision) -> Sequence[str]:
    """The labels that the group, or its members on nodes, ask to stay within."""
    group = decision.definition
    if group is None:
        return ()
    namespace, homes = decision.scenario.group.partition("/")[0], decision.on_nodes
    members = (
        pod.metadata
        for pod in decision.scenario.objects.pods
        if pod.metadata.namespace == namespace and pod.metadata.name in homes
    )
    asked = topology_of(group.topology, members)
    labels = () if asked is None else asked.labels
    return tuple(dict.fromkeys((*([group.topology_key] if group.topology_key else []), *labels)))


def _missing_topology(decision: GroupDecision) -> str:
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
            return f"{minimum}, and {_more_members(more)} would be scheduled now"
        return f"{minimum}, and {_more_members(more)} {'waits' if more == 1 else 'wait'}: {message}"
    if status.is_success:
        return "would be scheduled now"
    return f"{group_condition(status).reason}: {message}"


def _more_members(count: int) -> str:
    return "1 more member" if count == 1 else f"{count} more members"


def _condition_text(condition: Condition, message: str) -> str:
    since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
    reason = f" ({condition.reason})" if condition.reason else ""
    text = f": {condition.message}" if condition.message else ""
    if message and condition.message == message:
        text = ", with the same text"
    return f"condition {INITIALLY_SCHEDULED}={condition.status}{reason}{since}{text}"
