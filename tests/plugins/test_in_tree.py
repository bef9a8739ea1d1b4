"""The in-tree plugins as a set: their order, their shape, and what the smallest of them do."""

from typing import Any

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours
from kscheduler.config.plugin_args import NodeAffinityArgs, NodeResourcesFitArgs, ScoringStrategy
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import Point, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Code, Status
from kscheduler.framework.traits import PluginTraits, points_of, traits_of
from kscheduler.plugins.default_binder import DefaultBinder
from kscheduler.plugins.in_tree import IN_TREE, registry
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.packing import PACKING
from kscheduler.plugins.policies.catalogue import POLICIES
from kscheduler.plugins.priority_sort import PrioritySort
from kscheduler.plugins.scheduling_gates import SchedulingGates
from tests.plugins.made import HANDLE, info, node, pod, table

POINTS = {
    "SchedulingGates": {Point.PRE_ENQUEUE},
    "PrioritySort": {Point.QUEUE_SORT},
    "NodeUnschedulable": {Point.FILTER},
    "NodeName": {Point.FILTER},
    "TaintToleration": {Point.FILTER, Point.SCORE},
    "NodeAffinity": {Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE},
    "NodePorts": {Point.PRE_FILTER, Point.FILTER},
    "DeferredPodScheduling": {Point.PRE_FILTER, Point.FILTER, Point.PERMIT},
    "NodeResourcesFit": {Point.PRE_FILTER, Point.FILTER, Point.SCORE},
    "VolumeRestrictions": {Point.PRE_FILTER, Point.FILTER},
    "NodeVolumeLimits": {Point.PRE_FILTER, Point.FILTER},
    "VolumeBinding": {
        *(Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE, Point.RESERVE, Point.PRE_BIND),
    },
    "VolumeZone": {Point.PRE_FILTER, Point.FILTER},
    "PodTopologySpread": {Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE},
    "InterPodAffinity": {Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE},
    "DynamicResources": {
        *(Point.PRE_ENQUEUE, Point.PRE_FILTER, Point.FILTER, Point.POST_FILTER),
        *(Point.SCORE, Point.RESERVE, Point.PRE_BIND),
    },
    "DefaultPreemption": {Point.PRE_ENQUEUE, Point.POST_FILTER},
    "NodeResourcesBalancedAllocation": {Point.PRE_SCORE, Point.SCORE},
    "ImageLocality": {Point.SCORE},
    "DefaultBinder": {Point.BIND},
    "NodeDeclaredFeatures": {Point.PRE_FILTER, Point.FILTER},
    "GangScheduling": {Point.PRE_ENQUEUE, Point.PERMIT},
    "TopologyPlacementGenerator": set(),
    "PodGroupPodsCount": set(),
}


def test_the_registry_lists_the_plugins_in_the_default_order() -> None:
    assert registry().names() == (*POINTS, *(plugin.name for plugin in (*POLICIES, *PACKING)))


@pytest.mark.parametrize("name", POINTS)
def test_each_plugin_takes_part_where_it_should(name: str) -> None:
    plugin = registry().build(name, None, HANDLE)
    assert plugin.name == name
    assert points_of(plugin) == POINTS[name]


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_whoever_judges_rows_signs_and_says_what_it_depends_on(plugin: Any) -> None:
    if hasattr(plugin, "filter") or hasattr(plugin, "score"):
        assert hasattr(plugin, "sign")
        assert Source.ANYTHING not in plugin.depends_on
    if hasattr(plugin, "filter") or hasattr(plugin, "pre_enqueue"):
        assert plugin(None, HANDLE).events_to_register()


def test_each_registry_is_its_own() -> None:
    one = registry()
    one.register("Mine", IN_TREE[0])
    assert "Mine" not in registry()


def test_higher_priority_goes_first_then_longer_waiting() -> None:
    sort = PrioritySort(None, HANDLE)
    low_early = QueuedPodInfo(info("a", priority=-1), timestamp=1.0)
    default_late = QueuedPodInfo(info("b"), timestamp=3.0)
    default_early = QueuedPodInfo(info("c"), timestamp=2.0)
    high = QueuedPodInfo(info("d", priority=10), timestamp=9.0)
    queue = sorted([low_early, default_late, default_early, high], key=sort.sort_key)
    assert [queued.pod.name for queued in queue] == ["d", "c", "b", "a"]


def test_gates_are_named_in_the_order_of_the_spec() -> None:
    gated = info(schedulingGates=[{"name": "quota"}, {"name": "example.com/a"}])
    status = SchedulingGates(None, HANDLE).pre_enqueue(gated)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("waiting for scheduling gates: [quota example.com/a]",)
    assert SchedulingGates(None, HANDLE).pre_enqueue(info()).is_success


async def test_the_default_binder_binds_through_the_writer() -> None:
    bound: list[tuple[str, str]] = []

    class Recorder:
        async def bind(self, pod: Pod, node_name: str) -> Status:
            bound.append((pod.key, node_name))
            return SUCCESS

    binder = DefaultBinder(None, Handle(None, Recorder(), None))  # type: ignore[arg-type]
    assert await binder.bind(CycleState(), PodInfo(pod("web")), "node-1") is SUCCESS
    assert bound == [("default/web", "node-1")]


@pytest.mark.parametrize("kind", ["", "Nonsense", "RequestedToCapacityRatio"])
def test_a_strategy_that_cannot_be_used_is_a_value_error(kind: str) -> None:
    with pytest.raises(ValueError, match=r"supported|must be specified"):
        NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(kind)), HANDLE)


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_an_added_affinity_that_cannot_be_parsed_is_a_value_error(kind: str) -> None:
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["new"]}]}
    value: Any = {"nodeSelectorTerms": [term]} if kind == "required" else [{"weight": 1, "preference": term}]
    args = convert({"addedAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": value}}, NodeAffinityArgs)
    with pytest.raises(ValueError, match="cannot be parsed"):
        NodeAffinity(args, HANDLE)


def test_a_preference_that_cannot_be_parsed_is_an_error_of_the_cycle() -> None:
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["new"]}]}
    preferring = info(
        affinity={
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
        }
    )
    nodes = table(node())
    status = NodeAffinity(None, HANDLE).pre_score(CycleState(), preferring, nodes, nodes.rows())
    assert status.code is Code.ERROR


NEEDING_VOLUMES = [name for name in POINTS if traits_of(registry().build(name, None, HANDLE)).needs_volumes]


@pytest.mark.parametrize("name", NEEDING_VOLUMES)
def test_a_plugin_that_needs_volumes_skips_each_pod_without(name: str) -> None:
    """The class engine believes it, and does not ask."""
    plugin: Any = registry().build(name, None, HANDLE)
    rows = table(node("a"), node("b"))
    one = info("bare")
    assert plugin.pre_filter(CycleState(), one, rows).status.is_skip
    if Point.PRE_SCORE in points_of(plugin):
        assert plugin.pre_score(CycleState(), one, rows, rows.rows()).is_skip


def test_those_that_need_volumes_are_the_volume_plugins() -> None:
    assert set(NEEDING_VOLUMES) == {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}


@pytest.mark.parametrize("version", [version for version in BEHAVIOURS if version != VERSION])
def test_a_plugin_as_another_version_has_it_is_kept_and_repeated_as_well(version: str) -> None:
    def traits(behaviours: Behaviours) -> dict[str, PluginTraits]:
        handle = msgspec.structs.replace(HANDLE, behaviours=behaviours)
        plugins = [registry().build(name, None, handle) for name in registry().names()]
        return {plugin.name: msgspec.structs.replace(traits_of(plugin), points=frozenset()) for plugin in plugins}

    assert traits(BEHAVIOURS[version]) == traits(BEHAVIOURS[VERSION])
