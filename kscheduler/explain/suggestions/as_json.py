"""Suggestions for programs: each with what to change, to apply it and ask again."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kscheduler.explain.situation import PodState, Situation
from kscheduler.explain.suggestions.as_lines import suggestion_text
from kscheduler.explain.suggestions.commands import command_note, command_of
from kscheduler.explain.suggestions.suggestion import Suggestion, SuggestionKind
from kscheduler.scenario.scenario import Scenario

Tree = dict[str, Any]


class StepAnswer(msgspec.Struct, frozen=True):
    """One thing that is changed."""

    kind: str
    facts: SuggestionKind
    """The numbers and names of the text."""


class SuggestionAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A change after which the pod, or the group, would fit."""

    kind: str
    """The kind of its step; of two steps both kinds, with a plus sign between them."""
    text: str
    """The change in words."""
    nodes: int
    """How many nodes the pod would fit on; of a group, on how many the members would be."""
    command: str
    """A line for a shell that makes the change with kubectl; empty where kubectl cannot."""
    command_note: str
    """What to know before running the command, or why there is none; mostly empty."""
    changes: Sequence[Tree]
    """What to change, one entry per object: a patch (RFC 6902), or `delete`."""
    steps: Sequence[StepAnswer]


def suggestion_answer(suggestion: Suggestion, scenario: Scenario, situation: Situation) -> SuggestionAnswer:
    """What programs get of it."""
    of_pod = suggestion, scenario.pod, scenario.objects, situation
    return SuggestionAnswer(
        kind="+".join(step.facts.kind for step in suggestion.steps),
        text=suggestion_text(suggestion, is_new=situation.pod_state is PodState.NEW),
        nodes=suggestion.nodes,
        command=command_of(*of_pod),
        command_note=command_note(*of_pod),
        changes=[change.tree for change in suggestion.changes],
        steps=[StepAnswer(step.facts.kind, step.facts) for step in suggestion.steps],
    )


def suggestion_trees(suggestions: Iterable[Suggestion], scenario: Scenario, situation: Situation) -> list[Tree]:
    """As plain dicts and lists, the smallest first."""
    return [msgspec.to_builtins(suggestion_answer(each, scenario, situation)) for each in suggestions]
