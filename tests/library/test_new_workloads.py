"""Pods that `schedule` has made of workloads, in the cluster that comes of it: who owns them, and what can be run."""

from typing import Any

import pytest

from kscheduler import Cluster, make_node, make_pod
from tests.library.manifests import Tree

VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}
KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob")


def workload(kind: str, cpu: str) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    template: Tree = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec: Tree = {"template": template}
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
        if kind == "CronJob":
            spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    else:
        labels = {"app": "web"}
        spec["selector"] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    return {"apiVersion": VERSIONS.get(kind, "apps/v1"), "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def suggestions(explanation: Any) -> list[Any]:
    found: list[Any] = explanation.to_dict()["suggestions"]
    assert found
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_drain_knows_that_new_pods_have_controllers(kind: str) -> None:
    result = Cluster.of([make_node("a"), make_node("b")]).schedule(workload(kind, cpu="1"))
    (drained,) = result.cluster.drain(result.placed[0].node or "").drains
    assert drained.unmanaged == ()
    assert drained.staying == ((result.placed[0].pod,) if kind == "DaemonSet" else ())


@pytest.mark.parametrize("kind", KINDS)
def test_pods_that_no_cluster_has_get_no_commands(kind: str) -> None:
    cluster = Cluster.of(make_node("a"))
    manifest = workload(kind, cpu="90")
    pending = cluster.schedule(manifest)
    texts = [(each["text"], each["command"]) for each in suggestions(pending.cluster.explain(pending.pending[0]))]
    assert texts == [(each["text"], "") for each in suggestions(cluster.explain(manifest))]


def test_a_new_pod_without_a_controller_gets_no_command_either() -> None:
    pod = make_pod("web", requests={"cpu": "90"})
    then = Cluster.of(make_node("a")).schedule(pod).cluster
    assert [each["command"] for each in suggestions(then.explain("web"))] == [""]
    now = Cluster.of(make_node("a"), pod)
    assert "kubectl get pod web" in suggestions(now.schedule().cluster.explain("web"))[0]["command"]


def test_what_the_cluster_has_is_changed_by_a_command_for_a_new_pod_too() -> None:
    nodes = [make_node("a", unschedulable=True)]
    result = Cluster.of(nodes).schedule(workload("Deployment", cpu="1"))
    found = suggestions(result.cluster.explain(result.pending[0]))
    assert "kubectl uncordon a" in [each["command"] for each in found]


def test_a_daemon_set_that_was_scheduled_is_not_made_twice() -> None:
    daemon = workload("DaemonSet", cpu="1")
    result = Cluster.of(make_node("a")).schedule(daemon)
    assert len(result.cluster.schedule(daemon).placed) == 0
