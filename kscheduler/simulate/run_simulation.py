"""The play: pods that wait and pods that are asked about are scheduled, nodes are drained, what is left is counted.

Pods that new NoExecute taints drive off go at the beginning, or when all others have been decided.
"""

import asyncio
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from kscheduler.api.core import Pod
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.simulate.drains import Budgets, drain
from kscheduler.simulate.more_that_fit import capacity
from kscheduler.simulate.simulated_cluster import SimulatedCluster
from kscheduler.simulate.simulation_plan import SimulationPlan
from kscheduler.simulate.simulation_result import NEW, TAINT, RoomOfNodes, Simulation
from kscheduler.simulate.taint_evictions import Leaving, leaving


def run_simulation(plan: SimulationPlan) -> Simulation:
    """Play the plan to its end. Raises `ScenarioError` where an object or the configuration cannot be used."""
    return asyncio.run(simulate(plan))


class Played(NamedTuple):
    """What came of it, and what the cluster would be."""

    simulation: Simulation
    objects: ClusterObjects
    """In the end, before pods were added to count the capacity."""


async def simulate(plan: SimulationPlan) -> Simulation:
    """The same, on a loop that runs already. Raises `ScenarioError`."""
    return (await played(plan)).simulation


async def played(plan: SimulationPlan) -> Played:
    """The same, with the cluster as it would be. Raises `ScenarioError`."""
    cluster = SimulatedCluster(plan)
    before = cluster.capacity_before()
    for pod in plan.new_pods:
        cluster.show(pod, NEW)
    at_once, later = _split(leaving(plan, cluster))
    for pod in at_once:
        cluster.evict(pod, TAINT)
    notes: list[str] = []
    async with cluster.at_work():
        if not await cluster.until_quiet() and not cluster.is_out_of_time:
            notes.append(cluster.why_never_quiet())
        for seconds, pods in takewhile(lambda _: not cluster.is_out_of_time, later):
            for pod in filter(cluster.is_there, pods):
                cluster.evict(pod, TAINT, seconds)
            await cluster.until_quiet()
        budgets = Budgets(plan.objects.poddisruptionbudgets)
        drains = [
            await drain(cluster, name, budgets)
            for name in takewhile(lambda _: not cluster.is_out_of_time, plan.drained)
            if name not in plan.gone_nodes  # whose pods are gone already
        ]
        served = [profile.scheduler_name for profile in plan.config.configuration.profiles]
        answer = Simulation(
            placed=cluster.placed(),
            waiting=cluster.waiting(served),
            evicted=cluster.evicted(),
            drains=tuple(drains),
            room=RoomOfNodes(before, cluster.room()),
            emulation_version=plan.config.gates.version,
            notes=tuple(notes),
            added_nodes=tuple(sorted(plan.added_nodes())),
            left_out=plan.left_out,
        )
        after = cluster.objects_after()
        if plan.counts_capacity:
            answer = msgspec.structs.replace(answer, capacity=await capacity(cluster, plan.new_pods))
    answer = msgspec.structs.replace(answer, notes=(*answer.notes, *cluster.notes()))
    if cluster.is_out_of_time:
        answer = msgspec.structs.replace(answer, is_whole=False, notes=(*answer.notes, _cut_short(plan)))
    return Played(answer, after)


def _split(groups: Sequence[Leaving]) -> tuple[Sequence[Pod], Sequence[Leaving]]:
    """The pods that go at once, and those that stay for a time."""
    if groups and groups[0][0] == 0:
        return groups[0][1], groups[1:]
    return (), groups


def _cut_short(plan: SimulationPlan) -> str:
    return f"the simulation was ended after {plan.seconds:.1f} s, so later decisions are missing: ask for less"
