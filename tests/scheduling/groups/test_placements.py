"""Pod groups with a topology constraint: all members in one domain, and in the best one."""

from typing import Any

import numpy as np

from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import from_tree
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import GroupPlacement, ProposedPlacement
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Scores
from kscheduler.framework.plugin import Plugin
from kscheduler.plugins.in_tree import registry
from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World, member, pod_group

GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
RACK = "example.com/rack"
IN_A_RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
# Two fit on a node.
HALF: dict[str, Any] = {"requests": {"cpu": "2"}}


def world_with(racks: dict[str, int], gates: str = GATES) -> World:
    """Nodes of 4 CPUs: so many in each rack; a rack without a name is no rack."""
    world = World(gates=gates)
    for rack, nodes in racks.items():
        for number in range(nodes):
            labels = {RACK: rack} if rack else {}
            world.add(make_node(f"{rack or 'loose'}-{number}", labels=labels), initial=True)
    return world


def gang(world: World, name: str, size: int, constraint: dict[str, Any] = IN_A_RACK, **fields: Any) -> None:
    """A gang, all of whose members are needed."""
    world.add_group(pod_group(name, size, **constraint))
    world.add(*[member(f"{name}-{number}", name, **(fields or HALF)) for number in range(size)])


def racks_of(world: World) -> set[str]:
    return {node.split("-")[0] for _, node in world.bindings}


async def test_all_members_go_to_one_rack() -> None:
    world = world_with({"a": 1, "b": 2, "c": 1, "": 4})
    async with world.working():
        gang(world, "g", 4)
        await world.settle()
    assert racks_of(world) == {"b"}
    assert len(world.bindings) == 4
    assert world.groups.last("g").status == "True"


async def test_without_the_gate_or_a_constraint_they_go_anywhere() -> None:
    for gates, constraint in (("GenericWorkload=true", IN_A_RACK), (GATES, {})):
        world = world_with({"a": 1, "b": 1}, gates)
        async with world.working():
            gang(world, "g", 4, constraint)
            await world.settle()
        assert racks_of(world) == {"a", "b"}


async def test_a_group_that_fits_into_no_rack_says_how_the_first_one_went() -> None:
    world = world_with({"a": 1, "b": 1})
    async with world.working():
        gang(world, "g", 3)
        await world.settle()
        assert world.bindings == []
        assert world.cache.statistics().pods == 0
        message = world.groups.last("g").message
    # one of three members has no node in a rack: that its minCount cannot be met ends the trial there
    first = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    tried = "0/2 placements are available, first placement status"
    assert message.startswith(f"pod group is unschedulable, {tried}: {first}")
    assert "0/1 nodes are available: 1 Insufficient cpu." in world.reported.notes


async def test_a_group_whose_label_no_node_has_fits_nowhere() -> None:
    world = world_with({"": 3})
    async with world.working():
        gang(world, "g", 2)
        await world.settle()
        assert world.groups.last("g").message.startswith("no feasible placements found")


async def test_the_rack_that_would_be_fullest_wins() -> None:
    world = world_with({"a": 2, "b": 2, "c": 2})
    world.add(make_pod("there", node="b-0", requests={"cpu": "2"}), initial=True)
    async with world.working():
        gang(world, "g", 2, requests={"cpu": "1"})
        await world.settle()
    assert racks_of(world) == {"b"}


async def test_the_rack_that_takes_more_members_wins_before_fullness() -> None:
    """Two of three are needed: rack `a` would be full with two, rack `b` has room for all three."""
    world = world_with({"a": 1, "b": 2})
    async with world.working():
        world.add_group(pod_group("g", 2, **IN_A_RACK))
        world.add(*[member(f"g-{number}", "g", **HALF) for number in range(3)])
        await world.settle()
    # a: 66 for 2 of 3 members, 100 for cpu full; b: 100 for all, 75 for cpu (memory has no requests in either)
    assert racks_of(world) == {"b"}
    assert len(world.bindings) == 3


async def test_members_that_come_later_join_the_others_in_their_rack() -> None:
    world = world_with({"a": 2, "b": 2})
    async with world.working():
        world.add_group(pod_group("g", 1, **IN_A_RACK))
        world.add(member("g-0", "g", **HALF))
        await world.settle()
        (first,) = racks_of(world)
        for number in range(1, 4):
            world.add(member(f"g-{number}", "g", **HALF))
        await world.settle()
        assert racks_of(world) == {first}
        world.add(member("g-4", "g", **HALF))
        await world.settle()
    assert len(world.bindings) == 4  # the rack is full


async def test_members_in_two_racks_are_an_error() -> None:
    world = world_with({"a": 2, "b": 2})
    world.add_group(pod_group("g", 1, **IN_A_RACK))
    for node in ("a-0", "b-0"):
        there = member(f"on-{node}", "g", node=node)
        world.add(there, initial=True)
    async with world.working():
        world.add(member("g-0", "g"))
        await world.settle()
        condition = world.groups.last("g")
    assert condition.reason == "SchedulerError"
    assert condition.message == (
        "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: a, b"
    )


async def test_spreading_counts_the_whole_cluster() -> None:
    """A member must not be on a node more than there are elsewhere: nodes outside the rack are elsewhere."""
    world = world_with({"a": 2, "b": 2})
    host = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread = {**host, "labelSelector": {"matchLabels": {"app": "g"}}}
    async with world.working():
        fields = {"labels": {"app": "g"}, "topologySpreadConstraints": [spread], **HALF}
        gang(world, "g", 3, **fields)
        await world.settle()
    assert world.bindings == []  # the third would make two on one node, while nodes of the other rack have none


async def test_placements_are_counted() -> None:
    world = world_with({"a": 1, "b": 2})
    observations = world.assembly.ports.observations
    async with world.working():
        gang(world, "g", 4)
        await world.settle()
    name = "kscheduler"
    assert observations.generated_placements[(name,)] == 2
    assert observations.placement_evaluations["feasible", name] == 1
    assert observations.placement_evaluations["infeasible", name] == 1
    assert observations.placement_seconds["feasible", name].count == 1


class Halves(Plugin):
    """Placements and points of one's own: the nodes in two halves, and the second is better."""

    name = "Halves"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def generate_placements(self, group: GroupDefinition, parent: GroupPlacement) -> list[GroupPlacement]:
        del group
        middle = len(parent.rows) // 2
        return [GroupPlacement("first", parent.rows[:middle]), GroupPlacement("second", parent.rows[middle:])]

    def score_placements(self, group: GroupDefinition, proposals: list[ProposedPlacement]) -> Scores:
        del group
        return np.array([100 * (proposal.placement.name == "second") for proposal in proposals], dtype=np.int64)


class ScoresNonsense(Halves):
    """Its points are out of range."""

    def score_placements(self, group: GroupDefinition, proposals: list[ProposedPlacement]) -> Scores:
        return super().score_placements(group, proposals) * 2


def with_plugin(plugin: type[Plugin]) -> World:
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "kscheduler",
                "plugins": {
                    "placementGenerate": {"enabled": [{"name": "Halves"}], "disabled": [{"name": "*"}]},
                    "placementScore": {"enabled": [{"name": "Halves", "weight": 3}], "disabled": [{"name": "*"}]},
                },
            }
        ],
    }
    known = registry()
    known.register("Halves", plugin)
    world = World(from_tree(tree, "test", parse_feature_gates(GATES, version="1.37")), known=known)
    world.nodes(4)
    return world


async def test_plugins_of_ones_own_divide_the_nodes_and_score_the_parts() -> None:
    world = with_plugin(Halves)
    async with world.working():
        gang(world, "g", 2)
        await world.settle()
    assert {node for _, node in world.bindings} <= {"node-2", "node-3"}


async def test_a_plugin_whose_points_are_out_of_range_gives_none_and_the_group_is_placed() -> None:
    world = with_plugin(ScoresNonsense)
    async with world.working():
        gang(world, "g", 2)
        await world.settle()
        assert len(world.bindings) == 2
