"""The moving pods of a cluster placed anew on some of its nodes, by one profile."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.aio.synchronous import run_synchronously
from kscheduler.compact.moving_pods import MovingPods
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.scenario.decide import cluster_cache
from kscheduler.simulate.simulated_cluster import SimulatedCluster
from kscheduler.simulate.simulation_plan import SimulationPlan
from kscheduler.simulate.simulation_result import NEW, StillPending


@dataclass(frozen=True, slots=True)
class Repacking:
    """A cluster and one of the profiles that place its pods."""

    pods: MovingPods
    config: LoadedConfig
    profile: str
    where: str
    """The source of the objects, for messages."""
    groups: tuple[GroupDefinition, ...] = ()
    plugins: Registry | None = None

    def left_over(self, nodes: Collection[str]) -> tuple[StillPending, ...]:
        """The pods that find no place on these nodes; the other nodes are gone. Raises `ScenarioError`."""
        return run_synchronously(self._left_over(frozenset(nodes)))

    async def _left_over(self, nodes: frozenset[str]) -> tuple[StillPending, ...]:
        kept = tuple(node for node in self.pods.objects.nodes if node.metadata.name in nodes)
        staying = tuple(pod for node in sorted(nodes) for pod in self.pods.staying.get(node, ()))
        objects = replace(self.pods.objects, nodes=kept, pods=staying)
        plan = SimulationPlan(objects, self._alone(), self.where, groups=self.groups, plugins=self.plugins)
        cluster = SimulatedCluster(plan)
        for pod in self.pods.moving:
            cluster.show(replace(pod, spec=replace(pod.spec, scheduler_name=self.profile)), NEW)
        async with cluster.at_work():
            await cluster.until_quiet()
        return tuple(_why(each) for each in cluster.waiting([self.profile]))

    def _alone(self) -> LoadedConfig:
        """The configuration with this profile only: what others wait for or fetch is not asked."""
        configuration = self.config.configuration
        only = tuple(each for each in configuration.profiles if each.scheduler_name == self.profile)
        return dataclasses.replace(self.config, configuration=replace(configuration, profiles=only))


def _why(waiting: StillPending) -> StillPending:
    """Without what preemption says: that nobody preempts here is our doing, not the pod's."""
    return replace(waiting, message=waiting.message.partition(" preemption: ")[0])


class FreeRoom:
    """What nodes have beside the pods that stay with them, and what the moving pods ask for together.

    Nodes that have less together need not be tried. Resources that stand for devices are not counted.
    """

    def __init__(self, pods: MovingPods, gates: FeatureGates, where: str) -> None:
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


class DrawnRoom:
    """The same along nodes in a drawn order, of which some are kept whatever becomes of the others."""

    def __init__(self, room: FreeRoom, drawn: Sequence[str]) -> None:
        self._free = room.free[:, [room.place[name] for name in drawn]]
        nothing = np.zeros((len(self._free), 1), dtype=np.int64)
        self._sums = np.concatenate([nothing, self._free.cumsum(axis=1)], axis=1)
        """By resource, of the first nodes: of none, of one and so on."""
        self._wanting = room.asked.copy()
        """What the kept nodes do not have."""

    @property
    def needed(self) -> int:
        """How many of the first nodes have, with the kept ones, as much of each resource as is asked for."""
        return max(int(np.searchsorted(sums, wanting)) for sums, wanting in zip(self._sums, self._wanting, strict=True))

    def keep(self, place: int) -> None:
        """The node at this place of the order is kept."""
        self._wanting -= self._free[:, place]
