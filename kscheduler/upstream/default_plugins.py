"""The plugins that a profile has by default, by version of Kubernetes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class DefaultPlugin:
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
    }
)
"""In MultiPoint order. Filters run in this order."""
