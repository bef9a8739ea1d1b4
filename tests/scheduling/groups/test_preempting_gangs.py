"""Gangs that make room for themselves, through the real queue, cycle, evictions and workers."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World, member, pod_group

# Two fit on a node.
HALF: dict[str, Any] = {"requests": {"cpu": "2"}}
WAITS = "waiting for the preemption for this pod group to be finished"


def gang(world: World, size: int = 2, priority: int = 9, **fields: Any) -> None:
    """A gang of high priority comes."""
    world.add_group(pod_group("g", size, priority=priority))
    world.add(*(member(f"g-{number}", "g", priority=priority, **{**HALF, **fields}) for number in range(size)))


async def test_a_gang_evicts_whoever_is_in_its_way_and_is_then_bound_as_a_whole() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", **HALF) for number in range(3)))
        await world.settle()
        gang(world, 3)
        await world.settle()
        assert len(world.evicted) == 2
        assert {condition.message for _, condition in world.evicted} == {
            "kscheduler: preempting to accommodate a higher priority podgroup"
        }
        assert "found a placement for podgroup, preempting 2 victims" in world.groups.conditions[0][1].message
        notes = [note for note in world.recorded.notes if "Preempted" in note]
        assert notes == ["Normal Preempted: Preempted by podgroup uid-of-group-g on node cluster"] * 2
        await world.pass_seconds(5)
        assert len(world.bound("g")) == 3
        assert world.groups.last("g").status == "True"
        assert len(world.bound("low")) == 1


async def test_members_keep_their_nominations_until_the_victims_are_gone() -> None:
    world = World()
    world.nodes(1)
    world.lingering = {"low-0", "low-1"}
    async with world.working():
        world.add(*(make_pod(f"low-{number}", **HALF) for number in range(2)))
        await world.settle()
        gang(world)
        await world.settle()
        assert len(world.evicted) == 2
        announced = dict(world.reported.announced)
        assert announced == {"default/g-0": "node-0", "default/g-1": "node-0"}, "written before anybody was evicted"
        for key, node_name in announced.items():
            pod = world.pod_of(key)
            assert pod is not None
            world.add(replace(pod, status=replace(pod.status, nominated_node_name=node_name)))
        condition_message = len(world.groups.conditions)
        await world.pass_seconds(20)
        assert world.where("g-0") == "gated"
        assert len(world.groups.conditions) == condition_message, "it is not tried while all victims hold their room"
        world.delete("low-0")
        await world.pass_seconds(20)
        assert "pod group preemption: ongoing preemption on nominated nodes" in world.groups.last("g").message
        assert len(world.evicted) == 2, "nobody else is evicted meanwhile"
        world.delete("low-1")
        await world.pass_seconds(20)
        assert world.bound() == ["g-0", "g-1"]


async def test_a_gang_waits_before_the_queue_while_its_victims_are_being_evicted() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.add(make_pod("low", requests={"cpu": "3"}))
        await world.settle()
        held = world.assembly.profiles["kscheduler"]
        seen: list[str] = []
        evict = world.evict_pod

        async def slow(pod: Any, condition: Any) -> bool:
            seen.append(held.run_pre_enqueue(world.queue.find("default/g-0")[1].pod).message)  # type: ignore[index]
            return await evict(pod, condition)

        world.evict_pod = slow  # type: ignore[method-assign]
        gang(world)
        await world.settle()
        assert seen == [WAITS] or seen == [""], "the last victim's turn has come: the watch may show its end any time"
        await world.pass_seconds(5)
        assert world.bound("g") == ["g-0", "g-1"]


async def test_a_refused_eviction_is_tried_again_and_the_gang_is_not_stuck() -> None:
    world = World()
    world.nodes(1)
    world.refuses_evictions = True
    async with world.working():
        world.add(make_pod("low", requests={"cpu": "3"}))
        await world.settle()
        gang(world)
        await world.pass_seconds(5)
        assert world.bound() == ["low"]
        world.refuses_evictions = False
        await world.pass_seconds(30)
        assert world.bound() == ["g-0", "g-1"]


async def test_a_group_to_be_taken_whole_goes_as_one_also_from_other_nodes() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.add_group(pod_group("whole", 2, disruptionMode={"all": {}}))
        world.add(*(member(f"whole-{number}", "whole", requests={"cpu": "3"}) for number in range(2)))
        await world.settle()
        assert len(world.bound()) == 2
        gang(world, 1)
        await world.settle()
        assert sorted(name for name, _ in world.evicted) == ["whole-0", "whole-1"]


async def test_the_least_important_go_first_and_a_group_counts_more_than_a_pod() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.add_group(pod_group("loose", 1))
        world.add(make_pod("single", **HALF), member("loose-0", "loose", **HALF))
        await world.settle()
        gang(world, 1)
        await world.settle()
        assert [name for name, _ in world.evicted] == ["single"]


@pytest.mark.parametrize("policy", ["Never"])
async def test_members_that_must_not_preempt_do_not(policy: str) -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.add(make_pod("low", requests={"cpu": "3"}))
        await world.settle()
        gang(world, preemptionPolicy=policy)
        await world.settle()
        assert world.evicted == []
        message = world.groups.last("g").message
        assert message.endswith("pod group preemption: not eligible due to preemptionPolicy=Never.")


async def test_room_that_would_still_be_too_little_is_not_made() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.add(make_pod("low", **HALF))
        await world.settle()
        gang(world, 3)
        await world.settle()
        assert world.evicted == []
        assert "pod group preemption: minCount (3) cannot be satisfied" in world.groups.last("g").message
        assert world.bound() == ["low"], "the trial has put everybody back"
        world.add(make_node("more"))
        await world.pass_seconds(10)
        assert len(world.bound()) == 4


async def test_victims_are_spared_once_a_member_is_left_to_others() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", requests={"cpu": "4"}) for number in range(2)))
        await world.settle()
        evict = world.evict_pod

        async def called_off(pod: Any, condition: Any) -> bool:
            world.assembly.evictions.call_off("uid-of-g-0")
            if world.pod_of("default/g-1") is not None:
                world.delete("g-1")  # the gang is not tried again: it is too small
            return await evict(pod, condition)

        world.evict_pod = called_off  # type: ignore[method-assign]
        gang(world, 4)
        await world.settle()
        assert len(world.evicted) == 1, "the second one stays"
