"""Gangs that found no room keep their place: when room becomes free, those that came first are tried first."""

from typing import Any

import pytest

from kscheduler.state.queue import group_queue
from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World

WHOLE: dict[str, Any] = {"requests": {"cpu": "4"}}


async def test_a_large_gang_gets_the_room_that_small_ones_could_take_sooner() -> None:
    """The backoff of a small gang is shorter: after a minute it is tried six times as often."""
    world = World()
    world.nodes(4)
    async with world.working():
        world.add(*(make_pod(f"old-{number}", **WHOLE) for number in range(4)))
        await world.settle()
        for name, size in (("large", 4), ("small", 1), ("pair", 2)):
            world.gang(name, size, **WHOLE)
            await world.settle()
        await world.pass_seconds(70)
        for number in range(4):
            world.delete(f"old-{number}")
        await world.pass_seconds(3)
        assert world.sizes() == {"large": 4}


async def test_what_passes_a_gang_that_does_not_fit_is_in_order_as_well() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.add(*(make_pod(f"old-{number}", **WHOLE) for number in range(2)))
        await world.settle()
        for name, size in (("large", 4), ("pair", 2), ("single", 1)):
            world.gang(name, size, **WHOLE)
            await world.settle()
        await world.pass_seconds(50)
        for number in range(2):
            world.delete(f"old-{number}")
        await world.pass_seconds(3)
        assert world.sizes() == {"pair": 2}


async def test_a_new_node_ends_the_backoff() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.gang("pair", 2, **WHOLE)
        await world.settle()
        await world.pass_seconds(60)
        assert world.bound() == []
        world.add(make_node("new"))
        await world.pass_seconds(3)
        assert world.sizes() == {"pair": 2}


async def test_room_that_comes_and_goes_is_no_busy_loop() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.gang("pair", 3, **WHOLE)
        await world.settle()
        for _ in range(20):
            for number in range(10):
                world.add(make_pod(f"short-{number}", requests={"cpu": "1m"}))
                await world.settle(5)
                world.delete(f"short-{number}")
            await world.pass_seconds(1)
        found = world.queue.find("default/pair-0")
        assert found is not None
        assert found[1].attempts <= 10, "after 1, 2, 4, 8 and 16 s, and each backoff"


async def test_one_room_wakes_no_more_groups_than_a_second_has_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_queue, "_MOST_MEMBERS_WOKEN", 4)
    world = World()
    world.nodes(1)
    async with world.working():
        world.add(make_pod("old", **WHOLE))
        await world.settle()
        for name in ("a", "b", "c"):
            world.gang(name, 2, **WHOLE)
            await world.settle()
        await world.pass_seconds(70)
        before = attempts(world)
        world.delete("old")
        await world.pass_seconds(2)
        assert [after - tried for after, tried in zip(attempts(world), before, strict=True)] == [1, 1, 0]


def attempts(world: World) -> list[int]:
    found = [world.queue.find(f"default/{name}-0") for name in ("a", "b", "c")]
    return [queued.attempts for each in found if each is not None for queued in each[1:2]]
