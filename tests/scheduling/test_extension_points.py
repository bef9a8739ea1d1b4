"""A configuration may name an in-tree plugin at each point that it has upstream, and at no other."""

import re
from pathlib import Path

import pytest

from kscheduler.api.releases import BEHAVIOURS, VERSION
from kscheduler.config.defaults import default_plugins
from kscheduler.config.errors import ConfigError
from kscheduler.config.expansion import POINTS, expand, points_of
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.in_tree_plugins import DEFAULT_PLUGINS, IN_TREE_POINTS
from kscheduler.config.other_projects import OTHER_PLUGINS, SCHEDULER_PLUGINS, advice
from kscheduler.framework.plugin import Point
from kscheduler.plugins.in_tree import IN_TREE, registry
from tests.builders import Tree
from tests.scheduling.test_profiles import build, named, only

SINGLE = ("queueSort", "placementGenerate")
PAIRS = [
    (version, plugin, point)
    for version, plugins in IN_TREE_POINTS.items()
    for plugin, points in plugins.items()
    for point in sorted(points)
]


def at(point: str, *plugins: str) -> list[Tree]:
    return [{"schedulerName": "x", "plugins": {point: {"enabled": [{"name": name} for name in plugins]}}}]


def test_the_table_has_every_in_tree_plugin_and_known_points() -> None:
    assert IN_TREE_POINTS.keys() == DEFAULT_PLUGINS.keys() == BEHAVIOURS.keys()
    for version, points in IN_TREE_POINTS.items():
        assert points.keys() == {plugin.name for plugin in DEFAULT_PLUGINS[version]}
        assert set().union(*points.values()) <= POINTS.keys()


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_what_is_built_takes_part_in_no_point_that_upstream_does_not_have(plugin: type) -> None:
    own = {point.key for point in Point if callable(getattr(plugin, point.method, None))}
    name: str = plugin.name  # type: ignore[attr-defined]  # each has one
    assert own <= frozenset[str]().union(*(points.get(name, ()) for points in IN_TREE_POINTS.values()))


def test_a_plugin_of_another_version_does_not_exist() -> None:
    with pytest.raises(ConfigError, match='"DeferredPodScheduling" does not exist'):
        build(at("filter", "DeferredPodScheduling"), version="1.36")


@pytest.mark.parametrize(("version", "plugin", "point"), PAIRS)
def test_each_plugin_may_be_named_where_upstream_has_it(version: str, plugin: str, point: str) -> None:
    build(at(point, plugin), version=version)


@pytest.mark.parametrize("version", IN_TREE_POINTS)
@pytest.mark.parametrize("plugin", sorted(IN_TREE_POINTS[VERSION]))
def test_a_plugin_is_refused_where_upstream_does_not_have_it(version: str, plugin: str) -> None:
    for point in sorted({*points_of(BEHAVIOURS[version])} - IN_TREE_POINTS[version][plugin]):
        with pytest.raises(ConfigError) as caught:
            build(at(point, plugin), version=version)
        label = f"{point[0].upper()}{point[1:]}Plugin"
        assert f'plugins.{point}.enabled[0]: plugin "{plugin}" does not extend {label} plugin' in str(caught.value)


def test_an_extension_point_of_another_version_is_an_unknown_field() -> None:
    for plugins in ({"podGroupPostFilter": {"enabled": [{"name": "DefaultPreemption"}]}}, {"podGroupPostFilter": None}):
        with pytest.raises(ConfigError) as caught:
            build([{"schedulerName": "x", "plugins": plugins}], version="1.36")
        assert "profiles[0].plugins.podGroupPostFilter: unknown field (Kubernetes 1.37 and 1.38 have it" in str(
            caught.value
        )


def test_pod_groups_are_made_room_for_by_the_plugins_that_make_room_for_pods() -> None:
    plugins = default_plugins(FeatureGates(version="1.37"))
    expanded = expand(plugins, lambda name, point: point in IN_TREE_POINTS["1.37"][name])
    assert [plugin.name for plugin in expanded["podGroupPostFilter"]] == ["DynamicResources", "DefaultPreemption"]


def test_where_nothing_is_to_be_done_nothing_runs_and_the_order_is_the_same() -> None:
    before, after = only(build([{"schedulerName": "x"}])), only(build(at("preScore", "TaintToleration")))
    for profile in (before, after):
        assert "TaintToleration" not in named(profile.pre_score)
    for field in ("pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "reserve", "pre_bind", "bind"):
        assert named(getattr(before, field)) == named(getattr(after, field))
    assert [(one.plugin.name, one.weight) for one in before.score] == [
        (one.plugin.name, one.weight) for one in after.score
    ]


def test_plugins_for_groups_of_pods_may_be_named_though_none_is_built() -> None:
    plugins = {
        "placementGenerate": {"enabled": [{"name": "TopologyPlacementGenerator"}]},
        "placementScore": {"enabled": [{"name": "PodGroupPodsCount", "weight": 2}, {"name": "NodeResourcesFit"}]},
    }
    profile = only(build([{"schedulerName": "x", "plugins": plugins}]))
    assert {"TopologyPlacementGenerator", "PodGroupPodsCount"} <= profile.enabled


@pytest.mark.parametrize("name", ["Coscheduling", "CapacityScheduling", "Mine", "TaintTolerations"])
def test_a_plugin_that_nobody_registered_is_refused_with_what_to_do(name: str) -> None:
    for point in ("filter", "multiPoint"):
        with pytest.raises(ConfigError) as caught:
            build(at(point, name))
        assert f'Plugin "{name}" does not exist: {advice(name)}' in str(caught.value)
        place = "plugins.multiPoint" if point == "multiPoint" else f"plugins.{point}.enabled[0]"
        assert f"profile x: {place}: " in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "CapacityScheduling",
        "Coscheduling",
        "CrossNodePreemption",
        "LoadVariationRiskBalancing",
        "LowRiskOverCommitment",
        "NetworkOverhead",
        "NodeResourceTopologyMatch",
        "NodeResourcesAllocatable",
        "NodeResourcesFitPlus",
        "Peaks",
        "PodState",
        "PreemptionToleration",
        "QOSSort",
        "ScarceResourceAvoidance",
        "SySched",
        "TargetLoadPacking",
        "TopologicalSort",
    ],
)
def test_each_plugin_of_scheduler_plugins_is_known_as_theirs(name: str) -> None:
    """The names that its `cmd/scheduler` registers. Some are similar to in-tree names, and are no misspellings."""
    assert advice(name).startswith("it is a plugin of kubernetes-sigs/scheduler-plugins")


@pytest.mark.parametrize(
    ("name", "owner", "here"),
    [
        ("Coscheduling", "scheduler-plugins", "podGroupAPIs"),
        ("TargetLoadPacking", "scheduler-plugins", "LoadAware"),
        ("LoadVariationRiskBalancing", "scheduler-plugins", "LoadAware"),
        ("CapacityScheduling", "scheduler-plugins", "nothing here"),
        ("NodeResourceTopologyMatch", "scheduler-plugins", "nothing here"),
        ("NetworkOverhead", "scheduler-plugins", "nothing here"),
        ("LoadAwareScheduling", "Koordinator", "LoadAware"),
        ("Reservation", "Koordinator", "nothing here"),
        ("gang", "Volcano", "podGroupAPIs"),
        ("binpack", "Volcano", "MostAllocated"),
        ("proportion", "Volcano", "nothing here"),
        ("YuniKornPlugin", "YuniKorn", "Kueue"),
        ("NodeResourcesLeastAllocated", "kube-scheduler up to 1.22", "LeastAllocated"),
        ("NodeResourcesMostAllocated", "kube-scheduler up to 1.22", "MostAllocated"),
        ("RequestedToCapacityRatio", "kube-scheduler up to 1.22", "scoringStrategy"),
        ("SelectorSpread", "kube-scheduler up to 1.25", "PodTopologySpread"),
    ],
)
def test_a_plugin_of_others_is_answered_with_what_there_is_here(name: str, owner: str, here: str) -> None:
    assert owner in advice(name).partition(": ")[0]
    assert here in advice(name).partition(": ")[2]


def test_every_page_that_the_advice_names_is_there_and_no_name_is_one_of_ours() -> None:
    root = Path(__file__).parents[2]
    pages = {page for other in OTHER_PLUGINS.values() for page in re.findall(r"docs/[a-z-]+\.md", other.here)}
    assert pages
    assert [page for page in pages if not (root / page).is_file()] == []
    assert OTHER_PLUGINS.keys().isdisjoint(registry().names())


def test_the_advice_says_whose_a_plugin_is_and_how_one_is_registered() -> None:
    assert "kubernetes-sigs/scheduler-plugins" in advice("Coscheduling")
    assert "podGroupAPIs: [scheduler-plugins]" in advice("Coscheduling")
    assert "pluginSources in the configuration or by --plugin" in advice("Mine")
    assert "plugins written in Go cannot be loaded" in advice("Mine")
    assert "scheduler-plugins" not in advice("Mine")
    assert advice("TaintTolerations") == "did you mean TaintToleration?"
    assert advice("prefercheap", ["PreferCheap"]) == "did you mean PreferCheap?"
    assert advice("DeferredPodScheduling") == "Kubernetes 1.37 and 1.38 have it: see --emulated-version"
    assert not SCHEDULER_PLUGINS & IN_TREE_POINTS[VERSION].keys()
