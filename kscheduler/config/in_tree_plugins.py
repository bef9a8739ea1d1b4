"""The extension points of each in-tree plugin, as its Go type implements them, by version of Kubernetes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

_OF_1_36: Final[Mapping[str, frozenset[str]]] = {
    "DefaultBinder": frozenset(("bind",)),
    "DefaultPreemption": frozenset(("preEnqueue", "postFilter")),
    "DynamicResources": frozenset(("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind")),
    "GangScheduling": frozenset(("preEnqueue", "permit")),
    "ImageLocality": frozenset(("score",)),
    "InterPodAffinity": frozenset(("preFilter", "filter", "preScore", "score")),
    "NodeAffinity": frozenset(("preFilter", "filter", "preScore", "score")),
    "NodeDeclaredFeatures": frozenset(("preFilter", "filter")),
    "NodeName": frozenset(("filter",)),
    "NodePorts": frozenset(("preFilter", "filter")),
    "NodeResourcesBalancedAllocation": frozenset(("preScore", "score")),
    "NodeResourcesFit": frozenset(("preFilter", "filter", "preScore", "score", "placementScore")),
    "NodeUnschedulable": frozenset(("filter",)),
    "NodeVolumeLimits": frozenset(("preFilter", "filter")),
    "PodGroupPodsCount": frozenset(("placementScore",)),
    "PodTopologySpread": frozenset(("preFilter", "filter", "preScore", "score")),
    "PrioritySort": frozenset(("queueSort",)),
    "SchedulingGates": frozenset(("preEnqueue",)),
    "TaintToleration": frozenset(("filter", "preScore", "score")),
    "TopologyPlacementGenerator": frozenset(("placementGenerate",)),
    "VolumeBinding": frozenset(("preFilter", "filter", "preScore", "score", "reserve", "preBind")),
    "VolumeRestrictions": frozenset(("preFilter", "filter")),
    "VolumeZone": frozenset(("preFilter", "filter")),
}
_OF_1_37: Final[Mapping[str, frozenset[str]]] = {
    **_OF_1_36,
    "DefaultPreemption": _OF_1_36["DefaultPreemption"] | {"podGroupPostFilter"},
    "DeferredPodScheduling": frozenset(("preFilter", "filter", "permit")),
    "DynamicResources": _OF_1_36["DynamicResources"] | {"podGroupPostFilter"},
    "NodeName": frozenset(("preFilter", "filter")),
    "NodeUnschedulable": frozenset(("preFilter", "filter")),
    "TaintToleration": frozenset(("preFilter", "filter", "preScore", "score")),
}
_OF_1_38: Final[Mapping[str, frozenset[str]]] = {
    **_OF_1_37,
    "DefaultPreemption": _OF_1_37["DefaultPreemption"] | {"reserve"},
    "GangScheduling": frozenset(("preEnqueue", "placementFeasible")),
}
# By version and plugin, as configurations spell the points. A configuration may name every point that a plugin has
# upstream, even if the plugin of the same name here does nothing at that point.
IN_TREE_POINTS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "1.36": _OF_1_36,
    "1.37": _OF_1_37,
    "1.38": _OF_1_38,
}
# The names of all plugins that kube-scheduler has in any of these versions.
IN_TREE_PLUGINS: Final = frozenset(name for points in IN_TREE_POINTS.values() for name in points)


# The plugins that a profile has by default, by version of Kubernetes.


class DefaultPlugin(msgspec.Struct, frozen=True):
    """A plugin of the default set, at all of its extension points."""

    name: str
    weight: int = 0
    gate: str = ""
    """The feature gate that enables it; empty if it is always there."""


_AFTER_NODE_NAMES: Final = (
    DefaultPlugin("TaintToleration", 3),
    DefaultPlugin("NodeAffinity", 2),
    DefaultPlugin("NodePorts"),
    DefaultPlugin("DeferredPodScheduling", gate="InPlacePodVerticalScalingSchedulerPreemption"),
    DefaultPlugin("NodeResourcesFit", 1),
    DefaultPlugin("VolumeRestrictions"),
    DefaultPlugin("NodeVolumeLimits"),
    DefaultPlugin("VolumeBinding"),
    DefaultPlugin("VolumeZone"),
    DefaultPlugin("PodTopologySpread", 2),
    DefaultPlugin("InterPodAffinity", 2),
    DefaultPlugin("DynamicResources", 2, "DynamicResourceAllocation"),
    DefaultPlugin("DefaultPreemption"),
    DefaultPlugin("NodeResourcesBalancedAllocation", 1),
    DefaultPlugin("ImageLocality", 1),
    DefaultPlugin("DefaultBinder"),
    DefaultPlugin("NodeDeclaredFeatures", gate="NodeDeclaredFeatures"),
)
_PLACEMENTS: Final = (
    DefaultPlugin("TopologyPlacementGenerator", gate="TopologyAwareWorkloadScheduling"),
    DefaultPlugin("PodGroupPodsCount", 1, "TopologyAwareWorkloadScheduling"),
)
_IN_QUEUE: Final = (DefaultPlugin("SchedulingGates"), DefaultPlugin("PrioritySort"))
_NODE_NAME, _NODE_UNSCHEDULABLE = DefaultPlugin("NodeName"), DefaultPlugin("NodeUnschedulable")

# In MultiPoint order. Filters run in this order.
DEFAULT_PLUGINS: Final[Mapping[str, tuple[DefaultPlugin, ...]]] = MappingProxyType(
    {
        "1.36": (
            *_IN_QUEUE,
            *(_NODE_UNSCHEDULABLE, _NODE_NAME),
            *(plugin for plugin in _AFTER_NODE_NAMES if plugin.name != "DeferredPodScheduling"),
            DefaultPlugin("GangScheduling", gate="GangScheduling"),
            *_PLACEMENTS,
        ),
        "1.37": (
            *_IN_QUEUE,
            *(_NODE_NAME, _NODE_UNSCHEDULABLE),
            *_AFTER_NODE_NAMES,
            DefaultPlugin("GangScheduling", gate="GenericWorkload"),
            *_PLACEMENTS,
        ),
        "1.38": (
            *_IN_QUEUE,
            *(_NODE_NAME, _NODE_UNSCHEDULABLE),
            *(
                replace(plugin, gate="") if plugin.name == "DynamicResources" else plugin
                for plugin in _AFTER_NODE_NAMES
            ),
            DefaultPlugin("GangScheduling", gate="GenericWorkload"),
            *_PLACEMENTS,
        ),
    }
)
