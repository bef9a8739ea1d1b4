"""Plays a run: one task after the other through queue, cycle and Binding, over a cluster in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.openb.profiles import SCHEDULER, configuration
from benchmarks.openb.trace import INDEX, Run, typical_pods
from kscheduler.aio.clock import VirtualClock
from kscheduler.api.kinds import NODES, PODS
from kscheduler.assembly import Assembly
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.in_memory.cluster import InMemoryCluster

_POLICIES: Final = Path(__file__).with_name("policies.py")


class Placement(msgspec.Struct, frozen=True):
    """Where a task went."""

    task: str
    node: str
    """Empty: it fitted nowhere."""
    devices: str
    """As in the annotation: `0,1`."""


class OpenbRun:
    """A run by one policy."""

    def __init__(self, run: Run, data: Path, policy: str) -> None:
        """`data`: the folder with the trace's CSV files. Raises `OSError`."""
        self.run = run
        self.cluster = InMemoryCluster()
        reader = ConfigurationReader(plugins=(str(_POLICIES),))
        content = configuration(policy, typical_pods(data, run.workload), run.seed)
        configured = reader.read_bytes(content, policy)
        self._assembly = Assembly(configured.config, configured.registry, self.cluster.ports(), VirtualClock())
        self._assembly.plugin_reports.ignore_slow_calls()  # they depend on the machine
        self._assembly.listen_to(self.cluster.listeners)
        for rank, machine in enumerate(run.nodes):
            self.cluster.put(NODES, machine.as_node(rank), initial=True)

    async def placements(self) -> "list[Placement]":
        """Try each task once, in order."""
        return [await self._placed(number) for number in range(len(self.run.tasks))]

    async def _placed(self, number: int) -> Placement:
        task, assembly = self.run.tasks[number], self._assembly
        pod = task.as_pod(number, SCHEDULER)
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
            return Placement(task.name, "", "")
        return Placement(task.name, bound.spec.node_name, bound.metadata.annotations.get(INDEX, ""))


def curve(run: Run, placements: list[Placement]) -> Iterator[tuple[int, float]]:
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
