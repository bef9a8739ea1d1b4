"""What wakes pods: up to 1.36 events of pods reach all plugins, from 1.37 on those that they concern."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.assembly.profiles_over import profiles_over
from kscheduler.config.feature_gates import RESIZE_PREEMPTION, parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.framework.events import _ACTION_LABELS, ActionType, ClusterEvent, Resource, data_of
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.registered_events import EVERY_EVENT
from kscheduler.state.cache import Cache

POD_KINDS = (Resource.POD, Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)


def events_of(version: str, gates: str = "") -> Mapping[str, list[ClusterEvent]]:
    """By plugin of the default profile, its events."""
    config = default_configuration(gates=parse_feature_gates(gates, version=version))
    (profile,) = profiles_over(Cache(), config, registry()).values()
    return {plugin: [one.event for one in found] for plugin, found in profile.registrations().items()}


@pytest.fixture(name="narrow", scope="module")
def narrow_() -> Mapping[str, list[ClusterEvent]]:
    return events_of("1.37")


def heard(events: list[ClusterEvent], resource: Resource, action: ActionType) -> bool:
    return any(event.matches(ClusterEvent(resource, action)) for event in events)


def test_no_in_tree_plugin_hears_of_all_pods_from_1_37_on(narrow: Mapping[str, list[ClusterEvent]]) -> None:
    assert any(event.resource is Resource.POD for events in events_of("1.36").values() for event in events)
    assert not [event for events in narrow.values() for event in events if event.resource is Resource.POD]


RECORDED = Path(__file__).with_name("upstream_events_1_37.json")
# The queue itself wakes the members of a group that appears or changes.
ELSEWHERE = frozenset({("GangScheduling", "scheduling.k8s.io/PodGroup")})
RESOURCES = {one.value: one for one in Resource} | dict.fromkeys(
    ("TargetPod", "UnscheduledPod"), Resource.UNSCHEDULABLE_POD
)
ACTIONS = {label: action for action, label in _ACTION_LABELS.items() if action.bit_count() == 1}


@pytest.mark.parametrize("version", ["1.37", "1.38"])
def test_whatever_wakes_a_pod_of_kube_scheduler_s_wakes_it_here(version: str) -> None:
    """As recorded from 1.37.1; 1.38.0-beta.0 registers the same. What wakes pods here besides: docs/differences.md."""
    known = events_of(version, f"{RESIZE_PREEMPTION}=true,GenericWorkload=true")
    missing = {
        (plugin, resource, action)
        for plugin, by_resource in json.loads(RECORDED.read_text()).items()
        for resource, actions in by_resource.items()
        for action in actions
        if (plugin, resource) not in ELSEWHERE and not heard(known[plugin], RESOURCES[resource], ACTIONS[action])
    }
    assert not missing


@pytest.mark.parametrize(
    ("plugin", "assigned", "own"),
    [
        ("NodePorts", {"DELETE"}, set()),
        ("VolumeRestrictions", {"DELETE"}, set()),
        ("NodeResourcesFit", {"DELETE", "UPDATE_POD_SCALE_DOWN"}, {"UPDATE_POD_SCALE_DOWN"}),
        ("InterPodAffinity", {"ADD", "DELETE", "UPDATE_POD_LABEL"}, {"UPDATE_POD_LABEL"}),
        ("TaintToleration", set(), {"UPDATE_POD_TOLERATION"}),
        ("NodeUnschedulable", set(), {"UPDATE_POD_TOLERATION"}),
        ("SchedulingGates", set(), {"UPDATE_POD_SCHEDULING_GATES_ELIMINATED"}),
        # beside upstream's: the end of a pod, whose devices may be free then although no claim says so
        ("DynamicResources", {"DELETE"}, {"UPDATE_POD_GENERATED_RESOURCE_CLAIM"}),
        # beside upstream's: the begin of a termination, after which a pod does not count any more
        (
            "PodTopologySpread",
            {"ADD", "DELETE", "UPDATE_POD_LABEL", "UPDATE_OTHER"},
            {"UPDATE_POD_LABEL", "UPDATE_POD_TOLERATION"},
        ),
    ],
)
def test_which_pods_concern_a_plugin(
    narrow: Mapping[str, list[ClusterEvent]], plugin: str, assigned: set[str], own: set[str]
) -> None:
    single = [action for action in ActionType if action.bit_count() == 1 and "NODE" not in (action.name or "")]
    for resource, wanted in ((Resource.ASSIGNED_POD, assigned), (Resource.UNSCHEDULABLE_POD, own)):
        assert {action.name for action in single if heard(narrow[plugin], resource, action)} == wanted, resource


def test_an_update_of_the_pod_alone_concerns_declared_features(narrow: Mapping[str, list[ClusterEvent]]) -> None:
    assert heard(narrow["NodeDeclaredFeatures"], Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_OTHER)
    assert not heard(narrow["NodeDeclaredFeatures"], Resource.ASSIGNED_POD, ActionType.UPDATE_OTHER)


def test_a_changed_taint_wakes_who_waits_for_nodes_up_to_1_36_only(narrow: Mapping[str, list[ClusterEvent]]) -> None:
    taint = ActionType.UPDATE_NODE_TAINT
    assert heard(events_of("1.36")["NodeAffinity"], Resource.NODE, taint)
    assert not heard(narrow["NodeAffinity"], Resource.NODE, taint)
    assert heard(narrow["TaintToleration"], Resource.NODE, taint)


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_other_resources_are_heard_of_as_registered(version: str) -> None:
    events = events_of(version)["VolumeZone"]
    assert heard(events, Resource.STORAGE_CLASS, ActionType.ADD)
    assert not heard(events, Resource.STORAGE_CLASS, ActionType.DELETE)


def test_data_of_a_plugin_are_heard_of_by_that_plugin_alone() -> None:
    """Also by one that registers nothing; extenders, which cannot register, hear of no plugin's data."""
    mine, another = data_of("Mine"), data_of("Another")
    assert mine.label == another.label == "PluginDataUpdate"
    assert not any(one.event.matches(mine) for one in EVERY_EVENT)
    assert mine.matches(mine)
    assert not mine.matches(another)
    assert not another.matches(mine)
