"""DaemonSets: a pod on each node that fits."""

import pytest

from kscheduler.api.machinery.api_errors import Object
from tests.embedded.controllers.miniature import Miniature, template, workload

SETS = "daemonsets.apps"


@pytest.fixture
def mini() -> Miniature:
    return Miniature()


def nodes_of(mini: Miniature) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in mini.pods())


def status(mini: Miniature) -> Object:
    found: Object = mini.get(SETS, "web")["status"]
    return found


def test_each_node_gets_a_pod_made_for_it(mini: Miniature) -> None:
    mini.create(workload("DaemonSet"))
    affinity = mini.pods()[0]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (match,) = affinity["nodeSelectorTerms"][0]["matchFields"]
    assert (match["key"], match["operator"]) == ("metadata.name", "In")
    keys = {toleration["key"] for toleration in mini.pods()[0]["spec"]["tolerations"]}
    assert {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"} <= keys
    seconds = {one.get("tolerationSeconds") for one in mini.pods()[0]["spec"]["tolerations"]}
    assert seconds == {None}
    mini.run_pods()
    assert nodes_of(mini) == ["node-0", "node-1", "node-2"]
    assert status(mini)["desiredNumberScheduled"] == status(mini)["numberAvailable"] == 3
    assert "numberUnavailable" not in status(mini)


def test_nodes_come_and_go_and_fit_or_not(mini: Miniature) -> None:
    mini.create(workload("DaemonSet", template=template(nodeSelector={"disk": "ssd"})))
    assert mini.pods() == []
    mini.add_node("node-3", labels={"disk": "ssd"})
    mini.add_node("node-4", labels={"disk": "ssd"}, taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
    mini.run_pods()
    assert nodes_of(mini) == ["node-3"]
    mini.change("nodes", "node-4", taints=[])
    mini.run_pods()
    assert nodes_of(mini) == ["node-3", "node-4"]
    mini.change("nodes", "node-4", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
    mini.run_pods()
    assert nodes_of(mini) == ["node-3", "node-4"], "a NoSchedule taint drives nobody out"
    assert status(mini)["numberMisscheduled"] == 1


def test_a_cordoned_node_keeps_and_gets_its_pod(mini: Miniature) -> None:
    mini.change("nodes", "node-0", unschedulable=True)
    mini.create(workload("DaemonSet"))
    mini.run_pods()
    assert nodes_of(mini) == ["node-0", "node-1", "node-2"]


def test_a_rolling_update_replaces_as_many_as_may_be_missing(mini: Miniature) -> None:
    mini.create(workload("DaemonSet"))
    mini.run_pods()
    mini.change(SETS, "web", template=template(image="registry.example/web:2"))
    assert sum("deletionTimestamp" in pod["metadata"] for pod in mini.pods()) == 1
    mini.run_pods()
    assert {pod["spec"]["containers"][0]["image"] for pod in mini.pods()} == {"registry.example/web:2"}
    assert status(mini)["updatedNumberScheduled"] == 3
    assert sorted(one["revision"] for one in mini.all("controllerrevisions.apps")) == [1, 2]


def test_with_surge_the_successor_runs_before_the_old_pod_goes(mini: Miniature) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    mini.create(workload("DaemonSet", updateStrategy=rolling))
    mini.run_pods()
    mini.change(SETS, "web", template=template(image="registry.example/web:2"))
    assert len(mini.pods()) == 4
    assert not any("deletionTimestamp" in pod["metadata"] for pod in mini.pods())
    mini.run_pods()
    assert len(mini.pods()) == 3
    assert {pod["spec"]["containers"][0]["image"] for pod in mini.pods()} == {"registry.example/web:2"}


def test_a_failed_pod_is_replaced_slower_each_time(mini: Miniature) -> None:
    mini.create(workload("DaemonSet", template=template(nodeName="node-0")))
    mini.run_pods()
    (first,) = mini.names("pods")
    mini.end_pod(first, "Failed")
    mini.run_pods()
    (second,) = mini.names("pods")
    assert second != first
    mini.end_pod(second, "Failed")
    mini.run_pods()
    assert mini.names("pods") == [second], "not before a pause"
    mini.advance(1)
    mini.run_pods()
    assert second not in mini.names("pods")
    assert len(mini.events("FailedDaemonPod")) == 2
