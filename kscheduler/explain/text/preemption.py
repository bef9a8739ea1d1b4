"""A preemption as text: the victims, why this node, and the other candidates."""

from collections.abc import Iterator
from typing import Final

from kscheduler.framework.cluster.preemption import Candidate, PreemptionSearch
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.text import printable

_INDENT: Final = "  "
# How many other candidates are named.
_OTHERS: Final = 5


def preemption_lines(record: SchedulingRecord) -> Iterator[str]:
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
            yield _INDENT + printable(record.post_filter_message)


def _found(search: PreemptionSearch) -> Iterator[str]:
    chosen, every = search.chosen, search.candidates()
    goes = "1 pod goes" if len(chosen.victims) == 1 else f"{len(chosen.victims)} pods go"
    yield f"preemption makes room on {printable(chosen.node_name)}: {goes}{_broken(chosen)}"
    for pod in chosen.victims:
        since = f", since {printable(pod.pod.status.start_time)}" if pod.pod.status.start_time else ""
        yield f"{_INDENT}{printable(pod.key)}  priority {pod.priority}{since}"
    if len(every) > 1:
        yield f"{len(every)} nodes would do; this one disrupts least (budgets, priorities, number and age of pods)"
        others = sorted((candidate for candidate in every if candidate.node_name != chosen.node_name), key=_pain)
        yield from (_INDENT + _candidate_line(candidate) for candidate in others[:_OTHERS])
        if len(others) > _OTHERS:
            yield f"{_INDENT}and {len(others) - _OTHERS} more"


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
