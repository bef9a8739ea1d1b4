"""The events after which a plugin's verdict may change, as the followed version of Kubernetes takes them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

from msgspec.structs import replace

from kscheduler.api.releases import Behaviours
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource, data_of
from kscheduler.framework.plugin import EnqueueExtensions, Plugin
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.lifecycle_calls import call_events_to_register

# The events of a plugin that rejects pods, but registers no events, beside its own data; extenders cannot register.
EVERY_EVENT: Final = tuple(
    ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL))
    for resource in Resource
    if resource not in (Resource.WILDCARD, Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD, Resource.PLUGIN_DATA)
)

_TAINT_EVENT: Final = ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT))
# Changes of a pod that matter to no other pod.
_OF_THE_POD_ITSELF: Final = (
    ActionType.UPDATE_POD_TOLERATION
    | ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    | ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
)
# By plugin the changes that matter, whether the pod's own or an assigned one's.
_ALSO_OF_THE_POD_ITSELF: Final = {
    "NodeResourcesFit": ActionType.UPDATE_POD_SCALE_DOWN,
    "PodTopologySpread": ActionType.UPDATE_POD_LABEL,
    "InterPodAffinity": ActionType.UPDATE_POD_LABEL,
}
_ONLY_THE_POD_ITSELF: Final = frozenset({"NodeDeclaredFeatures", "SchedulingGates"})


def registered_events(plugin: Plugin, traits: PluginTraits, behaviours: Behaviours) -> Sequence[ClusterEventWithHint]:
    """What wakes the pods that the plugin has rejected. Raises `PluginFailure`."""
    if not traits.rejects:
        return ()
    if not traits.registers_events:
        return (*EVERY_EVENT, ClusterEventWithHint(data_of(plugin.name)))
    registered = [
        _own(plugin.name, entry) for entry in call_events_to_register(plugin.name, cast("EnqueueExtensions", plugin))
    ]
    if not behaviours.pod_events_are_narrow:
        return _with_taint_event(registered)
    return tuple(_narrowed(plugin.name, registered)) if traits.is_in_tree else registered


def _own(plugin: str, entry: ClusterEventWithHint) -> ClusterEventWithHint:
    """Data of a plugin's own concern the pods that this plugin has rejected."""
    return replace(entry, event=data_of(plugin)) if entry.event.resource is Resource.PLUGIN_DATA else entry


def _with_taint_event(registered: Sequence[ClusterEventWithHint]) -> Sequence[ClusterEventWithHint]:
    """A plugin that waits for nodes also gets events of changed taints (the work-around for #109437, see Q8)."""
    of_nodes = [entry.event.action for entry in registered if entry.event.resource is Resource.NODE]
    waits_for_nodes = any(ActionType.ADD in action for action in of_nodes)
    hears_of_taints = any(ActionType.UPDATE_NODE_TAINT in action for action in of_nodes)
    return (*registered, _TAINT_EVENT) if waits_for_nodes and not hears_of_taints else registered


def _narrowed(plugin: str, registered: Iterable[ClusterEventWithHint]) -> Iterator[ClusterEventWithHint]:
    """Events of pods, told apart: those of assigned pods, and those of the pod that waits."""
    for entry in registered:
        action = entry.event.action
        if entry.event.resource is not Resource.POD:
            yield entry
            continue
        own = action & (_OF_THE_POD_ITSELF | _ALSO_OF_THE_POD_ITSELF.get(plugin, ActionType(0)))
        others = action & ~_OF_THE_POD_ITSELF
        if plugin in _ONLY_THE_POD_ITSELF:
            own, others = action, ActionType(0)
        for resource, part in ((Resource.ASSIGNED_POD, others), (Resource.UNSCHEDULABLE_POD, own)):
            if part:
                yield replace(entry, event=ClusterEvent(resource, part))
