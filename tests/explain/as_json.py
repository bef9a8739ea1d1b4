"""Answers as JSON has them, for tests that read keys."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kscheduler.explain.group_explanation import group_explanation, group_outcome
from kscheduler.explain.pod_explanation import pod_explanation
from kscheduler.explain.situation import Situation
from kscheduler.explain.suggestions.as_answer import suggestion_answers
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scenario.scenario import Scenario

Tree = dict[str, Any]


def as_json(answer: msgspec.Struct) -> Tree:
    tree: Tree = msgspec.json.decode(msgspec.json.encode(answer))
    return tree


def decision_tree(decision: Decision, **fields: Any) -> Tree:
    return as_json(pod_explanation(decision, **fields))


def group_tree(decision: GroupDecision) -> Tree:
    return as_json(group_explanation(decision))


def suggestion_trees(suggestions: Iterable[Suggestion], scenario: Scenario, situation: Situation) -> list[Tree]:
    return [msgspec.to_builtins(each) for each in suggestion_answers(suggestions, scenario, situation)]


def outcome_tree(decision: GroupDecision) -> Tree:
    return as_json(group_outcome(decision))
