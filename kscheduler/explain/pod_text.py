"""A decision as text: where the pod goes and why, how many nodes each plugin rejected, and the points of each plugin.

Names and reasons come from users' objects, so characters that could control a terminal are removed.
"""

from collections.abc import Iterator
from typing import Final

from kscheduler.explain.against import runner_up
from kscheduler.explain.devices import devices_by_node
from kscheduler.explain.extenders import extender_roles
from kscheduler.explain.node_text import detail_lines, point_lines, rejection_lines, runner_up_lines, tie_lines
from kscheduler.explain.outcome import Outcome, cycle_outcome
from kscheduler.explain.rejections import named_details, permit_lines, source_of
from kscheduler.explain.situation import NO_SITUATION, PodState, Situation, situation_lines
from kscheduler.framework.cluster.preemption import Candidate, PreemptionSearch
from kscheduler.framework.status import Code, Status
from kscheduler.scenario.decide import Decision, pods_going, without_nomination
from kscheduler.scheduling.failure import SCHEDULER_ERROR
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.supervision.holds import HELD_BACK
from kscheduler.text import (
    BOLD,
    DIM,
    GREEN,
    INDENT,
    PLAIN,
    RED,
    YELLOW,
    Style,
    aligned,
    nodes,
    printable,
    some,
    style_of,
    wrapped,
)

__all__ = ["Style", "decision_text", "style_of"]

_EXAMPLES: Final = 3
# How many other nodes are named where preemption would make room.
_OTHER_CANDIDATES: Final = 5
_TASKS: Final = {"filter": "it filters the nodes", "prioritize": "it gives points", "preempt": "it chooses victims"}
_GATES: Final = "SchedulingGates"


def decision_text(decision: Decision, style: Style = PLAIN, situation: Situation = NO_SITUATION) -> str:
    """The whole answer, without a final line end."""
    lines = (part.rstrip() for line in _lines(decision, style, situation) for part in wrapped(line, style.width))
    return "\n".join(lines)


def _lines(decision: Decision, style: Style, situation: Situation) -> Iterator[str]:
    pod = printable(decision.scenario.pod.key)
    prefix = f"[{printable(decision.scenario.id)}] " if decision.scenario.id else ""
    title = f"{prefix}{style.paint(pod, BOLD)}"
    fits = cycle_outcome(decision) is Outcome.PLACED
    event = decision.record.message if decision.record is not None else ""
    error = _error(decision, situation)
    lines = situation_lines(situation, fits=fits, event=event, error=error)
    facts = [f"{INDENT}{printable(line)}" for line in lines]
    if error != decision.error:
        facts.insert(0, f"{INDENT}it is not tried now: {printable(decision.error)}")
    if situation.origin:
        facts.insert(0, f"{INDENT}this pod does not exist; it is explained from {printable(situation.origin)}")
    facts[:0] = [f"{INDENT}{printable(text)}" for text in situation.not_evaluated]
    match situation.pod_state:
        case PodState.FINISHED:
            yield f"{title}: has finished ({printable(situation.phase)}); no scheduler handles it any more"
            yield from _node_line(situation, "it ran on")
        case PodState.TERMINATING:
            since = printable(situation.deleted_at)
            yield f"{title}: has been terminating since {since}; no scheduler handles it any more"
            yield from _node_line(situation, "it is still on")
        case PodState.BOUND:
            phase = f", phase {printable(situation.phase)}" if situation.phase else ""
            yield f"{title}: is on node {style.paint(printable(situation.node_name), GREEN)} already (bound{phase})"
            yield from facts
            yield from _hypothetical(decision, style, "as if it were pending now", situation)
        case _:
            # In the first line: what is said of one pod must not be taken for the gang's answer.
            alone = f" ALONE, {style.paint('NOT JUDGED WITH ITS GROUP', YELLOW)}" if situation.not_evaluated else ""
            goes_to = "by the plugins known here it would go to" if fits and _was_rejected(situation) else "goes to"
            yield f"{title}: {_outcome(decision, style, error, goes_to=goes_to)}{alone}"
            yield from facts
            yield from _body(decision, style)


def _was_rejected(situation: Situation) -> bool:
    """Whether the pod's scheduler, perhaps with other plugins than are known here, has said that it fits nowhere.

    A nomination or a volume on its way says that it has decided otherwise since.
    """
    if situation.in_service is not None or situation.nominated_node:
        return False
    condition = situation.condition
    is_on_its_way = bool(situation.waits_for_volumes or situation.device_waits)
    return condition is not None and condition.status == "False" and not is_on_its_way


def _node_line(situation: Situation, relation: str) -> Iterator[str]:
    if situation.node_name:
        yield f"{INDENT}{relation} {printable(situation.node_name)}"


def _hypothetical(
    decision: Decision, style: Style, condition: str, situation: Situation = NO_SITUATION
) -> Iterator[str]:
    yield ""
    yield f"{style.paint('HYPOTHETICAL', YELLOW)}, {condition}: {_outcome(decision, style)}"
    yield from _body(decision, style, situation)


# --- the decision -----------------------------------------------------------------------------------------------------


def _error(decision: Decision, situation: Situation) -> str:
    """The error to begin with: the pod's own of its last attempt, if it is only a plugin that is held back now."""
    condition = situation.condition
    if not decision.is_held_back or situation.pod_state is not PodState.PENDING:
        return decision.error
    if condition is None or condition.reason != SCHEDULER_ERROR or HELD_BACK in condition.message:
        return decision.error
    return condition.message


def _outcome(decision: Decision, style: Style, error: str = "", *, goes_to: str = "goes to") -> str:
    record = decision.record
    match cycle_outcome(decision):
        case Outcome.PLACED if record is not None:
            return f"{goes_to} {style.paint(printable(record.node_name), GREEN)}"
        case Outcome.PREEMPTING if record is not None:
            room = printable(record.nominated_node_name or "")
            return f"{style.paint('fits on no node', RED)}; preemption would make room on {room}"
        case Outcome.GATED:
            return style.paint("gated", RED)
        case Outcome.ERROR:
            return f"{style.paint('error', RED)}: {printable(error or decision.error)}"
        case _:
            return style.paint("fits on no node", RED)


def _extender_lines(decision: Decision) -> Iterator[str]:
    for role in extender_roles(decision):
        tasks = ", ".join(_TASKS[verb] for verb in role.verbs)
        if not role.was_queried:
            why = "--ask-extenders calls it" if decision.extender_results is None else "no node was left"
            yield f"extender {printable(role.url)} takes part ({tasks}) and was not called: {why}"
        elif role.failure:
            failure = printable(role.failure)
            yield f"extender {printable(role.url)} was asked ({tasks}) and failed, which was ignored: {failure}"
        elif role.rejected:
            yield f"extender {printable(role.url)} was asked ({tasks}) and rejected {nodes(role.rejected)}"
        else:
            yield f"extender {printable(role.url)} was asked ({tasks})"


def _body(decision: Decision, style: Style, situation: Situation = NO_SITUATION) -> Iterator[str]:
    yield from (f"{INDENT}{line}" for line in _extender_lines(decision))
    if decision.error and decision.profile is None:
        served = [profile.scheduler_name for profile in decision.scenario.config.configuration.profiles]
        yield f"{INDENT}profiles served: {', '.join(some(served, _EXAMPLES))}"
    if decision.pre_enqueue is not None:
        yield INDENT + _status_text(decision.pre_enqueue)
        if source := source_of(decision.profile, decision.pre_enqueue.plugin, "pre_enqueue"):
            yield f"{INDENT}your plugin: {printable(source)}"
        if decision.pre_enqueue.plugin == _GATES:
            yield f"{INDENT}no scheduler looks at it until its scheduling gates are removed"
    if decision.record is not None:
        lines = _record_lines(decision, decision.record, style, situation)
        yield from (f"{INDENT}{line}".rstrip() for line in lines)


def _record_lines(decision: Decision, record: SchedulingRecord, style: Style, situation: Situation) -> Iterator[str]:
    if not record.num_all_nodes:
        yield printable(record.message)
        return
    if record.node_names is not None:
        names = ", ".join(some(sorted(record.node_names), _EXAMPLES))
        yield f"only these nodes were looked at ({', '.join(record.narrowed_by)}): {names}"
    rejected = record.diagnosis.pre_filter
    if rejected.code is not Code.SUCCESS:
        yield f"rejected for all {nodes(record.num_all_nodes)} at once"
        yield INDENT + _status_text(rejected)
        if source := source_of(decision.profile, rejected.plugin, "pre_filter"):
            yield f"{INDENT}your plugin: {printable(source)}"
        yield from (INDENT + line for line in detail_lines(named_details(decision, record).get(rejected.plugin, ()), 0))
    else:
        yield from _nomination_lines(decision, record)
        yield from _judged_lines(decision, record, style, situation)
        yield from _without_nomination(decision, style)
    yield from _preemption_lines(record)
    if record.message:
        yield ""
        for line in wrapped(f"event: {printable(record.message)}", style.width - len(INDENT)):
            yield line[: -len(line.lstrip())] + style.paint(line.lstrip(), DIM)


def _judged_lines(
    decision: Decision, record: SchedulingRecord, style: Style, situation: Situation | None = None
) -> Iterator[str]:
    """How many nodes fit, the points of each plugin, and which plugins rejected the other nodes."""
    if record.only_nominated:
        node = printable(record.node_name)
        others = _other_nodes_were(record)
        yield f"only its nominated node {node} was tried, and it fits there; the other {others} not looked at"
    else:
        evaluated = record.num_evaluated_nodes
        is_sample = record.node_names is None and evaluated < record.num_all_nodes
        sampled = f" ({evaluated} looked at)" if is_sample else ""
        yield f"{len(record.feasible)} of {record.num_all_nodes} nodes fit{sampled}"
    yield from point_lines(record, style, len(INDENT))
    yield from tie_lines(record, decision.tie_rule)
    yield from _device_lines(decision, record)
    if situation is not None:
        yield from runner_up_lines(runner_up(decision, situation))
    if record.node_name:
        for line in permit_lines(decision):
            yield ""
            yield printable(line)
    yield from rejection_lines(decision, record)


def _device_lines(decision: Decision, record: SchedulingRecord) -> Iterator[str]:
    """The devices of the pod's claims on its node."""
    devices = devices_by_node(decision, record).get(record.node_name, ())
    if devices:
        yield ""
        yield f"devices on {printable(record.node_name)}"
        rows = [(f"{each.claim}, {each.request}", each.text, "has it" if each.is_allocated else "") for each in devices]
        table = [tuple(map(printable, row)) for row in rows]
        yield from (f"{INDENT}{line}" for line in aligned(table, right=set()))


def _other_nodes_were(record: SchedulingRecord) -> str:
    count = record.num_all_nodes - 1
    return f"{nodes(count)} {'was' if count == 1 else 'were'}"


def _nomination_lines(decision: Decision, record: SchedulingRecord) -> Iterator[str]:
    """Why the pod does not go to its nominated node."""
    nominated = record.pod.pod.status.nominated_node_name
    if not nominated or record.only_nominated:
        return
    node = printable(nominated)
    if nominated not in record.diagnosis.names:
        yield f"nominated to {node}, which does not exist: all nodes were judged"
    elif nominated in record.feasible_names():
        return
    elif going := pods_going(decision, nominated):
        names = ", ".join(some(list(going), _EXAMPLES))
        is_or_are = "is" if len(going) == 1 else "are"
        yield f"nominated to {node}, where it does not fit yet: {names} {is_or_are} being deleted there"
    else:
        yield f"nominated to {node}, where it does not fit (any more): all nodes were judged"


def _without_nomination(decision: Decision, style: Style) -> Iterator[str]:
    record = without_nomination(decision)
    if record is None:
        return
    yield ""
    goes = f"it would go to {printable(record.node_name)}" if record.node_name else "it would fit on no node"
    yield f"without the nomination {goes}"
    narrower = Style(style.colour, style.width - len(INDENT))
    yield from (f"{INDENT}{line}".rstrip() for line in _judged_lines(decision, record, narrower))


def _status_text(status: Status) -> str:
    return f"{status.plugin}: {printable(status.message)}" if status.plugin else printable(status.message)


# --- preemption -------------------------------------------------------------------------------------------------------


def _preemption_lines(record: SchedulingRecord) -> Iterator[str]:
    """PostFilter's result for a pod that fits nowhere; nothing if PostFilter did not run."""
    if record.post_filter is None:
        return
    yield ""
    search = record.state.find(PreemptionSearch)
    if search is not None:
        yield from _found(search)
    elif record.post_filter.is_success:
        yield f"{record.post_filter.plugin} has made room on {printable(record.nominated_node_name or 'no node')}"
    else:
        yield "preemption would not help on any node"
        if record.post_filter_message not in record.message:  # else the event tells it
            yield INDENT + printable(record.post_filter_message)


def _found(search: PreemptionSearch) -> Iterator[str]:
    chosen, every = search.chosen, search.candidates()
    goes = "1 pod goes" if len(chosen.victims) == 1 else f"{len(chosen.victims)} pods go"
    yield f"preemption makes room on {printable(chosen.node_name)}: {goes}{_broken(chosen)}"
    for pod in chosen.victims:
        since = f", since {printable(pod.pod.status.start_time)}" if pod.pod.status.start_time else ""
        yield f"{INDENT}{printable(pod.key)}  priority {pod.priority}{since}"
    if len(every) > 1:
        yield f"{len(every)} nodes would do; this one disrupts least (budgets, priorities, number and age of pods)"
        others = sorted((candidate for candidate in every if candidate.node_name != chosen.node_name), key=_pain)
        yield from (INDENT + _candidate_line(candidate) for candidate in others[:_OTHER_CANDIDATES])
        if len(others) > _OTHER_CANDIDATES:
            yield f"{INDENT}and {len(others) - _OTHER_CANDIDATES} more"


def _pain(candidate: Candidate) -> tuple[int, int, int, str]:
    return candidate.broken_budgets, candidate.victims[0].priority, len(candidate.victims), candidate.node_name


def _candidate_line(candidate: Candidate) -> str:
    count = len(candidate.victims)
    pods = "1 pod" if count == 1 else f"{count} pods"
    highest = f"highest priority {candidate.victims[0].priority}"
    return f"{printable(candidate.node_name)}  {pods}, {highest}{_broken(candidate)}"


def _broken(candidate: Candidate) -> str:
    count = candidate.broken_budgets
    if not count:
        return ""
    return f", {count} of them against a disruption budget" if len(candidate.victims) > 1 else ", against its budget"
