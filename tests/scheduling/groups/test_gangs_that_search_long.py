"""A gang whose members search long for devices is searched for beside other decisions, and fails alone."""

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.plugins.dynamic_resources.search import LookAhead
from kscheduler.scheduling.attempt import group_attempt
from kscheduler.scheduling.attempt.group_attempt import SEARCHED_TOO_LONG
from tests.plugins.dynamic_resources.stage import devices_of, exactly
from tests.scheduling import scheduler_in_memory
from tests.scheduling.groups.test_gangs_with_devices import DeviceWorld
from tests.scheduling.groups.world import member, pod_group

NODES = 30


class TickingClock(VirtualClock):
    """Each look takes an eighth of a millisecond: after forty a search has held the event loop for a slice."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.looks / 8000


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[LookAhead]:
    """The slices of searches in the background."""
    found: list[LookAhead] = []
    run = LookAhead.run

    def counted(self: LookAhead, seconds: float) -> bool:
        found.append(self)
        return run(self, 0.0)

    monkeypatch.setattr(LookAhead, "run", counted)
    monkeypatch.setattr(scheduler_in_memory, "VirtualClock", TickingClock)
    return found


def with_two_devices_a_node(count: int, members: int = 3) -> DeviceWorld:
    """A gang whose members want so many devices each."""
    world = DeviceWorld()
    world.nodes(NODES)
    for number in range(NODES):
        names = [f"gpu-{number}-{place}" for place in range(2)]  # else one search would do for all nodes
        world.cache.devices.put_slice(devices_of(f"node-{number}", *names))
    for number in range(members):
        world.put_claim(f"own-{number}", exactly(count=count))
    return world


async def test_a_claim_that_nothing_satisfies_is_searched_for_in_slices(runs: list[LookAhead]) -> None:
    world = with_two_devices_a_node(3)
    async with world.working():
        world.gang_with("g", [[f"own-{number}"] for number in range(3)])
        world.add_group(pod_group("sound", 1))
        world.add(member("sound-0", "sound"))
        await world.settle(3000)
        assert world.bound() == ["sound-0"]
    assert len(runs) >= NODES
    assert "cannot allocate all claims" in world.condition_message("g-0")


async def test_a_gang_that_fits_is_placed_after_its_search(runs: list[LookAhead]) -> None:
    world = with_two_devices_a_node(2)
    async with world.working():
        world.gang_with("g", [[f"own-{number}"] for number in range(3)])
        await world.settle(3000)
        assert world.bound() == ["g-0", "g-1", "g-2"]
    assert runs
    assert world.reported.reports == []


async def test_a_search_without_end_is_the_gangs_failure_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0

    def forgetful(_self: LookAhead, _seconds: float) -> bool:
        nonlocal runs
        runs += 1
        return True

    monkeypatch.setattr(scheduler_in_memory, "VirtualClock", TickingClock)
    monkeypatch.setattr(LookAhead, "run", forgetful)
    monkeypatch.setattr(group_attempt, "MAX_SEARCHES", 5)
    world = with_two_devices_a_node(3)
    async with world.working():
        world.gang_with("g", [[f"own-{number}"] for number in range(3)])
        world.add_group(pod_group("sound", 1))
        world.add(member("sound-0", "sound"))
        await world.settle(3000)
        assert world.bound() == ["sound-0"]
    assert runs == 5
    assert SEARCHED_TOO_LONG in world.condition_message("g-0")
