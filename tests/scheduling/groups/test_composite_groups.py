"""Composite pod groups: a tree of groups is tried as one, and all of it or nothing is bound."""

from typing import Any

import pytest

from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World, composite, member, pod_group

GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
RACK = "example.com/rack"
IN_A_RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
# Two fit on a node.
HALF: dict[str, Any] = {"requests": {"cpu": "2"}}


def world_with(nodes: int) -> World:
    world = World(gates=GATES)
    world.nodes(nodes)
    return world


def leaf(world: World, name: str, parent: str, size: int, least: int | None = None, **spec: Any) -> None:
    """A gang below a composite group, with its members."""
    world.add_group(pod_group(name, size if least is None else least, parentCompositePodGroupName=parent, **spec))
    world.add(*(member(f"{name}-{number}", name, **HALF) for number in range(size)))


async def test_a_gang_of_gangs_is_bound_when_all_of_it_fits() -> None:
    world = world_with(2)
    async with world.working():
        world.add_composite(composite("all", 2))
        leaf(world, "a", "all", 2)
        await world.settle()
        assert world.bindings == []
        assert world.where("a-0") == "gated"
        leaf(world, "b", "all", 2)
        await world.settle()
    assert world.sizes() == {"a": 2, "b": 2}
    assert [world.groups.last(name).status for name in ("a", "b")] == ["True", "True"]
    assert {name for name, _ in world.groups.conditions} == {"a", "b"}


async def test_nothing_of_a_gang_of_gangs_is_bound_if_one_of_them_does_not_fit() -> None:
    world = world_with(1)
    async with world.working():
        world.add_composite(composite("all", 2))
        leaf(world, "a", "all", 2)
        leaf(world, "b", "all", 1)
        await world.settle()
        assert world.bindings == []
        assert world.cache.statistics().pods == 0
        condition_message = (
            "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (2) cannot be"
        )
        for name in ("a", "b"):
            condition = world.groups.last(name)
            assert (condition.status, condition.reason) == ("False", "Unschedulable")
        # b was tried and has its own reason; a fits and fails with the tree, which is told twice what it is told once
        assert world.groups.last("a").message.startswith(f"{condition_message} satisfied: 1 scheduled, 0 remaining")
        assert "first placement status: minCount (1) cannot be satisfied" in world.groups.last("b").message


async def test_enough_groups_of_a_gang_of_groups_are_enough() -> None:
    """One of three does not fit: the others are bound, and it waits."""
    world = world_with(2)
    async with world.working():
        world.add_composite(composite("all", 2, created="2026-01-01T00:00:00Z"))
        leaf(world, "a", "all", 2)
        leaf(world, "b", "all", 3)
        leaf(world, "c", "all", 2)
        await world.settle()
    assert world.sizes() == {"a": 2, "c": 2}
    assert world.groups.last("b").status == "False"
    assert world.where("b-0") in ("active", "backoff")


async def test_groups_are_tried_from_the_oldest_and_each_sees_those_before_it() -> None:
    world = world_with(1)
    async with world.working():
        for name, created in (("a", "2026-01-01T00:00:02Z"), ("b", "2026-01-01T00:00:01Z")):
            world.add_composite(composite(f"over-{name}", None, "all", created=created))
            leaf(world, name, f"over-{name}", 2)
        world.add_composite(composite("all", None))
        await world.settle()
    assert world.sizes() == {"b": 2}


async def test_members_wait_until_every_group_above_them_is_known_and_again_when_one_goes() -> None:
    world = world_with(2)
    middle, root = composite("middle", None, "root"), composite("root", None)
    async with world.working():
        leaf(world, "a", "middle", 2)
        assert world.where("a-0") == "incomplete"
        world.add_composite(middle)
        assert world.where("a-0") == "incomplete"
    world.add_composite(root)
    assert world.where("a-0") == "active"
    world.delete_composite(middle)
    assert world.where("a-0") == "incomplete"
    world.add_composite(middle)
    async with world.working():
        await world.settle()
    assert world.sizes() == {"a": 2}


async def test_a_group_below_one_that_goes_takes_only_its_own_members_out() -> None:
    world = world_with(2)
    world.add_composite(composite("all", None))
    leaf(world, "a", "all", 2)
    leaf(world, "b", "all", 2)
    world.delete_group(pod_group("b", 2, parentCompositePodGroupName="all"))
    assert (world.where("a-0"), world.where("b-0")) == ("active", "incomplete")
    async with world.working():
        await world.settle()
    assert world.sizes() == {"a": 2}


async def test_groups_in_a_circle_or_too_deep_wait_for_ever_and_harm_nobody() -> None:
    world = world_with(2)
    async with world.working():
        for name, parent in (("x", "y"), ("y", "x"), ("d4", ""), ("d3", "d4"), ("d2", "d3"), ("d1", "d2")):
            world.add_composite(composite(name, None, parent))
        leaf(world, "round", "x", 1)
        leaf(world, "deep", "d1", 1)
        leaf(world, "well", "d2", 1)
        world.add(make_pod("alone-0", **HALF))
        await world.settle()
    assert (world.where("round-0"), world.where("deep-0")) == ("incomplete", "incomplete")
    assert world.sizes() == {"well": 1, "alone": 1}


async def test_a_chain_of_a_thousand_groups_is_no_trouble() -> None:
    world = world_with(1)
    async with world.working():
        for number in range(1000):
            world.add_composite(composite(f"c{number}", None, f"c{number - 1}" if number else ""))
        leaf(world, "high", "c2", 1)
        leaf(world, "low", "c999", 1)
        await world.settle()
    assert world.sizes() == {"high": 1}
    assert world.where("low-0") == "incomplete"


async def test_the_parents_rack_holds_its_groups_and_what_fails_in_one_rack_leaves_nothing_there() -> None:
    """Rack a has room for one group, rack b for both."""
    world = World(gates=GATES)
    for name, rack in (("a-0", "a"), ("b-0", "b"), ("b-1", "b"), ("loose-0", "")):
        node = make_node(name, labels={RACK: rack} if rack else {})
        world.add(node, initial=True)
    async with world.working():
        world.add_composite(composite("all", 2, **IN_A_RACK))
        leaf(world, "x", "all", 2)
        leaf(world, "y", "all", 2)
        await world.settle()
    assert {node for _, node in world.bindings} == {"b-0", "b-1"}
    assert len(world.bindings) == 4


async def test_each_group_may_have_a_rack_of_its_own_inside_the_parents_zone() -> None:
    world = World(gates=GATES)
    for zone in ("east", "west"):
        for rack in range(2 if zone == "west" else 1):
            labels = {"zone": zone, RACK: f"{zone}-{rack}"}
            world.add(make_node(f"{zone}-{rack}", labels=labels), initial=True)
    in_a_zone: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
    async with world.working():
        world.add_composite(composite("all", 2, **in_a_zone))
        leaf(world, "x", "all", 2, **IN_A_RACK)
        leaf(world, "y", "all", 2, **IN_A_RACK)
        await world.settle()
    nodes = dict(world.bindings)
    assert {nodes["x-0"], nodes["y-0"]} == {"west-0", "west-1"}
    assert (nodes["x-0"], nodes["y-0"]) == (nodes["x-1"], nodes["y-1"])


async def test_a_tree_makes_room_for_all_of_itself() -> None:
    world = world_with(2)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", **HALF) for number in range(4)))
        await world.settle()
        world.add_composite(composite("all", 2, priority=100))
        for name in ("a", "b"):
            world.add_group(pod_group(name, 2, priority=100, parentCompositePodGroupName="all"))
            world.add(*(member(f"{name}-{number}", name, priority=100, **HALF) for number in range(2)))
        await world.settle()
        assert len(world.evicted) == 4
        await world.pass_seconds(5)
    assert world.sizes() == {"a": 2, "b": 2}
    conditions = [condition.message for name, condition in world.evicted if name == "low-0"]
    assert conditions == ["kscheduler: preempting to accommodate a higher priority compositepodgroup"]


async def test_the_highest_group_with_disruption_mode_all_goes_as_a_whole() -> None:
    world = world_with(2)
    async with world.working():
        world.add_composite(composite("low", 2, disruptionMode={"all": {}}))
        leaf(world, "a", "low", 2)
        leaf(world, "b", "low", 2)
        await world.settle()
        assert world.sizes() == {"a": 2, "b": 2}
        world.add(make_pod("high", priority=100, **HALF))
        await world.settle()
        assert {name for name, _ in world.evicted} == {"a-0", "a-1", "b-0", "b-1"}


async def test_the_priority_of_members_is_that_of_the_root() -> None:
    world = world_with(2)
    async with world.working():
        world.add_composite(composite("all", None, priority=7))
        leaf(world, "a", "all", 1)
        await world.settle()
    message = "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 7"
    assert (world.groups.last("a").reason, world.groups.last("a").message) == ("SchedulerError", message)


async def test_a_member_that_comes_late_is_bound_beside_the_others() -> None:
    """Without waiting for groups that are there no more than once."""
    world = world_with(3)
    async with world.working():
        world.add_composite(composite("all", 2))
        leaf(world, "a", "all", 2)
        leaf(world, "b", "all", 2, least=1)
        await world.settle()
        world.add(member("b-2", "b", **HALF))
        await world.settle()
    assert world.sizes() == {"a": 2, "b": 3}


@pytest.mark.parametrize("gates", ["GenericWorkload=true", "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"])
async def test_without_the_gate_a_parent_means_nothing(gates: str) -> None:
    world = World(gates=gates)
    world.nodes(1)
    async with world.working():
        world.add_group(pod_group("a", 2, parentCompositePodGroupName="all"))
        world.add(*(member(f"a-{number}", "a", **HALF) for number in range(2)))
        await world.settle()
    assert world.sizes() == {"a": 2}
