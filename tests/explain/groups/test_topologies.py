"""A group that asks for a topology is explained with the domains that were tried, and why."""

import json
from pathlib import Path

import pytest

from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.test_command import run

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podGroupAPIs: [scheduler-plugins]
topologyAPIs: [kueue]
profiles: [{schedulerName: default-scheduler}]
"""
RACKS = {"a": "r0", "b": "r0", "c": "r1", "d": "r1", "e": "r1"}


def dump(tmp_path: Path, members: int, asked: str, *, on: str = "", by_members: bool = False) -> tuple[str, str]:
    """A file of five nodes in two racks of one block, a gang that asks for racks, and Kueue's Topology.

    `on`: the nodes of the members, a letter each. `by_members`: they ask, and the group's object does not.
    """
    nodes = []
    for name, rack in RACKS.items():
        tree = node_tree(name, cpu="1")
        tree["metadata"]["labels"] = {"example.com/block": "b0", "example.com/rack": rack}
        nodes.append({"apiVersion": "v1", "kind": "Node", **tree})
    pods: list[Tree] = []
    for number in range(members):
        member = pod_tree(f"m-{number}", cpu="1", **({"nodeName": on[number]} if on else {}))
        member["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: "g"}
        pods.append({"apiVersion": "v1", "kind": "Pod", **member})
    annotations = {f"kueue.x-k8s.io/podset-{asked}-topology": "example.com/rack"}
    metadata: Tree = {"name": "g", "namespace": "default"}
    for tree in [pod["metadata"] for pod in pods] if by_members else [metadata]:
        tree["annotations"] = annotations
    gang = {"metadata": metadata, "spec": {"minMember": members}}
    levels = {"levels": [{"nodeLabel": "example.com/block"}, {"nodeLabel": "example.com/rack"}]}
    topology = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "t"}, "spec": levels}
    items = [*nodes, {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", **gang}, topology, *pods]
    path, config = tmp_path / "dump.json", tmp_path / "config.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    config.write_text(CONFIG, encoding="utf-8")
    return str(path), str(config)


def test_the_domains_of_a_group_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = dump(tmp_path, 2, "required")
    assert run("--from", path, "--config", config) == 0
    out, _ = capsys.readouterr()
    why = "1 of 1 example.com/block, 1 of 2 example.com/rack"
    assert f'  placement "b0/r0" (2 nodes): fits - chosen: {why}\n' in out


def test_a_group_over_several_racks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = dump(tmp_path, 4, "preferred")
    assert run("--from", path, "--config", config) == 0
    out, _ = capsys.readouterr()
    assert '  placement "b0/r0 (1), b0/r1 (3)" (5 nodes): fits - chosen' in out


def test_what_no_rack_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = dump(tmp_path, 4, "required")
    run("--from", path, "--config", config)
    out, _ = capsys.readouterr()
    assert "0/2 domains of example.com/rack have room for 4 members: at most 3 fit into one" in out


@pytest.mark.parametrize("by_members", [pytest.param(False, id="group asks"), pytest.param(True, id="members ask")])
def test_a_placed_group_says_in_which_domains_it_is(
    by_members: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, 3, "preferred", on="ace", by_members=by_members)
    assert run("podgroup/g", "--from", path, "--config", config) == 0
    out, _ = capsys.readouterr()
    assert "its minimum is 3\n  example.com/rack: r1 (2), r0 (1)\n  m-0: is on a\n" in out


def test_members_that_contradict_each_other_ask_for_no_domains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in an attempt: the first member's labels are not the group's."""
    path, config = dump(tmp_path, 3, "preferred", on="ace", by_members=True)
    dumped = json.loads(Path(path).read_text())
    dumped["items"][-1]["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-required-topology": "example.com/block"}
    Path(path).write_text(json.dumps(dumped))
    assert run("podgroup/g", "--from", path, "--config", config) == 0
    out, _ = capsys.readouterr()
    assert "its minimum is 3\n  m-0: is on a\n" in out


def added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], racks: dict[str, str], busy: str, *, members: int = 6
) -> list[str]:
    """Which nodes a gang of 3-CPU members would need that must be in one rack, of nodes of 8 CPU in racks.

    `busy`: the nodes, a letter each, that have room for no member.
    """
    objects: list[Tree] = []
    for name, rack in racks.items():
        tree = node_tree(name, cpu="8")
        tree["metadata"]["labels"] = {"example.com/rack": rack} if rack else {}
        objects.append({"apiVersion": "v1", "kind": "Node", **tree})
    pods = [pod_tree(f"busy-{name}", cpu="6", nodeName=name) for name in busy]
    for number in range(members):
        pods.append(pod_tree(f"m-{number:02}", cpu="3"))
        pods[-1]["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: "g"}
    objects += [{"apiVersion": "v1", "kind": "Pod", **each} for each in pods]
    annotations = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    gang = {
        "metadata": {"name": "g", "namespace": "default", "annotations": annotations},
        "spec": {"minMember": members},
    }
    objects.append({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", **gang})
    path, config = tmp_path / "dump.json", tmp_path / "config.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
    config.write_text(CONFIG.replace("topologyAPIs: [kueue]\n", ""), encoding="utf-8")
    run("podgroup/g", "--from", str(path), "--config", str(config), "-o", "json")
    tree = json.loads(capsys.readouterr().out)
    return [each["text"] for each in tree["suggestions"] if each["kind"] == "addNode"]


def test_nodes_are_added_to_the_rack_that_lacks_the_fewest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    racks = {"a": "r0", "b": "r0", "c": "r1", "d": "r1"}
    assert added(tmp_path, capsys, racks, "ab") == ["add a node like c"]
    assert added(tmp_path, capsys, racks, "cd") == ["add a node like a"]
    assert added(tmp_path, capsys, racks, "abc") == ["add 2 nodes like c"]


def test_of_many_racks_the_one_with_most_room_is_among_those_that_are_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [chr(ord("a") + number) for number in range(24)]
    racks = {name: f"r{number // 2}" for number, name in enumerate(names)}
    assert added(tmp_path, capsys, racks, "".join(names[:-2])) == [f"add a node like {names[-2]}"]


def test_a_node_in_no_rack_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert added(tmp_path, capsys, {"a": "", "b": "", "c": "", "d": "r1"}, "d", members=2) == ["add a node like d"]
