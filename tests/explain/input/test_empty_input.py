"""Input without objects or nodes must not look like an all-clear, and unreadable objects must be told of."""

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main

Tree = dict[str, Any]

NODE: Tree = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node", "uid": "uid-node"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
CONTAINER: Tree = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
POD: Tree = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waits", "namespace": "shop", "uid": "uid-waits"},
    "spec": {"schedulerName": "kscheduler", "containers": [CONTAINER]},
}
EMPTY_LIST: Tree = {"apiVersion": "v1", "kind": "List", "items": []}


def written(folder: Path, *objects: Tree) -> str:
    path = folder / "dump.yaml"
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
    return str(path)


@pytest.mark.parametrize("objects", [(), (EMPTY_LIST,)], ids=["empty file", "empty list"])
@pytest.mark.parametrize("verb", ["explain", "explain -f", "pending", "simulate", "simulate -f"])
def test_a_dump_without_any_object_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, objects: tuple[Tree, ...]
) -> None:
    dump = written(tmp_path, *objects)
    new = tmp_path / "new.yaml"
    new.write_text(json.dumps(POD))
    flags = ["-f", str(new)] if verb.endswith("-f") else []
    assert main([verb.split(maxsplit=1)[0], "--from", dump, *flags]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"kscheduler: {dump}: no object in it, only an empty file or list")
    assert told.out == ""


@pytest.mark.parametrize("verb", ["explain", "pending", "simulate"])
def test_a_dump_without_nodes_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    dump = written(tmp_path, POD)
    assert main([verb, "--from", dump]) == 0
    told = f"kscheduler: {dump}: no node is among its objects, and without nodes no pod fits"
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith(told)]
    assert main([verb, "--from", written(tmp_path, NODE, POD)]) == 0
    assert "no node is among" not in capsys.readouterr().err


def test_without_nodes_no_pod_is_said_to_change_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An attempt without any node ends with an error, after which the service tries again, for ever."""
    assert main(["simulate", "--from", written(tmp_path, POD), "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert "tried again and again, and each attempt fails: shop/waits" in tree["notes"]
    assert not any("change places" in note for note in tree["notes"])
    assert tree["pending"][0]["message"] == "no nodes available to schedule pods"


@pytest.mark.parametrize(("object_name", "field"), [
    ("node bad", "status.allocatable.cpu"),
    ("pod shop/bad", "spec.containers[0].resources.requests.cpu"),
])  # fmt: skip
def test_a_simulation_says_which_object_it_cannot_read_and_leaves_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], object_name: str, field: str
) -> None:
    if object_name.startswith("node"):
        bad = {**NODE, "metadata": {"name": "bad", "uid": "bad"}, "status": {"allocatable": {"cpu": "four"}}}
    else:
        container = {**CONTAINER, "resources": {"requests": {"cpu": "four"}}}
        metadata = {"name": "bad", "namespace": "shop", "uid": "bad"}
        bad = {**POD, "metadata": metadata, "spec": {"schedulerName": "kscheduler", "containers": [container]}}
    dump = written(tmp_path, NODE, POD, bad)
    assert main(["simulate", "--from", dump]) == 0
    told = capfd.readouterr()
    why = f"{dump}: {object_name}: {field}: quantity 'four' is not a number"
    assert told.err.startswith(f"kscheduler: {why}")
    assert "[error" not in told.err
    assert f"left out, as it cannot be read: {object_name}\n" in told.out
    assert main(["simulate", "--from", dump, "-o", "json"]) == 0
    tree = json.loads(capfd.readouterr().out)
    assert tree["leftOut"] == [object_name]
    assert [note for note in tree["notes"] if note.startswith(why)]
    assert [each["pod"] for each in tree["placed"]] == ["shop/waits"]
