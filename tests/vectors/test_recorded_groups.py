"""Pod groups as kube-scheduler 1.37.1 places them (gate GenericWorkload): kscheduler must decide the same.

Each line of `1.37/pod_groups.jsonl.gz` has `podGroup` in place of `pod`, its own `gates`, `objects.podgroups` and the
members among `objects.pods`. `expect.podGroupOutcomes` lists outcomes that were seen in a number of runs; an answer is
right if it is one of them. `kscheduler explain --from FILE -o json --emulated-version 1.37` prints its outcome as
`podGroupOutcome`: `preEnqueue` by member if any may not enter the queue, else the group's `condition` and `pods`, by
member the node, or code and message.

Nodes may tie: then kscheduler visits nodes in kube-scheduler's order (`visiting_ties`), which hardly ever varies there.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.feature_gates import FeatureGates
from kscheduler.scenario.decide_group import decide_group
from kscheduler.scenario.scenario import GroupScenario, read_source
from tests.explain.as_json import group_tree, outcome_tree

FILE = Path(__file__).parent / "1.37" / "pod_groups.jsonl.gz"
GATES = FeatureGates(version="1.37")
Tree = dict[str, Any]


def recorded() -> Iterator[tuple[GroupScenario, list[Tree]]]:
    """The scenarios with what is expected."""
    with gzip.open(FILE) as file:
        expected = [json.loads(line)["expect"]["podGroupOutcomes"] for line in file]
    scenarios = [scenario for scenario in read_source(str(FILE), GATES) if isinstance(scenario, GroupScenario)]
    yield from zip(scenarios, expected, strict=True)


LINES = tuple(recorded())


@pytest.mark.parametrize(("scenario", "outcomes"), LINES, ids=[scenario.id for scenario, _ in LINES])
def test_a_group_is_placed_as_recorded(scenario: GroupScenario, outcomes: list[Tree]) -> None:
    outcome = outcome_tree(decide_group(scenario))
    assert outcome in outcomes


def test_every_kind_of_outcome_is_recorded() -> None:
    kinds = [json.dumps(outcomes) for _, outcomes in LINES]
    assert len(kinds) == 60
    for kind in ('"Scheduled"', '"Unschedulable"', '"SchedulerError"', '"preEnqueue"', "GangScheduling"):
        assert any(kind in each for each in kinds)


def test_the_printed_object_holds_the_outcome_and_the_keys_of_all_decisions() -> None:
    scenario, outcomes = LINES[0]
    tree = group_tree(decide_group(scenario))
    assert tree["podGroupOutcome"] in outcomes
    assert tree["podGroup"] == "default/gang"
    assert tree["error"] is None
    assert tree["preEnqueue"] is None
