"""Answers as JSON has them, for tests that read keys."""

from typing import Any

import msgspec

from kscheduler.explain.group_explanation import group_explanation, group_outcome
from kscheduler.explain.pod_explanation import pod_explanation
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.decide_group import GroupDecision

Tree = dict[str, Any]


def as_json(answer: msgspec.Struct) -> Tree:
    tree: Tree = msgspec.json.decode(msgspec.json.encode(answer))
    return tree


def decision_tree(decision: Decision, **fields: Any) -> Tree:
    return as_json(pod_explanation(decision, **fields))


def group_tree(decision: GroupDecision) -> Tree:
    return as_json(group_explanation(decision))


def outcome_tree(decision: GroupDecision) -> Tree:
    return as_json(group_outcome(decision))
