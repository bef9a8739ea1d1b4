"""Claims and volumes: bound, provisioned, protected, released."""

import pytest

from kscheduler.api.machinery.api_errors import Object
from tests.embedded.controllers.miniature import Miniature, template

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


@pytest.fixture
def mini() -> Miniature:
    return Miniature()


def storage_class(mini: Miniature, name: str = "fast", mode: str = "Immediate", **fields: object) -> None:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    annotations = fields.pop("annotations", {})
    metadata = {"name": name, "annotations": annotations}
    body = {"metadata": metadata, "provisioner": "disks.example", "volumeBindingMode": mode}
    mini.create({**kind, **body, **fields})


def claim(mini: Miniature, name: str = "data", size: str = "1Gi", **spec: object) -> None:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    mini.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body})


def volume(mini: Miniature, name: str, size: str, **spec: object) -> None:
    body = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}, **spec}
    mini.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body})


def annotate(mini: Miniature, name: str, **annotations: str) -> None:
    value = mini.get(CLAIMS, name)
    merged = {**value["metadata"].get("annotations", {}), **annotations}
    from kscheduler.api.machinery.resources import CLAIMS as RESOURCE

    mini.registry.update(RESOURCE, "default", name, {**value, "metadata": {**value["metadata"], "annotations": merged}})
    mini.settle()


def phase(mini: Miniature, key: str, name: str) -> str:
    found: str = mini.get(key, name)["status"]["phase"]
    return found


def bound_to(mini: Miniature, name: str = "data") -> str:
    found: str = mini.get(CLAIMS, name)["spec"].get("volumeName", "")
    return found


def pod_with(mini: Miniature, name: str, claim_name: str) -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    spec = template(volumes=volumes)["spec"]
    return mini.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_the_smallest_volume_that_fits_is_bound(mini: Miniature) -> None:
    volume(mini, "large", "10Gi")
    volume(mini, "small", "2Gi")
    volume(mini, "tiny", "100Mi")
    volume(mini, "other", "2Gi", storageClassName="other")
    assert phase(mini, VOLUMES, "small") == "Available"
    claim(mini)
    assert bound_to(mini) == "small"
    assert phase(mini, CLAIMS, "data") == phase(mini, VOLUMES, "small") == "Bound"
    assert mini.get(CLAIMS, "data")["status"]["capacity"] == {"storage": "2Gi"}
    assert mini.get(VOLUMES, "small")["spec"]["claimRef"]["uid"] == mini.get(CLAIMS, "data")["metadata"]["uid"]


def test_a_claim_waits_for_a_volume_and_takes_it_when_it_comes(mini: Miniature) -> None:
    claim(mini)
    assert phase(mini, CLAIMS, "data") == "Pending"
    assert mini.events("FailedBinding")
    volume(mini, "late", "1Gi")
    assert bound_to(mini) == "late"


def test_immediate_classes_are_provisioned_at_once(mini: Miniature) -> None:
    storage_class(mini)
    claim(mini, storageClassName="fast")
    made = mini.get(VOLUMES, bound_to(mini))
    assert made["spec"]["csi"]["driver"] == "disks.example"
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert mini.events("ProvisioningSucceeded") == [f"Successfully provisioned volume {bound_to(mini)}"]


def test_a_class_that_waits_is_provisioned_for_the_selected_node(mini: Miniature) -> None:
    mini.add_node("zoned", labels={"topology.kubernetes.io/zone": "a"})
    storage_class(mini, mode="WaitForFirstConsumer")
    claim(mini, storageClassName="fast")
    assert mini.all(VOLUMES) == []
    assert mini.events("WaitForFirstConsumer") == ["waiting for first consumer to be created before binding"]
    annotate(mini, "data", **{"volume.kubernetes.io/selected-node": "zoned"})
    (made,) = mini.all(VOLUMES)
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["a"]
    assert phase(mini, CLAIMS, "data") == "Bound"


def test_a_volume_that_the_scheduler_reserved_is_bound(mini: Miniature) -> None:
    storage_class(mini, mode="WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner")
    volume(mini, "disk", "1Gi", storageClassName="fast")
    claim(mini, storageClassName="fast")
    assert bound_to(mini) == ""
    owner = mini.get(CLAIMS, "data")["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": owner["uid"]}
    mini.change(VOLUMES, "disk", claimRef=reference)
    assert bound_to(mini) == "disk"
    assert phase(mini, VOLUMES, "disk") == "Bound"


def test_of_two_default_classes_of_one_second_the_first_by_name_counts(mini: Miniature) -> None:
    for name, mark in (("slow", "storageclass.beta.kubernetes.io"), ("fast", "storageclass.kubernetes.io")):
        storage_class(mini, name, annotations={f"{mark}/is-default-class": "true"})
    claim(mini)
    assert mini.get(CLAIMS, "data")["spec"]["storageClassName"] == "fast"


def test_claims_without_a_class_get_the_default_one(mini: Miniature) -> None:
    storage_class(mini, annotations={"storageclass.kubernetes.io/is-default-class": "true"})
    claim(mini)
    assert mini.get(CLAIMS, "data")["spec"]["storageClassName"] == "fast"
    assert phase(mini, CLAIMS, "data") == "Bound"
    claim(mini, "none", storageClassName="")
    assert phase(mini, CLAIMS, "none") == "Pending"


def test_a_claim_that_a_pod_uses_stays_until_the_pod_is_gone(mini: Miniature) -> None:
    storage_class(mini)
    claim(mini, storageClassName="fast")
    pod_with(mini, "user", "data")
    mini.run_pods()
    mini.delete(CLAIMS, "data")
    assert "deletionTimestamp" in mini.get(CLAIMS, "data")["metadata"]
    mini.delete("pods", "user")
    mini.run_pods()
    assert mini.all(CLAIMS) == []
    assert mini.all(VOLUMES) == [], "its class says Delete"


def test_a_claim_whose_pod_has_no_node_yet_goes_at_once(mini: Miniature) -> None:
    claim(mini)
    pod_with(mini, "waiting", "data")
    mini.delete(CLAIMS, "data")
    assert mini.all(CLAIMS) == []


def test_a_volume_to_be_retained_is_released(mini: Miniature) -> None:
    volume(mini, "kept", "1Gi")
    claim(mini)
    mini.delete(CLAIMS, "data")
    assert phase(mini, VOLUMES, "kept") == "Released"
    claim(mini, "next")
    assert bound_to(mini, "next") == ""


def test_a_bound_volume_stays_until_its_claim_is_gone(mini: Miniature) -> None:
    volume(mini, "kept", "1Gi")
    claim(mini)
    mini.delete(VOLUMES, "kept")
    assert mini.has(VOLUMES, "kept")
    mini.delete(CLAIMS, "data")
    assert not mini.has(VOLUMES, "kept")


def test_an_unknown_class_is_reported(mini: Miniature) -> None:
    claim(mini, storageClassName="nothing")
    assert mini.events("ProvisioningFailed") == ['storageclass.storage.k8s.io "nothing" not found']
    storage_class(mini, "nothing")
    assert phase(mini, CLAIMS, "data") == "Bound"


def test_ephemeral_volumes_get_claims_that_go_with_the_pod(mini: Miniature) -> None:
    storage_class(mini)
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": wanted}}}]
    spec = template(volumes=volumes)["spec"]
    mini.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": spec})
    assert mini.names(CLAIMS) == ["user-scratch"]
    mini.run_pods()
    mini.delete("pods", "user")
    mini.run_pods()
    assert mini.all(CLAIMS) == mini.all(VOLUMES) == []


def test_without_the_hollow_provisioner_claims_wait_for_somebody_elses() -> None:
    mini = Miniature("*,-hollow-provisioner")
    storage_class(mini)
    claim(mini, storageClassName="fast")
    annotations = mini.get(CLAIMS, "data")["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "disks.example"
    assert mini.all(VOLUMES) == []
    assert mini.events("ExternalProvisioning")[0].startswith(
        "Waiting for a volume to be created either by the external"
    )
