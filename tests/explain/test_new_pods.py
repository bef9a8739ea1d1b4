"""`-f`: pods that do not exist yet, with the API server's defaults or with those known here."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.api.machinery.resources import BY_KEY, NODES, PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.test_command import run
from tests.simulate.test_claims_to_devices import device_class, gpus

OURS = ("--scheduler-name", "default-scheduler")
CONTAINER = {"name": "c", "image": "app", "resources": {"limits": {"cpu": "2"}}}
ZONE = "topology.kubernetes.io/zone"


def manifest(path: Path, *objects: Tree) -> str:
    file = path / "manifest.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def workload(kind: str, name: str = "web", api_version: str = "apps/v1", **spec: Any) -> Tree:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER], **spec.pop("pod", {})}}
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    if kind == "Job":  # the API server writes its selector
        del body["selector"]
        template["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": body}


POD: Tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": [CONTAINER]}}


async def explain_file(server: EmbeddedAPIServer, path: str, *flags: str) -> int:
    command = ("-f", path, "--master", server.url, "-o", "json", *flags)
    return await asyncio.to_thread(run, *command)


def trees(capsys: pytest.CaptureFixture[str]) -> list[Tree]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def test_the_api_server_fills_in_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("small", cpu="1"))
        server.registry.create(NODES, "", node_tree("large", cpu="4"))
        priority = {"metadata": {"name": "high"}, "value": 9}
        server.registry.create(BY_KEY["priorityclasses.scheduling.k8s.io"], "", priority)
        pod = {**POD, "spec": {**POD["spec"], "priorityClassName": "high"}}
        assert await explain_file(server, manifest(tmp_path, pod), *OURS) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    (tree,) = [json.loads(line) for line in captured.out.splitlines()]
    assert (tree["id"], tree["node"], tree["pod"]["uid"]) == ("default/new", "large", "")
    assert tree["situation"]["standing"] == "New"
    assert tree["rejections"][0]["details"][0]["facts"]["requested"] == 2000


async def test_nothing_is_written(tmp_path: Path) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a"))
        assert await explain_file(server, manifest(tmp_path, POD, workload("Deployment")), *OURS) == 0
        assert not server.registry.store.collection(PODS.collection).records


async def test_a_manifest_that_the_server_would_not_create_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a"))
        server.faults.add(InjectedFault("answer", method="POST", path="*/pods", code=422))
        assert await explain_file(server, manifest(tmp_path, POD), *OURS) == 2
    err = capsys.readouterr().err
    assert "document 1: the API server would not create it: " in err
    assert err.count("\n") == 1


async def test_a_manifest_may_be_what_kubectl_has_printed_of_a_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = {"uid": "7", "resourceVersion": "9", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a"))
        pod = {**POD, "metadata": {"name": "new", **written}}
        assert await explain_file(server, manifest(tmp_path, pod), *OURS) == 0
    (tree,) = trees(capsys)
    assert (tree["node"], tree["pod"]["uid"]) == ("a", "")


async def test_fields_that_the_server_does_not_know_are_reported_beside_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `simulate` tells them; also those that are no typing mistake of a field that scheduling reads."""
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a"))
        pod = {**POD, "spec": {"containers": [{**CONTAINER, "zzz": 1}], "nodeSelectr": {"a": "b"}}}
        file = manifest(tmp_path, pod)
        assert await explain_file(server, file, *OURS) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["node"] == "a"
    assert err.count("nodeSelectr") == 1
    assert f"kscheduler: {file}: document 1 (Pod): spec.nodeSelectr is not a field: do you mean nodeSelector?\n" in err
    assert f"kscheduler: {file}: document 1: spec.containers[0].zzz is not a field\n" in err


async def test_without_the_right_to_create_local_defaults_stand_in_and_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("large", cpu="4"))
        server.faults.add(InjectedFault("answer", method="POST", path="*/pods", code=403))
        assert await explain_file(server, manifest(tmp_path, POD), *OURS) == 0
    captured = capsys.readouterr()
    assert "the dry run at the API server failed (403 Forbidden" in captured.err
    tree = json.loads(captured.out)
    assert (tree["node"], tree["pod"]["schedulerName"]) == ("large", "default-scheduler")
    assert any("the dry run" in note for note in tree["notes"])


async def test_a_pod_of_that_name_that_exists_is_no_obstacle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        server.registry.create(PODS, "default", pod_tree("new", cpu="2", nodeName="a"))
        assert await explain_file(server, manifest(tmp_path, POD), *OURS) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["node"] == "a"
    assert "a pod default/new exists already" in captured.err


async def test_a_new_pod_is_answered_as_its_own_scheduler_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a"))
        assert await explain_file(server, manifest(tmp_path, POD)) == 0
    (tree,) = trees(capsys)
    assert (tree["outcome"], tree["cycleOutcome"], tree["isHypothetical"]) == ("Placed", "Placed", False)
    assert tree["profile"] == "default-scheduler"


CLUSTER = [
    {"apiVersion": "v1", "kind": "Node", **node_tree("a")},
    {"apiVersion": "v1", "kind": "Node", **node_tree("b")},
]


def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str], *objects: Tree, cluster: Any = CLUSTER) -> list[Tree]:
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps(cluster))
    assert run("--from", str(dump), "-f", manifest(tmp_path, *objects), "-o", "json", *OURS) == 0
    return trees(capsys)


@pytest.mark.parametrize(
    ("body", "name", "origin"),
    [
        (POD, "new", "its manifest"),
        (workload("Deployment", replicas=3), "web-new", "Deployment default/web (the first of 3 pods)"),
        (workload("ReplicaSet"), "web-new", "ReplicaSet default/web"),
        (workload("StatefulSet", replicas=2), "web-0", "StatefulSet default/web (the first of 2 pods)"),
        (workload("DaemonSet"), "web-new", "DaemonSet default/web (one pod on each node that it fits on)"),
        (workload("Job", api_version="batch/v1", parallelism=4), "web-new", "Job default/web (the first of 4 pods)"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_the_first_pod_of_what_makes_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: Tree, name: str, origin: str
) -> None:
    (tree,) = explained(tmp_path, capsys, body)
    assert (tree["pod"]["name"], tree["situation"]["origin"]) == (name, origin)
    assert (tree["outcome"], tree["feasible"]) == ("Placed", ["a", "b"])


def test_a_cron_job_has_its_template_further_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = workload("Job", api_version="batch/v1")
    body = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": job["spec"]}},
    }
    (tree,) = explained(tmp_path, capsys, body)
    assert tree["pod"]["name"] == "nightly-new"


def test_pods_of_a_new_deployment_are_spread_by_their_replica_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = pod_tree("running", nodeName="a", cpu="100m")
    running["metadata"]["labels"] = {"app": "web"}
    nodes = json.loads(json.dumps(CLUSTER))
    for node in nodes:
        node["metadata"]["labels"] = {"kubernetes.io/hostname": node["metadata"]["name"]}
    cluster = [*nodes, {"apiVersion": "v1", "kind": "Pod", **running}]
    (tree,) = explained(tmp_path, capsys, workload("Deployment"), cluster=cluster)
    points = {node: scores["PodTopologySpread"] for node, scores in tree["scores"].items()}
    assert points["b"] > points["a"]


def test_a_stateful_set_brings_its_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    local = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "local",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    (tree,) = explained(tmp_path, capsys, workload("StatefulSet", volumeClaimTemplates=[claim]), local)
    (detail,) = tree["rejections"][0]["details"]
    assert (tree["rejections"][0]["plugin"], detail["facts"]["claim"]) == ("VolumeBinding", "data-web-0")
    assert detail["facts"]["storageClass"] == "local"


def test_a_daemon_tolerates_what_daemons_tolerate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taint = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    cluster = [{"apiVersion": "v1", "kind": "Node", **node_tree("full", taints=[taint])}]
    daemon, other = explained(tmp_path, capsys, workload("DaemonSet"), workload("Deployment", "other"), cluster=cluster)
    assert (daemon["feasible"], other["feasible"]) == (["full"], [])


def test_a_tie_of_a_pod_without_a_uid_is_reported_as_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree,) = explained(tmp_path, capsys, POD)
    assert tree["tieBreak"]["podHasUID"] is False
    run("--from", str(tmp_path / "dump.json"), "-f", manifest(tmp_path, POD), *OURS)
    assert "the pod has no UID yet, so the real one may go to another of these nodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "no pod and nothing that makes pods"),
        ({**POD, "spec": {"containers": 3}}, "cannot unmarshal number into Go struct field PodSpec.spec.containers"),
        ({**POD, "metadata": {}}, "metadata.name: Required value: name or generateName is required"),
    ],
    ids=["nothing", "a wrong type", "no name"],
)
def test_a_manifest_that_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: Tree, message: str
) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps(CLUSTER))
    assert run("--from", str(dump), "-f", manifest(tmp_path, body), *OURS) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


async def test_the_claims_of_a_new_pod_are_made_from_the_templates_of_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    async with EmbeddedAPIServer(seed=1) as server:
        for name in ("a", "b"):
            server.registry.create(NODES, "", node_tree(name))
        for kind, tree in (("deviceclasses", device_class()), ("resourceslices", gpus("b", 1))):
            server.registry.create(BY_KEY[f"{kind}.resource.k8s.io"], "", tree)
        pod = {**POD, "spec": {**POD["spec"], "resourceClaims": wanted}}
        assert await explain_file(server, manifest(tmp_path, pod), *OURS) == 0
        captured = capsys.readouterr()
        assert (
            "ResourceClaimTemplate default/one, which claim gpu of default/new is made from, is not known"
            in captured.err
        )
        assert "create ResourceClaimTemplate one in namespace default" in captured.out
        template = {"metadata": {"name": "one"}, "spec": spec}
        server.registry.create(BY_KEY["resourceclaimtemplates.resource.k8s.io"], "default", template)
        assert await explain_file(server, manifest(tmp_path, pod), *OURS) == 0
    (tree,) = trees(capsys)
    assert (tree["node"], [each["device"] for each in tree["devices"]["b"]]) == ("b", ["gpu-0"])


async def test_a_pod_that_does_not_exist_has_no_condition_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither what the dry run at the API server says of it, nor that of the file that it was copied from."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    gated = {**POD, "spec": {**POD["spec"], "schedulingGates": [{"name": "x/quota"}]}}
    copied = {**POD, "status": {"conditions": [condition], "nominatedNodeName": "gone"}}
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("large", cpu="4"))
        for pod in (gated, copied):
            await explain_file(server, manifest(tmp_path, pod), *OURS)
            (tree,) = trees(capsys)
            assert tree["situation"]["standing"] == "New"
            assert "Unschedulable" not in json.dumps(tree["situation"])
            assert "SchedulingGated" not in json.dumps(tree["situation"])
            assert "gone" not in json.dumps(tree["situation"])
