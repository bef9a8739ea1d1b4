"""Suggestions for programs: each with what to change, to apply it and ask again."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kscheduler.explain.answer import ChangeAnswer, StepAnswer, SuggestionAnswer
from kscheduler.explain.situation import PodState, Situation
from kscheduler.explain.suggestions.as_lines import suggestion_text
from kscheduler.explain.suggestions.commands import command_note, command_of
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.scenario import Scenario

Tree = dict[str, Any]


def suggestion_answer(suggestion: Suggestion, scenario: Scenario, situation: Situation) -> SuggestionAnswer:
    """What programs get of it."""
    of_pod = suggestion, scenario.pod, scenario.objects, situation
    return SuggestionAnswer(
        kind="+".join(step.facts.kind for step in suggestion.steps),
        text=suggestion_text(suggestion, is_new=situation.pod_state is PodState.NEW),
        nodes=suggestion.nodes,
        command=command_of(*of_pod),
        command_note=command_note(*of_pod),
        changes=msgspec.convert([change.tree for change in suggestion.changes], tuple[ChangeAnswer, ...]),
        steps=tuple(StepAnswer(step.facts.kind, msgspec.to_builtins(step.facts)) for step in suggestion.steps),
    )


def suggestion_answers(
    suggestions: Iterable[Suggestion], scenario: Scenario, situation: Situation
) -> tuple[SuggestionAnswer, ...]:
    """The smallest first."""
    return tuple(suggestion_answer(each, scenario, situation) for each in suggestions)


def suggestion_trees(suggestions: Iterable[Suggestion], scenario: Scenario, situation: Situation) -> list[Tree]:
    """The same as plain dicts and lists."""
    return [msgspec.to_builtins(each) for each in suggestion_answers(suggestions, scenario, situation)]
