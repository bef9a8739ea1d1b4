"""Device claims: made from templates, named in the pod's status, reserved, released, deleted."""

from typing import Any

import pytest

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import BY_KEY
from kscheduler.embedded.controllers.devices import driver
from kscheduler.embedded.objects.registry import NO_OPTIONS
from tests.embedded.controllers.miniature import Miniature, job, template

CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"
GROUP = "resource.k8s.io/v1"
SPEC: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}


@pytest.fixture
def mini() -> Miniature:
    return Miniature()


def claim_template(mini: Miniature, name: str = "one-gpu", **metadata: Any) -> None:
    spec = {"metadata": metadata, "spec": SPEC}
    mini.create({"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec})


def claim(mini: Miniature, name: str = "shared") -> None:
    mini.create({"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": SPEC})


def pod(mini: Miniature, name: str = "worker", entry: str = "gpu", **source: str) -> Object:
    claims = [{"name": entry, **(source or {"resourceClaimTemplateName": "one-gpu"})}]
    spec = template(resourceClaims=claims)["spec"]
    return mini.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def allocate(mini: Miniature, name: str, *pods: str) -> None:
    """As a scheduler does: finalizer, then allocation and reservations."""
    record = mini.registry.get(BY_KEY[CLAIMS], "default", name)
    metadata = {**record.value["metadata"], "finalizers": [driver.FINALIZER]}
    mini.registry.replace(BY_KEY[CLAIMS], record, {**record.value, "metadata": metadata}, NO_OPTIONS)
    users = [{"resource": "pods", "name": one, "uid": mini.get("pods", one)["metadata"]["uid"]} for one in pods]
    fields: Object = {"reservedFor": users} if users else {}
    mini.change(CLAIMS, name, "status", allocation={"devices": {"results": [RESULT]}}, **fields)


def statuses(mini: Miniature, name: str = "worker") -> list[Object]:
    found: list[Object] = mini.get("pods", name)["status"].get("resourceClaimStatuses", [])
    return found


def test_a_claim_is_made_from_the_template_and_named_in_the_status(mini: Miniature) -> None:
    claim_template(mini, labels={"team": "a"}, annotations={"note": "x"})
    owner = pod(mini)["metadata"]
    (made,) = mini.all(CLAIMS)
    metadata = made["metadata"]
    assert metadata["name"].startswith("worker-gpu-")
    assert metadata["name"] != "worker-gpu-"
    assert metadata["labels"] == {"team": "a"}
    assert metadata["annotations"] == {"note": "x", "resource.kubernetes.io/pod-claim-name": "gpu"}
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "worker", "uid": owner["uid"], "controller": True}
    assert metadata["ownerReferences"] == [reference]
    request = made["spec"]["devices"]["requests"][0]["exactly"]
    assert request == {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
    assert statuses(mini) == [{"name": "gpu", "resourceClaimName": metadata["name"]}]


def test_a_long_name_keeps_something_of_pod_and_entry(mini: Miniature) -> None:
    claim_template(mini)
    pod(mini, "p" * 60, "e" * 40)
    (made,) = mini.names(CLAIMS)
    pods, entry = 60 * 57 // 102, 40 * 57 // 102
    assert made[: pods + 1 + entry] == f"{'p' * pods}-{'e' * entry}"
    assert len(made) <= 63


def test_a_missing_template_is_reported_and_awaited(mini: Miniature) -> None:
    pod(mini)
    text = 'PodResourceClaim gpu: resource claim template "one-gpu": '
    assert mini.events("FailedResourceClaimCreation") == [
        f'{text}resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
    ]
    assert statuses(mini) == []
    claim_template(mini)
    assert [status["name"] for status in statuses(mini)] == ["gpu"]


def test_a_lost_claim_is_made_again(mini: Miniature) -> None:
    claim_template(mini)
    pod(mini)
    (first,) = mini.names(CLAIMS)
    mini.delete(CLAIMS, first)
    (second,) = mini.names(CLAIMS)
    assert second != first
    assert statuses(mini) == [{"name": "gpu", "resourceClaimName": second}]


def test_a_named_claim_needs_no_status_and_is_not_made(mini: Miniature) -> None:
    pod(mini, resourceClaimName="shared")
    assert mini.all(CLAIMS) == []
    assert statuses(mini) == []


def test_a_pod_on_a_node_gets_its_reservation_without_a_scheduler(mini: Miniature) -> None:
    claim(mini)
    pod(mini, resourceClaimName="shared")
    allocate(mini, "shared")
    assert "reservedFor" not in mini.get(CLAIMS, "shared")["status"], "a pod without a node is the scheduler's"
    mini.run_pods()
    uid = mini.get("pods", "worker")["metadata"]["uid"]
    assert mini.get(CLAIMS, "shared")["status"]["reservedFor"] == [{"resource": "pods", "name": "worker", "uid": uid}]


def test_the_last_consumer_that_goes_takes_allocation_and_finalizer(mini: Miniature) -> None:
    claim(mini)
    for name in ("one", "two"):
        pod(mini, name, resourceClaimName="shared")
    allocate(mini, "shared", "one", "two")
    mini.run_pods()
    mini.end_pod("one")
    found = mini.get(CLAIMS, "shared")
    assert [user["name"] for user in found["status"]["reservedFor"]] == ["two"]
    assert found["status"]["allocation"]["devices"]["results"] == [RESULT]
    mini.delete("pods", "two", grace_period_seconds=0)
    found = mini.get(CLAIMS, "shared")
    assert found["status"] == {}
    assert "finalizers" not in found["metadata"]


def test_a_pod_under_the_same_name_is_somebody_else(mini: Miniature) -> None:
    claim(mini)
    pod(mini, resourceClaimName="shared")
    allocate(mini, "shared", "worker")
    own = mini.get(CLAIMS, "shared")["status"]["reservedFor"]
    before = {"resource": "pods", "name": "worker", "uid": "00000000-0000-0000-0000-000000000000"}
    mini.change(CLAIMS, "shared", "status", reservedFor=[before, *own])
    assert mini.get(CLAIMS, "shared")["status"]["reservedFor"] == own


def test_a_consumer_of_an_unknown_kind_is_kept(mini: Miniature) -> None:
    claim(mini)
    allocate(mini, "shared")
    other = {"apiGroup": "example.com", "resource": "machines", "name": "a", "uid": "1"}
    mini.change(CLAIMS, "shared", "status", reservedFor=[other])
    assert mini.get(CLAIMS, "shared")["status"]["reservedFor"] == [other]


def test_an_allocation_that_was_never_reserved_stays(mini: Miniature) -> None:
    claim(mini)
    allocate(mini, "shared")
    assert mini.get(CLAIMS, "shared")["status"]["allocation"]["devices"]["results"] == [RESULT]


def test_a_deleted_claim_stays_while_it_is_used(mini: Miniature) -> None:
    claim(mini)
    pod(mini, resourceClaimName="shared")
    allocate(mini, "shared", "worker")
    mini.run_pods()
    mini.delete(CLAIMS, "shared")
    found = mini.get(CLAIMS, "shared")
    assert "deletionTimestamp" in found["metadata"]
    assert found["status"]["reservedFor"]
    mini.end_pod("worker")
    assert not mini.has(CLAIMS, "shared")


def test_a_deleted_claim_that_is_allocated_and_unused_goes(mini: Miniature) -> None:
    claim(mini)
    allocate(mini, "shared")
    mini.delete(CLAIMS, "shared")
    assert not mini.has(CLAIMS, "shared")


def test_claims_made_for_a_pod_go_when_it_is_done(mini: Miniature) -> None:
    claim_template(mini)
    pod(mini)
    (name,) = mini.names(CLAIMS)
    allocate(mini, name, "worker")
    mini.run_pods()
    mini.end_pod("worker")
    assert mini.all(CLAIMS) == []
    assert mini.phase("worker") == "Succeeded"
    assert mini.all(CLAIMS) == [], "nobody makes it again"


def test_claims_made_for_a_pod_go_with_it(mini: Miniature) -> None:
    claim_template(mini)
    pod(mini)
    (name,) = mini.names(CLAIMS)
    allocate(mini, name, "worker")
    mini.run_pods()
    mini.delete("pods", "worker", grace_period_seconds=0)
    assert mini.all(CLAIMS) == []


def test_each_pod_of_a_job_has_its_own_claim(mini: Miniature) -> None:
    claim_template(mini)
    sums = job(parallelism=2, completions=2)
    sums["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    mini.create(sums)
    owners = {one["metadata"]["ownerReferences"][0]["name"] for one in mini.all(CLAIMS)}
    assert owners == set(mini.names("pods"))
    assert len(owners) == 2


def test_status_of_devices_goes_with_the_allocation(mini: Miniature) -> None:
    claim(mini)
    allocate(mini, "shared")
    devices = [{"driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}]
    mini.change(CLAIMS, "shared", "status", devices=devices)
    record = mini.registry.get(BY_KEY[CLAIMS], "default", "shared")
    changed = {**record.value, "status": {"devices": devices}}
    mini.registry.replace(BY_KEY[CLAIMS], record, changed, NO_OPTIONS, "status")
    assert mini.get(CLAIMS, "shared")["status"] == {}
