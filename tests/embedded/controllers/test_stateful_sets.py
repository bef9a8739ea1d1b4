"""StatefulSets: names, order, storage, partitions, revisions."""

import pytest

from kscheduler.api.machinery.api_errors import Object
from tests.embedded.controllers.miniature import Miniature, template, workload

SETS = "statefulsets.apps"


@pytest.fixture
def mini() -> Miniature:
    return Miniature()


def image_of(mini: Miniature, name: str) -> str:
    image: str = mini.get("pods", name)["spec"]["containers"][0]["image"]
    return image


def set_image(mini: Miniature, image: str) -> None:
    mini.change(SETS, "web", template=template(image=image))


def status(mini: Miniature) -> Object:
    found: Object = mini.get(SETS, "web")["status"]
    return found


def test_pods_are_made_one_after_the_other(mini: Miniature) -> None:
    mini.create(workload("StatefulSet", replicas=3, serviceName="web"))
    assert mini.names("pods") == ["web-0"]
    mini.run_pods("web-0")
    assert mini.names("pods") == ["web-0", "web-1"]
    mini.run_pods()
    assert mini.names("pods") == ["web-0", "web-1", "web-2"]
    pod = mini.get("pods", "web-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "web")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert status(mini)["readyReplicas"] == status(mini)["updatedReplicas"] == 3
    assert status(mini)["currentRevision"] == status(mini)["updateRevision"]


def test_parallel_sets_make_and_delete_all_at_once(mini: Miniature) -> None:
    mini.create(workload("StatefulSet", replicas=3, podManagementPolicy="Parallel"))
    assert mini.names("pods") == ["web-0", "web-1", "web-2"]
    mini.run_pods()
    mini.change(SETS, "web", replicas=0)
    assert all("deletionTimestamp" in pod["metadata"] for pod in mini.pods())


def test_scaling_down_takes_the_last_first_and_waits_for_it(mini: Miniature) -> None:
    mini.create(workload("StatefulSet", replicas=3))
    mini.run_pods()
    mini.change(SETS, "web", replicas=1)
    going = [pod["metadata"]["name"] for pod in mini.pods() if "deletionTimestamp" in pod["metadata"]]
    assert going == ["web-2"]
    mini.run_pods()
    assert mini.names("pods") == ["web-0"]


def test_an_update_goes_from_the_last_to_the_partition(mini: Miniature) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    mini.create(workload("StatefulSet", replicas=3, updateStrategy=rolling))
    mini.run_pods()
    set_image(mini, "registry.example/web:2")
    going = [pod["metadata"]["name"] for pod in mini.pods() if "deletionTimestamp" in pod["metadata"]]
    assert going == ["web-2"]
    mini.run_pods()
    assert [image_of(mini, f"web-{number}")[-1] for number in range(3)] == ["1", "2", "2"]
    assert status(mini)["currentRevision"] != status(mini)["updateRevision"]
    assert (status(mini)["currentReplicas"], status(mini)["updatedReplicas"]) == (1, 2)
    mini.delete("pods", "web-0")
    mini.run_pods()
    assert image_of(mini, "web-0")[-1] == "1"
    mini.change(SETS, "web", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    mini.run_pods()
    assert image_of(mini, "web-0")[-1] == "2"
    assert status(mini)["currentRevision"] == status(mini)["updateRevision"]


def test_on_delete_replaces_only_what_others_delete(mini: Miniature) -> None:
    mini.create(workload("StatefulSet", replicas=2, updateStrategy={"type": "OnDelete"}))
    mini.run_pods()
    set_image(mini, "registry.example/web:2")
    mini.run_pods()
    assert image_of(mini, "web-1")[-1] == "1"
    mini.delete("pods", "web-1")
    mini.run_pods()
    assert image_of(mini, "web-1")[-1] == "2"


def test_a_template_that_comes_back_gets_its_revision_with_a_new_number(mini: Miniature) -> None:
    mini.create(workload("StatefulSet", replicas=1))
    mini.run_pods()
    first = status(mini)["updateRevision"]
    set_image(mini, "registry.example/web:2")
    mini.run_pods()
    mini.change(SETS, "web", template=template())
    mini.run_pods()
    assert status(mini)["updateRevision"] == first
    assert sorted(one["revision"] for one in mini.all("controllerrevisions.apps")) == [2, 3]


def test_claims_are_made_for_each_pod_and_outlive_it(mini: Miniature) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": wanted}]
    mini.create(workload("StatefulSet", replicas=2, volumeClaimTemplates=claims))
    mini.run_pods()
    assert mini.names("persistentvolumeclaims") == ["data-web-0", "data-web-1"]
    (volume,) = mini.get("pods", "web-1")["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "data-web-1"
    uid = mini.get("persistentvolumeclaims", "data-web-1")["metadata"]["uid"]
    mini.change(SETS, "web", replicas=1)
    mini.run_pods()
    mini.change(SETS, "web", replicas=2)
    mini.run_pods()
    assert mini.get("persistentvolumeclaims", "data-web-1")["metadata"]["uid"] == uid


def test_claims_go_with_their_pod_when_the_policy_says_so(mini: Miniature) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": wanted}]
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    mini.create(
        workload("StatefulSet", replicas=2, volumeClaimTemplates=claims, persistentVolumeClaimRetentionPolicy=policy)
    )
    mini.run_pods()
    mini.change(SETS, "web", replicas=1)
    mini.run_pods()
    assert mini.names("persistentvolumeclaims") == ["data-web-0"]
    mini.delete(SETS, "web")
    mini.run_pods()
    assert mini.names("persistentvolumeclaims") == []


def test_a_failed_pod_is_made_again_under_its_name(mini: Miniature) -> None:
    mini.create(workload("StatefulSet", replicas=1))
    mini.run_pods()
    uid = mini.get("pods", "web-0")["metadata"]["uid"]
    mini.end_pod("web-0", "Failed")
    mini.run_pods()
    assert mini.phase("web-0") == "Running"
    assert mini.get("pods", "web-0")["metadata"]["uid"] != uid
