"""A scheduler with the in-tree plugins and one of a user's, the service's assembly: virtual clock, no API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.plugins import in_tree
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.work.concurrency import AdaptiveLimit
from kscheduler.scheduling.work.workers import Workers
from tests.builders import make_node
from tests.scheduling.around import RecordedEvents, ReportedFailures


class Writer:
    """Binds whatever it is asked to."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        """Node by pod."""

    async def bind(self, pod: Pod, node_name: str) -> Status:
        await asyncio.sleep(0)
        self.bound[pod.key] = node_name
        return SUCCESS


class PluginCluster:
    """The parts, and what users and operators would see of them."""

    def __init__(
        self, plugin: Any, *, sorts: bool = False, nodes: int = 2, settings: dict[str, Any] | None = None
    ) -> None:
        """`settings`: of the plugin; with these, a plugin is quarantined as in the service."""
        self.clock = VirtualClock()
        self.writer = Writer()
        self.reported = ReportedFailures()
        self.recorded = RecordedEvents()
        self.store: dict[str, Pod] = {}
        self.observations = Observations()
        registry = in_tree.registry()
        registry.register("Hostile", lambda *_: plugin)
        config = from_tree(_tree(sorts, settings or {}, binds=hasattr(plugin, "bind")), "test")
        on_quarantine = self._quarantine_soon if settings is not None else None
        assembly = self.assembly = Assembly(config, registry, self._ports(), self.clock, on_quarantine=on_quarantine)
        self.cache, self.queue, self.waiting = assembly.cache, assembly.queue, assembly.waiting
        self.profiles, self.reports = assembly.profiles, assembly.plugin_reports
        for number in range(nodes):
            self.cache.add_node(make_node(f"node-{number}"))
        self.workers = Workers(4, self.queue, assembly.scheduler, AdaptiveLimit(4, 4), self.clock)

    def _ports(self) -> Ports:
        return Ports(
            binder=self.writer,
            statuses=self.reported,
            events=self.recorded,
            pod_of=self.store.get,
            on_arrival=lambda: self.workers.wake(),  # noqa: PLW0108  # they come after the queue
            observations=self.observations,
        )

    def _quarantine_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._quarantine)
        self.workers.end_slice()

    def _quarantine(self) -> None:
        compiled = self.assembly.draft_quarantines()
        if compiled is not None:
            self.assembly.apply(compiled, list(self.store.values()))
            self.workers.wake()

    def reload(self) -> None:
        """The configuration is read again."""
        self.assembly.apply(self.assembly.draft(self.assembly.config), list(self.store.values()))
        self.workers.wake()

    def add(self, *pods: Pod) -> None:
        """Pods that want a node."""
        for pod in pods:
            self.store[pod.key] = pod
            self.queue.add(PodInfo(pod), self.clock.time())

    def place_of(self, name: str) -> str:
        """Where a pod is: in a queue of this name, `in flight`, on its node, or nowhere at all."""
        key = f"default/{name}"
        found = self.queue.find(key)
        pod = self.store[key]
        work_slots = [found[0]] if found is not None else []
        work_slots += (
            ["in flight"] if self.queue.is_in_flight(pod.metadata.uid) and key not in self.writer.bound else []
        )
        work_slots += ["bound"] if key in self.writer.bound else []
        return " and ".join(work_slots) or "nowhere"

    def conditions_of(self, name: str) -> list[Condition]:
        """What the pod was told."""
        return [condition for key, condition, _ in self.reported.reports if key == f"default/{name}"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """With workers and flushes."""
        tasks = [asyncio.ensure_future(self.workers.run()), asyncio.ensure_future(self.workers.keep_flushing())]
        try:
            await self.settle()
            yield
            ended = [task for task in tasks if task.done()]
            assert not ended, "the service ended by itself"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def settle(self) -> None:
        """Let everybody work until they wait for time."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Time passes."""
        await self.clock.advance(seconds)
        await self.settle()


def _tree(sorts: bool, settings: dict[str, Any], *, binds: bool) -> dict[str, Any]:
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": "Hostile"}]}}
    if sorts:
        plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "Hostile"}]}
    # Before the in-tree binder, which takes every pod.
    if binds:
        plugins["bind"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "Hostile"}, {"name": "DefaultBinder"}]}
    profile = {"schedulerName": "kscheduler", "plugins": plugins, "pluginConfig": [{"name": "Hostile", **settings}]}
    other = {"schedulerName": "other", "plugins": {"queueSort": plugins["queueSort"]} if sorts else {}}
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile, other]}
