"""The moving pods of a cluster rescheduled on some of its nodes, by one profile."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from kscheduler.aio.synchronous import run_synchronously
from kscheduler.api.core import Pod
from kscheduler.compact.unplaced_cluster import UnplacedCluster
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.registry import Registry
from kscheduler.scenario.absent import NOTHING_ABSENT, Absent
from kscheduler.simulate.simulated_cluster import SimulatedCluster
from kscheduler.simulate.simulation_plan import SimulationPlan
from kscheduler.simulate.simulation_result import NEW, StillPending


@dataclass(frozen=True, slots=True)
class Repacking:
    """A cluster and one of the profiles that place its pods."""

    pods: UnplacedCluster
    config: LoadedConfig
    profile: str
    where: str
    """The source of the objects, for messages."""
    groups: tuple[GroupDefinition, ...] = ()
    plugins: Registry | None = None
    absent: Absent = NOTHING_ABSENT

    def unplaced_pods(self, nodes: Collection[str], order: Sequence[Pod] = ()) -> tuple[StillPending, ...]:
        """The pods that find no place on these nodes; the other nodes are gone. Raises `ScenarioError`.

        `order`: the moving pods in the order in which they come, if not in that of the objects.
        """
        return run_synchronously(self._unplaced_pods(frozenset(nodes), order or self.pods.moving))

    async def _unplaced_pods(self, nodes: frozenset[str], order: Sequence[Pod]) -> tuple[StillPending, ...]:
        kept = tuple(node for node in self.pods.objects.nodes if node.metadata.name in nodes)
        staying = tuple(pod for node in sorted(nodes) for pod in self.pods.staying.get(node, ()))
        objects = replace(self.pods.objects, nodes=kept, pods=staying)
        plan = SimulationPlan(
            objects, self._alone(), self.where, groups=self.groups, plugins=self.plugins, absent=self.absent
        )
        cluster = SimulatedCluster(plan)
        for pod in order:
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
