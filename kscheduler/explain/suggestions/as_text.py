"""Suggestions for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.explain.situation import PodState, Situation
from kscheduler.explain.suggestions.commands import command_note, command_of
from kscheduler.explain.suggestions.missing_claims import missing_claims
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.scenario import Scenario
from kscheduler.text import BOLD, DIM, INDENT, Style, nodes, printable, wrapped

_MOST: Final = 5


def suggestion_text(suggestion: Suggestion, *, is_new: bool = False) -> str:
    """What somebody could do, in one line, without the number of nodes. `is_new`: the pod does not exist yet."""
    texts = [step.facts.text(step) for step in suggestion.steps]
    of_template = (step.facts for step in suggestion.steps if step.facts.claim_template)
    claims = dict.fromkeys(claim for facts in of_template for claim in facts.new_claims)
    if claims and not is_new:
        texts.append(f"recreate the pod: it has claim {', '.join(claims)} from the old version of the template")
    return ", and ".join(texts)


def suggestions_text(
    suggestions: Sequence[Suggestion], scenario: Scenario, situation: Situation, style: Style, left_off: str = ""
) -> str:
    """What would make the pod fit, the smallest first. A command is never broken into lines.

    `left_off`: why there may be others.
    """
    return "\n".join(_lines(suggestions, scenario, situation, style, left_off))


def _lines(
    suggestions: Sequence[Suggestion], scenario: Scenario, situation: Situation, style: Style, left_off: str
) -> Iterator[str]:
    yield ""
    if left_off:
        yield from wrapped(f"{INDENT}{printable(left_off)}", style.width)
    if not suggestions:
        nothing = [] if left_off else ["none of the changes that were tried makes it fit, alone or in pairs"]
        for line in list(missing_claims(scenario)) or nothing:
            yield from wrapped(f"{INDENT}{printable(line)}", style.width)
        return
    yield f"{INDENT}{style.paint('changes that would make it fit', BOLD)}, the smallest first; each was tried:"
    alike = _of_each_kind(suggestions)
    shown = [each[0] for each in alike][:_MOST]
    for number, (suggestion, *others) in enumerate(alike[:_MOST], 1):
        effect = f"({nodes(suggestion.nodes)}{_or_others(len(others))})"
        text = suggestion_text(suggestion, is_new=situation.pod_state is PodState.NEW)
        yield from wrapped(f"{INDENT}{number}. {printable(text)} {effect}", style.width)
        command = command_of(suggestion, scenario.pod, scenario.objects, situation)
        if command:
            yield f"{INDENT}   {style.paint(printable(command), DIM)}"
        note = command_note(suggestion, scenario.pod, scenario.objects, situation)
        yield from wrapped(f"{INDENT}   ({printable(note)})", style.width) if note else ()
    if len(suggestions) > len(shown):
        yield f"{INDENT}   and {len(suggestions) - len(shown)} more with -o json"


def _of_each_kind(suggestions: Sequence[Suggestion]) -> list[list[Suggestion]]:
    """Each change of the pod; of nodes to change, and of pods to delete, the best with those that are like it."""
    found: dict[object, list[Suggestion]] = {}
    for suggestion in suggestions:
        kinds = tuple(step.facts.kind for step in suggestion.steps), any(step.comes_last for step in suggestion.steps)
        found.setdefault(id(suggestion) if suggestion.is_of_the_pod else kinds, []).append(suggestion)
    return list(found.values())


def _or_others(count: int) -> str:
    """Of the same kind."""
    if not count:
        return ""
    return f"; {'1 other' if count == 1 else f'{count} others'} would also help"
