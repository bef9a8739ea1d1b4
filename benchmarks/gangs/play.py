"""Plays gangs through queue, group cycle and Bindings, over a cluster in memory, second by second of virtual time.

A gang is submitted as a group with all its pods. Once all of them have a node it runs for its time, then all end at
once. Nothing else takes time: Bindings succeed at once. So what is measured is what the scheduler decides, and when.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from time import process_time
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from benchmarks.gangs.trace import Gang, GangTrace
from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL, SCHEDULER_PLUGINS_POD_GROUPS, SchedulerPluginsPodGroup
from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.quantity import nano_value
from kscheduler.assembly import Assembly
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.framework.cluster.topology_request import PREFERRED, REQUIRED
from kscheduler.in_memory.at_work import at_work, turns, workers_over
from kscheduler.in_memory.cluster import InMemoryCluster

_CONFIGURATION: Final[dict[str, Any]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "podGroupAPIs": ["scheduler-plugins"],
    "profiles": [{"schedulerName": "default-scheduler"}],
}
# Gangs that begin within so many seconds are one wave.
_WAVE_SECONDS: Final = 5


class PlayedGang(msgspec.Struct):
    """What became of a gang."""

    name: str
    pods: int
    run_seconds: float
    started: float | None = None
    """When all of its pods had a node; `None`: never."""
    nodes: tuple[str, ...] = ()


class PlayedTrace(msgspec.Struct, frozen=True):
    """How a trace went."""

    name: str
    gangs: tuple[PlayedGang, ...]
    seconds: float
    """From the first submission to the end of the last gang."""
    occupied_percent: float
    """Of the scarcest resource of the trace's pods: used over time, divided by what all nodes have in that time."""
    waves: int
    """How often gangs began: those that began within 5 s of the first are one wave."""
    most_in_part: int
    """The most pods of gangs that ran in part, at rest; 0 is right."""
    cpu_seconds: float


class GangPlay:
    """One trace."""

    def __init__(self, trace: GangTrace, patience_seconds: float = 3_600) -> None:
        """`patience_seconds`: after so much virtual time in which nothing begins or ends, the rest never runs."""
        self._trace, self._patience_seconds = trace, patience_seconds
        self.clock = VirtualClock()
        self.cluster = InMemoryCluster([SCHEDULER_PLUGINS_POD_GROUPS])
        levels = {"topologyLevels": [list(trace.levels)]} if trace.levels else {}
        content = msgspec.json.encode({**_CONFIGURATION, **levels})
        configured = ConfigurationReader().read_bytes(content, "gangs")
        self.assembly = Assembly(configured.config, configured.registry, self.cluster.ports(), self.clock)
        self.assembly.listen_to(self.cluster.listeners)
        self._workers = workers_over(self.assembly, self.cluster)
        for name, machines in trace.machines():
            tree = {
                "metadata": {"name": name, "labels": machines.labels},
                "spec": {"unschedulable": machines.unschedulable},
                "status": {"allocatable": machines.allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
            }
            self.cluster.put(NODES, convert(tree, Node), initial=True)
        self._waiting = {gang.name: PlayedGang(gang.name, gang.pods, gang.run_seconds) for gang in trace.submitted()}
        self._running: dict[str, PlayedGang] = {}
        self._ended: dict[str, PlayedGang] = {}
        self._most_in_part = 0

    async def run(self) -> PlayedTrace:
        """Play it to the end."""
        gangs, began, cpu = list(self._trace.submitted()), self.clock.time(), process_time()
        to_submit, last = gangs, began
        async with at_work(self.assembly, self._workers):
            while self._waiting or self._running:
                now = self.clock.time()
                due = [gang for gang in to_submit if began + gang.submitted_seconds <= now]
                to_submit = [gang for gang in to_submit if began + gang.submitted_seconds > now]
                last = now if self._end_those_that_are_done(now) or due else last
                for gang in due:
                    self._submit(gang)
                await self._rest()
                last = now if self._note_started(now) else last
                if now - last > self._patience_seconds:
                    break
                await self.clock.advance(1.0)
        every = tuple({**self._ended, **self._running, **self._waiting}[gang.name] for gang in gangs)
        ends = [gang.started + gang.run_seconds for gang in every if gang.started is not None]
        seconds = max(ends, default=began) - began
        occupied = self._occupied_percent(every, seconds)
        return PlayedTrace(
            self._trace.name, every, seconds, occupied, _waves(every), self._most_in_part, process_time() - cpu
        )

    def _submit(self, gang: Gang) -> None:
        asked = {}
        if gang.topology.required:
            asked[REQUIRED] = gang.topology.required
        if gang.topology.preferred:
            asked[PREFERRED] = max(gang.topology.preferred, key=lambda each: each.weight).key
        metadata = {"name": gang.name, "namespace": "default", "uid": f"group-{gang.name}", "annotations": asked}
        group = convert({"metadata": metadata, "spec": {"minMember": gang.min_count}}, SchedulerPluginsPodGroup)
        self.cluster.put(SCHEDULER_PLUGINS_POD_GROUPS, group)
        for number in range(gang.pods):
            name = f"{gang.name}-{number}"
            tree = {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": name,
                    "labels": {SCHEDULER_PLUGINS_LABEL: gang.name},
                },
                "spec": {
                    "schedulerName": "default-scheduler",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": self._trace.pod}}],
                },
            }
            self.cluster.put(PODS, convert(tree, Pod))

    async def _rest(self) -> None:
        """Until nobody is ready to be tried, or being tried."""
        await turns(10)
        while True:
            sizes = self.assembly.queue.statistics()
            if not (sizes.active or sizes.in_flight or self._workers.binding):
                return
            await turns(5)

    def _note_started(self, now: float) -> bool:
        """Gangs that have all their nodes run from now on."""
        nodes = self._nodes_by_gang()
        started = [gang for gang in self._waiting.values() if len(nodes.get(gang.name, ())) == gang.pods]
        for gang in started:
            gang.started, gang.nodes = now, tuple(sorted(nodes[gang.name]))
            self._running[gang.name] = self._waiting.pop(gang.name)
        in_part = sum(len(nodes.get(name, ())) for name in self._waiting)
        self._most_in_part = max(self._most_in_part, in_part)
        return bool(started)

    def _nodes_by_gang(self) -> dict[str, list[str]]:
        nodes: defaultdict[str, list[str]] = defaultdict(list)
        for pod in self.cluster.pods():
            if pod.spec.node_name:
                nodes[pod.metadata.labels[SCHEDULER_PLUGINS_LABEL]].append(pod.spec.node_name)
        return nodes

    def _end_those_that_are_done(self, now: float) -> bool:
        done = [
            gang
            for gang in self._running.values()
            if gang.started is not None and gang.started + gang.run_seconds <= now
        ]
        for gang in done:
            self._ended[gang.name] = self._running.pop(gang.name)
            for number in range(gang.pods):
                pod = self.cluster.pod_of(f"default/{gang.name}-{number}")
                if pod is not None:
                    self.cluster.put(PODS, replace(pod, status=replace(pod.status, phase="Succeeded")))
                    self.cluster.remove(PODS, pod.key)
        return bool(done)

    def _occupied_percent(self, gangs: tuple[PlayedGang, ...], seconds: float) -> float:
        """Pods that run over time, as a share of those that fit on all nodes at once."""
        if not seconds:
            return 0.0
        slots = sum(_pods_on(machines.allocatable, self._trace.pod) for _, machines in self._trace.machines())
        used = sum(gang.pods * gang.run_seconds for gang in gangs if gang.started is not None)
        return 100 * used / (slots * seconds)


def _waves(gangs: Iterable[PlayedGang]) -> int:
    waves, latest = 0, -math.inf
    for started in sorted(gang.started for gang in gangs if gang.started is not None):
        if started > latest:
            waves, latest = waves + 1, started + _WAVE_SECONDS
    return waves


def _pods_on(allocatable: dict[str, str], requests: dict[str, str]) -> int:
    """How many of the pods one node holds."""
    free = {name: nano_value(amount) for name, amount in allocatable.items()}
    most = [free.get("pods", 0) // nano_value("1")]
    return min(most + [free.get(name, 0) // nano_value(amount) for name, amount in requests.items()])


def lines_of(played: PlayedTrace) -> Iterator[str]:
    """The result as text."""
    never = [gang.name for gang in played.gangs if gang.started is None]
    pods = sum(gang.pods for gang in played.gangs)
    yield f"{played.name}: {len(played.gangs)} gangs of {pods} pods in {played.waves} waves, {played.seconds:g} s"
    yield f"  {played.occupied_percent:.1f} % occupied; at most {played.most_in_part} pods of gangs that ran in part"
    yield f"  {played.cpu_seconds:.1f} s of CPU"
    for gang in played.gangs:
        nodes = ", ".join(gang.nodes) if len(gang.nodes) <= 12 else f"{len(set(gang.nodes))} nodes"
        if gang.started is not None and len(played.gangs) <= 12:
            yield f"  {gang.name}: {nodes}"
    if never:
        yield f"  never ran: {', '.join(never)}"
