"""Groups that preempt, and trees of groups, as kube-scheduler 1.38 decides: kscheduler must decide the same.

Each line of `1.38/group_preemption.jsonl.gz` and `1.38/composite_groups.jsonl.gz` is a random cluster with a group, or
with a composite one and all groups below it, some of which contradict each other; topology constraints on any level.
They were given to kube-scheduler's own code, on client-go's fake API server. `expect.podGroupOutcomes` has what came
out, the same in three runs: the first condition of each group by kind and name; by member its node, or the message of
its first condition and the nomination that was written with it (none if the status had it); and `victims`, the pods
that were deleted: those that terminated before are not.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.meta import Condition
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.scenario import GroupScenario, read_source
from kscheduler.scheduling.groups.group_preemption import group_condition

FOLDER = Path(__file__).parent / "1.38"
Tree = dict[str, Any]
Line = tuple[GroupScenario, list[Tree]]


def recorded(family: str) -> Iterator[Line]:
    """The scenarios with what is expected."""
    path = FOLDER / f"{family}.jsonl.gz"
    with gzip.open(path) as file:
        expected = [json.loads(line)["expect"]["podGroupOutcomes"] for line in file]
    for scenario, outcomes in zip(read_source(str(path), FeatureGates(version="1.38")), expected, strict=True):
        assert isinstance(scenario, GroupScenario)
        yield scenario, outcomes


GROUPS = tuple(recorded("group_preemption"))
TREES = tuple(recorded("composite_groups"))


def decided(decision: GroupDecision, expected: Tree) -> Tree:
    """The decision in the shape of a recorded outcome; of composite groups the root's condition alone is decided."""
    assert decision.status is not None
    is_tree = decision.reports_composite
    root = "compositepodgroup/c0" if is_tree else f"podgroup/{decision.scenario.group.partition('/')[2]}"
    conditions = {root: shown(group_condition(decision.status, is_composite=is_tree))}
    conditions |= {f"podgroup/{group.key.name}": shown(group_condition(status)) for group, status in decision.groups}
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
    names = sorted(victim.name for victim in victims if not victim.is_terminating)
    return {"conditions": conditions, "pods": pods, "victims": names}


def shown(condition: Condition) -> Tree:
    return {name: getattr(condition, name) for name in ("type", "status", "reason", "message")}


def without_inner(outcome: Tree) -> Tree:
    inner = {key for key in outcome["conditions"] if key.startswith("composite") and key != "compositepodgroup/c0"}
    conditions = {key: condition for key, condition in outcome["conditions"].items() if key not in inner}
    return {**outcome, "conditions": conditions}


@pytest.mark.parametrize(
    ("scenario", "outcomes"), [*GROUPS, *TREES], ids=[scenario.id for scenario, _ in (*GROUPS, *TREES)]
)
def test_a_group_is_decided_as_recorded(scenario: GroupScenario, outcomes: list[Tree]) -> None:
    decision = decide_group(scenario)
    assert any(decided(decision, outcome) == without_inner(outcome) for outcome in outcomes)


def test_every_kind_of_outcome_is_recorded() -> None:
    groups = [json.dumps(outcomes) for _, outcomes in GROUPS]
    trees = [json.dumps(outcomes) for _, outcomes in TREES]
    for lines in (groups, trees):
        assert sum('"victims": []' not in line for line in lines) > 15
    for text in (
        "ancestor composite pod group",
        "CompositePodGroupError",
        "cannot have basic child",
        "with All disruption mode cannot have child",
        "does not match root workload",
        "same preemption policy",
        "placements are available",
        "nominatedNodeName",
    ):
        assert any(text in line for line in trees), text
