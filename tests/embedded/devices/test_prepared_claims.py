"""Hollow kubelets and device claims: what is prepared, what is refused, and a pod that starts only then."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.machinery.resources import BY_KEY, EVENTS, NODES, PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.hollow.kubelets import hollow_kubelets
from kscheduler.embedded.hollow.prepared_claims import PreparedClaims, UnpreparedError, claim_names
from kscheduler.embedded.objects.registry import NO_OPTIONS

Object = dict[str, Any]
CLAIMS = BY_KEY["resourceclaims.resource.k8s.io"]


def pod_of(name: str = "worker", *entries: Object, statuses: list[Object] | None = None, **spec: Any) -> Pod:
    tree = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"resourceClaims": list(entries or [{"name": "gpu", "resourceClaimName": "one"}]), **spec},
        "status": {"resourceClaimStatuses": statuses or []},
    }
    return convert(tree, Pod)


def claim_of(name: str = "one", *devices: str, users: tuple[str, ...] = ("worker",), **result: Any) -> ResourceClaim:
    results = [{"request": "gpu", "driver": "d", "pool": "node-0", "device": device, **result} for device in devices]
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return convert(
        {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "status": status}, ResourceClaim
    )


def test_names_come_from_the_spec_or_the_status() -> None:
    entries = [{"name": name, "resourceClaimTemplateName": "t"} for name in ("a", "b")]
    pod = pod_of("worker", {"name": "c", "resourceClaimName": "own"}, *entries, statuses=[
        {"name": "a", "resourceClaimName": "made"}, {"name": "b"}
    ])  # fmt: skip
    assert claim_names(pod) == ["own", "made"]
    with pytest.raises(UnpreparedError, match="ResourceClaim not created yet"):
        claim_names(pod_of("worker", *entries))


def test_a_claim_must_be_allocated() -> None:
    unallocated = convert({"metadata": {"name": "one", "uid": "1"}}, ResourceClaim)
    with pytest.raises(UnpreparedError, match="ResourceClaim one is not allocated"):
        PreparedClaims().prepare(pod_of(), [unallocated])


def test_a_claim_must_be_reserved_for_the_pod() -> None:
    text = r"pod worker \(uid-worker\) is not allowed to use ResourceClaim one \(uid-one\)"
    with pytest.raises(UnpreparedError, match=text):
        PreparedClaims().prepare(pod_of(), [claim_of("one", "gpu-0", users=("other",))])


def test_a_claim_may_be_reserved_for_the_pods_group() -> None:
    prepared = PreparedClaims()
    tree = {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "team", "uid": "g"}
    status = {"allocation": {"devices": {"results": []}}, "reservedFor": [tree]}
    claim = convert({"metadata": {"name": "one", "uid": "1"}, "status": status}, ResourceClaim)
    prepared.prepare(pod_of(schedulingGroup={"podGroupName": "team"}), [claim])
    with pytest.raises(UnpreparedError):
        prepared.prepare(pod_of(schedulingGroup={"podGroupName": "others"}), [claim])


def test_a_device_is_prepared_for_one_claim_until_its_last_pod_is_gone() -> None:
    prepared = PreparedClaims()
    shared = claim_of("one", "gpu-0", "gpu-1", users=("a", "b"))
    other = claim_of("two", "gpu-1", users=("c",))
    for name in ("a", "b"):
        prepared.prepare(pod_of(name), [shared])
    for name in ("a", "b"):
        with pytest.raises(UnpreparedError, match="device d/node-0/gpu-1 of ResourceClaim two is already prepared for"):
            prepared.prepare(pod_of("c"), [other])
        prepared.release(pod_of(name))
    prepared.prepare(pod_of("c"), [other])
    assert len(prepared) == 1


def test_a_pod_gets_all_its_claims_or_none() -> None:
    prepared = PreparedClaims()
    first, second = claim_of("one", "gpu-0"), claim_of("two", "gpu-0")
    with pytest.raises(UnpreparedError):
        prepared.prepare(pod_of(), [first, second])
    assert len(prepared) == 0


@pytest.mark.parametrize("fields", [{"adminAccess": True}, {"shareID": "s"}])
def test_admin_access_and_shares_hold_nothing(fields: Object) -> None:
    prepared = PreparedClaims()
    prepared.prepare(pod_of("a"), [claim_of("one", "gpu-0", users=("a",))])
    prepared.prepare(pod_of("b"), [claim_of("two", "gpu-0", users=("b",), **fields)])
    assert len(prepared) == 1


@pytest.fixture
async def site() -> AsyncIterator[EmbeddedAPIServer]:
    async with EmbeddedAPIServer(seed=1) as server:
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        server.registry.create(NODES, "", {"metadata": {"name": "node-0"}, "status": {"capacity": allocatable}})
        async with hollow_kubelets(server.url):
            yield server


async def until(holds: Any) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the store has no event for this
            await asyncio.sleep(0.02)


async def test_a_pod_starts_when_its_claim_is_allocated_and_reserved(site: EmbeddedAPIServer) -> None:
    registry = site.registry
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
    registry.create(CLAIMS, "default", {"metadata": {"name": "one"}, "spec": {"devices": {"requests": requests}}})
    spec = {
        "containers": [{"name": "c", "image": "a:1"}],
        "nodeName": "node-0",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
    }
    uid = registry.create(PODS, "default", {"metadata": {"name": "worker"}, "spec": spec}).value["metadata"]["uid"]

    def messages() -> list[str]:
        return [record.value["message"] for record in registry.store.collection(EVENTS.collection).records.values()]

    await until(messages)
    assert messages() == ["Failed to prepare dynamic resources: ResourceClaim one is not allocated"]
    assert registry.get(PODS, "default", "worker").value["status"]["phase"] == "Pending"
    record = registry.get(CLAIMS, "default", "one")
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "worker", "uid": uid}],
    }
    registry.replace(CLAIMS, record, {**record.value, "status": status}, NO_OPTIONS, "status")
    await until(lambda: registry.get(PODS, "default", "worker").value["status"]["phase"] == "Running")
    assert len(messages()) == 1
