"""The in-tree plugins by name, in kube-scheduler's default order."""

from kscheduler.framework.plugin import Plugin
from kscheduler.framework.registry import PluginFactory, Registry
from kscheduler.plugins.default_binder import DefaultBinder
from kscheduler.plugins.default_preemption import DefaultPreemption
from kscheduler.plugins.deferred_pod_scheduling import DeferredPodScheduling
from kscheduler.plugins.dynamic_resources import DynamicResources
from kscheduler.plugins.gang_scheduling import GangScheduling, gang_scheduling
from kscheduler.plugins.image_locality import ImageLocality
from kscheduler.plugins.inter_pod_affinity import InterPodAffinity
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.node_declared_features import NodeDeclaredFeatures
from kscheduler.plugins.node_name import NodeName, node_name
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.node_unschedulable import NodeUnschedulable
from kscheduler.plugins.packing import PACKING
from kscheduler.plugins.pod_group_pods_count import PodGroupPodsCount
from kscheduler.plugins.pod_topology_spread import PodTopologySpread
from kscheduler.plugins.policies.catalogue import POLICIES
from kscheduler.plugins.priority_sort import PrioritySort
from kscheduler.plugins.scheduling_gates import SchedulingGates
from kscheduler.plugins.storage.node_volume_limits import NodeVolumeLimits
from kscheduler.plugins.storage.volume_binding import VolumeBinding
from kscheduler.plugins.storage.volume_restrictions import VolumeRestrictions
from kscheduler.plugins.storage.volume_zone import VolumeZone
from kscheduler.plugins.taint_toleration import TaintToleration
from kscheduler.plugins.topology_placement_generator import TopologyPlacementGenerator

# The plugins, in the order of the default MultiPoint list: a node counts for the first plugin that rejects it.
IN_TREE: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    DeferredPodScheduling,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)


def registry() -> Registry:
    """A new registry with all in-tree plugins and the policies; the caller adds users' plugins to it."""
    factories: dict[str, PluginFactory] = {plugin.name: plugin for plugin in (*IN_TREE, *POLICIES, *PACKING)}
    return Registry({**factories, NodeName.name: node_name, GangScheduling.name: gang_scheduling})
