"""Plays a run: one task after the other through queue, cycle and Binding, over a cluster in memory."""

from collections.abc import Iterator

import msgspec

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.kinds import NODES, PODS
from kscheduler.assembly import Assembly
from kscheduler.assembly.configured import Configured
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.sweep.trace.trace_objects import INDEX, Run


class TaskPlacement(msgspec.Struct, frozen=True):
    """Where a task went."""

    task: str
    node: str
    """Empty: it fitted nowhere."""
    devices: str
    """As in the annotation: `0,1`."""


class TracePlayer:
    """A run by one configuration, whose one profile places the tasks."""

    def __init__(self, run: Run, configured: Configured) -> None:
        """Raises `ConfigError`."""
        self.run = run
        self.cluster = InMemoryCluster()
        self.assembly = Assembly(configured.config, configured.registry, self.cluster.ports(), VirtualClock())
        self.assembly.plugin_reports.ignore_slow_calls()  # they depend on the machine
        self.assembly.listen_to(self.cluster.listeners)
        self._scheduler = configured.config.configuration.profiles[0].scheduler_name
        for rank, machine in enumerate(run.nodes):
            self.cluster.put(NODES, machine.as_node(rank), initial=True)

    async def placements(self) -> "list[TaskPlacement]":
        """Try each task once, in order."""
        return [await self._placed(number) for number in range(len(self.run.tasks))]

    async def _placed(self, number: int) -> TaskPlacement:
        task, assembly = self.run.tasks[number], self.assembly
        pod = task.as_pod(number, self._scheduler)
        self.cluster.put(PODS, pod)
        queued = assembly.queue.pop_next(assembly.clock.time())
        if queued is None or queued.key != pod.key:
            raise RuntimeError(f"{pod.key} is not the next in the queue")
        attempt = assembly.scheduler.decide(queued)
        if attempt is not None:
            await assembly.scheduler.bind(attempt)
        bound = self.cluster.pod_of(pod.key)
        if bound is None or not bound.spec.node_name:
            self.cluster.remove(PODS, pod.key)  # what does not fit is gone
            return TaskPlacement(task.name, "", "")
        return TaskPlacement(task.name, bound.spec.node_name, bound.metadata.annotations.get(INDEX, ""))


def curve(run: Run, placements: list[TaskPlacement]) -> Iterator[tuple[int, float]]:
    """Percent of the demand that has arrived, rounded, and the GPUs in use then: the mean over all such arrivals."""
    total = sum(machine.gpus for machine in run.nodes) * 1000
    arrived = used = 0
    seen: dict[int, list[float]] = {}
    for task, placement in zip(run.tasks, placements, strict=True):
        arrived += task.gpus * task.milli
        used += task.gpus * task.milli if placement.node else 0
        seen.setdefault(int(100 * arrived / total + 0.5), []).append(100 * used / total)
    for percent, values in sorted(seen.items()):
        yield percent, sum(values) / len(values)
