"""A scheduler with the in-tree plugins and one of a user's, the service's assembly: virtual clock, no API server."""

import asyncio
from typing import Any

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.config.loader import from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.plugins import in_tree
from kscheduler.scheduling.observations import Observations
from tests.builders import make_node
from tests.scheduling.scheduler_in_memory import SchedulerInMemory


class PluginCluster(SchedulerInMemory):
    """The parts, and what users and operators would see of them. The watch shows no Binding."""

    def __init__(
        self, plugin: Any, *, sorts: bool = False, nodes: int = 2, settings: dict[str, Any] | None = None
    ) -> None:
        """`settings`: of the plugin; with these, a plugin is quarantined as in the service."""
        self.bound: dict[str, str] = {}
        """Node by pod."""
        self.observations = Observations()
        known = in_tree.registry()
        known.register("Hostile", lambda *_: plugin)
        config = from_tree(_tree(sorts, settings or {}, binds=hasattr(plugin, "bind")), "test")
        on_quarantine = self._quarantine_soon if settings is not None else None
        super().__init__(config, known, on_quarantine=on_quarantine, observations=self.observations)
        self.waiting, self.profiles = self.assembly.waiting, self.assembly.profiles
        self.reports = self.assembly.plugin_reports
        for number in range(nodes):
            self.cache.add_node(make_node(f"node-{number}"))

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        """The Binding succeeds."""
        self.bound[pod.key] = node_name

    def _quarantine_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._quarantine)
        self.workers.end_slice()

    def _quarantine(self) -> None:
        compiled = self.assembly.draft_quarantines()
        if compiled is not None:
            self.assembly.apply(compiled, self.listed)
            self.workers.wake()

    def reload(self) -> None:
        """The configuration is read again."""
        self.assembly.apply(self.assembly.draft(self.assembly.config), self.listed)
        self.workers.wake()

    def place_of(self, name: str) -> str:
        """Where a pod is: in a queue of this name, `in flight`, on its node, or nowhere at all."""
        key = f"default/{name}"
        places = [self.where(name)] if self.where(name) else []
        pod = self.pod_of(key)
        if pod is not None and self.queue.is_in_flight(pod.metadata.uid) and key not in self.bound:
            places.append("in flight")
        places += ["bound"] if key in self.bound else []
        return " and ".join(places) or "nowhere"

    def conditions_of(self, name: str) -> list[Condition]:
        """What the pod was told."""
        return [condition for key, condition, _ in self.reported.reports if key == f"default/{name}"]


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
