"""Each suggestion, applied to the JSON, gives the pod a node by the specification; none is missed, none is too large.

Without Hypothesis: `python -m tests.specification.suggestions.test_suggestions_equal_specification COUNT SEED`.
"""

import json
import sys

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import default_configuration
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.all_kinds import KINDS
from kscheduler.explain.suggestions.suggestion_rules import suggested
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from tests.builders import Tree
from tests.explain.as_json import suggestion_trees
from tests.explain.suggestions.applied import applied, does_harm
from tests.specification import cases
from tests.specification.suggestions.brute_force import (
    CORDON,
    of_others,
    of_the_pod,
    pairs_of_the_pod,
    requesting,
    subject_of,
)
from tests.specification.suggestions.judge import fitting
from tests.specification.suggestions.worlds import random_world

_VERSIONS = [
    default_configuration(DEFAULT_SCHEDULER_NAME, FeatureGates(version=version)) for version in ("1.36", "1.37")
]
_FAR = {kind.kind for kind in KINDS if kind.is_far}
_BEFORE = {"uncordon", "deletePods", "addNode"}


def suggestions_of(scenario: Tree) -> list[Tree] | None:
    """As `-o json` prints them; `None` for a pod that has a node. Half of the scenarios are about Kubernetes 1.37."""
    built_in = _VERSIONS[int(scenario["id"]) % 2]
    decision = decide(parse_scenario(json.dumps(scenario).encode(), "random:1", built_in))
    found = suggested(decision)
    return None if found is None else suggestion_trees(found, decision.scenario, NO_SITUATION)


def objections(scenario: Tree, found: list[Tree]) -> list[str]:
    """What is wrong with the suggestions; empty if nothing is."""
    wrong = [problem for suggestion in found for problem in _held(scenario, suggestion)]
    counts = [len(suggestion["steps"]) for suggestion in found if not does_harm(suggestion)]
    if counts != sorted(counts):
        wrong.append(f"pairs before single changes: {counts}")
    return [*wrong, *_too_early(scenario, found), *_missed(scenario, found)]


def _too_early(scenario: Tree, found: list[Tree]) -> list[str]:
    """To tolerate a cordon comes after all single changes that end it, make room without harm or add a node.

    Not for a pod that tolerates its key already, with another value or effect: it is meant to be there.
    """
    if any(each.get("key") == CORDON for each in scenario["pod"]["spec"].get("tolerations") or ()):
        return []
    alone = [each for each in found if len(each["steps"]) == 1 and not does_harm(each)]
    names = [subject_of(each["kind"], each["steps"][0]["facts"], each["changes"]) for each in alone]
    tolerated = ("toleration", f"{CORDON}=:NoSchedule")
    behind = names[names.index(tolerated) :] if tolerated in names else ()
    return [f"{kind} {subject} after the cordon is tolerated" for kind, subject in behind if kind in _BEFORE]


def _held(scenario: Tree, suggestion: Tree) -> list[str]:
    count = len(fitting(applied(scenario, suggestion)))
    if not count or count != suggestion["nodes"]:
        return [f"{suggestion['text']}: {count} nodes instead of {suggestion['nodes']}"]
    facts = suggestion["steps"][0]["facts"]
    if suggestion["kind"] == "request":
        more = requesting(scenario, facts["resource"], facts["to"] + 1)
        return [f"{suggestion['text']}: one more fits, too"] if fitting(more) else []
    if suggestion["kind"] == "maxSkew":
        less = applied(scenario, suggestion)
        less["pod"]["spec"]["topologySpreadConstraints"][facts["constraint"]]["maxSkew"] -= 1
        return [f"{suggestion['text']}: less would do"] if fitting(less) else []
    return []


def _missed(scenario: Tree, found: list[Tree]) -> list[str]:
    alone = [suggestion for suggestion in found if len(suggestion["steps"]) == 1]
    shown = {subject_of(each["kind"], each["steps"][0]["facts"], each["changes"]) for each in alone}
    singles = [change for change in (*of_the_pod(scenario), *of_others(scenario)) if fitting(change[2])]
    wrong = [f"missed: {kind} {subject}" for kind, subject, _ in singles if not _is_shown(kind, subject, shown)]
    if not singles or all(kind in _FAR for kind, _, _ in singles):
        pairs = [name for name, after in pairs_of_the_pod(scenario) if fitting(after)]
        if pairs and not any(len(suggestion["steps"]) > 1 for suggestion in found if suggestion not in alone):
            wrong += [] if any(each["kind"] not in _FAR for each in alone) else [f"missed the pair: {pairs[0]}"]
    return wrong


def _is_shown(kind: str, subject: str, shown: set[tuple[str, str]]) -> bool:
    """All of the node affinity goes only where no single requirement would be enough."""
    if (kind, subject) == ("nodeAffinity", ""):
        return any(each == kind for each, _ in shown)
    return (kind, subject) in shown


@cases.examples("suggestions")
@given(st.integers(0, 2**32))
def test_suggestions_hold_by_the_specification_and_none_is_missed(seed: int) -> None:
    scenario = random_world(seed)
    found = suggestions_of(scenario)
    if found is None:
        assert fitting(scenario)
        return
    assert objections(scenario, found) == []
    cases.judged("suggestions")


def main(arguments: list[str]) -> int:
    """Try many; print the objections."""
    count, seed = int(arguments[0]), int(arguments[1])
    queried = shown = wrong = 0
    for number in range(seed, seed + count):
        scenario = random_world(number)
        found = suggestions_of(scenario)
        queried += found is not None
        shown += len(found or ())
        problems = [] if found is None else objections(scenario, found)
        wrong += bool(problems)
        for problem in problems:
            sys.stdout.write(f"{number} {problem}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{queried} pods without a node, {shown} suggestions, {wrong} pods with an objection\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
