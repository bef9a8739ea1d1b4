"""Arithmetic over what nodes have free and the pods request together: what it excludes need not be tried."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.compact.unplaced_cluster import UnplacedCluster
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import cluster_cache


class FreeCapacity:
    """What nodes have beside the pods that stay with them, and what the moving pods ask for together.

    Nodes that have less together need not be tried. Resources that stand for devices are not counted.
    """

    def __init__(self, pods: UnplacedCluster, gates: FeatureGates, where: str) -> None:
        """`where`: the source of the objects. Raises `ScenarioError` for an object that cannot be read."""
        staying = tuple(pod for each in pods.staying.values() for pod in each)
        objects = replace(pods.objects, pods=staying)
        cache = cluster_cache(objects, None, gates, where)
        nodes, rows = cache.nodes, cache.nodes.rows()
        asked: Counter[str] = Counter()
        for pod in pods.moving:
            asked.update(PodInfo(pod).requests)
        counted = [name for name in asked if name in nodes.resources and cache.devices.class_of_resource(name) is None]
        columns = [
            nodes.amounts(nodes.allocatable, name, rows) - nodes.amounts(nodes.requested, name, rows)
            for name in counted
        ]
        columns.append(nodes.allowed_pods[rows] - nodes.pod_count[rows])
        self.free: NDArray[np.int64] = np.maximum(np.stack(columns), 0)
        """By resource and node; the last row is the number of pods."""
        self.asked: NDArray[np.int64] = np.array([*(asked[name] for name in counted), len(pods.moving)], dtype=np.int64)
        self.place = {nodes.name_of(row): place for place, row in enumerate(rows.tolist())}
        """The column of a node."""

    @property
    def fewest(self) -> int:
        """Fewer nodes are never enough, however the pods are placed: the largest ones count first, by resource.

        One more than there are: all of them are not enough.
        """
        largest_first = -np.sort(-self.free, axis=1)
        is_short = largest_first.cumsum(axis=1) < self.asked[:, np.newaxis]
        too_few: list[int] = is_short.sum(axis=1).tolist()
        return max(too_few) + 1


class CapacityInOrder:
    """The same along nodes in a drawn order, of which some are kept whatever becomes of the others."""

    def __init__(self, free: FreeCapacity, drawn: Sequence[str]) -> None:
        self._free = free.free[:, [free.place[name] for name in drawn]]
        nothing = np.zeros((len(self._free), 1), dtype=np.int64)
        self._sums = np.concatenate([nothing, self._free.cumsum(axis=1)], axis=1)
        """By resource, of the first nodes: of none, of one and so on."""
        self._wanting = free.asked.copy()
        """What the kept nodes do not have."""

    @property
    def nodes_needed(self) -> int:
        """How many of the first nodes have, with the kept ones, as much of each resource as is asked for."""
        return max(int(np.searchsorted(sums, wanting)) for sums, wanting in zip(self._sums, self._wanting, strict=True))

    def keep_node(self, place: int) -> None:
        """The node at this place of the order is kept."""
        self._wanting -= self._free[:, place]
