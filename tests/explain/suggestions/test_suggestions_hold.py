"""Every suggestion, applied to the JSON, gives the pod a node; and no single change is missed.

`python -m tests.explain.suggestions.test_suggestions_hold COUNT SEED` tries many more.
"""

import copy
import random
import sys
from typing import Any

import pytest

from kscheduler.api.quantity import milli_value
from kscheduler.api.quantity import value as whole_value
from kscheduler.explain.suggestions.suggestion_rules import suggested
from tests.effort import IS_LONG, example_count
from tests.explain.suggestions.applied import applied, does_harm, suggestions_for
from tests.explain.suggestions.random_scenarios import Tree, decided, feasible, random_scenario, single_changes


def objections(scenario: Tree) -> list[str]:
    """What is wrong with the suggestions for a pod without a node; empty for any other."""
    found = suggestions_for(scenario)
    if found is None:
        return []
    wrong = [problem for suggestion in found for problem in _held(scenario, suggestion)]
    sizes = [len(suggestion["steps"]) for suggestion in found if not does_harm(suggestion)]
    if sizes != sorted(sizes):
        wrong.append(f"pairs before single changes: {sizes}")
    return wrong + _missed(scenario, found)


def _held(scenario: Tree, suggestion: Tree) -> list[str]:
    fits = feasible(applied(scenario, suggestion))
    if not fits or fits != suggestion["nodes"]:
        return [f"{suggestion['text']}: {fits} nodes instead of {suggestion['nodes']}"]
    if [step["kind"] for step in suggestion["steps"]] == ["request"]:
        return _not_the_largest(scenario, suggestion)
    if suggestion["kind"] == "maxSkew":
        less = copy.deepcopy(suggestion)
        less["changes"][0]["patch"][0]["value"] -= 1
        return [f"{suggestion['text']}: less would do"] if feasible(applied(scenario, less)) else []
    return []


def _not_the_largest(scenario: Tree, suggestion: Tree) -> list[str]:
    """One unit more must not fit."""
    facts = suggestion["steps"][0]["facts"]
    more = applied(scenario, suggestion)
    spec = more["pod"]["spec"]
    resource, amount = facts["resource"], facts["to"] + 1
    queried = milli_value if resource == "cpu" else whole_value
    (container,) = spec["containers"]
    if "initContainers" not in spec and queried(container["resources"]["requests"][resource]) != facts["to"]:
        return [f"{suggestion['text']}: the patch says {container['resources']['requests'][resource]}"]
    value = f"{amount}m" if resource == "cpu" else str(amount)
    spec["containers"][0]["resources"]["requests"][resource] = value
    return [f"{suggestion['text']}: {value} fits, too"] if feasible(more) else []


def _missed(scenario: Tree, found: list[Tree]) -> list[str]:
    alone = [suggestion["steps"][0] for suggestion in found if len(suggestion["steps"]) == 1]
    shown = {(step["kind"], _subject(step)) for step in alone}
    wrong = []
    for kind, subject, after in single_changes(scenario):
        if not feasible(after):
            continue
        expected = {(kind, subject)}
        if kind == "spread":
            expected = {("maxSkew", subject), ("topologySpreadConstraint", subject)}
        if not expected & shown:
            wrong.append(f"missed: {kind} {subject}")
    return wrong


def _subject(step: Tree) -> str:
    facts = step["facts"]
    match step["kind"]:
        case "request":
            return str(facts["resource"])
        case "toleration":
            return f"{facts['key']}={facts['value']}:{facts['effect']}" if "effect" in facts else str(facts["key"])
        case "nodeSelector":
            return str(facts["key"])
        case "podAffinity" | "podAntiAffinity":
            return str(facts["term"])
        case "maxSkew" | "topologySpreadConstraint":
            return str(facts["constraint"])
    return ""


@pytest.mark.parametrize("seed", range(150 if IS_LONG else example_count(50)))
def test_suggestions_hold_and_none_is_missed(seed: int) -> None:
    assert objections(random_scenario(random.Random(seed))) == []


def test_the_search_changes_nothing() -> None:
    """The cache is as before: the same question has the same answer."""
    for seed in range(15):
        decision = decided(random_scenario(random.Random(seed)))
        first = suggested(decision)
        assert [str(each) for each in suggested(decision) or ()] == [str(each) for each in first or ()]


def main(arguments: list[str]) -> int:
    """Try many; print the objections."""
    count, seed = int(arguments[0]), int(arguments[1])
    queried = wrong = 0
    for number in range(seed, seed + count):
        scenario = random_scenario(random.Random(number))
        problems: list[Any] = objections(scenario)
        queried += suggestions_for(scenario) is not None
        wrong += bool(problems)
        for problem in problems:
            sys.stdout.write(f"{number} {problem}\n")
    sys.stdout.write(f"{queried} pods without a node among {count} scenarios, {wrong} with an objection\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
