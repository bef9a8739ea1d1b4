"""Suggestions for programs: each with what to change, to apply it and ask again."""

from collections.abc import Iterable

import msgspec

from kscheduler.answers.suggestions import ChangeAnswer, CommonSuggestion, StepAnswer, SuggestionAnswer
from kscheduler.config.loader import LoadedConfig
from kscheduler.explain.situation import NO_SITUATION, PodState, Situation
from kscheduler.explain.suggestions.as_text import suggestion_text
from kscheduler.explain.suggestions.commands import command_note, command_of
from kscheduler.explain.suggestions.for_many import CommonChange
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.scenario import ClusterObjects, Scenario


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


def common_suggestion(
    best: CommonChange, looked: int, objects: ClusterObjects, config: LoadedConfig
) -> CommonSuggestion:
    """The change for most of the pods that are alike. `looked`: among how many pods these were counted."""
    suggestion = suggestion_answer(best.suggestion, Scenario(objects, best.example.pod, config), NO_SITUATION)
    return CommonSuggestion.of(
        best.example.key, suggestion, frees=best.frees, tried=best.tried, alike=best.alike, looked=looked
    )
