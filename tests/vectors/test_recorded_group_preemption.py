"""Pod groups that preempt, as kube-scheduler 1.37.1 decides (gate GenericWorkload): kscheduler must decide the same.

Each line of `1.37/group_preemption.jsonl.gz` is a random cluster with a group, in the format of `pod_groups.jsonl.gz`;
the last 70 have topology constraints. They were given to the real scheduler, on client-go's fake API server, four to
six times each. `expect.podGroupOutcomes` lists what came out: the group's first condition; by member its node, or the
message of its condition and the nomination that was written with it (none if the status had it); and `victims`, the
pods that were deleted: those that terminated before are not.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.feature_gates import FeatureGates
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.scenario import GroupScenario, read_source
from tests.explain.as_json import outcome_tree

FILE = Path(__file__).parent / "1.37" / "group_preemption.jsonl.gz"
Tree = dict[str, Any]


def recorded() -> Iterator[tuple[GroupScenario, list[Tree]]]:
    """The scenarios with what is expected."""
    with gzip.open(FILE) as file:
        expected = [json.loads(line)["expect"]["podGroupOutcomes"] for line in file]
    for scenario, outcomes in zip(read_source(str(FILE), FeatureGates(version="1.37")), expected, strict=True):
        assert isinstance(scenario, GroupScenario)
        yield scenario, outcomes


LINES = tuple(recorded())


def decided(decision: GroupDecision, expected: Tree) -> Tree:
    """The decision in the shape of a recorded outcome; a nomination only where one was written."""
    pods: Tree = {}
    for member in decision.members:
        name = member.pod.name
        if member.status.is_success and member.record is not None:
            pods[name] = {"node": member.record.node_name}
            continue
        pods[name] = {"message": member.message}
        if "nominatedNodeName" in expected["pods"].get(name, {}):
            pods[name]["nominatedNodeName"] = member.nominated_node_name
    victims = decision.preemption.victims if decision.preemption is not None else ()
    return {
        "condition": outcome_tree(decision)["condition"],
        "pods": pods,
        "victims": sorted(victim.name for victim in victims if not victim.is_terminating),
    }


@pytest.mark.parametrize(("scenario", "outcomes"), LINES, ids=[scenario.id for scenario, _ in LINES])
def test_a_group_preempts_as_recorded(scenario: GroupScenario, outcomes: list[Tree]) -> None:
    decision = decide_group(scenario)
    assert any(decided(decision, outcome) == outcome for outcome in outcomes)


def test_every_kind_of_outcome_is_recorded() -> None:
    kinds = [json.dumps(outcomes) for _, outcomes in LINES]
    assert sum('"victims": []' not in kind for kind in kinds) > 25
    for kind in (
        "ongoing preemption on",
        "the same preemption policy as the pod group's",
        "preemptionPolicy=Never",
        "nominatedNodeName",
    ):
        assert any(kind in each for each in kinds)
