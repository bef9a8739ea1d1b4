"""Where a pod group may be placed as a whole, and which of these placements is best."""

from kscheduler.plugins.placements.pod_group_pods_count import PodGroupPodsCount
from kscheduler.plugins.placements.topology_placement_generator import TopologyPlacementGenerator

__all__ = ["PodGroupPodsCount", "TopologyPlacementGenerator"]
