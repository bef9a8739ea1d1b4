"""Scenarios with nominated pods: whose nominations count, and what cannot be read."""

from typing import Any

import pytest

from kscheduler.scenario.decide import decide
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.scenario import parse_scenario
from tests.explain.as_json import decision_tree
from tests.explain.scenarios import Tree, node_tree, pod_tree, scenario_line

NODES = [node_tree("big", cpu="8"), node_tree("small", cpu="2")]


def nominated(node: str, name: str = "expected", **fields: Any) -> Tree:
    return {**pod_tree(name, **fields), "status": {"nominatedNodeName": node}}


def decided(pod: Tree, *pods: Tree) -> Tree:
    return decision_tree(decide(parse_scenario(scenario_line(pod, nodes=NODES, pods=pods), "f:1")))


def test_a_pod_that_is_expected_on_a_node_takes_its_room() -> None:
    tree = decided(pod_tree(cpu="2"), nominated("big", cpu="7"))
    assert tree["feasible"] == ["small"]
    assert tree["filter"]["big"]["reasons"] == ["Insufficient cpu"]


@pytest.mark.parametrize(
    "other",
    [
        nominated("big", cpu="7", schedulerName="another"),
        nominated("big", cpu="7", schedulingGates=[{"name": "g"}]),
        nominated("gone", cpu="7"),
        nominated("big", name="web", cpu="7"),
        {**nominated("big", cpu="7"), "status": {"nominatedNodeName": "big", "phase": "Failed"}},
        pod_tree("pending", cpu="7"),
    ],
    ids=["another scheduler's", "gated", "to a node that is gone", "itself", "ended", "nominated nowhere"],
)
def test_who_has_no_claim(other: Tree) -> None:
    assert decided(pod_tree(cpu="2"), other)["feasible"] == ["big", "small"]


def test_the_judged_pods_own_nomination_is_tried_first_and_scored() -> None:
    tree = decided({**pod_tree(), "status": {"nominatedNodeName": "small"}})
    assert (tree["feasible"], tree["best"], tree["filter"]) == (["small"], ["small"], {})
    assert list(tree["scores"]) == ["small"]


def test_an_unreadable_nominated_pod_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"^f:1: objects\.pods\[0\]\.spec.*requests\.cpu: .*many.*expected"):
        decided(pod_tree(), nominated("big", cpu="many"))
