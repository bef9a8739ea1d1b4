"""Suggestions for programs: each with what to change, to apply it and ask again."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kscheduler.explain.situation import PodState, Situation
from kscheduler.explain.suggestions.commands import command_note, command_of
from kscheduler.explain.suggestions.in_words import suggestion_text
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.scenario import Scenario

Tree = dict[str, Any]


def suggestion_trees(suggestions: Iterable[Suggestion], scenario: Scenario, situation: Situation) -> list[Tree]:
    """The smallest first."""
    return [_tree(suggestion, scenario, situation) for suggestion in suggestions]


def _tree(suggestion: Suggestion, scenario: Scenario, situation: Situation) -> Tree:
    return {
        "kind": "+".join(step.kind.value for step in suggestion.steps),
        "text": suggestion_text(suggestion, is_new=situation.pod_state is PodState.NEW),
        "nodes": suggestion.nodes,
        "command": command_of(suggestion, scenario.pod, scenario.objects, situation),
        "commandNote": command_note(suggestion, scenario.pod, scenario.objects, situation),
        "changes": [msgspec.to_builtins(change.tree) for change in suggestion.changes],
        "steps": [
            {"kind": step.kind.value, "facts": msgspec.to_builtins(dict(step.facts))} for step in suggestion.steps
        ],
    }
