"""One pod group for which a user's plugin raises or does not end: the other groups and pods are placed meanwhile."""

import time
from typing import Any, Final

import numpy as np
import pytest
import structlog

from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import from_tree
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import GroupPlacement, GroupTrial, PodGroupPostFilterResult
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import SUCCESS, unschedulable
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.supervision.supervised import LABELS
from tests.builders import make_pod
from tests.scheduling.groups.world import World

GATES: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
EVIL: Final = "evil"


class HostileGroups(Plugin):
    """Misbehaves at one method towards the group of that name."""

    name = "Hostile"

    def __init__(self, method: str, way: str) -> None:
        self._method, self._way = method, way
        self.is_sound = False

    def _judge(self, method: str, group: GroupDefinition) -> None:
        if method != self._method or group.key.name != EVIL or self.is_sound:
            return
        end = time.perf_counter() + 5.0
        while self._way == "does-not-end" and time.perf_counter() < end:
            pass
        raise LookupError("boom")

    def placement_feasible(self, group: GroupDefinition, progress: Any) -> Any:
        self._judge("placement_feasible", group)
        return SUCCESS

    def generate_placements(self, group: GroupDefinition, parent: GroupPlacement) -> Any:
        self._judge("generate_placements", group)
        return [GroupPlacement("first", parent.rows[:2]), GroupPlacement("second", parent.rows[2:])]

    def score_placements(self, group: GroupDefinition, proposals: Any) -> Any:
        self._judge("score_placements", group)
        return np.zeros(len(proposals), dtype=np.int64)

    def pod_group_post_filter(self, trial: GroupTrial) -> PodGroupPostFilterResult:
        self._judge("pod_group_post_filter", trial.group)
        return PodGroupPostFilterResult(unschedulable("nothing to be done"))


def world_with(plugin: Plugin) -> World:
    alone = {"enabled": [{"name": "Hostile"}], "disabled": [{"name": "*"}]}
    profile = {
        "schedulerName": "kscheduler",
        "plugins": {
            "multiPoint": {"enabled": [{"name": "Hostile"}]},
            **dict.fromkeys(("placementGenerate", "placementScore", "podGroupPostFilter"), alone),
        },
        "pluginConfig": [{"name": "Hostile", "timeBudget": "30ms"}],
    }
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    known = registry()
    known.register("Hostile", lambda *_: plugin)
    config = from_tree({**kind, "profiles": [profile]}, "test", parse_feature_gates(GATES, version="1.37"))
    world = World(config, known=known)
    world.nodes(4)
    return world


@pytest.mark.parametrize("way", ["raises", "does-not-end"])
@pytest.mark.parametrize(
    "method", ["placement_feasible", "generate_placements", "score_placements", "pod_group_post_filter"]
)
async def test_a_group_that_makes_a_plugin_fail_is_the_only_one_to_suffer(method: str, way: str) -> None:
    plugin = HostileGroups(method, way)
    world = world_with(plugin)
    asks_for = {"cpu": "100" if method == "pod_group_post_filter" else "100m"}
    with structlog.testing.capture_logs() as lines:
        async with world.working():
            for name in ("first", EVIL, "last"):
                world.gang(name, 2, requests=asks_for if name == EVIL else {"cpu": "100m"})
            world.add(make_pod("alone"))
            await world.pass_seconds(3)
            assert len(world.bound("first")) == len(world.bound("last")) == 2
            assert world.bound("alone")
            is_placed_by_others = method == "score_placements"
            assert bool(world.bound(EVIL)) is is_placed_by_others
            assert world.assembly.circuits.quarantines() == []
            failed = {line["extension_point"] for line in lines if line["event"] == "plugin_failed"}
            assert LABELS[method] in failed
            if not is_placed_by_others:
                said = [*world.reported.reports, *world.groups.conditions, *world.recorded.notes]
                assert any('"Hostile"' in str(text) for text in said), said
            plugin.is_sound = True
            await world.pass_seconds(30)
            assert bool(world.bound(EVIL)) is (method != "pod_group_post_filter")
