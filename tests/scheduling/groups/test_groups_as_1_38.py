"""What groups do otherwise where 1.38 is followed; what is decided is compared with recordings in `tests/vectors`."""

import json
from collections.abc import Sequence
from dataclasses import replace as replaced
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration, from_tree
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import GroupPlacement
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import Code
from kscheduler.plugins.default_preemption import for_groups
from kscheduler.plugins.default_preemption.node_ranks import VictimRanks
from kscheduler.plugins.default_preemption.unit_search import VictimUnit
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.scenario import GroupScenario, parse_line
from kscheduler.scheduling.groups.group_cycle import GroupResult
from kscheduler.scheduling.groups.group_placement import placements_of
from tests.builders import make_node, make_pod, pod_info
from tests.scheduling.groups.world import World, composite, member, pod_group
from tests.scheduling.test_profiles import build

GROUPS = "GenericWorkload=true"
PLACEMENTS = f"{GROUPS},TopologyAwareWorkloadScheduling=true"
TREES = f"{PLACEMENTS},CompositePodGroup=true"
RACK = "example.com/rack"
IN_A_RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
# Two fit on a node.
HALF: dict[str, Any] = {"requests": {"cpu": "2"}}


def world_of(gates: str = GROUPS) -> World:
    return World(gates=gates, version="1.38")


@pytest.mark.parametrize(("version", "waits"), [("1.37", True), ("1.38", False)])
def test_gangs_wait_at_permit_up_to_1_37(version: str, waits: bool) -> None:
    inputs = decided(["a"], [""], 1, version).inputs
    assert inputs is not None
    profile = inputs.profile
    assert ("GangScheduling" in {plugin.name for plugin in profile.permit}) is waits
    assert profile.ranks_nodes is not waits


async def test_members_are_told_of_their_group_and_wait_for_what_has_rejected_it() -> None:
    world = world_of()
    world.nodes(1)
    async with world.working():
        world.gang("g", 4, **HALF)
        await world.settle()
        message = world.groups.last("g").message
        assert message.startswith(
            "scheduling policy's minimum threshold (4) cannot be satisfied: 2 scheduled, 1 unschedulable, 1 not-eval"
        )
        told = [note for note in world.reported.notes if note == 'parent pod group "g" is unschedulable']
        assert len(told) == 3
        (place, queued) = world.queue.find("default/g-3") or ("", None)
        assert queued is not None, place
        assert queued.unschedulable_plugins == {"GangScheduling"}


async def test_a_composite_group_gets_a_condition_and_one_that_says_scheduled_is_final() -> None:
    world = world_of(TREES)
    world.nodes(1)
    async with world.working():
        world.add_composite(composite("all", 1))
        group = pod_group("a", 1, parentCompositePodGroupName="all")
        world.add_group(group)
        world.add(member("a-0", "a", **HALF))
        await world.settle()
        assert world.groups.last("all").type == "CompositePodGroupInitiallyScheduled"
        assert (world.groups.last("all").status, world.groups.last("all").reason) == ("True", "Scheduled")
        before = list(world.groups.conditions)
        # another generation, as the watch showed it before the condition was written
        world.add_group(replace(group, metadata=replace(group.metadata, generation=7)))
        world.add(member("a-1", "a", **HALF))
        await world.settle()
        assert world.bound("a") == ["a-0", "a-1"]
        assert world.groups.conditions == before


async def test_members_of_a_tree_that_contradicts_itself_get_an_error_and_all_groups_the_reason() -> None:
    world = world_of(TREES)
    world.nodes(1)
    async with world.working():
        world.add_composite(composite("all", 1))
        world.add_group(pod_group("a", None, parentCompositePodGroupName="all"))
        world.add(member("a-0", "a", **HALF))
        await world.settle()
    text = 'gang parent "compositepodgroup/default/all" cannot have basic child "podgroup/default/a"'
    assert (world.groups.last("all").reason, world.groups.last("a").reason) == (
        "CompositePodGroupError",
        "PodGroupError",
    )
    assert {world.groups.last(name).message for name in ("all", "a")} == {text}
    assert world.bindings == []


async def test_a_tree_that_is_too_deep_is_refused_as_a_whole_and_every_group_says_so() -> None:
    """Up to 1.37 who is on a level that is too deep waits, and the others are placed."""
    world = world_of(TREES)
    world.nodes(1)
    async with world.working():
        for name, parent in (("d1", ""), ("d2", "d1"), ("d3", "d2"), ("d4", "d3"), ("d5", "d4")):
            world.add_composite(composite(name, None, parent))
        world.add_group(pod_group("deep", 1, parentCompositePodGroupName="d4"))
        world.add(member("deep-0", "deep", **HALF))
        await world.settle()
        told = {name: (condition.reason, condition.message) for name, condition in world.groups.conditions}
        message = 'hierarchy depth exceeds maximum allowed depth 4 at "compositepodgroup/default/d4"'
        assert told == {
            **{f"d{level}": ("CompositePodGroupError", message) for level in range(1, 6)},
            "deep": ("PodGroupError", message),
        }
        assert message in world.reported.notes
        # a member of a level that is not too deep is of the same tree
        world.add_group(pod_group("well", 1, parentCompositePodGroupName="d1"))
        world.add(member("well-0", "well", **HALF))
        await world.pass_seconds(30)
        assert world.bindings == []
        assert world.groups.last("well").reason == "PodGroupError"
        world.delete_composite(composite("d5", None, "d4"))
        world.delete_composite(composite("d4", None, "d3"))
        await world.pass_seconds(30)
        assert world.bound() == ["well-0"]
        assert world.where("deep-0") == "incomplete"


async def test_a_tree_ends_somewhere_and_whoever_is_further_down_waits() -> None:
    world = world_of(TREES)
    world.nodes(1)
    async with world.working():
        for number in range(100):
            world.add_composite(composite(f"c{number}", None, f"c{number - 1}" if number else ""))
        for name, parent in (("near", "c14"), ("far", "c15")):
            world.add_group(pod_group(name, 1, parentCompositePodGroupName=parent))
            world.add(member(f"{name}-0", name, **HALF))
        await world.settle()
        assert world.groups.last("near").reason == "PodGroupError"
        assert world.where("far-0") == "incomplete"
        (queued,) = (each for each in [world.queue.find("default/far-0")] if each is not None)
        why = world.queue.why_incomplete(queued[1].pod.pod)
        assert why.startswith("trees deeper than 16 levels are not followed: default/far -> default/c15")


async def test_who_is_nominated_to_the_nodes_of_a_group_loses_the_nomination_to_it() -> None:
    world = world_of()
    world.nodes(1)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", **HALF) for number in range(2)))
        await world.settle()
        outbid = make_pod("outbid", requests={"cpu": "3"}, priority=1)
        world.add(replace(outbid, status=replace(outbid.status, nominated_node_name="node-0")))
        world.lingering = {"low-0", "low-1", "outbid"}
        world.add_group(pod_group("g", 2, priority=9))
        world.add(*(member(f"g-{number}", "g", priority=9, **HALF) for number in range(2)))
        await world.settle()
        assert {name for name, _ in world.evicted} >= {"low-0", "low-1"}
        assert world.cache.nominator.nominated_node(world.cache.nominator.nominated_pods("node-0")[0])
        assert {pod.name for pod in world.cache.nominator.nominated_pods("node-0")} == {"g-0", "g-1"}


# --- placements -------------------------------------------------------------------------------------------------------


def decided(racks: Sequence[str], members: Sequence[str], least: int, version: str = "1.38") -> GroupDecision:
    """A gang that must go to one rack. `racks`: of each node, which has room for two members. `members`: their
    nominations.
    """
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    nodes = [
        {"metadata": {"name": f"node-{number}", "labels": {RACK: rack}}, "status": {"allocatable": allocatable}}
        for number, rack in enumerate(racks)
    ]
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
    spec |= {"schedulingGroup": {"podGroupName": "g"}, "schedulerName": "default-scheduler"}
    pods = [
        {
            "metadata": {"name": f"g-{number}", "namespace": "default", "uid": f"g-{number}"},
            "spec": spec,
            "status": {"nominatedNodeName": node} if node else {},
        }
        for number, node in enumerate(members)
    ]
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {**policy, **IN_A_RACK}}
    line = {"objects": {"nodes": nodes, "pods": pods, "podgroups": [group]}, "podGroup": "default/g"}
    config = default_configuration("default-scheduler", parse_feature_gates(PLACEMENTS, version=version))
    scenario = parse_line(json.dumps(line).encode(), "test", config)
    assert isinstance(scenario, GroupScenario)
    return decide_group(scenario)


def test_the_search_ends_with_enough_placements_that_fit() -> None:
    racks = [f"r{number % 3}" for number in range(60)]
    counts = [len(decided(racks, [""], 1, version).placements) for version in ("1.37", "1.38")]
    assert counts == [3, 2], "99 % of three are two"
    few = [f"r{number % 3}" for number in range(6)]
    assert len(decided(few, [""], 1).placements) == 3


def test_the_nominated_placement_is_tried_first_and_taken_if_anybody_new_fits() -> None:
    racks = ["a", "b", "c"]
    (only,) = decided(racks, ["node-2", ""], 1).placements
    assert (only.placement.name, only.is_chosen) == ("c", True)
    assert len(decided(racks, ["node-2", "node-0"], 1).placements) == 3, "two placements are nominated"
    first, *others = decided(racks, ["node-2", "", ""], 3).placements
    assert first.placement.name == "c"
    assert len(others) == 2


async def test_placements_are_counted_that_there_were_and_trials_that_were_made() -> None:
    world = world_of(PLACEMENTS)
    counted = world.assembly.ports.observations
    for rack in range(60):  # beyond 55 nodes a share of them is enough
        world.add(make_node(f"node-{rack}", labels={RACK: str(rack)}), initial=True)
    async with world.working():
        world.add_group(pod_group("g", 1, **IN_A_RACK))
        world.add(member("g-0", "g", **HALF))
        await world.settle()
    assert world.bound() == ["g-0"]
    assert counted.generated_placements == {("kscheduler", "podgroup"): 60}
    assert counted.placement_evaluations == {("feasible", "kscheduler", "podgroup"): 59}


@pytest.mark.parametrize(("version", "counted"), [("1.37", {}), ("1.38", {"compositepodgroup": 2})])
async def test_placements_of_composite_groups_are_counted_from_1_38_on(version: str, counted: dict[str, int]) -> None:
    world = World(gates=TREES, version=version)
    metric = world.assembly.ports.observations.generated_placements
    for rack in "ab":
        world.add(make_node(f"node-{rack}", labels={RACK: rack}), initial=True)
    async with world.working():
        world.add_composite(composite("all", 1, **IN_A_RACK))
        world.add_group(pod_group("a", 1, parentCompositePodGroupName="all"))
        world.add(member("a-0", "a", **HALF))
        await world.settle()
    assert world.bound() == ["a-0"]
    # the group of pods is tried in each placement of its parent
    of_pods = ("kscheduler",) if version == "1.37" else ("kscheduler", "podgroup")
    assert metric == {of_pods: 2} | {("kscheduler", kind): count for kind, count in counted.items()}


async def test_placements_of_the_search_for_victims_are_counted_too() -> None:
    world = world_of(PLACEMENTS)
    metric = world.assembly.ports.observations.generated_placements
    world.add(make_node("node-a", labels={RACK: "a"}), initial=True)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", **HALF) for number in range(2)))
        await world.settle()
        world.lingering = {"low-0", "low-1"}
        world.add_group(pod_group("g", 1, priority=9, **IN_A_RACK))
        world.add(member("g-0", "g", priority=9, **HALF))
        await world.settle()
    assert len(world.evicted) == 1
    assert metric == {("kscheduler", "podgroup"): 2}  # without victims, then as if they were gone


def test_an_empty_value_is_no_domain() -> None:
    names = {tried.placement.name for tried in decided(["a", "", "b"], [""], 1).placements}
    assert names == {"a", "b"}
    assert len(decided(["a", "", "b"], [""], 1, "1.37").placements) == 3


class Halves(Plugin):
    """Divides the nodes into even and odd ones."""

    name = "Halves"
    parts = ("even", "odd")

    def generate_placements(self, group: GroupDefinition, parent: GroupPlacement) -> Sequence[GroupPlacement]:
        del group
        return [GroupPlacement(name, parent.rows[start::2]) for start, name in enumerate(self.parts)]


class NamesAlike(Halves):
    """Its placements have the same name."""

    name = "NamesAlike"
    parts = ("part", "part")


class NamesWithSlash(Halves):
    """Its placements have names that only merged ones may have."""

    parts = ("part/0", "part/1")


def merged(*more: Halves) -> Sequence[GroupPlacement] | GroupResult:
    inputs = decided(["a", "a", "b", "b", "c"], [""], 1).inputs
    assert inputs is not None
    generators = (*inputs.profile.placement_generate, *more)
    return placements_of(replaced(inputs, profile=replaced(inputs.profile, placement_generate=generators)))


def test_placements_of_several_plugins_are_intersected() -> None:
    found = merged(Halves())
    assert not isinstance(found, GroupResult)
    assert [(each.name, each.rows.tolist()) for each in found] == [
        ("a/even", [0]),
        ("a/odd", [1]),
        ("b/even", [2]),
        ("b/odd", [3]),
        ("c/even", [4]),
    ]


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (NamesAlike(), 'plugin returned duplicate placement name "part"'),
        (NamesWithSlash(), 'placement name "part/0" must not contain "/"'),
    ],
)
def test_names_of_placements_are_checked(plugin: Halves, text: str) -> None:
    found = merged(plugin)
    assert isinstance(found, GroupResult)
    assert (found.status.code, found.status.message) == (Code.ERROR, text)


# --- ranks ------------------------------------------------------------------------------------------------------------


def unit(*pods: str, priority: int = 0, **fields: Any) -> VictimUnit:
    return VictimUnit(tuple(pod_info(name, priority=priority) for name in pods), priority, **fields)


def test_the_cheapest_victims_come_first_and_a_taken_node_costs_nothing() -> None:
    units = [
        unit("whole-0", "whole-1", priority=5, is_group=True),
        unit("high", priority=5, is_group=False),
        unit("guarded", is_group=False),
        unit("low-0", is_group=False),
        unit("low-1", is_group=False),
    ]
    rows = {"whole-0": 0, "whole-1": 1, "high": 2, "guarded": 3, "low-0": 4, "low-1": 5}
    ranks = VictimRanks(units, [0, 0, 1, 0, 0], lambda pod: rows[pod.name], 8)

    def order() -> list[int]:
        return [int(rank) for rank in ranks.of(np.arange(7))]

    # one low pod; a high one; two high ones that go together, on both of their nodes; against a budget
    assert order() == [3, 3, 2, 4, 1, 1, 0]
    taken = ranks.take(0)
    assert order() == [0, 0, 2, 4, 1, 1, 0]
    ranks.give_back(taken)
    assert order() == [3, 3, 2, 4, 1, 1, 0]


def test_what_is_left_of_a_node_is_ranked_as_all_other_nodes_are() -> None:
    units = [
        unit("both-0", "both-1", priority=5, is_group=True),
        unit("low-1", is_group=False),
        unit("low-2", is_group=False),
        unit("high-3", priority=3, is_group=False),
        unit("low-3", is_group=False),
    ]
    rows = {"both-0": 0, "both-1": 1, "low-1": 1, "low-2": 2, "high-3": 3, "low-3": 3}
    ranks = VictimRanks(units, [0] * 5, lambda pod: rows[pod.name], 4)

    def order() -> list[int]:
        found = ranks.of(np.arange(4)).tolist()
        return [sorted({*found, 0}).index(rank) for rank in found]

    before = order()
    assert before == [3, 4, 1, 2]
    both = ranks.take(0)
    assert order() == [0, 1, 1, 2], "the other node of the group has only the low one left"
    high = ranks.take(3)
    assert order() == [0, 1, 1, 0]
    ranks.give_back(high)
    ranks.give_back(both)
    assert order() == before


@given(
    units=st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 5), min_size=1, max_size=3)), max_size=8),
    takes=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6),
)
def test_ranks_after_any_takes_are_those_of_the_units_that_are_left(
    units: list[tuple[int, list[int]]], takes: list[tuple[int, bool]]
) -> None:
    """`units`: the priority and the rows of each; `takes`: rows, and whether that is given back at once."""
    rows = {f"{number}-{place}": row for number, (_, on) in enumerate(units) for place, row in enumerate(on)}
    made = [
        unit(*(f"{number}-{place}" for place in range(len(on))), priority=priority, is_group=len(on) > 1)
        for number, (priority, on) in sorted(enumerate(units), key=lambda each: -each[1][0])
    ]

    def ranks_of(left: list[VictimUnit]) -> VictimRanks:
        return VictimRanks(left, [0] * len(left), lambda pod: rows[pod.name], 6)

    def order(ranks: VictimRanks) -> list[int]:
        found = ranks.of(np.arange(6)).tolist()
        return [sorted({*found, 0}).index(rank) for rank in found]

    ranks, left = ranks_of(made), list(made)
    for row, is_given_back in takes:
        taken = ranks.take(row)
        if is_given_back:
            ranks.give_back(taken)
        else:
            left = [each for each in left if row not in {rows[pod.name] for pod in each.pods}]
        assert order(ranks) == order(ranks_of(left))


@pytest.mark.parametrize("is_off", [False, True])
async def test_nodes_are_ranked_only_where_the_profile_ranks_them(
    is_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[VictimRanks] = []

    def noted(*given: Any) -> VictimRanks:
        made.append(VictimRanks(*given))
        return made[-1]

    monkeypatch.setattr(for_groups, "VictimRanks", noted)
    plugins = {"reserve": {"disabled": [{"name": "DefaultPreemption"}]}} if is_off else {}
    profile = {"schedulerName": "kscheduler", "plugins": plugins}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    gates = parse_feature_gates(GROUPS, version="1.38")
    world = World(from_tree({**header, "profiles": [profile]}, "", gates))
    world.nodes(1)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", **HALF) for number in range(2)))
        await world.settle()
        world.add_group(pod_group("g", 2, priority=9))
        world.add(*(member(f"g-{number}", "g", priority=9, **HALF) for number in range(2)))
        await world.settle()
        assert {name for name, _ in world.evicted} >= {"low-0", "low-1"}
    assert bool(made) is not is_off


async def test_victims_that_are_being_bound_cost_something_too() -> None:
    """The watch has not shown them on their node."""
    world = world_of()
    world.nodes(2)
    # one on the first node, which is being bound; a less important one on the other
    bound = pod_info("bound", priority=0, node="node-1", requests={"cpu": "4"})
    world.add(bound.pod)
    world.cache.assume_pod(pod_info("assumed", priority=5, requests={"cpu": "4"}), "node-0")
    async with world.working():
        world.add_group(pod_group("g", 1, priority=9))
        world.add(member("g-0", "g", priority=9, **HALF))
        await world.settle()
        assert [name for name, _ in world.evicted] == ["bound"]


def test_a_profile_may_have_several_plugins_that_generate_placements() -> None:
    generators = {"placementGenerate": {"enabled": [{"name": "Halves"}, {"name": "NamesAlike"}]}}
    more = (("Halves", lambda *_: Halves()), ("NamesAlike", lambda *_: NamesAlike()))
    profile = {"schedulerName": "a", "plugins": generators}
    (built,) = build([profile], *more, version="1.38").values()
    assert [plugin.name for plugin in built.placement_generate][-2:] == ["Halves", "NamesAlike"]
    with pytest.raises(ConfigError, match="at most one placement generate plugin"):
        build([profile], *more, version="1.37")
