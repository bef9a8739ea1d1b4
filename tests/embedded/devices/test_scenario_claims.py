"""Scenarios with claims to devices: the stand-in takes the scheduler's writes, and each device goes to one claim."""

from collections import Counter

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kscheduler.bench import objects
from kscheduler.bench.player import Player
from kscheduler.bench.scenario import BenchmarkScenario, CreateNodes, CreateObjects, CreatePods
from kscheduler.bench.template import template

POOL = {"name": "$node", "generation": 1, "resourceSliceCount": 1}
SLICE = template(
    RESOURCE_SLICES,
    "slice-$node",
    {
        "spec": {
            "driver": "gpu.example.com",
            "pool": POOL,
            "nodeName": "$node",
            "devices": [{"name": "a"}, {"name": "b"}],
        }
    },
)
REQUEST = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "$pod", "uid": "$poduid", "controller": True}
CLAIM = template(
    RESOURCE_CLAIMS,
    "$pod-made",
    {"metadata": {"ownerReferences": [OWNER]}, "spec": {"devices": {"requests": [REQUEST]}}},
)
POD = objects.pod(
    "wants-",
    resourceClaims=[{"name": "made", "resourceClaimTemplateName": "each"}],
    status={"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "$name-made"}]},
)


async def test_each_pod_gets_a_device_of_its_node() -> None:
    scenario = BenchmarkScenario(
        "Devices",
        "ours",
        (
            CreateObjects(template(DEVICE_CLASSES, "gpu", {"spec": {}})),
            CreateNodes(4, objects.node("node-"), companions=(SLICE,)),
            CreatePods(8, POD, measured=True, companions=(CLAIM,)),
        ),
    )
    player = Player(scenario)
    figures = await player.play()
    assert figures.bound == 8
    claims: list[ResourceClaim] = player.cluster.informers[RESOURCE_CLAIMS].store.list()
    allocations = [claim.status.allocation for claim in claims if claim.status.allocation is not None]
    held = Counter((found.pool, found.device) for allocation in allocations for found in allocation.devices.results)
    assert len(held) == 8
    assert set(held.values()) == {1}
    assert all(claim.status.reserved_for[0].uid == claim.metadata.owner_references[0].uid for claim in claims)
