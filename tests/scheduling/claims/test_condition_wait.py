"""A pod is bound when the devices of all its claims are ready, and given up when one fails or the time is over."""

import asyncio
from typing import Any

import pytest

from kscheduler.framework.cluster.claim_writing import ClaimRules
from kscheduler.framework.status import Status
from kscheduler.scheduling.attempt_events import DevicesWaitEnded
from tests.builders import make_pod
from tests.scheduling.claims.stage import Stage, allocation

POD = make_pod("p", uid="pod-uid")
RULES = ClaimRules(binding_timeout_seconds=60)
CONDITIONS = {"conditions": ("Attached", "Warm"), "failures": ("Broken",)}


class Waiting:
    """A pod whose claim is written and whose device is not ready yet."""

    def __init__(self, **claims: Any) -> None:
        self.stage = Stage()
        chosen = claims or {"a": allocation("gpu-0", **CONDITIONS)}
        for name in chosen:
            self.stage.server.put_object(name)
        self.reservation = self.stage.reserve(POD, **chosen)
        self.running: asyncio.Task[Status]

    async def begin(self, rules: ClaimRules = RULES) -> None:
        self.running = asyncio.ensure_future(self.stage.commits.pre_bind(self.reservation, rules))
        await self.stage.settle()

    def report(self, claim: str = "a", device: str = "gpu-0", **conditions: str) -> None:
        """The driver says so."""
        listed = [
            {"type": name, "status": status, "reason": "R", "message": 'no "power"'}
            for name, status in conditions.items()
        ]
        place = {"driver": "gpu.example.com", "pool": "node-1", "device": device}
        self.stage.server.change(claim, devices=[place | {"conditions": listed}])

    def series(self) -> list[tuple[tuple[str, ...], int]]:
        return sorted(self.stage.observations.devices_with_conditions.items())


async def test_the_wait_is_reported_and_ends_at_the_next_look_after_all_conditions_are_true() -> None:
    pod = Waiting()
    await pod.begin()
    assert pod.stage.events.notes == [
        "Normal BindingConditionsPending: waiting for binding conditions for device on node node-1"
    ]
    await pod.stage.clock.advance(10)
    pod.report(Attached="True")
    await pod.stage.clock.advance(5)
    assert not pod.running.done()
    pod.report(Attached="True", Warm="True")
    await pod.stage.clock.advance(4.9)
    assert not pod.running.done()
    await pod.stage.clock.advance(0.1)
    assert (await pod.running).is_success
    assert pod.series() == [(("kscheduler", "gpu.example.com", "success"), 1)]
    assert pod.stage.observations.device_wait_seconds["kscheduler", "gpu.example.com", "success"].total == 20


async def test_devices_that_are_ready_at_once_are_waited_for_in_no_time() -> None:
    pod = Waiting(a=allocation("gpu-0"))
    await pod.begin()
    assert (await pod.running).is_success
    assert pod.stage.events.notes == []
    assert pod.series() == []


async def test_a_failure_ends_the_wait_and_the_device_is_not_reserved_any_more() -> None:
    pod = Waiting()
    await pod.begin()
    pod.report(Broken="True")
    await pod.stage.clock.advance(5)
    text = 'device binding failed: claim=a, reason=R, message="no \\"power\\""'
    assert (await pod.running).reasons == (text,)
    assert pod.series() == [(("kscheduler", "gpu.example.com", "failure"), 1)]
    pod.stage.commits.unreserve(pod.reservation)
    await pod.stage.settle()
    assert pod.stage.server.objects["a"]["status"]["reservedFor"] == []
    assert pod.stage.taken() == {"gpu-0"}


async def test_the_allocation_is_the_beginning_of_the_timeout() -> None:
    pod = Waiting()
    await pod.begin()
    await pod.stage.clock.advance(60)
    assert (await pod.running).reasons == ("device binding timeout: context deadline exceeded",)
    assert pod.series() == [(("kscheduler", "gpu.example.com", "timeout"), 1)]


async def test_a_claim_that_was_allocated_long_ago_is_named() -> None:
    pod = Waiting()
    chosen = allocation("gpu-0", **CONDITIONS)
    await pod.begin()
    await pod.stage.clock.advance(30)
    pod.running.cancel()
    await asyncio.wait([pod.running])
    pod.stage.commits.unreserve(pod.reservation)
    await pod.stage.settle()
    again = pod.stage.reserve(POD, a=None)
    assert again.claims[0].claim.status.allocation is not None
    assert again.claims[0].claim.status.allocation.devices == chosen.devices
    second = asyncio.ensure_future(pod.stage.commits.pre_bind(again, RULES))
    await pod.stage.settle()
    await pod.stage.clock.advance(35)
    assert (await second).reasons == ("device binding timeout: claim=a",)


async def test_a_claim_that_is_gone_ends_the_wait() -> None:
    pod = Waiting()
    await pod.begin()
    pod.stage.server.remove("a")
    await pod.stage.clock.advance(5)
    assert (await pod.running).reasons == ('could not find ResourceClaim "default/a"',)
    assert pod.series() == [(("kscheduler", "gpu.example.com", "error"), 1)]


async def test_all_claims_of_a_pod_are_waited_for() -> None:
    pod = Waiting(a=allocation("gpu-0", **CONDITIONS), b=allocation("gpu-1", **CONDITIONS))
    await pod.begin()
    pod.report("a", "gpu-0", Attached="True", Warm="True")
    await pod.stage.clock.advance(5)
    assert not pod.running.done()
    pod.report("b", "gpu-1", Attached="True", Warm="True")
    await pod.stage.clock.advance(5)
    assert (await pod.running).is_success


async def test_without_the_gates_nobody_waits() -> None:
    pod = Waiting()
    await pod.begin(ClaimRules(has_binding_conditions=False))
    assert (await pod.running).is_success


@pytest.mark.parametrize("drivers", [99, 100, 101])
async def test_drivers_beyond_a_hundred_share_a_label(drivers: int) -> None:
    stage = Stage()
    names = [f"driver-{number}" for number in range(drivers)]
    stage.observations.devices_wait_ended(DevicesWaitEnded("p", (), names, "success", 1.0))
    assert len(stage.observations.devices_with_conditions) == drivers
    assert (("p", "other", "success") in stage.observations.devices_with_conditions) is (drivers > 100)
