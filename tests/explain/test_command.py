"""`kscheduler explain` as a command: what it prints, and what it says when it cannot."""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kscheduler.api.machinery.resources import BY_KEY, NODES, PODS
from kscheduler.cli.commands import explain
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from tests.explain.scenarios import node_tree, pod_tree, scenario_line


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    explain.add_parser(parser.add_subparsers())
    return explain.run(parser.parse_args(["explain", *arguments]))


@pytest.fixture
def two_scenarios(tmp_path: Path) -> str:
    path = tmp_path / "two.jsonl"
    lines = [scenario_line(nodes=[node_tree("a")], name="first"), scenario_line(name="second")]
    path.write_bytes(b"\n".join(lines))
    return str(path)


def test_prints_an_object_per_line(two_scenarios: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--from", two_scenarios, "-o", "json") == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(tree["id"], tree["best"]) for tree in printed] == [("first", ["a"]), ("second", None)]


def test_prints_text_with_an_empty_line_between(two_scenarios: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--from", two_scenarios) == 0
    out = capsys.readouterr().out
    assert out.startswith("[first] default/web: goes to a\n")
    assert "\n\n[second] default/web: fits on no node\n" in out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["default/web", "--from", "file"],
        ["web", "--kubeconfig", "/does/not/exist"],
        ["default/web", "-f", "pod.yaml"],
        ["default/web", "-n", "other", "--master", "http://127.0.0.1:1"],
        ["--from", "file", "--context", "x"],
        ["--from", "-", "-f", "-"],
        ["default/web", "--feature-gates", "NoSuchGate=true"],
        ["-f", "/does/not/exist"],
        ["default/"],
        ["a/b/c"],
        ["--from", "file", "--config", "x"],
        ["--from", "/does/not/exist"],
        ["default/web", "--config", "/does/not/exist"],
        ["default/web", "--kubeconfig", "/does/not/exist"],
    ],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_what_cannot_be_done_is_one_line_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kscheduler: ")
    assert captured.err.count("\n") == 1


def test_a_bad_line_is_named_after_the_good_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(scenario_line(nodes=[node_tree("a")]) + b'\n{"pod": {"spec": {"nodeName": 3}}}\n')
    assert run("--from", str(path), "-o", "json") == 2
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert captured.err == f"kscheduler: {path}:2: pod.spec.nodeName: expected str, got int\n"


def test_a_reader_that_leaves_is_no_error_message(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_bytes(b"\n".join([scenario_line(nodes=[node_tree("a")])] * 2000))
    command = [sys.executable, "-m", "kscheduler", "explain", "--from", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 141


def create(server: EmbeddedAPIServer, *, nodes: int = 2) -> None:
    for number in range(nodes):
        server.registry.create(NODES, "", node_tree(f"node-{number}", cpu=str(number + 1)))


async def test_judges_a_pod_of_a_live_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        create(server)
        server.registry.create(PODS, "default", pod_tree("taker", cpu="1500m", nodeName="node-1"))
        server.registry.create(PODS, "default", pod_tree(schedulerName="anything"))
        assert await run_beside("default/web", "--master", server.url, "-o", "json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["best"] == ["node-0"]
    assert tree["filter"] == {
        "node-1": {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Insufficient cpu"]}
    }


@pytest.mark.parametrize("named", ["web", "pod/web", "pods/web", "po/web", "default/web"])
async def test_a_pod_is_named_as_for_kubectl_too(named: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        create(server)
        server.registry.create(PODS, "default", pod_tree())
        assert await run_beside(named, "--master", server.url, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["pod"]["name"] == "web"


VOLUME_IN_ONE_ZONE = {
    "metadata": {"name": "disk", "labels": {"topology.kubernetes.io/zone": "a"}},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"name": "data", "namespace": "default"},
        "hostPath": {"path": "/data"},
    },
}
CLAIM_SPEC = {"volumeName": "disk", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIM = {"metadata": {"name": "data"}, "spec": CLAIM_SPEC}
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def create_pod_with_a_claim(server: EmbeddedAPIServer) -> None:
    for zone in "ab":
        node = node_tree(f"in-{zone}")
        node["metadata"]["labels"] = {"topology.kubernetes.io/zone": zone}
        server.registry.create(NODES, "", node)
    server.registry.create(BY_KEY["persistentvolumes"], "", VOLUME_IN_ONE_ZONE)
    bound = {**CLAIM, "metadata": {"name": "data", "annotations": BOUND}}
    server.registry.create(BY_KEY["persistentvolumeclaims"], "default", bound)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    server.registry.create(PODS, "default", pod_tree(volumes=volumes))


async def test_volumes_are_read_from_the_cluster_too(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        create_pod_with_a_claim(server)
        assert await run_beside("default/web", "--master", server.url, "-o", "json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["best"] == ["in-a"]
    assert tree["filter"]["in-b"]["plugin"] == "VolumeZone"


async def test_a_kind_that_may_not_be_read_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        create(server)
        server.registry.create(PODS, "default", pod_tree())
        server.faults.add(InjectedFault("answer", path="*/csinodes", code=403))
        served = ("--scheduler-name", "default-scheduler")
        assert await run_beside("default/web", "--master", server.url, *served) == 0
    captured = capsys.readouterr()
    assert "default/web: goes to node-1" in captured.out
    assert "csinodes are left out, and the answer may be wrong where they matter: 403 Forbidden" in captured.err


async def test_without_nodes_there_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(PODS, "default", pod_tree())
        server.faults.add(InjectedFault("answer", path="*/nodes", code=403))
        assert await run_beside("default/web", "--master", server.url) == 1
    assert "403 Forbidden" in capsys.readouterr().err


async def test_a_pod_that_has_a_node_is_judged_as_if_it_had_none(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        create(server)
        server.registry.create(PODS, "default", pod_tree(cpu="1", nodeName="node-0"))
        assert await run_beside("default/web", "--master", server.url) == 0
    out = capsys.readouterr().out
    assert out.startswith("default/web: is on node node-0 already (bound, phase Pending)\n")
    assert "HYPOTHETICAL, as if it were pending now: goes to node-1" in out


async def test_a_pod_that_does_not_exist_is_one_line_and_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        assert await run_beside("default/none", "--master", server.url) == 1
    captured = capsys.readouterr()
    assert 'pods "none" not found' in captured.err
    assert captured.err.count("\n") == 1


async def run_beside(*arguments: str) -> int:
    """Run the command in a thread: it has an event loop of its own, and the server needs this one."""
    return await asyncio.to_thread(run, *arguments)
