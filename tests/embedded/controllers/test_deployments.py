"""Deployments and ReplicaSets: what `kubectl create`, `scale`, `set image` and `rollout` count on."""

from typing import Any

import pytest

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import PODS
from tests.embedded.controllers.miniature import Miniature, condition, template, workload

REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture
def mini() -> Miniature:
    return Miniature()


def deployed(mini: Miniature, replicas: int = 3, **spec: Any) -> None:
    mini.create(workload("Deployment", replicas=replicas, **spec))
    mini.run_pods()


def set_image(mini: Miniature, image: str) -> None:
    mini.change("deployments.apps", "web", template=template(image=image))


def images(mini: Miniature) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in mini.pods())


def replica_sets(mini: Miniature) -> dict[str, Object]:
    return {one["metadata"]["annotations"][REVISION]: one for one in mini.all("replicasets.apps")}


def status(mini: Miniature) -> Object:
    found: Object = mini.get("deployments.apps", "web")["status"]
    return found


def test_a_deployment_makes_a_replica_set_and_its_pods(mini: Miniature) -> None:
    deployed(mini)
    (replica_set,) = mini.all("replicasets.apps")
    name = replica_set["metadata"]["name"]
    assert name.startswith("web-")
    assert len(mini.pods()) == 3
    for pod in mini.pods():
        assert pod["metadata"]["name"].startswith(f"{name}-")
        assert pod["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]
        assert pod["metadata"]["labels"]["pod-template-hash"] == name.removeprefix("web-")
    assert mini.events("ScalingReplicaSet") == [f"Scaled up replica set {name} from 0 to 3"]
    assert len(mini.events("SuccessfulCreate")) == 3


def test_its_status_says_when_it_is_complete(mini: Miniature) -> None:
    mini.create(workload("Deployment", replicas=3))
    before = mini.get("deployments.apps", "web")
    assert condition(before, "Available")["status"] == "False"
    assert condition(before, "Progressing")["reason"] == "ReplicaSetUpdated"
    assert before["status"]["unavailableReplicas"] == 3
    mini.run_pods()
    after = mini.get("deployments.apps", "web")
    assert condition(after, "Available")["reason"] == "MinimumReplicasAvailable"
    assert condition(after, "Progressing")["reason"] == "NewReplicaSetAvailable"
    counts = {
        name: after["status"][name] for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    }
    assert set(counts.values()) == {3}
    assert after["status"]["observedGeneration"] == after["metadata"]["generation"]
    assert "unavailableReplicas" not in after["status"]


def test_scaling_follows_and_takes_the_pods_without_a_node_first(mini: Miniature) -> None:
    deployed(mini, 2)
    running = set(mini.names("pods"))
    mini.change("deployments.apps", "web", replicas=5)
    assert len(mini.pods()) == 5
    mini.change("deployments.apps", "web", replicas=2)
    assert set(mini.names("pods")) == running
    mini.change("deployments.apps", "web", replicas=0)
    mini.run_pods()
    assert mini.pods() == []


def test_a_rolling_update_keeps_its_promises_at_each_step(mini: Miniature) -> None:
    deployed(mini, 10)
    set_image(mini, "registry.example/web:2")
    for _ in range(100):
        total, available = len(mini.pods()), status(mini).get("availableReplicas", 0)
        assert total - sum("deletionTimestamp" in pod["metadata"] for pod in mini.pods()) <= 13
        assert available >= 8
        waiting = [
            pod for pod in mini.pods() if pod["status"]["phase"] == "Pending" or "deletionTimestamp" in pod["metadata"]
        ]
        if not waiting:
            break
        mini.run_pods(waiting[0]["metadata"]["name"])
    assert images(mini) == ["registry.example/web:2"] * 10
    assert sorted(replica_sets(mini)) == ["1", "2"]
    assert mini.get("deployments.apps", "web")["metadata"]["annotations"][REVISION] == "2"


def test_a_template_that_comes_back_gets_its_replica_set_with_a_new_number(mini: Miniature) -> None:
    deployed(mini)
    first = replica_sets(mini)["1"]["metadata"]["uid"]
    set_image(mini, "registry.example/web:2")
    mini.run_pods()
    mini.change("deployments.apps", "web", template=template())
    mini.run_pods()
    assert replica_sets(mini)["3"]["metadata"]["uid"] == first
    assert replica_sets(mini)["3"]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert images(mini) == ["registry.example/web:1"] * 3


def test_a_rollout_that_does_not_move_is_called_stuck_after_its_deadline(mini: Miniature) -> None:
    deployed(mini, progressDeadlineSeconds=60)
    set_image(mini, "registry.example/web:broken")
    mini.advance(59)
    assert condition(mini.get("deployments.apps", "web"), "Progressing")["status"] == "True"
    mini.advance(5)
    stuck = condition(mini.get("deployments.apps", "web"), "Progressing")
    assert (stuck["status"], stuck["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert len([pod for pod in mini.pods() if pod["status"]["phase"] == "Running"]) == 3


def test_paused_it_collects_changes_and_scales(mini: Miniature) -> None:
    deployed(mini)
    mini.change("deployments.apps", "web", paused=True)
    set_image(mini, "registry.example/web:2")
    assert condition(mini.get("deployments.apps", "web"), "Progressing")["reason"] == "DeploymentPaused"
    mini.change("deployments.apps", "web", replicas=4)
    mini.run_pods()
    assert images(mini) == ["registry.example/web:1"] * 4
    mini.change("deployments.apps", "web", paused=False)
    mini.run_pods()
    assert images(mini) == ["registry.example/web:2"] * 4


def test_recreate_lets_the_old_pods_end_before_the_first_new_one(mini: Miniature) -> None:
    deployed(mini, strategy={"type": "Recreate"})
    set_image(mini, "registry.example/web:2")
    assert images(mini) == ["registry.example/web:1"] * 3
    assert all("deletionTimestamp" in pod["metadata"] for pod in mini.pods())
    mini.run_pods(*mini.names("pods")[:2])
    assert len(mini.pods()) == 1
    mini.run_pods()
    assert images(mini) == ["registry.example/web:2"] * 3


def test_scaled_in_the_middle_of_a_rollout_both_versions_get_their_share(mini: Miniature) -> None:
    deployed(mini, 10)
    set_image(mini, "registry.example/web:2")
    sizes = {number: one["spec"]["replicas"] for number, one in replica_sets(mini).items()}
    assert sizes == {"1": 8, "2": 5}
    mini.change("deployments.apps", "web", replicas=20)
    sizes = {number: one["spec"]["replicas"] for number, one in replica_sets(mini).items()}
    assert sum(sizes.values()) == 25
    assert sizes["1"] > sizes["2"] > 5


def test_old_replica_sets_go_beyond_the_history_limit(mini: Miniature) -> None:
    deployed(mini, revisionHistoryLimit=2)
    for number in range(2, 7):
        set_image(mini, f"registry.example/web:{number}")
        mini.run_pods()
    assert sorted(replica_sets(mini), key=int) == ["4", "5", "6"]


def test_a_replica_set_adopts_and_releases_by_its_selector(mini: Miniature) -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray", "labels": {"app": "web"}}}
    mini.create({**bare, "spec": template()["spec"]})
    mini.create(workload("ReplicaSet", replicas=2))
    assert len(mini.pods()) == 2
    assert mini.get("pods", "stray")["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    mini.run_pods()
    mini.relabel("stray", app="debug")
    assert "ownerReferences" not in mini.get("pods", "stray")["metadata"]
    assert len(mini.pods()) == 3


def test_a_failed_pod_is_replaced_and_kept_to_be_looked_at(mini: Miniature) -> None:
    mini.create(workload("ReplicaSet", replicas=1))
    mini.run_pods()
    (name,) = mini.names("pods")
    mini.end_pod(name, "Failed")
    assert len(mini.pods()) == 2
    assert mini.phase(name) == "Failed"


def test_min_ready_seconds_count_before_a_pod_is_available(mini: Miniature) -> None:
    mini.create(workload("ReplicaSet", replicas=1, minReadySeconds=10))
    mini.run_pods()
    assert "availableReplicas" not in mini.get("replicasets.apps", "web")["status"]
    mini.advance(10)
    assert mini.get("replicasets.apps", "web")["status"]["availableReplicas"] == 1


def test_cheap_pods_and_crowded_nodes_lose_pods_first(mini: Miniature) -> None:
    mini.create(workload("ReplicaSet", replicas=4))
    mini.run_pods()
    cheap = mini.names("pods")[2]
    pod = mini.get("pods", cheap)
    annotations = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    mini.registry.update(PODS, "default", cheap, {**pod, "metadata": {**pod["metadata"], "annotations": annotations}})
    mini.change("replicasets.apps", "web", replicas=3)
    mini.run_pods()
    assert cheap not in mini.names("pods")


def test_a_pod_that_is_refused_is_reported_as_an_event(mini: Miniature) -> None:
    mini.create(workload("ReplicaSet", replicas=1, template=template(priorityClassName="nobody")))
    assert mini.pods() == []
    assert "no PriorityClass with name nobody was found" in mini.events("FailedCreate")[0]


def test_deleting_a_deployment_deletes_everything_below_it(mini: Miniature) -> None:
    deployed(mini)
    mini.delete("deployments.apps", "web")
    mini.run_pods()
    assert mini.all("replicasets.apps") == mini.pods() == []


def test_orphaned_dependents_stay_and_are_adopted_again(mini: Miniature) -> None:
    deployed(mini)
    names = mini.names("pods")
    mini.delete("deployments.apps", "web", propagation="Orphan")
    (replica_set,) = mini.all("replicasets.apps")
    assert not replica_set["metadata"].get("ownerReferences")
    assert mini.names("pods") == names
    mini.create(workload("Deployment", replicas=3))
    assert len(mini.all("replicasets.apps")) == 1
    assert mini.names("pods") == names


def test_foreground_deletion_waits_for_the_dependents(mini: Miniature) -> None:
    deployed(mini)
    mini.delete("deployments.apps", "web", propagation="Foreground")
    waiting = mini.get("deployments.apps", "web")["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in waiting
    assert all("deletionTimestamp" in pod["metadata"] for pod in mini.pods())
    mini.run_pods()
    assert not mini.has("deployments.apps", "web")
    assert mini.all("replicasets.apps") == mini.pods() == []
