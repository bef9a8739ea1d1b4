"""`/simulate` of a running service with claims to devices: the same as the command says."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from kscheduler.api.devices import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.builders import node_tree, pod_tree
from tests.service.asking.test_questions import Tree, simulated, until_true
from tests.service.running import put, running, until
from tests.simulate.test_claims_to_devices import (
    CLASS,
    DEVICES,
    claim,
    device_class,
    from_template,
    gpus,
    new_pod,
    template,
)

KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "resourceclaims.resource.k8s.io": "ResourceClaim",
    "resourceslices.resource.k8s.io": "ResourceSlice",
    "deviceclasses.resource.k8s.io": "DeviceClass",
}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
SHARED = [{"name": "gpu", "resourceClaimName": "shared"}]


def fill(server: EmbeddedAPIServer, **devices: int) -> None:
    """Nodes with devices; as many pods as the first node has devices claim one each, and have their claims."""
    server.store.put("deviceclasses.resource.k8s.io", device_class())
    for name, count in devices.items():
        put(server, "nodes", node_tree(name, cpu="16"))
        server.store.put("resourceslices.resource.k8s.io", gpus(name, count))
    for number in range(next(iter(devices.values()))):
        name = f"web-{number}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-of-{name}", "controller": True}
        made = claim(f"{name}-gpu-x", uid=f"uid-of-claim-{number}", ownerReferences=[owner])
        server.store.put("resourceclaims.resource.k8s.io", made)
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu-x"}]}
        metadata = {"ownerReferences": [OWNER]}
        pod = pod_tree(name, namespace="shop", metadata=metadata, status=status, resourceClaims=from_template())
        put(server, "pods", pod)


def _is_bound(server: EmbeddedAPIServer, name: str) -> bool:
    record = server.store.get("pods", "shop", name)
    return record is not None and bool(record.value["spec"].get("nodeName"))


def dumped(server: EmbeddedAPIServer) -> str:
    items = [
        {"apiVersion": "resource.k8s.io/v1" if "." in collection else "v1", "kind": kind, **record.value}
        for collection, kind in KINDS.items()
        for record in server.store.collection(collection).records.values()
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


async def test_the_service_says_of_claims_what_the_command_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        fill(server, a=3, b=4)
        await until(server, lambda: all(_is_bound(server, f"web-{number}") for number in range(3)))
        cache = app.parts.assembly.cache
        await until_true(lambda: not cache.statistics().assumed_pods and len(cache.devices.slices()) == 2)
        before = dumped(server)
        source, manifest = tmp_path / "cluster.json", tmp_path / "new.json"
        source.write_text(before)
        fresh = [template(), new_pod("new", resourceClaims=from_template())]
        shared = [claim("shared"), new_pod("sharing", resourceClaims=SHARED)]
        plays: list[tuple[list[Tree], Tree, list[str]]] = [
            (fresh, {"replicas": 2, "capacity": True}, ["--replicas", "2", "--capacity"]),
            (
                fresh,
                {"replicas": 9, "addNodes": [{"count": 1, "like": "b"}]},
                ["--replicas", "9", "--add-nodes", "1:b"],
            ),
            (shared, {"replicas": 3}, ["--replicas", "3"]),
            ([], {"drain": ["a"]}, ["--drain", "a"]),
            ([], {"removeNodes": ["b"]}, ["--remove-node", "b"]),
        ]
        for objects, request, changes in plays:
            manifest.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
            flags = [*changes, "-f", str(manifest)] if objects else changes
            reported = await simulated(app, objects=objects, **request)
            assert await asyncio.to_thread(main, ["simulate", "--from", str(source), "-o", "json", *flags]) == 0
            lines = capsys.readouterr().out.splitlines()  # the service logs there, too
            expected = json.loads(next(line for line in lines if line.startswith("{")))
            assert reported | {"notes": []} == expected | {"notes": []}, flags
            assert reported["placed"]
        assert dumped(server) == before


async def test_devices_of_a_pod_that_is_being_bound_are_taken_and_its_claim_is_shared() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        fill(server, a=0, b=2)
        server.store.put("resourceclaims.resource.k8s.io", claim("shared", uid="uid-of-shared"))
        gated = pod_tree("under-way", namespace="shop", resourceClaims=SHARED, schedulingGates=[{"name": "a/b"}])
        put(server, "pods", gated)
        assembly = app.parts.assembly
        await until_true(lambda: app.http_app.is_scheduling and assembly.queue.find("shop/under-way") is not None)
        claims = assembly.cache.devices.claims
        await until_true(lambda: claims.get("shop/shared") is not None and len(assembly.cache.nodes) == 2)
        found, known = assembly.queue.find("shop/under-way"), claims.get("shop/shared")
        assert found is not None
        assert known is not None
        device = DeviceRequestAllocationResult(request="gpu", driver=CLASS, pool="b", device="gpu-0")
        chosen = AllocationResult(devices=DeviceAllocationResult(results=(device,)))
        assembly.cache.assume_pod(found[1].pod, "b")
        status = msgspec.structs.replace(known.status, allocation=chosen)
        claims.signal_pending("uid-of-shared", msgspec.structs.replace(known, status=status))
        sharing = new_pod("sharing", resourceClaims=SHARED)
        own = new_pod("own", resourceClaims=from_template())
        tree = await simulated(app, objects=[template(), sharing, own], capacity=True)
        claims.remove_pending("uid-of-shared", force=True)
        assembly.cache.forget_pod("uid-of-under-way")
    assert {each["pod"] for each in tree["placed"]} == {"shop/sharing", "shop/own"}
    assert tree["room"]["after"][DEVICES] == {"allocatable": 2, "requested": 2}


async def test_a_gang_of_the_request_exists_and_is_counted_whole() -> None:
    version, name = "scheduling.volcano.sh/v1beta1", {"scheduling.k8s.io/group-name": "gang"}
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "gang", "namespace": "shop"}}
    members = [new_pod(f"m-{number}", resourceClaims=from_template()) for number in range(2)]
    for member in members:
        member["metadata"]["annotations"] = name
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**head, "podGroupAPIs": ["volcano"], "profiles": [{"schedulerName": "kscheduler"}]}
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        fill(server, a=0, b=5)
        cache = app.parts.assembly.cache
        await until_true(lambda: app.http_app.is_scheduling and len(cache.devices.slices()) == 2)
        objects = [{**group, "spec": {"minMember": 2}}, template(), *members]
        tree = await simulated(app, objects=objects, capacity=True, config=config)
    assert len(tree["placed"]) == 2
    assert tree["capacity"] == {"pods": 2, "groups": 1, "group": "shop/gang", "isMore": False}
