"""A plugin of one's own, or an extender, that alone is in the way is named with what it said; nobody else is."""

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main
from tests.explain.scenarios import Tree, node_tree, pod_tree, scenario_line
from tests.explain.schema import assert_valid
from tests.explain.test_explained_extenders import configuration
from tests.extender_program import extender_program, leaves

Captured = pytest.CaptureFixture[str]

PLUGINS = """
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import SUCCESS, unschedulable


@plugin("SameTeam", sign=lambda pod: pod.labels.get("team"))
def filter(pod, node):
    return "node(s) belonged to another team" if pod.labels.get("team") == "b" else None


class Quota(Plugin):
    name = "Quota"

    def pre_enqueue(self, pod):
        return unschedulable("the quota is used up") if "greedy" in pod.labels else SUCCESS
"""


def explained(tmp_path: Path, capsys: Captured, line: bytes, *options: str) -> Tree:
    file = tmp_path / "scenario.jsonl"
    file.write_bytes(line)
    main(["explain", "--from", str(file), "-o", "json", *options])
    tree: Tree = json.loads(capsys.readouterr().out)
    assert_valid(tree)
    return tree


def with_plugins(tmp_path: Path, capsys: Captured, labels: Tree, *, cpu: str = "1", **spec: Any) -> list[Tree]:
    """The suggestions for a pod on two nodes of 4 CPUs, under both plugins."""
    (tmp_path / "mine.py").write_text(PLUGINS)
    pod = pod_tree(cpu=cpu, **spec)
    pod["metadata"]["labels"] = labels
    objects = [{"kind": "Pod", **pod}, *({"kind": "Node", **node_tree(name)} for name in "ab")]
    file = tmp_path / "cluster.json"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", **each} for each in objects]})
    )
    as_default = ("--scheduler-name", "default-scheduler")
    plugins = ("--plugin", str(tmp_path / "mine.py"))
    main(["explain", "default/web", "--from", str(file), "-o", "json", *plugins, *as_default])
    found: list[Tree] = json.loads(capsys.readouterr().out)["suggestions"]
    return found


def test_a_plugin_that_turns_all_nodes_down_is_named_with_its_words(tmp_path: Path, capsys: Captured) -> None:
    (found,) = with_plugins(tmp_path, capsys, {"team": "b"})
    assert (found["kind"], found["nodes"], found["changes"], found["command"]) == ("plugin", 2, [], "")
    assert found["text"].endswith(
        "plugin SameTeam, which is the only one that rejects it: node(s) belonged to another team"
    )


def test_a_plugin_that_keeps_the_pod_out_of_the_queue_is_named_with_its_words(tmp_path: Path, capsys: Captured) -> None:
    (found,) = with_plugins(tmp_path, capsys, {"greedy": "yes"})
    assert found["text"].endswith("plugin Quota, which is the only one that rejects it: the quota is used up")


def test_no_plugin_is_named_where_two_of_them_are_in_the_way(tmp_path: Path, capsys: Captured) -> None:
    assert with_plugins(tmp_path, capsys, {"team": "b", "greedy": "yes"}) == []


def test_no_plugin_is_named_where_a_rule_of_kubernetes_is_in_the_way_as_well(tmp_path: Path, capsys: Captured) -> None:
    assert with_plugins(tmp_path, capsys, {"team": "b"}, cpu="9") == []


def test_an_extender_that_turns_all_nodes_down_is_named_with_its_words(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves(reason="no token left")}) as program:
        line = scenario_line(pod_tree(), nodes=[node_tree(name) for name in "abc"], config=configuration(program))
        (found,) = explained(tmp_path, capsys, line, "--ask-extenders")["suggestions"]
    assert (found["kind"], found["nodes"], found["changes"], found["command"]) == ("extender", 3, [], "")
    said = f"ask the owner of extender {program.url}, which rejected the last 3 nodes: no token left"
    assert found["text"] == said


def test_of_two_extenders_the_one_is_named_that_left_nothing(tmp_path: Path, capsys: Captured) -> None:
    """The other has rejected nodes, too, but nobody knows whether without it the last one would have left them."""
    with extender_program({"filter": leaves("b")}) as first, extender_program({"filter": leaves()}) as second:
        config = configuration(first)
        config["extenders"] += configuration(second)["extenders"]
        line = scenario_line(pod_tree(), nodes=[node_tree(name) for name in "abc"], config=config)
        (found,) = explained(tmp_path, capsys, line, "--ask-extenders")["suggestions"]
    assert (found["steps"][0]["facts"]["extender"], found["nodes"]) == (second.url, 1)


def test_an_extender_that_was_not_asked_any_more_is_reported(tmp_path: Path, capsys: Captured) -> None:
    with extender_program({"filter": leaves()}) as first, extender_program({"filter": leaves("a")}) as second:
        config = configuration(first)
        config["extenders"] += configuration(second)["extenders"]
        line = scenario_line(pod_tree(), nodes=[node_tree(name) for name in "abc"], config=config)
        (found,) = explained(tmp_path, capsys, line, "--ask-extenders")["suggestions"]
    assert found["text"].endswith(f"; {second.url} was not asked yet")


SILENT = """
import numpy as np

from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import Code, Status


class Silent(Plugin):
    name = "Silent"

    def filter(self, cycle, pod, nodes, rows):
        if pod.labels.get("team") == "b":
            raise RuntimeError("no such team")
        return np.ones(len(rows), dtype=np.int64)

    def status(self, cycle, code):
        return Status(Code.UNSCHEDULABLE)
"""


@pytest.mark.parametrize(("team", "said"), [("a", "which gives no reason for its code 1"), ("b", None)])
def test_of_pods_that_a_plugin_turns_down_without_a_word_it_is_said_that_it_gives_none(
    team: str, said: str | None, tmp_path: Path, capsys: Captured
) -> None:
    """And how many of them would fit without it; a plugin that fails has no suggestion, but its error."""
    (tmp_path / "silent.py").write_text(SILENT)
    nodes = [{"kind": "Node", "apiVersion": "v1", **node_tree(name)} for name in "ab"]
    pods = []
    for number in range(3):
        tree = pod_tree(cpu="1")
        tree["metadata"] |= {"name": f"web-{number}", "uid": f"uid-{number}", "labels": {"team": team}}
        pods.append({"kind": "Pod", "apiVersion": "v1", **tree})
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}))
    plugins = ("--plugin", str(tmp_path / "silent.py"), "--scheduler-name", "default-scheduler")
    assert main(["pending", "--from", str(file), "-o", "json", *plugins]) == 0
    (reason,) = json.loads(capsys.readouterr().out)["reasons"]
    assert reason["count"] == 3
    if said is None:
        assert "no such team" in reason["message"]
        assert reason["suggestion"] is None
    else:
        assert reason["suggestion"]["text"].endswith(said)
        assert (reason["suggestion"]["frees"], reason["suggestion"]["tried"]) == (3, 3)
