"""Gangs: all or nothing, through the real queue, cycle, Permit and workers."""

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.groups import GangPolicy, PodGroupPolicy
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import from_tree
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, error, unschedulable
from kscheduler.plugins.in_tree import registry
from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World, member, pod_group, without_gates

# Two fit on a node.
HALF: dict[str, Any] = {"requests": {"cpu": "2"}}


async def test_a_gang_that_fits_is_bound_as_a_whole() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.gang("g", 4, **HALF)
        await world.settle()
        assert len(world.bound()) == 4
        assert world.groups.last("g").status == "True"
        assert world.groups.last("g").reason == "Scheduled"
        assert len(world.assembly.waiting) == 0


async def test_a_gang_that_does_not_fit_holds_nothing_and_says_why() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.gang("g", 3, **HALF)
        await world.settle()
        assert world.bound() == []
        assert world.cache.statistics().pods == 0
        assert {world.where(f"g-{number}") for number in range(3)} == {"backoff"}
        assert world.queue.statistics().backoff == 3
        assert world.queue.statistics().groups == {"active": (0, 0, 0), "backoff": (1, 0, 3), "gated": (0, 0, 0)}
        condition = world.groups.last("g")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message == (
            "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, "
            "pod group preemption: No preemption victims found for incoming preemptor"
        )
        assert "0/1 nodes are available: 1 Insufficient cpu." in world.reported.notes
        assert sum("pod group is unschedulable, minCount (3)" in note for note in world.reported.notes) == 2


async def test_it_is_tried_again_after_its_back_off_and_then_fits() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.gang("g", 3, **HALF)
        await world.settle()
        world.add(make_node("more"))
        await world.pass_seconds(3)
        assert len(world.bound()) == 3


async def test_members_wait_for_their_group_and_for_each_other() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.add(member("g-0", "g"), member("g-1", "g"))
        await world.settle()
        assert {world.where("g-0"), world.where("g-1")} == {"incomplete"}
        world.add_group(pod_group("g", 3))
        await world.settle()
        assert {world.where("g-0"), world.where("g-1")} == {"gated"}
        assert world.queue.statistics().gated == 2
        world.add(member("g-2", "g"))
        await world.settle()
        assert world.bound() == ["g-0", "g-1", "g-2"]


async def test_one_gated_member_keeps_all_of_them() -> None:
    world = World()
    world.nodes(2)
    held = member("g-1", "g", schedulingGates=[{"name": "hold"}])
    async with world.working():
        world.add_group(pod_group("g", 2))
        world.add(member("g-0", "g"), held)
        await world.settle()
        assert world.bound() == []
        world.add(without_gates(held))
        await world.settle()
        assert world.bound() == ["g-0", "g-1"]


async def test_a_lower_min_count_lets_a_gang_in() -> None:
    world = World()
    world.nodes(2)
    group = pod_group("g", 3)
    async with world.working():
        world.add_group(group)
        world.add(member("g-0", "g"), member("g-1", "g"))
        await world.settle()
        policy = PodGroupPolicy(gang=GangPolicy(min_count=2))
        world.add_group(replace(group, spec=replace(group.spec, scheduling_policy=policy)))
        await world.settle()
        assert world.bound() == ["g-0", "g-1"]


async def test_members_beyond_min_count_are_placed_as_far_as_there_is_room() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.gang("g", 6, 3, **HALF)
        await world.settle()
        assert len(world.bound()) == 4
        assert world.groups.last("g").status == "True"
        await world.pass_seconds(3)
        assert len(world.bound()) == 4
        assert world.groups.last("g").status == "True", "it never goes back"
        world.add(make_node("more"))
        await world.pass_seconds(40)
        assert len(world.bound()) == 6


async def test_a_basic_group_takes_what_it_gets() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.add_group(pod_group("g", None))
        world.add(*(member(f"g-{number}", "g", **HALF) for number in range(3)))
        await world.settle()
        assert len(world.bound()) == 2


async def test_members_that_are_on_nodes_already_count() -> None:
    """After a restart in the middle of binding: what is bound stays, and the rest is placed beside it."""
    world = World()
    world.nodes(2)
    world.add(member("g-0", "g", node="node-0", **HALF))
    world.add_group(pod_group("g", 3))
    async with world.working():
        world.add(member("g-1", "g", **HALF), member("g-2", "g", **HALF))
        await world.settle()
        assert world.bound() == ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize("is_in_part", [True, False])
async def test_when_scheduling_begins_the_rest_of_a_gang_comes_before_who_waits_longer(is_in_part: bool) -> None:
    world = World()
    world.nodes(2)
    if is_in_part:
        world.add(member("g-0", "g", node="node-0", **HALF))
    world.add(make_pod("rival", **HALF), make_pod("urgent", priority=5, **HALF))
    world.add_group(pod_group("g", 3))
    world.add(*(member(f"g-{number}", "g", **HALF) for number in range(is_in_part, 3)))
    world.queue.begin_scheduling()
    async with world.working():
        await world.settle()
        gang = ["g-0", "g-1", "g-2", "urgent"]
        assert world.bound() == (gang if is_in_part else ["rival", "urgent"])


async def test_a_rest_that_no_longer_fits_is_reported_so_and_holds_no_room() -> None:
    world = World()
    world.nodes(1)
    world.add(member("g-0", "g", node="node-0", **HALF))
    world.add_group(pod_group("g", 3))
    async with world.working():
        world.add(member("g-1", "g", **HALF), member("g-2", "g", **HALF))
        await world.settle()
        assert world.bound() == ["g-0"]
        assert world.cache.statistics().pods == 1
        assert "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining" in world.groups.last("g").message


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({"priority": 5}, "the same priority as the pod group's priority, got 5 and 0"),
        ({"preemptionPolicy": "Never"}, "the same preemption policy, got Never and PreemptLowerPriority"),
    ],
    ids=["priority", "preemption policy"],
)
async def test_members_that_disagree_are_an_error(others: dict[str, object], problem: str) -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.add_group(pod_group("g", 2))
        world.add(member("g-0", "g"), member("g-1", "g", **others))
        await world.settle()
        assert world.bound() == []
        condition = world.groups.last("g")
        assert condition.reason == "SchedulerError"
        assert condition.message == f"all pods in a single pod group should have {problem}"


async def test_a_member_whose_binding_is_refused_comes_back_alone_and_not_at_once() -> None:
    world = World()
    world.nodes(2)
    world.refused["g-1"] = error("no")
    async with world.working():
        world.gang("g", 3)
        await world.settle()
        assert world.bound() == ["g-0", "g-2"]
        assert world.where("g-1") == "backoff"
        del world.refused["g-1"]
        await world.pass_seconds(4)
        assert world.bound() == ["g-0", "g-1", "g-2"]


async def test_a_deleted_group_leaves_its_members_incomplete() -> None:
    world = World()
    world.nodes(1)
    group = pod_group("g", 3)
    async with world.working():
        world.add_group(group)
        world.add(*(member(f"g-{number}", "g", **HALF) for number in range(3)))
        await world.settle()
        world.delete_group(group)
        assert {world.where(f"g-{number}") for number in range(3)} == {"incomplete"}
        assert world.queue.statistics().backoff == 0
        world.delete("g-0")
        world.add(make_node("more"))
        world.add_group(pod_group("g", 2))
        await world.settle()
        assert world.bound() == ["g-1", "g-2"]


async def test_two_gangs_that_fit_only_one_by_one_do_not_share_the_room() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        for number in range(4):  # their members arrive in turn
            for name in ("a", "b"):
                if not number:
                    world.add_group(pod_group(name, 4))
                world.add(member(f"{name}-{number}", name, **HALF))
        await world.settle()
        assert sorted(world.sizes().values()) == [4]
        (placed,) = world.sizes()
        for number in range(4):
            world.delete(f"{placed}-{number}")
        await world.pass_seconds(25)
        assert world.sizes() == {"ab".replace(placed, ""): 4}


async def test_without_the_gate_members_are_pods_like_any() -> None:
    world = World(gates="GenericWorkload=false")
    world.nodes(1)
    async with world.working():
        world.add(member("g-0", "g", **HALF), member("g-1", "g", **HALF), member("g-2", "g", **HALF))
        await world.settle()
        assert len(world.bound()) == 2
        assert world.kinds == []
        assert world.groups.conditions == []


async def test_single_pods_and_groups_take_turns_by_priority() -> None:
    world = World()
    world.nodes(1)
    world.add_group(pod_group("g", 2, priority=5))
    world.add(make_pod("low", **HALF))
    world.add(member("g-0", "g", priority=5, **HALF), member("g-1", "g", priority=5, **HALF))
    async with world.working():
        assert world.bound() == ["g-0", "g-1"]


async def test_a_single_pod_that_preempts_takes_a_whole_group_also_from_other_nodes() -> None:
    world = World()
    world.nodes(2)
    async with world.working():
        world.add_group(pod_group("whole", 2, disruptionMode={"all": {}}))
        world.add(*(member(f"whole-{number}", "whole", requests={"cpu": "3"}) for number in (0, 1)))
        await world.settle()
        assert len(world.bound()) == 2
        world.add(make_pod("urgent", priority=100, requests={"cpu": "3"}))
        await world.settle()
        assert any("preempting 2 victims" in note for note in world.reported.notes)
        assert sorted(name for name, _ in world.evicted) == ["whole-0", "whole-1"]
        assert world.bound() == ["urgent"]


async def test_a_single_pod_takes_single_members_of_other_groups_and_pods_before_them() -> None:
    world = World()
    world.nodes(1)
    async with world.working():
        world.add_group(pod_group("loose", 2))
        world.add(*(member(f"loose-{number}", "loose", requests={"cpu": "1"}) for number in (0, 1)))
        world.add(make_pod("single", requests={"cpu": "2"}))
        await world.settle()
        world.add(make_pod("urgent", priority=100, requests={"cpu": "3"}))
        await world.settle()
        assert len(world.evicted) == 2
        assert "single" in [name for name, _ in world.evicted], "members of groups are more important"


@pytest.mark.parametrize("least", [1, 2])
async def test_a_binding_that_is_refused_for_ever_beside_a_member_without_room_is_no_endless_loop(least: int) -> None:
    """Who has no room is tried again at once after a success; the other one must not make each attempt a success."""
    world = World()
    world.nodes(1)
    world.refused["g-0"] = error("refused")
    async with world.working():
        world.gang("g", 3, least, **HALF)
        await world.settle(600)
        tried = world.queue.find("default/g-0")
        assert tried is not None
        assert tried[0] == "backoff"
        assert tried[1].attempts <= 2
        await world.pass_seconds(60)
        assert tried[1].attempts <= 12
        world.refused.clear()
        await world.pass_seconds(30)
        assert len(world.bound()) == 2


async def test_a_member_that_permit_rejects_for_ever_beside_one_without_room_is_no_endless_loop() -> None:
    class Rejects(Plugin):
        name = "Rejects"

        def permit(self, cycle: Any, pod: PodInfo, node_name: str) -> PermitResult:
            del cycle, node_name
            return PermitResult(unschedulable("never") if pod.name == "g-0" else SUCCESS)

    known = registry()
    known.register("Rejects", lambda _args, _handle: Rejects())
    tree = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = {"schedulerName": "kscheduler", "plugins": {"permit": {"enabled": [{"name": "Rejects"}]}}}
    gates = parse_feature_gates("GenericWorkload=true", version="1.37")
    world = World(from_tree({**tree, "profiles": [profile]}, "", gates), known=known)
    world.nodes(1)
    async with world.working():
        world.gang("g", 3, 1, **HALF)
        await world.settle(600)
        tried = world.queue.find("default/g-0")
        assert tried is not None
        assert tried[1].attempts <= 3
        assert world.bound() == ["g-1"]
