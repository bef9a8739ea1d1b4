"""Explaining a policy that has data of its own: fetched once where there is a cluster, and said where there is none."""

import json
from pathlib import Path

import pytest

from kscheduler.api.machinery.resources import NODES, PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.testing import Cluster, make_node, make_pod
from tests.explain.scenarios import node_tree, pod_tree
from tests.explain.test_command import run, run_beside

POLICY = '''
import json

import numpy as np

from kscheduler.framework.plugin import Plugin


class OnlyTheLast(Plugin):
    """Lets pods onto the node whose name comes last, as the API server says when asked."""

    name = "OnlyTheLast"
    refresh_interval = 60.0
    reasons = {1: "node(s) were not the last"}

    def __init__(self, handle):
        self.client, self.last = handle.client, ""

    async def refresh(self):
        found = json.loads(await self.client.get("/api/v1/nodes"))
        self.last = max(item["metadata"]["name"] for item in found["items"])

    def filter(self, cycle, pod, nodes, rows):
        return np.array([int(nodes.name_of(row) != self.last) for row in rows.tolist()], dtype=np.int64)
'''


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "only_the_last.py"
    path.write_text(POLICY)
    return str(path)


async def test_of_a_live_cluster_they_are_fetched(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(3):
            server.registry.create(NODES, "", node_tree(f"node-{number}"))
        server.registry.create(PODS, "default", pod_tree())
        assert await run_beside("default/web", "--master", server.url, "-o", "json", "--plugin", policy) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["best"] == ["node-2"]
    assert tree["notes"] == []


def test_of_a_file_they_are_not_and_it_says_so(policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    node = {"apiVersion": "v1", "kind": "Node", **node_tree("a")}
    pod = {"apiVersion": "v1", "kind": "Pod", **pod_tree(schedulerName="kscheduler")}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, pod]}))
    assert run("--from", str(file), "-o", "json", "--plugin", policy) == 0
    captured = capsys.readouterr()
    assert "plugin OnlyTheLast: data of its own were not fetched" in captured.err
    assert json.loads(captured.out)["notes"] == ["plugin OnlyTheLast: data of its own were not fetched"]


BY_JOBS = '''
import numpy as np

from kscheduler.api.kinds import Kind
from kscheduler.api.meta import CustomObject
from kscheduler.framework.plugin import Plugin

JOBS = Kind("batch", "v1", "jobs", "Job", CustomObject, namespaced=True)


class ByJobs(Plugin):
    """Lets pods onto the nodes that jobs are named after."""

    name = "ByJobs"
    reasons = {1: "node(s) had no job"}

    def __init__(self, handle):
        self.names = set()
        handle.lister(JOBS).on_change(self.changed)

    def changed(self, old, new):
        self.names.add(new.metadata.name)

    def filter(self, cycle, pod, nodes, rows):
        return np.array([int(nodes.name_of(row) not in self.names) for row in rows.tolist()], dtype=np.int64)
'''


async def test_objects_that_only_a_plugin_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "by_jobs.py"
    policy.write_text(BY_JOBS)
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(3):
            server.registry.create(NODES, "", node_tree(f"node-{number}"))
        server.registry.create(PODS, "default", pod_tree())
        job = {"metadata": {"name": "node-1", "namespace": "default", "uid": "u"}, "spec": {}}
        server.store.put("jobs.batch", {"apiVersion": "batch/v1", "kind": "Job", **job})
        assert await run_beside("default/web", "--master", server.url, "-o", "json", "--plugin", str(policy)) == 0
        forbidden = InjectedFault("answer", method="GET", path="*/jobs", code=403)
        server.faults.add(forbidden)
        assert await run_beside("default/web", "--master", server.url, "-o", "json", "--plugin", str(policy)) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["best"], first["notes"]) == (["node-1"], [])
    assert second["best"] is None
    assert second["notes"][0].startswith("jobs.batch are left out: 403")
    cluster = Cluster(make_node("a"), make_node("b")).enable(policy)
    assert cluster.explain(make_pod("web")).endswith("jobs.batch are left out: there is no API server")
