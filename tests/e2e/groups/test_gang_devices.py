"""Gangs whose members share a claim to a device: all of them go where the device is, or nobody does."""

from tests.e2e.devices import DevicesRoom
from tests.e2e.groups.gang_capacity import GangRoom


def add_gang(gangs: GangRoom, name: str, members: int, claim: str, cpu: str) -> None:
    gangs.add_group(name, members)
    for number in range(members):
        wanted = [{"name": "gpu", "resourceClaimName": claim}]
        gangs.add_member(name, f"{name}-{number}", cpu=cpu, resourceClaims=wanted)


def test_members_share_a_claim_or_leave_its_devices_alone(own_gangs: GangRoom, devices: DevicesRoom) -> None:
    """Each of two nodes has one device, and room for three of the gang of three, but only for two of the large one."""
    gangs = own_gangs
    for node in ("node-1", "node-2"):
        devices.publish(node, "gpu-0")
    for claim in ("shared", "too-much"):
        devices.add_claim(claim)
    gangs.start()
    add_gang(gangs, "large", 3, "too-much", cpu="2")
    gangs.wait_reported("large", "cannot be satisfied")
    add_gang(gangs, "train", 3, "shared", cpu="1")
    gangs.wait_whole("train")
    nodes = {pod["spec"]["nodeName"] for pod in gangs.members("train")}
    (held,) = devices.held_by("shared")
    assert nodes == {held.partition("/")[0]}
    assert sorted(devices.users("shared")) == [f"train-{number}" for number in range(3)]
    assert gangs.bound("large") == []
    assert devices.held_by("too-much") == []
