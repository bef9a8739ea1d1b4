"""Arithmetic over what nodes have free and the pods request together: what it excludes need not be tried.

It may exclude nothing that a profile would find. So it leaves out what the profile does not compare: resources that it
ignores, and all of them where it has no NodeResourcesFit. Resources that a class of devices stands for are left out,
too: a node that lists none of them may have devices.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.api.quantity import MAX_INT64
from kscheduler.compact.unplaced_cluster import UnplacedCluster
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import PODS
from kscheduler.scenario.decide import cluster_cache
from kscheduler.scheduling.profile import Profile


class FreeCapacity(msgspec.Struct, frozen=True):
    """What nodes have beside the pods that stay with them, and what the moving pods ask for together.

    Nodes that have less together need not be tried.
    """

    names: tuple[str, ...]
    """The resources; `pods` is the number of pods."""
    free: NDArray[np.int64]
    """By resource and node."""
    asked: NDArray[np.int64]
    place: dict[str, int]
    """The column of a node."""

    @classmethod
    def of(cls, pods: UnplacedCluster, gates: FeatureGates, where: str) -> "FreeCapacity":
        """`where`: the source of the objects. Raises `ScenarioError` for an object that cannot be read."""
        staying = tuple(pod for each in pods.staying.values() for pod in each)
        objects = replace(pods.objects, pods=staying)
        cache = cluster_cache(objects, None, gates, where)
        nodes, rows = cache.nodes, cache.nodes.rows()
        asked: Counter[str] = Counter()
        for pod in pods.moving:
            asked.update(PodInfo(pod).requests)
        names = [name for name in asked if name in nodes.resources and cache.devices.class_of_resource(name) is None]
        columns = [
            nodes.amounts(nodes.allocatable, name, rows) - nodes.amounts(nodes.requested, name, rows) for name in names
        ]
        columns.append(nodes.allowed_pods[rows] - nodes.pod_count[rows])
        within = [
            _within_int64(column, amount)
            for column, amount in zip(columns, [*(asked[name] for name in names), len(pods.moving)], strict=True)
        ]
        free, amounts = np.stack([column for column, _ in within]), [amount for _, amount in within]
        place = {nodes.name_of(row): column for column, row in enumerate(rows.tolist())}
        return cls((*names, PODS), free, np.array(amounts, dtype=np.int64), place)

    def compared_by(self, profile: Profile) -> "FreeCapacity":
        """Only the resources by which the profile rejects nodes."""
        comparing = profile.resource_filter
        kept = [
            index
            for index, name in enumerate(self.names)
            if comparing is not None and not comparing.ignores_resource(name)
        ]
        return replace(
            self, names=tuple(self.names[index] for index in kept), free=self.free[kept], asked=self.asked[kept]
        )

    @property
    def fewest(self) -> int:
        """Fewer nodes are never enough, however the pods are placed: the largest ones count first, by resource.

        One more than there are: all of them are not enough.
        """
        largest_first = -np.sort(-self.free, axis=1)
        is_short = largest_first.cumsum(axis=1) < self.asked[:, np.newaxis]
        too_few: list[int] = is_short.sum(axis=1).tolist()
        return max(too_few, default=0) + 1


def _within_int64(free: NDArray[np.int64], asked: int) -> tuple[NDArray[np.int64], int]:
    """Both halved until the sum over all nodes, and what is asked for, can be held.

    What is free is rounded up, and what is asked for down: never are more nodes asked for than before.
    """
    free = np.maximum(free, 0)
    while max(asked, sum(free.tolist())) > MAX_INT64:
        free, asked = free // 2 + free % 2, asked // 2
    return free, asked


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
        enough = zip(self._sums, self._wanting, strict=True)
        return max((int(np.searchsorted(sums, wanting)) for sums, wanting in enough), default=0)

    def keep_node(self, place: int) -> None:
        """The node at this place of the order is kept."""
        self._wanting -= self._free[:, place]
