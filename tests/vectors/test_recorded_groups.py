"""Pod groups as kube-scheduler 1.37.1 and 1.38 place them (gate GenericWorkload): kscheduler must decide the same.

Each line of `1.37/pod_groups.jsonl.gz` (and of 1.38's) has `podGroup` in place of `pod`, its own `gates`,
`objects.podgroups` and the members among `objects.pods`. `expect.podGroupOutcomes` lists outcomes that were seen in a
number of runs; an answer is right if it is one of them. `kscheduler explain --from FILE -o json --emulated-version
1.37` prints its outcome as `podGroupOutcome`: `preEnqueue` by member if any may not enter the queue, else the group's
`condition` and `pods`, by member the node, or code and message.

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

VERSIONS = ("1.37", "1.38")
Tree = dict[str, Any]


def recorded(version: str) -> Iterator[tuple[GroupScenario, list[Tree]]]:
    """The scenarios with what is expected."""
    path = Path(__file__).parent / version / "pod_groups.jsonl.gz"
    with gzip.open(path) as file:
        expected = [json.loads(line)["expect"]["podGroupOutcomes"] for line in file]
    source = read_source(str(path), FeatureGates(version=version))
    scenarios = [scenario for scenario in source if isinstance(scenario, GroupScenario)]
    yield from zip(scenarios, expected, strict=True)


LINES = {version: tuple(recorded(version)) for version in VERSIONS}


@pytest.mark.parametrize(
    ("scenario", "outcomes"),
    [line for version in VERSIONS for line in LINES[version]],
    ids=[f"{version}-{scenario.id}" for version in VERSIONS for scenario, _ in LINES[version]],
)
def test_a_group_is_placed_as_recorded(scenario: GroupScenario, outcomes: list[Tree]) -> None:
    outcome = outcome_tree(decide_group(scenario))
    assert outcome in outcomes


@pytest.mark.parametrize(("version", "error"), [("1.37", '"SchedulerError"'), ("1.38", '"PodGroupError"')])
def test_every_kind_of_outcome_is_recorded(version: str, error: str) -> None:
    kinds = [json.dumps(outcomes) for _, outcomes in LINES[version]]
    assert len(kinds) == 60
    for kind in ('"Scheduled"', '"Unschedulable"', error, '"preEnqueue"', "GangScheduling"):
        assert any(kind in each for each in kinds)


def test_the_printed_object_holds_the_outcome_and_the_keys_of_all_decisions() -> None:
    scenario, outcomes = LINES["1.37"][0]
    tree = group_tree(decide_group(scenario))
    assert tree["podGroupOutcome"] in outcomes
    assert tree["podGroup"] == "default/gang"
    assert tree["error"] is None
    assert tree["preEnqueue"] is None
