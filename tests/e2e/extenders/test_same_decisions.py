"""kscheduler and kube-scheduler with the same extenders: the same nodes, the same conditions, the same questions.

Each scheduler has the cluster for itself, one after the other; each pod's node follows from what the extender says, so
that chance has no say.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.extenders.stage import Outcome, by_pod, deciding, outcome
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer, Server
from tests.extender_program import Explanation, ExtenderProgram, Tree, extender_program, leaves, prefers

pytestmark = [pytest.mark.real, pytest.mark.followed_kubernetes("kube-scheduler is of its own release")]
NODES = ("node-0", "node-1", "node-2")


def always(tree: Any) -> Explanation:
    return lambda _: tree


FILTERS: dict[str, Explanation] = {
    "only-one": leaves("node-1"),
    "two-are-left": leaves("node-0", "node-2"),
    "none": leaves(reason="no token left"),
    "unresolvable": always({"NodeNames": [], "FailedAndUnresolvableNodes": dict.fromkeys(NODES, "wrong rack")}),
    "both-kinds": always(
        {
            "NodeNames": [],
            "FailedNodes": {"node-0": "busy", "node-1": "busy"},
            "FailedAndUnresolvableNodes": {"node-1": "wrong rack"},
        }
    ),
    "without-a-word": always({"NodeNames": []}),
    "nothing": always({}),
    "tired": always({"Error": "the extender is tired"}),
    "a-stranger": always({"NodeNames": ["elsewhere"]}),
    "in-small-letters": always({"nodenames": ["node-2"], "failednodes": {"node-0": "busy"}}),
}
SCORES: dict[str, Explanation] = {
    "two-are-left": prefers("node-2"),
    "fourth": prefers("node-0"),
    "scores-a-stranger": always([{"Host": "elsewhere", "Score": 10}, {"Host": "node-1", "Score": 10}]),
}
PODS = (*FILTERS, "fourth", "scores-a-stranger")


@pytest.fixture(autouse=True)
def _on_the_real_one(server: Server) -> None:
    if not isinstance(server, RealServer):
        pytest.skip("kube-scheduler is compared on the real API server")


def is_decided(scenario: Scenario, name: str) -> bool:
    return any(outcome(scenario, name))


def decisions(scenario: Scenario, program: str, extender: Tree, folder: Path) -> dict[str, Outcome]:
    """What becomes of each pod, one after the other."""
    found = {}
    with deciding(scenario, program, [extender], folder):
        for name in PODS:
            scenario.add_pod(name)
            scenario.wait(f"an outcome of {name}", partial(is_decided, scenario, name))
            found[name] = outcome(scenario, name)
            scenario.delete_pod(name)
    return found


def queries(program: ExtenderProgram) -> list[Any]:
    """The first question of each verb about each pod, without what differs from run to run."""
    found: dict[tuple[str, str], Any] = {}
    for verb, tree in program.queried:
        names = tree["NodeNames"] if tree["NodeNames"] is not None else _names(tree["Nodes"])
        found.setdefault((verb, tree["Pod"]["metadata"]["name"]), (set(tree), sorted(names)))
    return sorted(found.items())


def without_address(found: Outcome, url: str) -> Outcome:
    node, reason, message = found
    return node, reason, message.replace(url, "URL")


def _names(nodes: Tree) -> list[str]:
    return [node["metadata"]["name"] for node in nodes["items"]]


@pytest.mark.usefixtures("only_kscheduler")
@pytest.mark.parametrize("knows_nodes", [True, False], ids=["names", "whole nodes"])
def test_filter_and_prioritize(scenario: Scenario, tmp_path: Path, knows_nodes: bool) -> None:
    for name in NODES:
        scenario.add_node(name)
    found, queried = {}, {}
    for program in ("kube-scheduler", "kscheduler"):
        with extender_program({"filter": by_pod(FILTERS), "prioritize": by_pod(SCORES)}) as extender:
            settings = extender.settings(nodeCacheCapable=knows_nodes, weight=5)
            settings["urlPrefix"] = extender.url
            outcomes = decisions(scenario, program, settings, tmp_path / program)
            found[program] = {name: without_address(each, extender.url) for name, each in outcomes.items()}
            queried[program] = queries(extender)
    assert found["kscheduler"] == found["kube-scheduler"]
    assert queried["kscheduler"] == queried["kube-scheduler"]
    assert {node for node, _, _ in found["kscheduler"].values()} == {"", *NODES}


@pytest.mark.usefixtures("only_kscheduler")
@pytest.mark.parametrize("is_ignorable", [False, True], ids=["needed", "ignorable"])
def test_an_extender_that_answers_500(scenario: Scenario, tmp_path: Path, is_ignorable: bool) -> None:
    scenario.add_node("node-0")
    found = {}
    for program in ("kube-scheduler", "kscheduler"):
        with extender_program({"filter": leaves()}) as extender:
            extender.status = 500
            with deciding(scenario, program, [extender.settings(ignorable=is_ignorable)], tmp_path / program):
                scenario.add_pod("pod")
                scenario.wait("an outcome", partial(is_decided, scenario, "pod"))
                found[program] = without_address(outcome(scenario, "pod"), extender.url)
                scenario.delete_pod("pod")
    assert found["kscheduler"] == found["kube-scheduler"]


@pytest.mark.usefixtures("only_kscheduler")
def test_an_extender_chooses_subject_to_evict(scenario: Scenario, tmp_path: Path) -> None:
    """The plugins would take the node with one victim; the extender leaves the one with two."""

    def only_node_1(tree: Tree) -> Tree:
        found = tree["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: victims for name, victims in found.items() if name == "node-1"}}

    for name in ("node-0", "node-1"):
        scenario.add_node(name, cpu="2")
    found, queried = {}, {}
    for program in ("kube-scheduler", "kscheduler"):
        with (
            extender_program({"preempt": only_node_1}) as extender,
            deciding(scenario, program, [extender.settings(nodeCacheCapable=True)], tmp_path / program),
        ):
            scenario.add_pod("big", cpu="2", nodeName="node-0")
            scenario.add_pod("small-0", cpu="1", nodeName="node-1")
            scenario.add_pod("small-1", cpu="1", nodeName="node-1")
            scenario.add_pod("high", cpu="2", priorityClassName="system-node-critical")
            scenario.wait_bound("high")
            found[program] = scenario.node_of("high"), sorted(pod["metadata"]["name"] for pod in scenario.pods())
            (_, tree), *_ = extender.queried
            victims = tree["NodeNameToMetaVictims"]
            queried[program] = {name: len(each["Pods"]) for name, each in victims.items()}, tree["NodeNameToVictims"]
            for name in ("big", "high"):
                scenario.delete_pod(name)
    assert found["kscheduler"] == found["kube-scheduler"] == ("node-1", ["big", "high"])
    assert queried["kscheduler"] == queried["kube-scheduler"] == ({"node-0": 1, "node-1": 2}, None)
