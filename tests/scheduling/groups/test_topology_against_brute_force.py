"""Topology through the whole scheduler, against brute force on small clusters: never more racks than needed."""

import asyncio
from itertools import combinations
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.kinds import SERVICES
from kscheduler.api.well_known import HOSTNAME
from kscheduler.api.workloads import Service
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.framework.cluster.topology_request import PREFERRED, REQUIRED, SLICE_LEVEL, SLICE_SIZE
from tests.builders import make_node, make_pod
from tests.effort import example_count
from tests.scheduling.groups.test_topology_requests import RACK, asking
from tests.scheduling.groups.world import ON, World, member, pod_group

# Free CPUs of the nodes of each rack; a member takes two.
clusters = st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=3), min_size=1, max_size=4)


async def racks_used(free: list[list[int]], size: int, annotations: dict[str, str]) -> list[int]:
    """By rack how many members of a gang of this size are there."""
    world = World()
    for rack, nodes in enumerate(free):
        for number, cpu in enumerate(nodes):
            world.add(make_node(f"r{rack}-{number}", labels={RACK: f"r{rack}"}, cpu=str(cpu)), initial=True)
    async with world.working():
        world.add_group(pod_group("g", size))
        members = [member(f"g-{number}", "g", requests={"cpu": "2"}) for number in range(size)]
        world.add(*(asking(pod, **annotations) for pod in members))
        await world.settle()
        used = [0] * len(free)
        for name, node in world.bindings:
            if name.startswith("g-"):
                used[int(node[1 : node.index("-")])] += 1
        assert sum(used) in (0, size), "all or nothing"
        return used


def fewest(rooms: list[int], wanted: int) -> int | None:
    """How many racks with these rooms are needed; `None`: all are too few."""
    for count in range(1, len(rooms) + 1):
        if any(sum(chosen) >= wanted for chosen in combinations(rooms, count)):
            return count
    return None


@given(clusters, st.integers(1, 9))
@settings(max_examples=example_count(25))
def test_a_preferred_gang_uses_as_few_racks_as_possible(free: list[list[int]], size: int) -> None:
    rooms = [sum(cpu // 2 for cpu in nodes) for nodes in free]
    used = asyncio.run(racks_used(free, size, {PREFERRED: RACK}))
    assert sum(map(bool, used)) == (fewest(rooms, size) or 0)


@given(clusters, st.integers(1, 9))
@example([[4], [2]], 1)  # either node alone holds the whole gang
@example([[7, 7], [4, 4]], 2)
@settings(max_examples=example_count(25))
def test_a_required_gang_takes_the_tightest_rack(free: list[list[int]], size: int) -> None:
    rooms = [sum(cpu // 2 for cpu in nodes) for nodes in free]
    used = asyncio.run(racks_used(free, size, {REQUIRED: RACK}))
    holding = [room for room in rooms if room >= size]
    assert [room for room, members in zip(rooms, used, strict=True) if members] == ([min(holding)] if holding else [])


@given(clusters, st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=example_count(25))
def test_slices_are_whole_on_as_few_racks_as_possible(free: list[list[int]], slices: int, size: int) -> None:
    rooms = [sum(cpu // 2 for cpu in nodes) // size for nodes in free]
    annotations = {PREFERRED: RACK, SLICE_LEVEL: RACK, SLICE_SIZE: str(size)}
    used = asyncio.run(racks_used(free, slices * size, annotations))
    assert all(members % size == 0 for members in used)
    assert sum(map(bool, used)) == (fewest(rooms, slices) or 0)


# Free CPUs of the nodes of each rack, and how many pods of the service are there already.
served_clusters = st.lists(
    st.lists(st.tuples(st.integers(2, 7), st.integers(0, 2)), min_size=1, max_size=3), min_size=1, max_size=3
)
SELECTING: Final = {"spec": {"selector": {"app": "x"}}}
EVEN: Final = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}


def spreading_by_default() -> LoadedConfig:
    args = {"defaultingType": "List", "defaultConstraints": [EVEN]}
    profile = {"schedulerName": "kscheduler", "pluginConfig": [{"name": "PodTopologySpread", "args": args}]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return from_tree({**kind, "profiles": [profile]}, "", parse_feature_gates(ON, version="1.37"))


def most_members(racks: list[list[tuple[int, int]]], rack: int) -> int:
    """How many members one rack takes: each goes to a node that has as few pods as any node of the cluster."""
    free = [[cpu // 2 for cpu, _ in nodes] for nodes in racks]
    counts = [[old for _, old in nodes] for nodes in racks]
    for placed in range(100):
        least = min(map(min, counts))
        node = next((n for n, each in enumerate(counts[rack]) if each == least and free[rack][n]), None)
        if node is None:
            return placed
        counts[rack][node] += 1
        free[rack][node] -= 1
    raise AssertionError("no node has so much room")


async def racks_under_defaults(racks: list[list[tuple[int, int]]], size: int) -> set[str]:
    world = World(spreading_by_default())
    world.put(SERVICES, convert({"metadata": {"name": "s", "namespace": "default"}, **SELECTING}, Service))
    for rack, nodes in enumerate(racks):
        for number, (cpu, old) in enumerate(nodes):
            name = f"r{rack}-{number}"
            world.add(make_node(name, labels={RACK: f"r{rack}", HOSTNAME: name}, cpu=str(cpu)), initial=True)
            pods = (make_pod(f"old-{name}-{each}", labels={"app": "x"}, node=name) for each in range(old))
            world.add(*pods, initial=True)
    async with world.working():
        world.add_group(pod_group("g", size))
        members = [member(f"g-{n}", "g", labels={"app": "x"}, requests={"cpu": "2"}) for n in range(size)]
        world.add(*(asking(pod, **{REQUIRED: RACK}) for pod in members))
        await world.settle()
        assert len(world.bindings) in (0, size), "all or nothing"
        return {node.partition("-")[0] for _, node in world.bindings}


@given(served_clusters, st.integers(1, 9))
@example([[(7, 0), (7, 1), (7, 0)]], 8)  # the second node is too full for the first member, and not for the last one
@settings(max_examples=example_count(25))
def test_constraints_of_the_configuration_leave_no_rack_out(racks: list[list[tuple[int, int]]], size: int) -> None:
    holding = {f"r{rack}" for rack in range(len(racks)) if most_members(racks, rack) >= size}
    used = asyncio.run(racks_under_defaults(racks, size))
    assert len(used) == bool(holding)
    assert used <= holding
