"""`--against NODE`: why not that one."""

import json
from typing import Any

import pytest

from kscheduler.explain.against import against
from kscheduler.explain.answer import Against
from kscheduler.explain.node_text import comparison_text
from kscheduler.explain.situation import NO_SITUATION, PodState, Situation
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from tests.explain.as_json import as_json
from tests.explain.scenarios import Tree, node_tree, pod_tree, scenario_line
from tests.explain.test_command import run

NODES = (node_tree("a"), node_tree("b", cpu="8"), node_tree("full", cpu="1"), node_tree("closed", unschedulable=True))


def compared(node: str, *, pod: Tree | None = None, situation: Situation = NO_SITUATION) -> Against:
    line = scenario_line(pod or pod_tree(cpu="2"), nodes=NODES)
    return against(decide(parse_scenario(line, "test:1")), node, situation)


def test_a_node_with_fewer_points_is_behind_by_plugin() -> None:
    found = compared("a")
    assert (found.chosen, found.status) == ("b", None)
    assert found.behind is not None
    assert found.behind == sum(each.chosen - each.other for each in found.points) > 0
    text = comparison_text(found)
    total = sum(each.chosen for each in found.points)
    assert f"why not a: a with {total - found.behind} points, {found.behind} behind b with {total}" in text
    assert "NodeResourcesFit" in text


def test_a_node_that_was_rejected_says_why() -> None:
    found = compared("full")
    assert found.status is not None
    assert found.status.plugin == "NodeResourcesFit"
    text = comparison_text(found)
    assert "why not full: NodeResourcesFit rejected it: Insufficient cpu" in text
    assert "1 short" in text
    assert "NodeUnschedulable rejected it" in comparison_text(compared("closed"))


def test_a_bound_pod_is_compared_with_the_node_that_it_is_on() -> None:
    bound = Situation(pod_state=PodState.BOUND, node_name="a")
    found = compared("b", situation=bound)
    assert found.chosen == "a"
    assert found.behind is not None
    assert found.behind < 0
    points = sum(each.other for each in found.points)
    said = f"b: decided now, it has {points} points, {-found.behind} more than a, where the pod went earlier"
    assert said in comparison_text(found)
    assert "this is the node that it is on, or would go to" in comparison_text(compared("a", situation=bound))


@pytest.mark.parametrize(("node", "pod", "text"), [
    ("nowhere", None, "there is no node nowhere among the 4"),
    ("close", None, "there is no node close: do you mean closed?"),
    ("a", pod_tree(schedulingGates=[{"name": "x"}]), "the pod was not judged"),
])  # fmt: skip
def test_what_cannot_be_compared_says_so(node: str, pod: Tree | None, text: str) -> None:
    assert text in comparison_text(compared(node, pod=pod))


def test_the_flag(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(scenario_line(pod_tree(cpu="2"), nodes=NODES))
    assert run("--from", str(path), "--against", "a", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["against"] == as_json(compared("a"))
    assert run("--from", str(path), "--against", "full") == 0
    assert "why not full: NodeResourcesFit" in capsys.readouterr().out
