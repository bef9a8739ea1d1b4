"""How much the nodes of a cache have, and how much of it is asked for.

Devices are counted by class, under the names that quotas have for them. A resource that devices stand for and that no
node has of its own is left out: its devices are counted.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

import numpy as np

from kscheduler.answers import ResourceCapacity
from kscheduler.scenario.capacity import capacity_of, pod_capacity_of
from kscheduler.scenario.decide import cluster_cache
from kscheduler.scenario.device_counts import DevicesByClass
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.simulate.simulation_plan import SimulationPlan
from kscheduler.simulate.simulation_result import DEVICES_OF_CLASS
from kscheduler.state.cache import Cache


def capacity_in(cache: Cache, without: Collection[str] = ()) -> dict[str, ResourceCapacity]:
    """By resource, of all nodes but some: cpu, memory, pods, and what else pods could ask for."""
    nodes = cache.nodes
    rows = np.setdiff1d(nodes.rows(), nodes.rows_of(without)) if without else nodes.rows()
    found = {
        name: capacity
        for name, capacity in capacity_of(nodes, rows).items()
        if capacity.allocatable or cache.devices.class_of_resource(name) is None
    }
    return {**found, "pods": pod_capacity_of(nodes, rows)}


def devices_in(cache: Cache, by_class: DevicesByClass, nodes: Iterable[str]) -> dict[str, ResourceCapacity]:
    """By class, of devices that are in these nodes or in none."""
    counts = by_class.counts(cache.devices, frozenset(nodes))
    return {f"{name}{DEVICES_OF_CLASS}": ResourceCapacity(count.there, count.in_use) for name, count in counts.items()}


def capacity_before(cache: Cache, plan: SimulationPlan) -> dict[str, ResourceCapacity]:
    """Of the cluster as it is, from a cache in which the plan's nodes have come and gone, and nothing else yet.

    Raises `ScenarioError` for an object that cannot be read.
    """
    left = capacity_in(cache, plan.added_nodes())
    gone = set(plan.gone_nodes)
    if not gone:
        return left
    objects = ClusterObjects(
        nodes=tuple(node for node in plan.objects.nodes if node.metadata.name in gone),
        pods=tuple(pod for pod in plan.objects.pods if pod.spec.node_name in gone),
    )
    return _sum(left, capacity_in(cluster_cache(objects, None, plan.config.gates, plan.where)))


def _sum(some: Mapping[str, ResourceCapacity], others: Mapping[str, ResourceCapacity]) -> dict[str, ResourceCapacity]:
    nothing = ResourceCapacity(0, 0)
    pairs = {name: (some.get(name, nothing), others.get(name, nothing)) for name in chain(some, others)}
    return {
        name: ResourceCapacity(one.allocatable + two.allocatable, one.requested + two.requested)
        for name, (one, two) in pairs.items()
    }
