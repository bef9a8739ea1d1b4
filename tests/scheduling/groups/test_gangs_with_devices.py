"""Gangs whose members claim devices: of their own, or one claim together."""

from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import ResourceClaim
from kscheduler.client.claim_writes import ApiClaimWriter
from tests.builders import make_node
from tests.plugins.dynamic_resources.stage import allocation, device_class, devices_of, exactly
from tests.scheduling.claims.stage import ClaimServer, refusal
from tests.scheduling.groups.world import World, member, pod_group

# One fits on a node.
ONE_EACH: dict[str, Any] = {"requests": {"cpu": "3"}}
SHARED = "shared"


class DeviceWorld(World):
    """A world with claims to devices."""

    def __init__(self) -> None:
        self.server = ClaimServer()
        super().__init__(claim_storage=ApiClaimWriter(self.server))
        self.server.on_change = self._changed
        self.cache.devices.put_class(device_class())

    def _changed(self, now: dict[str, Any] | None, last: dict[str, Any]) -> None:
        claims = self.cache.devices.claims
        if now is None:
            claims.delete(convert(last, ResourceClaim))
        else:
            claims.update(convert(now, ResourceClaim))

    def put_claim(self, name: str, *requests: dict[str, Any], **status: Any) -> None:
        """A claim for one GPU, unless other requests are given."""
        stored = self.server.put_object(name, **status)
        stored["spec"]["devices"]["requests"] = list(requests) or [exactly()]
        self._changed(stored, stored)

    def fabric(self, *devices: str) -> None:
        """Devices that all nodes reach."""
        self.cache.devices.put_slice(devices_of("fabric", *devices, nodeName=None, allNodes=True))

    def gang_with(self, name: str, claims: list[list[str]], **fields: Any) -> None:
        """A gang appears; each member names these claims."""
        self.add_group(pod_group(name, len(claims)))
        for number, named in enumerate(claims):
            entries = [{"name": each, "resourceClaimName": each} for each in named]
            self.add(member(f"{name}-{number}", name, resourceClaims=entries, **fields))

    def users(self, name: str) -> list[str]:
        """The pods that have a claim reserved, by name."""
        return sorted(user["name"] for user in self.server.objects[name]["status"].get("reservedFor", ()))

    def condition_message(self, name: str) -> str:
        """What was said last of a pod."""
        return next(condition.message for key, condition, _ in reversed(self.reported.reports) if key.endswith(name))

    def held(self) -> dict[str, list[str]]:
        """By device the claims that have it, in the API server."""
        found: dict[str, list[str]] = {}
        for name, stored in self.server.objects.items():
            for result in (stored["status"].get("allocation") or {}).get("devices", {}).get("results", ()):
                found.setdefault(result["device"], []).append(name)
        return found


async def test_members_that_name_one_claim_share_what_the_first_one_has_chosen() -> None:
    world = DeviceWorld()
    world.nodes(3)
    world.fabric("gpu-0", "gpu-1")
    world.put_claim(SHARED)
    async with world.working():
        world.gang_with("g", [[SHARED]] * 3, **ONE_EACH)
        await world.rest()
        await world.settle(200)
        assert world.bound() == ["g-0", "g-1", "g-2"]
        assert world.reported.reports == []
        assert [request for request in world.server.writes() if request.endswith("status")] == [
            "PUT resourceclaims/shared/status"
        ] * 3
    assert world.users(SHARED) == ["g-0", "g-1", "g-2"]
    assert world.held() == {"gpu-0": [SHARED]}
    assert len(world.cache.devices.claims.allocated_state().devices) == 1


async def test_a_shared_claim_and_one_of_its_own_get_different_devices() -> None:
    """In kube-scheduler 1.37 the second member's claims get each other's devices: docs/differences.md."""
    world = DeviceWorld()
    world.nodes(2)
    world.fabric("gpu-0", "gpu-1", "gpu-2")
    for name in (SHARED, "own-0", "own-1"):
        world.put_claim(name)
    async with world.working():
        world.gang_with("g", [[SHARED, "own-0"], [SHARED, "own-1"]], **ONE_EACH)
        await world.rest()
        await world.settle(200)
        assert len(world.bound()) == 2
    assert sorted(map(len, world.held().values())) == [1, 1, 1]
    assert world.users("own-1") == ["g-1"]
    assert world.users(SHARED) == ["g-0", "g-1"]


async def test_members_follow_the_device_of_their_claim_to_the_nodes_that_reach_it() -> None:
    world = DeviceWorld()
    world.nodes(2)
    world.cache.devices.put_slice(devices_of("node-0", "gpu-0"))
    world.put_claim(SHARED)
    async with world.working():
        world.gang_with("g", [[SHARED]] * 2, **ONE_EACH)
        await world.rest()
        assert world.bound() == []
        assert "resourceclaim not available on the node" in world.condition_message("g-1")
        assert len(world.cache.devices.claims.allocated_state().devices) == 0
        world.add(make_node("node-0", cpu="8"))
        await world.pass_seconds(30)
        await world.rest()
        assert len(world.bound()) == 2
    assert world.held() == {"gpu-0": [SHARED]}


async def test_a_claim_that_a_pod_outside_of_the_group_is_being_given_is_waited_for() -> None:
    world = DeviceWorld()
    world.nodes(2)
    world.fabric("gpu-0")
    world.put_claim(SHARED)
    claim = world.cache.devices.claims.get(f"default/{SHARED}")
    assert claim is not None
    world.cache.devices.claims.signal_pending(claim.metadata.uid, claim)
    async with world.working():
        world.gang_with("g", [[SHARED]] * 2, **ONE_EACH)
        await world.rest()
        assert world.bound() == []
        assert "is in the process of being allocated" in world.condition_message("g-0")


@pytest.mark.parametrize("refused", range(1, 5))
async def test_whichever_write_of_a_shared_claim_fails_all_members_are_bound_in_the_end(refused: int) -> None:
    world = DeviceWorld()
    world.nodes(3)
    world.fabric("gpu-0", "gpu-1")
    world.put_claim(SHARED)
    seen = 0

    def refuse(request: str) -> None:
        nonlocal seen
        seen += request.startswith(("PATCH", "PUT"))
        if request.startswith(("PATCH", "PUT")) and seen == refused:
            raise refusal(403, "refused once")

    world.server.before = refuse
    async with world.working():
        world.gang_with("g", [[SHARED]] * 3, **ONE_EACH)
        for _ in range(20):
            await world.pass_seconds(3)
            await world.rest()
        assert len(world.bound()) == 3
    assert world.users(SHARED) == ["g-0", "g-1", "g-2"]
    assert world.held() == {"gpu-0": [SHARED]}
    assert len(world.cache.devices.claims.allocated_state().devices) == 1


async def test_a_member_whose_claim_has_devices_elsewhere_gives_them_back_and_the_gang_is_placed() -> None:
    """Both members' claims hold devices of a node without room. Each trial frees one, until both can go elsewhere."""
    world = DeviceWorld()
    world.nodes(2)
    world.add(member("full", "", node="node-0", requests={"cpu": "4"}))
    for node in ("node-0", "node-1"):
        world.cache.devices.put_slice(devices_of(node, *(f"{node}-gpu-{number}" for number in range(2))))
    for number in range(2):
        world.put_claim(f"c{number}", allocation=allocation("node-0", f"node-0-gpu-{number}"))
    async with world.working():
        world.gang_with("g", [["c0"], ["c1"]], requests={"cpu": "1"})
        await world.settle(200)
        # The second member was not tried: without the first one the gang cannot be whole.
        assert world.held() == {"node-0-gpu-1": ["c1"]}
        await world.pass_seconds(8)
        await world.rest()
        assert len(world.bound("g")) == 2
    assert world.held() == {"node-1-gpu-0": ["c0"], "node-1-gpu-1": ["c1"]}


async def test_a_claim_that_another_pod_has_reserved_keeps_its_devices() -> None:
    world = DeviceWorld()
    world.nodes(2)
    world.add(member("full", "", node="node-0", requests={"cpu": "4"}))
    world.cache.devices.put_slice(devices_of("node-0", "gpu-0"))
    held = {"allocation": allocation("node-0", "gpu-0"), "reservedFor": [{"name": "other", "uid": "other"}]}
    world.put_claim("c0", **held)
    async with world.working():
        world.gang_with("g", [["c0"]], requests={"cpu": "1"})
        await world.settle(200)
        assert world.bound("g") == []
    assert world.held() == {"gpu-0": ["c0"]}
