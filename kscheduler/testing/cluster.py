"""A cluster in memory, with a profile of the default plugins and those that a test enables."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.assembly.configured import ConfigurationReader, Configured
from kscheduler.assembly.declared_plugins import factory_of
from kscheduler.assembly.plugin_files import content_of, run_file
from kscheduler.config.types import API_VERSION, KIND, OWN_SCHEDULER_NAME
from kscheduler.explain.pod_text import decision_text
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.registry import PluginFactory, Registry
from kscheduler.plugins import in_tree
from kscheduler.scenario.decide import Decision, prepare
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.state.cache import Cache
from kscheduler.testing.running_cluster import RunningCluster, warn_of_misspelt


class UndecidedError(AssertionError):
    """A plugin failed, so there is no decision: its error would otherwise look like a pod that fits nowhere."""


class Cluster:
    """Nodes, pods, and how they are scheduled."""

    def __init__(self, *objects: Node | Pod, client: ClusterClient | None = None) -> None:
        """`client`: stands for the API server where plugins ask it themselves, in `refresh`."""
        self._client = client
        self._own: dict[Kind, list[KubeObject]] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._registry: Registry = in_tree.registry()
        self._enabled: list[dict[str, Any]] = []
        self._disabled: list[dict[str, Any]] = []
        self._plugin_config: list[dict[str, Any]] = []
        self.add(*objects)

    def add(self, *objects: Node | Pod) -> Self:
        """Nodes and pods, also in place of others of their name. Raises `TypeError` for anything else."""
        for added in objects:
            if isinstance(added, Node):
                self._nodes[added.metadata.name] = added
            elif isinstance(added, Pod):
                self._pods[added.key] = added
            else:
                raise TypeError(f"{added!r:.80} is no node and no pod: other kinds go into `add_own`")
        return self

    def add_own(self, kind: Kind, *objects: KubeObject) -> Self:
        """Objects of a kind that only plugins read, with `Handle.lister(kind)`; without any, the kind has none."""
        self._own.setdefault(kind, []).extend(objects)
        return self

    def enable(
        self,
        plugin: str | Path | type[Plugin] | PluginFactory,
        *,
        weight: int = 1,
        args: Mapping[str, Any] | None = None,
    ) -> Self:
        """Enable a plugin behind the default ones: a function under `@plugin`, a class, all plugins of a file, or a
        policy of kscheduler by its name.

        Raises `DuplicatePluginError`, `TypeError` for what is no plugin, and for a file `UnusablePluginError`.
        """
        is_known = isinstance(plugin, str) and plugin in self._registry
        factories: Mapping[str, PluginFactory | None] = {str(plugin): None} if is_known else _factories(plugin)
        for name, factory in factories.items():
            if factory is not None:
                self._registry.register(name, factory)
            self._enabled.append({"name": name, "weight": weight})
            if args is not None:
                self._plugin_config.append({"name": name, "args": dict(args)})
        return self

    def disable(self, name: str) -> Self:
        """Leave out a default plugin, so that a test is about one's own. Raises `ValueError` if there is none such."""
        if name != "*" and name not in self._registry:
            raise ValueError(f"there is no plugin {name!r} to be left out")
        self._disabled.append({"name": name})
        return self

    def decide(self, pod: Pod) -> Decision:
        """Where the pod would go; nothing changes.

        A plugin with a `refresh` fetches once before it is asked. Raises `ScenarioError` for a plugin or arguments that
        do not work, `UndecidedError` for a plugin that fails, be it for one node.
        """
        return self._decided_everywhere(pod)

    def _decided_everywhere(self, pod: Pod, held: Cache | None = None) -> Decision:
        """`held`: a cache that holds the cluster as it is. Raises as `decide` does."""
        decision = self._decided(pod, held)
        for left_out in decision.record.left_out if decision.record is not None else ():
            # The service would place the pod, with no points where the plugin failed; here its author has to notice.
            raise UndecidedError(f"{pod.key}: {left_out.message}")
        return decision

    def _decided(self, pod: Pod, held: Cache | None = None) -> Decision:
        """Where the service would place the pod, whatever has failed for some nodes."""
        configured = self._configured()
        objects = ClusterObjects(nodes=tuple(self._nodes.values()), pods=tuple(self._pods.values()))
        prepared = prepare(
            Scenario(objects, pod, configured.config, where="test", plugins=configured.registry),
            self._client,
            self._own,
            held,
        )
        if prepared.profile is not None:
            warn_of_misspelt([prepared.profile])
        if prepared.has_data_to_fetch:
            _finish(prepared.fetch())
        decision = prepared.decide()
        if decision.error:
            raise UndecidedError(f"{pod.key}: {decision.error}")
        return decision

    def node_for(self, pod: Pod) -> str:
        """The node that the pod would go to; empty if it fits on none. Raises as `decide` does."""
        record = self.decide(pod).record
        return record.node_name if record is not None else ""

    def schedule(self, *pods: Pod) -> list[str]:
        """Their nodes, decided one after the other, each on what those before have left. Empty: it fits nowhere."""
        nodes = []
        held: Cache | None = None
        # What waits in the cluster, or is on a node of it, has to be taken out of a cache before it is judged.
        is_simple = not any(pod.status.nominated_node_name for pod in self._pods.values())
        for pod in pods:
            is_new = is_simple and pod.key not in self._pods
            decision = self._decided_everywhere(pod, held if is_new else None)
            held = decision.cache if is_new else None
            nodes.append(decision.record.node_name if decision.record is not None else "")
            if nodes[-1]:
                placed = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=nodes[-1]))
                self.add(placed)
                if held is not None:
                    held.add_pod(placed)
        return nodes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunningCluster]:
        """The same cluster with a scheduler at work: for Permit, PreBind, Bind, PostBind, the queue and its hints.

        Raises `ScenarioError` or `ConfigError` for a plugin or arguments that do not work.
        """
        made = RunningCluster(
            self._configured(), (*self._nodes.values(), *self._pods.values()), self._client, self._own
        )
        async with made.at_work() as running:
            yield running

    def points(self, pod: Pod, plugin: str) -> dict[str, int]:
        """A plugin's weighted points by node that fits. Raises `KeyError` if it gave none."""
        record = self.decide(pod).record
        scores = {each.plugin: each.points for each in record.scores} if record is not None else {}
        return dict(zip(record.feasible_names() if record is not None else (), scores[plugin].tolist(), strict=True))

    def explain(self, pod: Pod) -> str:
        """What `kscheduler explain` says about the pod, also where a plugin fails for some nodes."""
        decision = self._decided(pod)
        return "\n".join((decision_text(decision), *decision.notes))

    def _configured(self) -> Configured:
        profile = {
            "schedulerName": OWN_SCHEDULER_NAME,
            "plugins": {"multiPoint": {"enabled": self._enabled, "disabled": self._disabled}},
            "pluginConfig": self._plugin_config,
        }
        tree = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
        return ConfigurationReader(base=self._registry).read_bytes(json.dumps(tree).encode(), "test")


def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, in a loop of its own: also in a test that runs in one."""
    with ThreadPoolExecutor(1, "refresh") as thread:
        thread.submit(asyncio.run, work).result()


def _factories(plugin: str | Path | type[Plugin] | PluginFactory) -> Mapping[str, PluginFactory]:
    if isinstance(plugin, (str, Path)):
        return run_file(str(plugin), content_of(str(plugin))).plugins
    factory = factory_of(plugin)
    name = getattr(factory, "name", None)
    if factory is None or not isinstance(name, str):
        raise TypeError(f"{plugin!r} is no plugin: give a function under @plugin, a class with a `name`, or a file")
    return {name: factory}
