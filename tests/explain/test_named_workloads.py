"""KIND/NAME as kubectl has it: `explain deploy/web` is about one of its pods, and says which."""

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.machinery.resources import NODES, PODS
from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.test_command import run, run_beside

HASH = "5d9c"
OWNERS = {
    "deploy": ("ReplicaSet", f"web-{HASH}"),
    "deployments": ("ReplicaSet", f"web-{HASH}"),
    "deployment.apps": ("ReplicaSet", f"web-{HASH}"),
    "Deployment": ("ReplicaSet", f"web-{HASH}"),
    "rs": ("ReplicaSet", "web"),
    "replicaset": ("ReplicaSet", "web"),
    "sts": ("StatefulSet", "web"),
    "statefulsets.v1.apps": ("StatefulSet", "web"),
    "ds": ("DaemonSet", "web"),
    "daemonset": ("DaemonSet", "web"),
    "rc": ("ReplicationController", "web"),
    "job": ("Job", "web"),
    "jobs": ("Job", "web"),
    "job.batch": ("Job", "web"),
    "cj": ("CronJob", "web"),
    "cronjob": ("CronJob", "web"),
}


def owned(name: str, prefix: str, namespace: str = "team-a", **spec: Any) -> Tree:
    kind, owner = OWNERS[prefix]
    if kind == "CronJob":
        kind, owner = "Job", "web-29012345"
    tree = pod_tree(name, cpu="1", **spec)
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "1", "controller": True}
    labels = {"pod-template-hash": HASH}
    tree["metadata"] |= {"namespace": namespace, "ownerReferences": [reference], "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", **tree}


def dump(tmp_path: Path, *pods: Tree) -> str:
    items = [{"apiVersion": "v1", "kind": "Node", **node_tree("a", cpu="2")}, *pods]
    (tmp_path / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(tmp_path / "dump.json")


@pytest.mark.parametrize("prefix", OWNERS)
def test_a_workload_is_queried_about_by_its_first_pod_that_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prefix: str
) -> None:
    """Not by a pod of the same workload in another namespace, nor by one of another workload."""
    path = dump(
        tmp_path,
        owned("far", prefix, namespace="team-b"),
        owned("runs", prefix, nodeName="a"),
        owned("waits", prefix),
        owned("waits-too", prefix),
    )
    assert run(f"{prefix}/web", "-n", "team-a", "--from", path) == 0
    out, err = capsys.readouterr()
    assert out.startswith("team-a/waits: goes to a")
    assert "team-a/web has 3 pods; the answer is about team-a/waits: the first of them that waits for a node" in err


def test_where_none_waits_the_first_is_queried_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = dump(tmp_path, owned("one", "sts", nodeName="a"), owned("two", "sts", nodeName="a"))
    assert run("sts/web", "-n", "team-a", "--from", path) == 0
    out, err = capsys.readouterr()
    assert out.startswith("team-a/one: is on node a already")
    assert "none of them waits for a node, so this is the first" in err


def test_a_workload_without_pods_and_a_kind_that_has_none_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = dump(tmp_path, owned("one", "sts"))
    assert run("deploy/web", "-n", "team-a", "--from", path) == 2
    assert "Deployment team-a/web has no pods" in capsys.readouterr().err
    assert run("service/web", "-n", "team-a", "--from", path) == 2
    assert "understood: NAMESPACE/POD, pod/NAME, podgroup/NAME, or deploy/NAME" in capsys.readouterr().err
    assert run("sts/", "--from", path) == 2
    assert "-n gives the namespace of a StatefulSet" in capsys.readouterr().err


async def test_of_a_live_cluster_too(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        server.registry.create(PODS, "default", owned("waits", "deploy", namespace="default"))
        assert await run_beside("deploy/web", "--master", server.url) == 0
        out, err = capsys.readouterr()
        assert out.startswith("default/waits: goes to a")
        assert "Deployment default/web has 1 pod; the answer is about default/waits" in err
        assert await run_beside("job/web", "--master", server.url) == 1
        assert "Job default/web has no pods; -n gives another namespace" in capsys.readouterr().err


def test_pending_takes_all_namespaces_as_kubectl_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = dump(tmp_path, owned("one", "sts"), owned("far", "sts", namespace="team-b"))
    for flags in (), ("-A",), ("--all-namespaces",), ("-A", "-n", "team-a"):
        assert main(["pending", "--from", path, "-o", "json", *flags]) == 0
        assert json.loads(capsys.readouterr().out)["count"] == 2
    assert main(["pending", "--from", path, "-o", "json", "-n", "team-a"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 1
