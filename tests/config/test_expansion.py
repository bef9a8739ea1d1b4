"""Merging plugin sets with the defaults, and expanding them to extension points."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.defaults import default_plugins, merge_plugin_set, merge_plugins
from kscheduler.config.errors import ConfigError
from kscheduler.config.expansion import POINTS, EnabledPlugin, expand, plugins_needed, queue_sort_problems
from kscheduler.config.feature_gates import DEFAULT_GATES, parse_feature_gates
from kscheduler.config.types import PluginEntry, Plugins, PluginSet

# All that needs the gate goes with it: kube-scheduler refuses the gate alone.
WITHOUT_DECLARED_FEATURES = (
    "NodeDeclaredFeatures=false,ExtendWebSocketsToKubelet=false,InPlacePodLevelResourcesVerticalScaling=false,"
    "InPlacePodVerticalScalingInitContainers=false,RestartAllContainersOnContainerExits=false"
)
TABLE = {
    "Sort": {"queueSort"},
    "Sort2": {"queueSort"},
    "Bind": {"bind"},
    "A": {"filter", "score"},
    "B": {"filter", "score"},
    "C": {"filter", "score", "preFilter"},
    "P": {"placementGenerate"},
    "Q": {"placementGenerate"},
}


def implements(name: str, point: str) -> bool:
    return point in TABLE.get(name, ())


def enabled(*plugins: str | tuple[str, int]) -> tuple[PluginEntry, ...]:
    return tuple(PluginEntry(one) if isinstance(one, str) else PluginEntry(*one) for one in plugins)


def some_plugins(**sets: PluginSet) -> Plugins:
    multi_point = sets.pop("multi_point", PluginSet(enabled("Sort", "A", ("B", 2), "C", "Bind")))
    return Plugins(multi_point=multi_point, **sets)


def names(plugins: tuple[EnabledPlugin, ...]) -> str:
    return " ".join(plugin.name for plugin in plugins)


def test_the_default_plugins_come_in_kube_schedulers_order() -> None:
    order = " ".join(plugin.name for plugin in default_plugins(DEFAULT_GATES).multi_point.enabled)
    assert order == (
        "SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts "
        "NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread "
        "InterPodAffinity DynamicResources DefaultPreemption NodeResourcesBalancedAllocation ImageLocality "
        "DefaultBinder NodeDeclaredFeatures"
    )


def test_gated_default_plugins_come_and_go_with_their_gate() -> None:
    gates = parse_feature_gates(WITHOUT_DECLARED_FEATURES)
    assert [plugin.name for plugin in default_plugins(gates).multi_point.enabled][-1] == "DefaultBinder"
    gates = parse_feature_gates("GenericWorkload=1", version="1.37")
    order = [plugin.name for plugin in default_plugins(gates).multi_point.enabled]
    assert order[-2:] == ["NodeDeclaredFeatures", "GangScheduling"]


@pytest.mark.parametrize(
    ("given_set", "result"),
    [
        (PluginSet(), "A B:2 C"),
        (PluginSet(enabled(("B", 7))), "A B:7 C"),
        (PluginSet(enabled("X", ("B", 7), "Y")), "A B:7 C X Y"),
        (PluginSet(disabled=enabled("B")), "A C"),
        (PluginSet(enabled(("B", 7)), enabled("B")), "A C B:7"),
        (PluginSet(enabled("X"), enabled("*")), "X"),
        (PluginSet(enabled(("B", 3), "X", ("B", 4))), "A B:4 C B:3 X"),
    ],
    ids=["nothing", "in place", "appended", "disabled", "moved to the end", "all disabled", "twice stays twice"],
)
def test_a_users_set_merges_with_the_default(given_set: PluginSet, result: str) -> None:
    merged = merge_plugin_set(PluginSet(enabled("A", ("B", 2), "C")), given_set)
    spelled = " ".join(plugin.name + (f":{plugin.weight}" if plugin.weight else "") for plugin in merged.enabled)
    assert spelled == result
    assert merged.disabled == given_set.disabled


def test_multi_point_reaches_the_points_that_a_plugin_implements() -> None:
    points = expand(some_plugins(), implements)
    assert {point: names(plugins) for point, plugins in points.items() if plugins} == {
        "preFilter": "C",
        "filter": "A B C",
        "score": "A B C",
        "bind": "Bind",
        "queueSort": "Sort",
    }
    assert set(points) == set(POINTS)


@pytest.mark.parametrize(
    ("score", "result"),
    [
        (PluginSet(disabled=enabled("B")), "A:1 C:1"),
        (PluginSet(disabled=enabled("*")), ""),
        (PluginSet(enabled(("C", 5)), enabled("*")), "C:5"),
        (PluginSet(enabled(("C", 5), ("B", 0))), "C:5 B:1 A:1"),
    ],
    ids=["one disabled", "all disabled", "only one", "override moves to the front; 0 means 1"],
)
def test_a_specific_point_overrides_multi_point(score: PluginSet, result: str) -> None:
    points = expand(some_plugins(score=score), implements)
    assert " ".join(f"{plugin.name}:{plugin.weight}" for plugin in points["score"]) == result
    assert names(points["filter"]) == "A B C"


def test_overriding_plugins_come_first_and_other_specific_ones_last() -> None:
    plugins = some_plugins(
        multi_point=PluginSet(enabled("Sort", "Bind", "A", "B")), filter=PluginSet(enabled("C", "B"))
    )
    assert names(expand(plugins, implements)["filter"]) == "B A C"


def test_weights_count_only_where_points_are_given() -> None:
    points = expand(some_plugins(), implements)
    assert points["score"][1] == EnabledPlugin("B", 2)
    assert points["filter"][1] == EnabledPlugin("B", 1)


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        (some_plugins(filter=PluginSet(enabled("X"))), 'FilterPlugin "X" does not exist'),
        (some_plugins(bind=PluginSet(enabled("A"))), 'plugin "A" does not extend BindPlugin plugin'),
        (some_plugins(score=PluginSet(enabled("A", "A"))), 'plugin "A" already registered as "ScorePlugin"'),
        (
            some_plugins(multi_point=PluginSet(enabled("Sort", "Bind", "A", "A"))),
            'plugin "A" already registered as "FilterPlugin"',
        ),
        (some_plugins(multi_point=PluginSet(enabled("Sort", "Bind", "X"))), 'PreFilterPlugin "X" does not exist'),
        (
            some_plugins(multi_point=PluginSet(enabled("Bind"))),
            'only one queue sort plugin required for profile with scheduler name "mine", but got 0',
        ),
        (
            some_plugins(multi_point=PluginSet(enabled("Bind", "Sort", "Sort2"))),
            'only one queue sort plugin required for profile with scheduler name "mine", but got 2',
        ),
        (
            some_plugins(multi_point=PluginSet(enabled("Sort"))),
            'at least one bind plugin is needed for profile with scheduler name "mine"',
        ),
        (
            some_plugins(multi_point=PluginSet(enabled("Sort", "Bind", "P", "Q"))),
            'at most one placement generate plugin is allowed for profile with scheduler name "mine"',
        ),
        (
            some_plugins(multi_point=PluginSet(enabled("Sort", "Bind", ("A", 2**62), ("B", 2**62)))),
            "total score of Score plugins could overflow",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_set_that_cannot_run_is_refused_in_kube_schedulers_words(plugins: Plugins, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand(plugins, implements, "mine")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("score", "general", "is_refused"),
    [
        ((("A", -5),), ("B",), True),
        ((("A", 1), ("B", -5)), ("A", "B"), False),
        ((("A", 5), ("B", -2)), ("C",), False),
        ((), (("A", -1), "B"), True),
    ],
    ids=["below zero, and one follows", "below zero at the end", "never below zero", "in MultiPoint"],
)
def test_weights_below_zero_are_too_much_as_soon_as_another_one_follows(
    score: tuple[tuple[str, int], ...], general: tuple[str, ...], is_refused: bool
) -> None:
    """kube-scheduler subtracts the sum so far from the largest number there is, which overflows."""
    plugins = some_plugins(multi_point=PluginSet(enabled("Sort", "Bind", *general)), score=PluginSet(enabled(*score)))
    if not is_refused:
        expand(plugins, implements)
        return
    with pytest.raises(ConfigError, match="total score of Score plugins could overflow") as caught:
        expand(plugins, implements)
    (problem,) = caught.value.problems
    assert problem.path == ("plugins.score.enabled[0].weight" if score else "plugins.multiPoint.enabled[2].weight")


def test_all_that_is_wrong_is_reported_at_once() -> None:
    plugins = some_plugins(filter=PluginSet(enabled("X", "Bind")), score=PluginSet(enabled("Y")))
    with pytest.raises(ConfigError) as caught:
        expand(plugins, implements)
    assert len(caught.value.problems) == 3


def test_profiles_must_sort_the_one_queue_the_same_way() -> None:
    first = expand(some_plugins(), implements)
    other = expand(some_plugins(multi_point=PluginSet(enabled("Sort2", "Bind"))), implements)
    assert queue_sort_problems({"a": first, "b": first}) == ()
    (problem,) = queue_sort_problems({"a": first, "b": other})
    assert problem.message == 'different queue sort plugins for profile "b": "Sort2", first: "Sort"'


def test_the_plugins_to_build_are_named_once() -> None:
    plugins = some_plugins(filter=PluginSet(enabled("A", "Z")))
    assert plugins_needed(plugins) == ("Sort", "A", "B", "C", "Bind", "Z")


sets = st.builds(
    PluginSet,
    st.lists(st.sampled_from("ABCXY").map(PluginEntry), max_size=4).map(tuple),
    st.lists(st.sampled_from("ABC*").map(PluginEntry), max_size=3).map(tuple),
)


@settings(deadline=None)
@given(sets, sets)
def test_expanding_any_sets_yields_each_plugin_once_or_a_config_error(
    filters: PluginSet, multi_point: PluginSet
) -> None:
    base = PluginSet(enabled("Sort", "Bind", "A", "B", "C"))
    plugins = merge_plugins(Plugins(multi_point=base), Plugins(filter=filters, multi_point=multi_point))
    try:
        order = [plugin.name for plugin in expand(plugins, implements)["filter"]]
    except ConfigError:
        return
    assert len(order) == len(set(order))
    named = [plugin.name for plugin in filters.enabled]
    assert set(named) <= set(order)
    if PluginEntry("*") in filters.disabled:
        assert order == named
