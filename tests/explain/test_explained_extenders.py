"""`explain` names the extenders that have a say, and asks them only if it is told to."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import prepare
from kscheduler.scenario.extenders import decide_with_extenders
from kscheduler.scenario.scenario import parse_scenario
from kscheduler.scheduling.extenders.extender_results import UNASKED, ExtenderResults
from kscheduler.scheduling.extenders.rounds import MAX_ROUNDS, MOVED_ON
from tests.builders import Tree
from tests.explain.scenarios import node_tree, pod_tree, scenario_line
from tests.explain.schema import assert_valid
from tests.extender_program import ExtenderProgram, extender_program, leaves, prefers
from tests.scheduling.attempt.test_extender_consultation import SlowExtenders

Captured = pytest.CaptureFixture[str]
NODES = [node_tree(name) for name in "abc"]


def configuration(program: ExtenderProgram, **more: Any) -> Tree:
    url = program.url.replace("://", "://me:secret@")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [program.settings(nodeCacheCapable=True, **more) | {"urlPrefix": url}],
    }


def explained(tmp_path: Path, capsys: Captured, line: bytes, *options: str) -> str:
    file = tmp_path / "scenario.jsonl"
    file.write_bytes(line)
    main(["explain", "--from", str(file), *options])
    shown = capsys.readouterr()
    assert "-o" in options or shown.err == ""  # notes are said there too
    assert "secret" not in shown.out
    return " ".join(shown.out.split())


def tree_of(tmp_path: Path, capsys: Captured, line: bytes, *options: str) -> Tree:
    tree: Tree = json.loads(explained(tmp_path, capsys, line, "-o", "json", *options))
    assert_valid(tree)
    return tree


def test_who_has_a_say_is_named_and_not_queried(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves("c"), "prioritize": prefers("c"), "bind": lambda _: {}}) as program:
        line = scenario_line(pod_tree(), nodes=NODES, config=configuration(program))
        say = f"extender {program.url} takes part (it filters the nodes, it gives points) and was not called"
        assert say in explained(tmp_path, capsys, line)
        (listed,) = tree_of(tmp_path, capsys, line)["extenders"]
        assert program.queried == []
    assert listed == {
        "url": program.url,
        "verbs": ["filter", "prioritize"],
        "ignorable": False,
        "asked": False,
        "turnedDown": 0,
        "failure": None,
    }


def test_who_is_queried_decides(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves("b", "c"), "prioritize": prefers("c"), "bind": lambda _: {}}) as program:
        line = scenario_line(pod_tree(), nodes=NODES, config=configuration(program))
        text = explained(tmp_path, capsys, line, "--ask-extenders")
        assert "goes to c" in text
        assert f"extender {program.url} was asked (it filters the nodes, it gives points) and rejected 1 node" in text
        assert "Extender rejected 1 node 1 busy" in text
        tree = tree_of(tmp_path, capsys, line, "--ask-extenders")
        assert {verb for verb, _ in program.queried} == {"filter", "prioritize"}
    assert (tree["node"], tree["extenders"][0]["turnedDown"]) == ("c", 1)
    assert tree["scores"]["c"][program.url] == 100
    assert tree["filter"]["a"] == {"plugin": "Extender", "code": "Unschedulable", "reasons": ["busy"]}


def test_a_pod_that_all_nodes_are_refused_to_has_the_words_of_the_event(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves(reason="no token left")}) as program:
        line = scenario_line(pod_tree(), nodes=NODES, config=configuration(program))
        tree = tree_of(tmp_path, capsys, line, "--ask-extenders")
    assert tree["outcome"] == "Unschedulable"
    assert tree["message"].startswith("0/3 nodes are available: 3 no token left.")


def test_who_comes_after_the_last_node_was_rejected_was_not_queried(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves()}) as first, extender_program({"filter": leaves("a")}) as second:
        config = configuration(first)
        config["extenders"] += configuration(second)["extenders"]
        line = scenario_line(pod_tree(), nodes=NODES, config=config)
        tree = tree_of(tmp_path, capsys, line, "--ask-extenders")
        text = explained(tmp_path, capsys, line, "--ask-extenders")
        assert f"{second.url} takes part (it filters the nodes) and was not called: no node was left" in text
        assert second.queried == []
    assert [(each["url"], each["asked"]) for each in tree["extenders"]] == [(first.url, True), (second.url, False)]


class NeverSatisfied(SlowExtenders):
    """Answers about other nodes than it was asked about."""

    def first_answers(self, pod: PodInfo) -> ExtenderResults:
        return UNASKED

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderResults:
        self.queried.append((pod.name, tuple(names)))
        return ExtenderResults(frozenset({"elsewhere"}))


async def test_queries_without_end_are_an_error_and_no_decision_without_a_node() -> None:
    """As in the service: both decide in the same rounds."""
    line = scenario_line(pod_tree(), nodes=NODES)
    extenders = NeverSatisfied()
    decision = await decide_with_extenders(prepare(parse_scenario(line, "test")), extenders)
    assert (decision.error, decision.record) == (MOVED_ON, None)
    assert len(extenders.queried) == MAX_ROUNDS


def test_an_extender_that_fails_is_an_error(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves()}) as program:
        program.status = 500
        line = scenario_line(pod_tree(), nodes=NODES, config=configuration(program))
        tree = tree_of(tmp_path, capsys, line, "--ask-extenders")
    assert tree["error"] == f"failed filter with extender at URL {program.url}/filter, code 500"


def test_an_extender_chooses_victims(tmp_path: Path, capsys: Captured) -> None:
    def only_b(tree: Tree) -> Tree:
        return {"NodeNameToMetaVictims": {"b": tree["NodeNameToMetaVictims"]["b"]}}

    low = [pod_tree(f"low-{node}", cpu="3", nodeName=node) for node in "ab"]
    with extender_program({"preempt": only_b}) as program:
        config = configuration(program)
        line = scenario_line(pod_tree(cpu="3", priority=5), nodes=NODES[:2], pods=low, config=config)
        tree = tree_of(tmp_path, capsys, line, "--ask-extenders")
    assert tree["outcome"] == "Preempting"
    assert (tree["preemption"]["nominatedNode"], tree["preemption"]["victims"]) == ("b", ["low-b"])


def test_a_failure_about_victims_that_was_skipped_is_reported(tmp_path: Path, capsys: Captured) -> None:
    low = [pod_tree(f"low-{node}", cpu="3", nodeName=node) for node in "ab"]
    with extender_program({"preempt": lambda _: {"NodeNameToMetaVictims": {"z": {"Pods": []}}}}) as program:
        config = configuration(program, ignorable=True)
        line = scenario_line(pod_tree(cpu="3", priority=5), nodes=NODES[:2], pods=low, config=config)
        text = explained(tmp_path, capsys, line, "--ask-extenders")
    assert "preemption would make room on" in text
    assert "was asked (it chooses victims) and failed, which was ignored: extender" in text
    assert 'claims a preemption on node "z" which is not found in the input' in text


def test_a_pod_that_concerns_no_extender_says_nothing_of_them(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves("c")}) as program:
        config = configuration(program, managedResources=[{"name": "example.com/gpu"}])
        line = scenario_line(pod_tree(), nodes=NODES, config=config)
        assert "extender" not in explained(tmp_path, capsys, line)
        assert tree_of(tmp_path, capsys, line, "--ask-extenders")["extenders"] == []
        assert program.queried == []


def gang_line(config: Tree) -> bytes:
    group = {
        "metadata": {"name": "gang", "namespace": "default", "uid": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    pods = [pod_tree(f"m-{number}", cpu="3", schedulingGroup={"podGroupName": "gang"}) for number in range(2)]
    objects = {"nodes": NODES, "pods": pods, "podgroups": [group]}
    scenario = {"id": "one", "config": config, "gates": {"GenericWorkload": True}, "objects": objects}
    return json.dumps({**scenario, "podGroup": "default/gang"}).encode()


def test_a_gang_is_queried_about_only_if_that_is_wanted(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves("b", "c")}) as program:
        line, known = gang_line(configuration(program)), ("--emulated-version", "1.37")
        unasked = json.loads(explained(tmp_path, capsys, line, "-o", "json", *known))
        assert program.queried == []
        queried = json.loads(explained(tmp_path, capsys, line, "-o", "json", "--ask-extenders", *known))
        assert len(program.queried) == 2
    assert unasked["notes"] == [
        f"extender {program.url} has a say about members and was not called: --ask-extenders calls it"
    ]
    assert queried["notes"] == []
    pods = queried["podGroupOutcome"]["pods"]
    assert {each["node"] for each in pods.values()} == {"b", "c"}


def test_a_gang_that_an_extender_leaves_no_room_says_so(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves("b", reason="no token left")}) as program:
        line = gang_line(configuration(program))
        text = explained(tmp_path, capsys, line, "--ask-extenders", "--emulated-version", "1.37")
    assert "minCount (2) cannot be satisfied" in text
    assert "2 no token left" in text
