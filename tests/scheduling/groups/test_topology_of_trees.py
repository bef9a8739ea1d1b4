"""Groups of groups that ask for a topology, with groups below that ask for a narrower one."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.groups import CompositePodGroup, KubernetesPodGroup
from kscheduler.framework.cluster.topology_request import (
    PREFERRED,
    REQUIRED,
    SLICE_LEVEL,
    SLICE_SIZE,
    KeyMeanings,
    TopologyRequest,
    request_in_annotations,
)
from kscheduler.scheduling.groups import topology_placement
from tests.builders import make_node
from tests.scheduling.groups.world import World, member

GATES = "GenericWorkload=true,CompositePodGroup=true,TopologyAwareWorkloadScheduling=true"
BLOCK, RACK = "example.com/block", "example.com/rack"
WHOLE: dict[str, Any] = {"requests": {"cpu": "4"}}


def world_with(*racks: int, version: str = "1.37") -> World:
    """Racks with so many nodes, two in each block; a node takes one member."""
    world = World(gates=GATES, version=version)
    world.cache.topology_levels.configure([(BLOCK, RACK)])
    nodes = [
        make_node(f"r{rack}n{number}", labels={RACK: f"r{rack}", BLOCK: f"b{rack // 2}"})
        for rack, size in enumerate(racks)
        for number in range(size)
    ]
    world.add(*nodes, initial=True)
    return world


def add_tree(
    world: World, whole: dict[str, str], below: dict[str, str], *sizes: int, least: int | None = None, **fields: Any
) -> None:
    """A gang of gangs of these sizes; the annotations of the whole, and of each gang; fields of the members."""
    metadata = {"name": "all", "namespace": "default", "uid": "all", "annotations": whole}
    policy = {"gang": {"minGroupCount": len(sizes) if least is None else least}}
    world.add_composite(convert({"metadata": metadata, "spec": {"schedulingPolicy": policy}}, CompositePodGroup))
    for number, size in enumerate(sizes):
        name = f"g{number}"
        metadata = {"name": name, "namespace": "default", "uid": name, "annotations": below}
        spec = {"schedulingPolicy": {"gang": {"minCount": size}}, "parentCompositePodGroupName": "all"}
        world.add_group(convert({"metadata": metadata, "spec": spec}, KubernetesPodGroup))
        world.add(*(member(f"{name}-{index}", name, **WHOLE, **fields) for index in range(size)))


def racks_of(world: World, group: str) -> list[str]:
    return sorted(node.partition("n")[0] for name, node in world.bindings if name.startswith(f"{group}-"))


@pytest.mark.parametrize("version", ["1.37", "1.38"])
async def test_a_tree_in_one_block_with_each_gang_in_one_rack(version: str) -> None:
    world = world_with(4, 1, 3, 2, version=version)
    async with world.working():
        add_tree(world, {REQUIRED: BLOCK}, {REQUIRED: RACK}, 3, 2)
        await world.settle()
        assert racks_of(world, "g0") == ["r2"] * 3
        assert racks_of(world, "g1") == ["r3"] * 2


async def test_the_tightest_block_that_holds_all_of_it() -> None:
    world = world_with(4, 4, 2, 2, 3, 2)
    async with world.working():
        add_tree(world, {REQUIRED: BLOCK}, {}, 2, 2)
        await world.settle()
        assert {*racks_of(world, "g0"), *racks_of(world, "g1")} <= {"r2", "r3"}


async def test_a_preferred_tree_goes_wherever_it_fits() -> None:
    world = world_with(2, 1, 1, 1)
    async with world.working():
        add_tree(world, {PREFERRED: BLOCK}, {}, 2, 2)
        await world.settle()
        assert len(world.bindings) == 4


async def test_a_tree_that_no_block_holds_waits() -> None:
    world = world_with(2, 1, 1, 1)
    async with world.working():
        add_tree(world, {REQUIRED: BLOCK}, {}, 2, 2)
        await world.settle()
        assert world.bindings == []


async def test_a_tree_may_fit_without_all_of_its_groups() -> None:
    world = world_with(2, 1, 1, 1)
    async with world.working():
        add_tree(world, {REQUIRED: BLOCK}, {}, 2, 2, least=1)
        await world.settle()
        assert len(world.bindings) == 2


async def test_what_a_tree_cannot_ask_for_is_refused() -> None:
    world = world_with(2, 2)
    async with world.working():
        add_tree(world, {SLICE_LEVEL: RACK, SLICE_SIZE: "2"}, {}, 2, 2)
        await world.settle()
        assert world.bindings == []
        assert "only a group of pods can have" in world.groups.last("g0").message


async def test_members_are_asked_once_however_many_placements_their_group_is_tried_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Mapping[str, str]] = []

    def noted(annotations: Mapping[str, str], meanings: KeyMeanings) -> TopologyRequest | None:
        read.append(annotations)
        return request_in_annotations(annotations, meanings)

    monkeypatch.setattr(topology_placement, "request_in_annotations", noted)
    world = world_with(2, 2, 2)
    apart = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    async with world.working():
        add_tree(world, {PREFERRED: RACK}, {}, 2, labels={"app": "x"}, affinity=affinity)
        await world.settle()
        assert len(world.bindings) == 2, "in two racks, after each was tried by itself"
    assert len(read) == 2


async def test_members_of_each_group_of_a_tree_ask_for_that_group_alone() -> None:
    world = world_with(2, 2, 2, 2)
    add_tree(world, {}, {}, 2, 3)
    for pod in world.pods():
        asked = {REQUIRED: RACK if pod.metadata.name.startswith("g0-") else BLOCK}
        world.add(replace(pod, metadata=replace(pod.metadata, annotations=asked)))
    async with world.working():
        await world.settle()
        assert len(set(racks_of(world, "g0"))) == 1
        assert len(racks_of(world, "g1")) == 3, "no rack holds them"
