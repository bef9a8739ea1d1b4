"""The explanation of a pod, made ready for a page."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from kscheduler.answers.suggestions import SuggestionAnswer

if TYPE_CHECKING:  # the modules of answers are read with the first of them, not at the start
    from kscheduler.explain.answer import (
        NodeVerdictAnswer,
        PodExplanation,
        Points,
        PreemptionOutcome,
        StatusAnswer,
    )
    from kscheduler.explain.group_answer import GroupPreemption, MemberOutcome, PodGroupExplanation

BEST_NODES: Final = 5
EXAMPLES: Final = 4
MAX_REJECTIONS: Final = 40
# Groups of nodes that are shown for a plugin, as `kscheduler explain` does.
MAX_DETAILS: Final = 6
_VERDICTS: Final = {
    "Gated": "It is gated.",
    "Error": "It cannot be evaluated.",
    "Finished": "It has finished; no scheduler handles it any more.",
    "Terminating": "It is being deleted; no scheduler handles it any more.",
}


class RejectionRow(msgspec.Struct, frozen=True):
    """Nodes that one plugin rejected for the same reason."""

    plugin: str
    reason: str
    count: int
    examples: tuple[str, ...]


class DetailRow(msgspec.Struct, frozen=True):
    """What exactly was wrong with nodes that a plugin rejected."""

    plugin: str
    text: str
    """As `kscheduler explain` says it."""
    count: int
    """How many nodes; 0: the pod was rejected for all nodes at once."""
    examples: tuple[str, ...]


class HelpfulChange(msgspec.Struct, frozen=True):
    """A change that would help, and others of its kind that would also help."""

    best: SuggestionAnswer
    others: tuple[SuggestionAnswer, ...] = ()


class ShownExplanation(msgspec.Struct, frozen=True):
    """What the page shows of it."""

    verdict: str
    message: str
    nodes: int
    feasible: int
    chosen: str
    best_nodes: tuple[str, ...]
    points: tuple[tuple[str, tuple[int, ...]], ...]
    """By plugin, in the order of the best nodes; the sum last, as `total`."""
    rejections: tuple[RejectionRow, ...]
    preemption: str
    victims: tuple[str, ...]
    """Whom it would evict: keys of pods, or names of those in the pod's own answer."""
    suggestions: tuple[HelpfulChange, ...]
    looked: bool
    """Whether suggestions were looked for."""
    notes: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """What does not exist and the pod waits for, a sentence each."""
    details: tuple[DetailRow, ...] = ()
    left_off: int = 0
    """Details that are not shown."""


def shown_explanation(answer: "PodExplanation | PodGroupExplanation", pod_name: str) -> ShownExplanation:
    """What a page shows of an answer. `pod_name`: of whom, among the members of a group."""
    from kscheduler.explain.group_answer import PodGroupExplanation

    return _of_group(answer, pod_name) if isinstance(answer, PodGroupExplanation) else _of_pod(answer)


def _of_pod(answer: "PodExplanation") -> ShownExplanation:
    rejected, feasible = answer.filter or {}, answer.feasible or ()
    scores = answer.scores or {}
    best = sorted(scores, key=lambda name: (-scores[name]["_total"], name))[:BEST_NODES]
    chosen = answer.best or ()
    gate = answer.pre_enqueue or answer.pre_filter
    preemption, victims = _preemption(answer.preemption)
    details = [*_details(answer)]
    shown = [each for each in details if each is not None]
    return ShownExplanation(
        verdict=_VERDICTS.get(answer.outcome.value, "" if rejected or feasible else "No node was evaluated."),
        message=answer.error or answer.message or ("" if gate is None else ", ".join(gate.reasons)),
        nodes=len(rejected) + len(feasible),
        feasible=len(feasible),
        chosen=chosen[0] if len(chosen) == 1 else "",
        best_nodes=tuple(best or feasible[:BEST_NODES]),
        points=_points(scores, best),
        rejections=_rejections(rejected),
        preemption=preemption,
        victims=victims,
        suggestions=_helping(answer.suggestions or ()),
        looked=answer.suggestions is not None,
        notes=answer.notes,
        missing=answer.missing,
        details=tuple(shown),
        left_off=len(details) - len(shown),
    )


def _helping(suggestions: Sequence[SuggestionAnswer]) -> tuple[HelpfulChange, ...]:
    """Each change of what the pod asks for; of nodes to change, and of pods to delete, the best with its like."""
    from kscheduler.explain.suggestions.all_kinds import KINDS  # not at the start: nobody has asked yet

    of_the_pod = {kind.kind for kind in KINDS if kind.is_of_the_pod}

    def alike(numbered: tuple[int, SuggestionAnswer]) -> object:
        number, found = numbered
        if of_the_pod.issuperset(found.kind.split("+")):
            return number
        return found.kind, [bool(step.facts.get("comeAgain")) for step in found.steps]

    runs = ([found for _, found in run] for _, run in groupby(enumerate(suggestions), alike))
    return tuple(HelpfulChange(best, tuple(others)) for best, *others in runs)


def _details(answer: "PodExplanation") -> Iterator[DetailRow | None]:
    """By plugin, in the order in which they ran; `None` for each that would be too much."""
    of_all = answer.pre_filter_details or ()
    by_plugin = [(answer.pre_filter.plugin if answer.pre_filter is not None else "", of_all)] if of_all else []
    by_plugin += [(each.plugin, each.details) for each in answer.rejections or ()]
    for plugin, details in by_plugin:
        by_text: dict[str, list[str]] = {}  # groups of nodes with one sentence are one row
        for each in details:
            beside = f"beside {', '.join(each.beside[:EXAMPLES])} (nominated there): " if each.beside else ""
            by_text.setdefault(f"{beside}{each.text}", []).extend(each.nodes)
        for number, (text, nodes) in enumerate(by_text.items()):
            row = DetailRow(plugin, text, len(nodes), tuple(nodes[:EXAMPLES]))
            yield row if number < MAX_DETAILS else None


def _of_group(answer: "PodGroupExplanation", pod_name: str) -> ShownExplanation:
    """Of a pod that is decided about together with its group: what becomes of both."""
    preemption, victims = _group_preemption(answer.preemption)
    members = answer.outcome.pods if answer.outcome is not None else UNSET
    member = members.get(pod_name) if members else None
    node, own = ("", "") if member is None else (member.node or "", member.message or "")
    verdict, message = _group_verdict(answer, member)
    return ShownExplanation(
        verdict=verdict,
        message=f"{message}\n{own}".strip() if own != message else message,
        nodes=0,
        feasible=0,
        chosen=node,
        best_nodes=(),
        points=(),
        rejections=(),
        preemption=preemption,
        victims=victims,
        suggestions=_helping(answer.suggestions or ()),
        looked=answer.suggestions is not None,
        notes=answer.notes,
    )


def _group_verdict(answer: "PodGroupExplanation", member: "MemberOutcome | None") -> tuple[str, str]:
    """A sentence, and the text that says why."""
    name, outcome = f"pod group {answer.pod_group}", answer.outcome
    if answer.error:
        return f"Its {name} cannot be decided.", answer.error
    if outcome is not None and outcome.pre_enqueue:
        why = _held_back(outcome.pre_enqueue)
        return f"Its {name} was not tried: some of its members may not enter the queue.", why
    if outcome is None or not outcome.condition:
        return f"Its {name} was not tried.", ""
    condition = outcome.condition
    if condition.status == "True":
        own = "and it as well" if member is not None and member.node is not UNSET else "but not this pod"
        return f"Its {name} would get its nodes, {own}.", condition.message
    return f"It is decided with its {name}, which would not get its nodes.", condition.message


def _held_back(gates: "Mapping[str, StatusAnswer | None]") -> str:
    """By reason, which members it keeps out: `m-0, m-1: waiting for scheduling gates: [a] (SchedulingGates)`."""
    held: dict[str, list[str]] = {}
    for pod, gate in gates.items():
        if gate is not None:
            held.setdefault(f"{', '.join(gate.reasons)} ({gate.plugin})", []).append(pod)
    reported = [f"{_named(pods)}: {why}" for why, pods in held.items()]
    more = f"; and {len(reported) - EXAMPLES} more reasons" if len(reported) > EXAMPLES else ""
    return "; ".join(reported[:EXAMPLES]) + more


def _named(pods: Sequence[str]) -> str:
    more = f" and {len(pods) - EXAMPLES} more" if len(pods) > EXAMPLES else ""
    return ", ".join(pods[:EXAMPLES]) + more


def _group_preemption(found: "GroupPreemption | None") -> tuple[str, tuple[str, ...]]:
    """A sentence without its end, and whom it is about."""
    if found is None or not found.victims:
        return "", ()
    victims = tuple(f"{each.namespace}/{each.name}" for each in found.victims)
    return "Preemption would make room for the group by evicting", victims


def _points(scores: "Points", best: list[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    plugins = [name for name in (scores[best[0]] if best else ()) if name != "_total"]
    rows = [(name, tuple(scores[node].get(name, 0) for node in best)) for name in plugins]
    total = [("total", tuple(scores[node]["_total"] for node in best))] if best else []
    return (*rows, *total)


def _rejections(rejected: "Mapping[str, NodeVerdictAnswer]") -> tuple[RejectionRow, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for node, verdict in rejected.items():
        found.setdefault((verdict.plugin, ", ".join(verdict.reasons)), []).append(node)
    rows = [
        RejectionRow(plugin, reason, len(nodes), tuple(nodes[:EXAMPLES])) for (plugin, reason), nodes in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.plugin))[:MAX_REJECTIONS])


def _preemption(found: "PreemptionOutcome | None") -> tuple[str, tuple[str, ...]]:
    """As of a group."""
    if found is None or not found.nominated_node:
        return "", ()
    return f"Preemption would make room on {found.nominated_node} by evicting", found.victims
