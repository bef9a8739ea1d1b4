"""From a configuration to plugins at their points: order, weights, what is disabled, what is unknown."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec
import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.releases import BEHAVIOURS, VERSION
from kscheduler.assembly import Ports, profiles_over
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import default_configuration, from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status, unresolvable
from kscheduler.plugins import in_tree
from kscheduler.scheduling.attempt.binding import BindingWriter
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.profile import Profile, ignores_resource
from kscheduler.scheduling.profiles import Profiles, for_single_pods_only, queue_policy
from kscheduler.state.cache import Cache
from tests.builders import Tree, pod_info
from tests.scheduling.attempt.test_binding import ScriptedPods


def build(profiles: list[Tree] | None, *extra: tuple[str, Any], version: str = VERSION) -> Profiles:
    """The profiles of a configuration, with further plugins in the registry."""
    tree = {"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}
    gates = FeatureGates(version=version)
    config = default_configuration(gates=gates) if profiles is None else from_tree(tree, "test", gates)
    registry = in_tree.registry()
    for name, factory in extra:
        registry.register(name, factory)
    writer = BindingWriter(ScriptedPods([], []), VirtualClock(), Observations(), lambda *_: None)
    return profiles_over(Cache(), config, registry, Ports(binder=writer))


def only(profiles: Profiles) -> Profile:
    """The one profile."""
    (profile,) = profiles.values()
    return profile


def named(plugins: tuple[Any, ...]) -> list[str]:
    """Their names, in order."""
    return [plugin.name for plugin in plugins]


def test_the_default_profile_has_kube_scheduler_s_order_and_weights() -> None:
    """The order decides which plugin a node is charged to."""
    profile = only(build(None))
    filters = ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"]
    assert named(profile.filter)[:6] == filters
    weights = {one.plugin.name: one.weight for one in profile.score}
    wanted = {"TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1}
    assert wanted.items() <= weights.items()
    assert weights["NodeResourcesBalancedAllocation"] == weights["ImageLocality"] == 1
    assert named(profile.pre_enqueue) == ["SchedulingGates", "DynamicResources", "DefaultPreemption"]
    assert named(profile.post_filter) == ["DynamicResources", "DefaultPreemption"]
    assert profile.queue_sort.name == "PrioritySort"
    assert named(profile.bind) == ["DefaultBinder"]


def test_plugins_about_placements_are_built_and_do_nothing_without_their_gate() -> None:
    plugins = {"placementGenerate": {"enabled": [{"name": "TopologyPlacementGenerator"}]}}
    profile = only(build([{"schedulerName": "x", "plugins": plugins}]))
    assert [plugin.name for plugin in profile.placement_generate] == ["TopologyPlacementGenerator"]
    assert not profile.tries_placements


def test_a_disabled_plugin_is_neither_run_nor_queried_for() -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "NodeName"}, {"name": "VolumeBinding"}]}}
    profile = only(build([{"schedulerName": "x", "plugins": plugins}]))
    assert "NodeName" not in named(profile.filter)
    assert not {"NodeName", "VolumeBinding"} & profile.enabled


def test_a_plugin_disabled_at_one_point_runs_at_the_others() -> None:
    plugins = {"score": {"disabled": [{"name": "NodeAffinity"}]}}
    profile = only(build([{"schedulerName": "x", "plugins": plugins}]))
    assert "NodeAffinity" in named(profile.filter)
    assert "NodeAffinity" not in [one.plugin.name for one in profile.score]


def test_an_unknown_plugin_is_refused_by_name() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "NoSuchPlugin"}]}}
    with pytest.raises(ConfigError, match='"NoSuchPlugin" does not exist'):
        build([{"schedulerName": "x", "plugins": plugins}])


class MakesRoom(Plugin):
    name = "MakesRoom"

    def post_filter(self, *_: Any) -> Any:
        raise NotImplementedError


class MakesRoomForGroups(MakesRoom):
    name = "MakesRoomForGroups"

    def pod_group_post_filter(self, trial: Any) -> Any:
        raise NotImplementedError


OFF = {"podGroupPostFilter": {"disabled": [{"name": "DefaultPreemption"}]}}


@pytest.mark.parametrize("version", BEHAVIOURS)
@pytest.mark.parametrize(
    ("plugins", "told"),
    [
        pytest.param({}, {}, id="default"),
        pytest.param(OFF, {"DefaultPreemption": "it is not enabled at podGroupPostFilter"}, id="disabled"),
        pytest.param(
            {"postFilter": {"enabled": [{"name": "MakesRoom"}, {"name": "MakesRoomForGroups"}]}},
            {
                "MakesRoom": "it has no pod_group_post_filter",
                "MakesRoomForGroups": "it is not enabled at podGroupPostFilter",
            },
            id="at one point",
        ),
        pytest.param(
            {"multiPoint": {"enabled": [{"name": "MakesRoom"}, {"name": "MakesRoomForGroups"}]}},
            {"MakesRoom": "it has no pod_group_post_filter"},
            id="at all points",
        ),
    ],
)
def test_what_makes_room_for_single_pods_only_is_told_where_groups_have_their_own_point(
    version: str, plugins: Tree, told: dict[str, str]
) -> None:
    has_point = BEHAVIOURS[version].has_pod_group_post_filter
    if plugins is OFF and not has_point:
        return  # an unknown field
    own = [(one.name, lambda _args, _handle, one=one: one()) for one in (MakesRoom, MakesRoomForGroups)]
    profiles = build([{"schedulerName": "x", "plugins": plugins}], *own, version=version)
    found = {name: (profile, why) for profile, name, why in for_single_pods_only(profiles.values())}
    assert found == ({name: ("x", why) for name, why in told.items()} if has_point else {})


@plugin("PreferCheap")
def score(pod: PodInfo, node: NodeInfo) -> int:
    """A user's policy."""
    return 50


def test_a_user_s_plugin_comes_in_through_the_registry_with_its_weight() -> None:
    plugins = {"score": {"enabled": [{"name": "PreferCheap", "weight": 7}]}}
    profile = only(build([{"schedulerName": "x", "plugins": plugins}], ("PreferCheap", score)))
    assert {one.plugin.name: one.weight for one in profile.score}["PreferCheap"] == 7


def test_arguments_that_a_plugin_cannot_take_are_refused_with_its_name() -> None:
    def refuses(args: Any, handle: Handle) -> Plugin:
        raise ValueError("weight must be even")

    plugins = {"multiPoint": {"enabled": [{"name": "Mine"}]}}
    with pytest.raises(ConfigError, match='initializing plugin "Mine": weight must be even'):
        build([{"schedulerName": "x", "plugins": plugins}], ("Mine", refuses))


class _Gate(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        self.name = "Mine"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        if pod.name == "bug":
            raise RuntimeError("it broke")
        if pod.name == "silent":
            return None  # type: ignore[return-value]  # that is the mistake
        return unresolvable("not yet")


def test_each_profile_gates_its_own_pods_and_a_bug_gates_too() -> None:
    plugins = {"preEnqueue": {"enabled": [{"name": "Mine"}]}}
    profiles = build([{"schedulerName": "x", "plugins": plugins}, {"schedulerName": "y"}], ("Mine", _Gate))
    policy = queue_policy(profiles, default_configuration().configuration, lambda *_: None)
    assert policy.pre_enqueue(pod_info(schedulerName="x"), "").plugin == "Mine"
    bug = policy.pre_enqueue(pod_info("bug", schedulerName="x"), "")
    assert bug.message == 'running PreEnqueue plugin "Mine": it broke'
    assert policy.pre_enqueue(pod_info(schedulerName="y"), "").is_success
    assert not policy.pre_enqueue(pod_info(schedulerName="z"), "").is_success


@pytest.mark.parametrize(("by_status", "told"), [(False, "Success"), (True, "UnschedulableAndUnresolvable")])
def test_pre_enqueue_is_measured_under_the_profile_of_the_pod(by_status: bool, told: str) -> None:
    """(1.38: Q7) Until 1.37 as a success, whatever it says."""
    plugins = {"preEnqueue": {"enabled": [{"name": "Mine"}]}}
    profiles = build([{"schedulerName": "x", "plugins": plugins}, {"schedulerName": "y"}], ("Mine", _Gate))
    behaviours = msgspec.structs.replace(BEHAVIOURS[VERSION], gates_are_measured_by_status=by_status)
    profiles = {name: replace(profile, behaviours=behaviours) for name, profile in profiles.items()}
    measured: list[tuple[str, str, str, float]] = []
    policy = queue_policy(
        profiles,
        default_configuration().configuration,
        lambda *_: None,
        seconds_of_point=lambda *labels: lambda seconds: measured.append((*labels, seconds)),
        now=count(0.0, 2.0).__next__,
    )
    assert not policy.pre_enqueue(pod_info(schedulerName="x"), "").is_success
    assert policy.pre_enqueue(pod_info(schedulerName="y"), "").is_success
    assert measured == [("PreEnqueue", told, "x", 2.0), ("PreEnqueue", "Success", "y", 2.0)]


class _OtherGate(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        self.name = "Other"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unresolvable("not yet either")


def test_a_plugin_that_forgets_its_answer_gates_that_pod_and_ends_nothing() -> None:
    """The queue asks in the service that ends backoffs, too: an exception there would end the scheduler."""
    plugins = {"preEnqueue": {"enabled": [{"name": "Mine"}]}}
    policy = queue_policy(
        build([{"schedulerName": "x", "plugins": plugins}], ("Mine", _Gate)),
        default_configuration().configuration,
        lambda *_: None,
    )
    silent = policy.pre_enqueue(pod_info("silent", schedulerName="x"), "")
    assert not silent.is_success
    assert silent.message.startswith('running PreEnqueue plugin "Mine": ')


def test_the_plugin_that_gates_a_pod_is_queried_again_before_the_others() -> None:
    plugins = {"preEnqueue": {"enabled": [{"name": "Mine"}, {"name": "Other"}]}}
    profiles = build([{"schedulerName": "x", "plugins": plugins}], ("Mine", _Gate), ("Other", _OtherGate))
    policy = queue_policy(profiles, default_configuration().configuration, lambda *_: None)
    gated_by = [policy.pre_enqueue(pod_info(schedulerName="x"), first).plugin for first in ("", "Other", "Mine")]
    assert gated_by == ["Mine", "Other", "Mine"]


class _Filter(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        self.name = "Mine"

    def filter(self, *_: Any) -> None:
        """No objection."""


class _WaitsForNodes(_Filter):
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD)),)


def events_of(kind: type[Plugin]) -> set[str]:
    """The labels of what a plugin called Mine is registered for."""
    plugins = {"multiPoint": {"enabled": [{"name": "Mine"}]}}
    profile = only(build([{"schedulerName": "x", "plugins": plugins}], ("Mine", kind)))
    return {one.event.label for one in profile.registrations()["Mine"]}


def test_a_filter_that_registers_nothing_hears_of_everything() -> None:
    """Else a pod that it rejected would sleep until the safety net."""
    assert {"PodAll", "NodeAll", "PersistentVolumeAll", "storage.k8s.io/CSINodeAll"} <= events_of(_Filter)


def test_whoever_waits_for_nodes_hears_of_taints() -> None:
    assert events_of(_WaitsForNodes) == {"NodeAdd", "NodeUpdateNodeTaint"}


def test_profiles_must_sort_the_one_queue_alike() -> None:
    class Other(Plugin):
        name = "Other"

        def __init__(self, args: Any, handle: Handle) -> None:
            pass

        def sort_key(self, queued: Any) -> int:
            return 0

    sort = {"queueSort": {"enabled": [{"name": "Other"}], "disabled": [{"name": "*"}]}}
    with pytest.raises(ConfigError, match="must be the same for all profiles"):
        build([{"schedulerName": "x"}, {"schedulerName": "y", "plugins": sort}], ("Other", Other))


@pytest.mark.parametrize("failure", [RuntimeError("broke"), asyncio.CancelledError(), SystemExit(1)], ids=repr)
def test_a_gate_that_fails_only_when_its_answer_is_read_has_all_its_pods_queried(failure: BaseException) -> None:
    """Read outside of the plugin call, it would take the event from everybody else, too."""

    class Lazy(Plugin):
        name = "Lazy"

        def pre_enqueue(self, pod: PodInfo) -> Status:
            return unresolvable("not yet")

        def may_let_in(self) -> Iterator[str]:
            yield "default/one"
            raise failure

    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Lazy"}]}}}
    profiles = build([profile], ("Lazy", lambda _args, _handle: Lazy()))
    policy = queue_policy(profiles, default_configuration().configuration, lambda *_: None)
    (reported,) = [gate() for (_, plugin), gate in policy.standing_gates.items() if plugin == "Lazy"]
    assert reported is None


def test_a_profile_tells_which_resources_keep_no_pod_of_it_off_a_node() -> None:
    args = {"ignoredResources": ["a.b/one", "cpu"], "ignoredResourceGroups": ["c.d"]}
    profiles = build(
        [
            {"schedulerName": "mine", "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]},
            {"schedulerName": "unfiltered", "plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}},
        ]
    )
    names = "a.b/one", "a.b/two", "c.d/any", "cpu", "pods"
    assert [name for name in names if ignores_resource(profiles, "mine", name)] == ["a.b/one", "c.d/any"]
    assert not any(ignores_resource(profiles, of, name) for of in ("unfiltered", "of-another") for name in names)
    assert profiles["unfiltered"].resource_filter is None
