"""A node or pod with an amount that nobody can read: left out and told of, unless the question is about it."""

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import kubectl_plugin, main
from tests.explain.groups.test_members_of_groups import dump
from tests.explain.input.test_empty_input import CONTAINER, NODE, POD, answering, written
from tests.explain.test_command import run_beside

Tree = dict[str, Any]

BAD_NODE: Tree = {**NODE, "metadata": {"name": "bad", "uid": "bad"}, "status": {"allocatable": {"cpu": "four"}}}
_FOUR: Tree = {**CONTAINER, "resources": {"requests": {"cpu": "four"}}}
BAD_POD: Tree = {
    **POD,
    "metadata": {"name": "bad", "namespace": "shop", "uid": "bad"},
    "spec": {"schedulerName": "kscheduler", "containers": [_FOUR]},
}
NO_NUMBER = "quantity 'four' is not a number with an optional suffix such as m, k, Mi or e3"
NEW: dict[str, Tree] = {"first": POD, "bad": BAD_POD, "last": POD}
BAD = pytest.mark.parametrize(
    ("bad", "reported"),
    [
        pytest.param(BAD_NODE, f"node bad: status.allocatable.cpu: {NO_NUMBER}", id="node"),
        pytest.param(
            BAD_POD,
            f"pod shop/bad: spec.containers[0].resources.requests.cpu: {NO_NUMBER}",
            id="pod",
        ),
    ],
)


@BAD
def test_a_simulation_leaves_it_out_and_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], bad: Tree, reported: str
) -> None:
    path, name = written(tmp_path, NODE, POD, bad), reported.partition(": ")[0]
    assert main(["simulate", "--from", path]) == 0
    said = capfd.readouterr()
    assert said.err.startswith(f"kscheduler: {path}: {reported}")
    assert "[error" not in said.err
    assert f"left out, as it cannot be read: {name}\n" in said.out
    assert main(["simulate", "--from", path, "-o", "json"]) == 0
    tree = json.loads(capfd.readouterr().out)
    assert tree["leftOut"] == [name]
    assert [note for note in tree["notes"] if note.startswith(f"{path}: {reported}")]
    assert [each["pod"] for each in tree["placed"]] == ["shop/waits"]


@BAD
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["explain", "shop/waits"], id="explain a pod"),
        pytest.param(["explain"], id="explain all"),
        pytest.param(["explain", "-f", "new.json"], id="explain a new pod"),
        pytest.param(["pending"], id="pending"),
        pytest.param(["nodes"], id="nodes"),
    ],
)
def test_others_answer_without_it_and_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: Tree, reported: str, words: list[str]
) -> None:
    path = written(tmp_path, NODE, POD, bad)
    (tmp_path / "new.json").write_text(json.dumps({**POD, "metadata": {"name": "new"}}))
    queried = [str(tmp_path / word) if word == "new.json" else word for word in words]
    ask = kubectl_plugin.main if words[0] == "nodes" else main
    assert ask([*queried, "--from", path]) == 0
    out, err = capsys.readouterr()
    assert f"kscheduler: {path}: {reported}: it is left out\n" in err
    explanation = {"explain": "goes to node", "pending": "1 pod is pending", "nodes": "1 node;"}
    assert explanation[words[0]] in out


@pytest.mark.parametrize(
    ("words", "objects", "reported"),
    [
        pytest.param(["shop/bad"], [NODE, POD, BAD_POD], "pod shop/bad: spec.containers[0]", id="the pod"),
        pytest.param(["shop/waits", "--against", "bad"], [NODE, POD, BAD_NODE], "node bad: status", id="the node"),
        pytest.param([], [NODE, BAD_POD], "pod shop/bad: spec.containers[0]", id="nothing else"),
    ],
)
def test_a_query_about_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], objects: list[Tree], reported: str
) -> None:
    path = written(tmp_path, *objects)
    assert main(["explain", *words, "--from", path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"kscheduler: {path}: {reported}")


def test_a_group_with_such_a_member_is_not_judged_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, cpu="1")
    tree = json.loads(Path(path).read_text())
    tree["items"][-1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "four"
    Path(path).write_text(json.dumps(tree))
    bad = f"pod default/m-1: spec.containers[0].resources.requests.cpu: {NO_NUMBER}"
    refusals = {
        "default/m-0": f"pod group default/g: of a member: {bad}",
        "podgroup/g": f"pod group default/g: of a member: {bad}",
        "default/m-1": bad,
        "": f"pod group default/g is not judged: of a member: {bad}",
    }
    for word, reported in refusals.items():
        assert main(["explain", *([word] if word else []), "--from", path, "--config", config]) == 2
        assert capsys.readouterr().err == f"kscheduler: {path}: {reported}\n"
    tree["items"].append({**POD, "spec": {"containers": [CONTAINER], "schedulerName": "default-scheduler"}})
    Path(path).write_text(json.dumps(tree))
    assert main(["explain", "--from", path, "--config", config]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("shop/waits: goes to a\n")
    assert f"kscheduler: {path}: {bad}: it is left out\n" in err
    assert f"kscheduler: pod group default/g is not judged: of a member: {bad}\n" in err


def test_a_new_pod_of_several_costs_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, NODE)
    new = tmp_path / "new.json"
    new.write_text("\n".join(json.dumps({**each, "metadata": {"name": name}}) for name, each in NEW.items()))
    assert main(["explain", "--from", path, "-f", str(new)]) == 0
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line.endswith("goes to node")] == [
        "default/first: goes to node",
        "default/last: goes to node",
    ]
    assert "document 2 (Pod bad): spec.containers[0].resources.requests.cpu: " in err
    assert err.endswith("it is left out\n")


async def test_a_live_pod_that_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/api/v1/namespaces/shop/pods/bad"
    async with answering({path: json.dumps(BAD_POD).encode()}) as url:
        assert await run_beside("shop/bad", "--master", url) == 2
    reported = f"kscheduler: pod shop/bad: spec.containers[0].resources.requests.cpu: {NO_NUMBER}\n"
    assert capsys.readouterr().err == reported
