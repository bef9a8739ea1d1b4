"""The volume filters in columns equal the executable specification, after every change that storage can go through.

What is judged: why a whole pod is rejected, what is said of each node, and on each node that passes which volume is
set aside for which claim and for which claims one is to be made. Some choices stay set aside while the world goes on.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Pod
from kscheduler.api.storage import CSINode
from kscheduler.config.plugin_args import UtilizationShapePoint, VolumeBindingArgs
from kscheduler.framework.cluster.volumes import UNLIMITED_ROOM
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.storage.node_volume_limits import NodeVolumeLimits
from kscheduler.plugins.storage.volume_binding import VolumeBinding
from kscheduler.plugins.storage.volume_binding.reach import reachable_as_migrated, reaches
from kscheduler.plugins.storage.volume_restrictions import VolumeRestrictions
from kscheduler.plugins.storage.volume_zone import VolumeZone
from tests.specification import cases
from tests.specification.rules import LoggedFailure, hopeless
from tests.specification.volumes import binding_rules as volume_binding_rules
from tests.specification.volumes import rules as volume_rules
from tests.specification.volumes.state import StorageCluster, Undertaking
from tests.specification.volumes.worlds import DRIVERS, JUDGED, VOLUMES, Draws

STEPS = 12
# By plugin: what is wrong with the whole pod, and with one node.
RULES = {
    VolumeRestrictions: (volume_rules.restrictions_problem, volume_rules.restrictions),
    NodeVolumeLimits: (volume_rules.limits_problem, volume_rules.limits),
    VolumeZone: (volume_rules.zone_problem, volume_rules.zone),
    VolumeBinding: (volume_binding_rules.binding_problem, volume_binding_rules.binding),
}

HANDLES = [f"{driver}/{handle}" for driver in DRIVERS for handle in ("h", "vol-1", "vol-2", *VOLUMES)]


def judged(plugin: Any, cluster: StorageCluster, pod: Pod) -> dict[str, LoggedFailure]:
    """What the plugin says of each node; of the whole pod the same on each."""
    table, state = cluster.cache.nodes, CycleState()
    result = plugin.pre_filter(state, PodInfo(pod), table)
    if result.status.is_skip:
        return dict.fromkeys(cluster.world.nodes)
    if not result.status.is_success:
        return dict.fromkeys(cluster.world.nodes, _reported(result.status))
    rows = table.rows()
    codes = plugin.filter(state, PodInfo(pod), table, rows)
    reported = [0] * len(rows) if codes is None else codes.tolist()
    return {
        table.name_of(row): _reported(plugin.status(state, code)) if code else None
        for row, code in zip(rows.tolist(), reported, strict=True)
    }


def _reported(status: Any) -> LoggedFailure:
    return status.code is Code.UNSCHEDULABLE, frozenset(status.reasons)


def assert_verdicts(plugin: Any, cluster: StorageCluster, pod: Pod) -> None:
    problem, rule = RULES[type(plugin)]
    whole = problem(pod, cluster.world)
    nodes = cluster.world.nodes
    expected = {name: hopeless(whole) if whole else rule(pod, nodes[name], cluster.world) for name in nodes}
    assert judged(plugin, cluster, pod) == expected, plugin.name


def assert_counts(cluster: StorageCluster) -> None:
    """What is attached where, and how much may be: the columns that stand behind the verdicts about limits."""
    table, volumes, world = cluster.cache.nodes, cluster.cache.volumes, cluster.world
    one_by_one = {row: np.array([row], dtype=np.intp) for row in table.rows().tolist()}
    surely = {
        (driver, row): max(count for count in range(9) if not count or volumes.surely_take(driver, count, alone))
        for driver in DRIVERS
        for row, alone in one_by_one.items()
    }
    users: dict[str, set[int]] = {}
    for name, node in world.nodes.items():
        row, used = table.row_of(name), volume_rules.used_by_pods(node, world)
        attached = [*(volume_rules.attachments(node, world) | used).values()]
        limits = volume_rules.limits_of(world.find(CSINode, name))
        for driver in DRIVERS:
            assert volumes.attached(driver)[row] == attached.count(driver), (name, driver)
            assert volumes.attach_limits(driver)[row] == limits.get(driver, -1), (name, driver)
            room = limits[driver] - attached.count(driver) if driver in limits else UNLIMITED_ROOM
            assert volumes.attach_room(driver)[row] == room, (name, driver)
            assert surely[driver, row] <= max(room, 0), (name, driver)
        for volume in used:
            users.setdefault(volume, set()).add(row)
    for volume in (one for one in (*users, *HANDLES) if "claim" not in one):
        assert set(volumes.rows_using(volume).tolist()) == users.get(volume, set()), volume


def assert_reach(cluster: StorageCluster) -> None:
    """Whether a volume can be reached is the same for a node alone and in columns."""
    table, volumes = cluster.cache.nodes, cluster.cache.volumes
    for volume in filter(None, map(volumes.volume, VOLUMES)):
        for node in cluster.world.nodes.values():
            row = np.array([table.row_of(node.metadata.name)], dtype=np.intp)
            reported = answer_of(partial(reachable_as_migrated, volume, volumes, table, row))
            assert answer_of(partial(reaches, volume, volumes, node)) == reported


def answer_of(query: Callable[[], Any]) -> bool | str:
    try:
        return bool(query())
    except ValueError as problem:
        return str(problem)


def assert_choices(cluster: StorageCluster, pod: Pod) -> list[Undertaking]:
    """Reserve sets aside what the specification chooses, and Unreserve leaves no trace of it.

    Left out: volumes and claims that are set aside already, for another pod with the same claim.
    """
    plugin, state, info = VolumeBinding(None, cluster.handle), CycleState(), PodInfo(pod)
    table, found = cluster.cache.nodes, []
    if not plugin.pre_filter(state, info, table).status.is_success:
        return []
    codes, rows = plugin.filter(state, info, table, table.rows()), table.rows().tolist()
    before = cluster.seen()
    for row in [row for place, row in enumerate(rows) if codes is None or not codes[place]]:
        name = table.name_of(row)
        choice = volume_binding_rules.choice(pod, cluster.world.nodes[name], cluster.world)
        expected, own = cluster.expected(choice, name), state.copy()
        if choice.set_aside().isdisjoint(cluster.world.assumed):
            assert plugin.reserve(own, info, name).is_success
            assert cluster.seen() == expected
            plugin.unreserve(own, info, name)
            assert cluster.seen() == before
            found.append(Undertaking(plugin, own, info, name, {key: expected[key] for key in choice.set_aside()}))
    return found


SHAPES = [[(0, 10), (100, 0)], [(0, 0), (100, 10)], [(10, 7), (33, 2), (70, 9)], [(50, 5)]]


def assert_points(cluster: StorageCluster, pod: Pod, shape: list[tuple[int, int]]) -> None:
    """With the gate StorageCapacityScoring: the points of all nodes that pass, asked of some of them as well."""
    args = VolumeBindingArgs(shape=tuple(UtilizationShapePoint(*corner) for corner in shape))
    plugin, state, info = VolumeBinding(args, cluster.handle), CycleState(), PodInfo(pod)
    table = cluster.cache.nodes
    if not plugin.pre_filter(state, info, table).status.is_success:
        assert plugin.pre_score(state, info, table, table.rows()).is_success
        assert not plugin.score(state, info, table, table.rows()).any()
        return
    codes, rows = plugin.filter(state, info, table, table.rows()), table.rows()
    feasible = rows if codes is None else rows[codes == 0]
    nodes = cluster.world.nodes
    for queried in (feasible, feasible[1:], feasible[:0]):
        assert plugin.pre_score(state, info, table, queried).is_success
        points = plugin.score(state, info, table, queried)
        assert points.dtype == np.int64
        assert points.tolist() == [
            volume_binding_rules.capacity_points(pod, nodes[table.name_of(row)], cluster.world, shape)
            for row in queried.tolist()
        ]


def take_step(cluster: StorageCluster, draws: Draws) -> None:
    """One event of a history."""
    step = draws.one(*["put"] * 7, "remove", "remove", "relist", "give back")
    if step == "relist":
        cluster.relist()
    elif step == "give back":
        for undertaking in cluster.undertakings[:1]:
            cluster.give_back(undertaking)
    else:
        obj = draws.anything()
        cluster.put(obj) if step == "put" else cluster.remove(obj)


@cases.examples("volumes")
@given(st.integers(0, 2**64), st.integers(0, STEPS))
def test_every_rule_and_choice_after_every_change(seed: int, steps: int) -> None:
    cluster, draws = StorageCluster(), Draws(Random(seed))
    cluster.world.compares_exactly = bool(seed % 2)
    for obj in draws.start():
        cluster.put(obj)
    plugins = [plugin(None, cluster.handle) for plugin in RULES]
    for step in range(steps + 1):
        if step:
            take_step(cluster, draws)
        for pod in map(draws.pod, JUDGED):
            for plugin in plugins:
                assert_verdicts(plugin, cluster, pod)
            possible = assert_choices(cluster, pod)
            assert_points(cluster, pod, draws.one(*SHAPES))
            cases.judged("volumes", int(bool(cluster.world.nodes)))
            if possible and draws.chance(1 / 4):
                cluster.keep(draws.one(*possible))
        assert_reach(cluster)
        if draws.chance(1 / 2):  # so far nothing may have been counted, but only taken for the worst
            assert_counts(cluster)
