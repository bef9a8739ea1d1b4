"""The play: pods that wait and pods that are asked about are scheduled, nodes are drained, what is left is counted.

Pods that new NoExecute taints drive off go at the beginning, or when all others have been decided.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.whatif.rehearsal.drains import Budgets, drain
from kscheduler.whatif.rehearsal.frozen_cluster import FrozenCluster
from kscheduler.whatif.rehearsal.no_execute import Leaving, leaving
from kscheduler.whatif.rehearsal.plan import RehearsalPlan
from kscheduler.whatif.rehearsal.rehearsed import NEW, TAINT, Rehearsed

_CAPACITY: Final = "capacity"
_AT_ONCE: Final = 100
_MOST: Final = 10_000
"""Where counting ends."""


def rehearse(plan: RehearsalPlan) -> Rehearsed:
    """Play the plan to its end. Raises `ScenarioError` where an object or the configuration cannot be used."""
    return asyncio.run(rehearsal(plan))


async def rehearsal(plan: RehearsalPlan) -> Rehearsed:
    """The same, on a loop that runs already. Raises `ScenarioError`."""
    cluster = FrozenCluster(plan)
    before = cluster.room_before()
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
        ]
        served = [profile.scheduler_name for profile in plan.config.configuration.profiles]
        answer = Rehearsed(
            placed=cluster.placed(),
            waiting=cluster.waiting(served),
            evicted=cluster.evicted(),
            drains=tuple(drains),
            before=before,
            after=cluster.room(),
            notes=tuple(notes),
            added_nodes=tuple(sorted(plan.added_nodes())),
            left_out=plan.left_out,
        )
        if plan.capacity_of is not None:
            count, is_more = await _capacity(cluster, plan.capacity_of)
            answer = replace(answer, capacity=count, capacity_is_more=is_more)
    if not cluster.is_out_of_time:
        return answer
    return replace(answer, is_whole=False, notes=(*answer.notes, _cut_short(plan)))


def _split(groups: Sequence[Leaving]) -> tuple[Sequence[Pod], Sequence[Leaving]]:
    """The pods that go at once, and those that stay for a time."""
    if groups and groups[0][0] == 0:
        return groups[0][1], groups[1:]
    return (), groups


def _cut_short(plan: RehearsalPlan) -> str:
    return f"the simulation was ended after {plan.seconds:.1f} s, so later decisions are missing: ask for less"


async def _capacity(cluster: FrozenCluster, pod: Pod) -> tuple[int, bool]:
    """How many more pods like this one fit, none of which preempts anybody."""
    count = 0
    while count < _MOST and not cluster.is_out_of_time:
        keys = []
        for number in range(count, count + _AT_ONCE):
            name = f"{pod.metadata.name}-more-{number}"
            metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
            spec = msgspec.structs.replace(pod.spec, node_name="", preemption_policy="Never")
            another = msgspec.structs.replace(pod, metadata=metadata, spec=spec)
            cluster.show(another, _CAPACITY)
            keys.append(another.key)
        if not await cluster.until_quiet():
            return count, True
        fitting = sum(cluster.is_placed(key) for key in keys)
        count += fitting
        if fitting < _AT_ONCE:
            return count, False
    return count, True
