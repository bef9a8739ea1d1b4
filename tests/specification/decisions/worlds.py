"""A small cluster that lives: decisions of interleaved classes, and changes of every kind between them.

Everything is told twice: to the scheduler's cache, and to the plain objects of the specification. Each step draws from
a chance of its own, so a history stays (nearly) the same when some of its steps are left out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.assembly import Ports
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers.store import Store
from kscheduler.scheduling.classes.class_engine import BUDGET_BYTES, ClassEngine
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.stored_workloads import StoredWorkloads
from tests.builders import Tree
from tests.specification.decisions.naive_decisions import NaiveCluster
from tests.specification.decisions.objects import APPS, IMAGE_SIZES, NAMESPACES, NODES, Chance, Land
from tests.specification.decisions.profiles import PROFILES, built
from tests.specification.rules import host_ports, ports_conflict
from tests.specification.volumes.state import StorageCluster
from tests.specification.volumes.worlds import CLAIMS, CLASSES, DRIVERS, VOLUMES

LEFT = "2026-11-21T00:00:00Z"
_TINY_BUDGET = 3_000
_THEMES = ("", "spread", "ports", "", "affinity", "images", "", "storage")
_OWNERS: tuple[tuple[str, type[Any]], ...] = (
    ("replicationcontrollers", ReplicationController),
    ("replicasets", ReplicaSet),
    ("statefulsets", StatefulSet),
)


@dataclass(frozen=True)
class Template:
    """What pods are made of."""

    tree: Tree
    indexed: bool
    """Whether each pod has a label of its own."""

    @cached_property
    def pod(self) -> Pod:
        return convert(self.tree, Pod)


class DecisionWorld:
    """Both pictures of one cluster."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        theme = _THEMES[seed // 4 % len(_THEMES)]
        self.land = Land(is_tight=seed % 4 == 1, is_even=seed % 4 == 2, theme=theme)
        draw = self.chance(0)
        self.both = StorageCluster()
        self.cache = self.both.cache
        if seed % 5 == 0:
            nodes = self.cache.nodes
            nodes.row_changes, nodes.node_changes, nodes.amount_changes = ChangeLog(16), ChangeLog(16), ChangeLog(32)
        self.naive = NaiveCluster(storage=self.both.world, image_sizes=IMAGE_SIZES)
        self.stores = theme == "storage"
        """Whether there is storage."""
        self.pending: dict[str, Pod] = {}
        """Pods that fit nowhere, by UID."""
        self._services: Store[Service] = Store()
        self._owners: dict[type[Any], Store[Any]] = {kind: Store() for _, kind in _OWNERS}
        self._budgets: Store[PodDisruptionBudget] = Store()
        self.profiles = self._profiles()
        self.engines = self._engines(draw)
        self.templates: list[Template] = []
        for _ in range(draw.one(2, 4, 6, 8)):
            self.templates.append(self.template(draw))
        self._last = self.templates[0]
        self._begin(draw)

    def chance(self, step: int) -> Chance:
        """All that is drawn in one step."""
        return Chance((self.seed << 16) + step, self.land)

    # --- making -------------------------------------------------------------------------------------------------------

    def _profiles(self) -> Profiles:
        owners = self._owners
        workloads = StoredWorkloads(
            self._services, owners[ReplicationController], owners[ReplicaSet], owners[StatefulSet]
        )
        return built(self.cache, Ports(workloads=workloads, budgets=StoredBudgets(self._budgets)))

    def _engines(self, draw: Chance) -> dict[str, ClassEngine | None]:
        """One for each profile; in one world of eight the cycle does without."""
        if draw.chance(1 / 8):
            return dict.fromkeys(self.profiles)
        budget, reports_all = _TINY_BUDGET if draw.chance(0.2) else BUDGET_BYTES, draw.chance(0.5)
        return {
            name: ClassEngine(profile, self.cache, reports_all=reports_all, budget_bytes=budget)
            for name, profile in self.profiles.items()
        }

    def _begin(self, draw: Chance) -> None:
        for name in NODES[: draw.one(1, 3, 6, 8, 12, 16, 20, 20)]:
            self.both.put(convert(draw.node_tree(name), Node))
        self.set_namespace("default", {})
        if self.stores:
            for name in CLASSES:
                self.both.put(draw.storage_class(name))
            for made in (*map(draw.volume, VOLUMES), *map(draw.claim, CLAIMS), *map(draw.csi_node, NODES[:4])):
                self.both.put(made)
            for name in DRIVERS:
                self.both.put(draw.csi_driver(name))

    def template(self, draw: Chance) -> Template:
        """One of a new kind, or nearly like one that there is."""
        if self.templates and draw.chance(0.6):
            return self._twin(draw, draw.of(self.templates))
        spec = {**draw.pod_spec(), "schedulerName": draw.one("plain", "plain", "packing", "extended")}
        namespace = "default" if spec.get("volumes") else draw.of(NAMESPACES)
        meta = {"namespace": namespace, "labels": draw.pod_labels(), "ownerReferences": draw.owners()}
        return Template({"metadata": meta, "spec": spec}, draw.chance(0.3))

    def _twin(self, draw: Chance, other: Template) -> Template:
        meta, spec = other.tree["metadata"], other.tree["spec"]
        what = draw.one("spec", "spec", "spec", "spec", "labels", "namespace", "owners", "profile")
        if what == "spec":
            spec = draw.twin(spec)
        elif what == "profile":
            spec = {**spec, "schedulerName": draw.of(PROFILES)}
        elif what == "namespace" and not spec.get("volumes"):
            meta = {**meta, "namespace": draw.of(NAMESPACES)}
        else:
            meta = {**meta, **draw.one({"labels": draw.pod_labels()}, {"ownerReferences": draw.owners()})}
        return Template({"metadata": meta, "spec": spec}, other.indexed)

    def next_pod(self, draw: Chance, number: int) -> Pod:
        """A pod that wants a node: a new one, often like the last, or one that has failed before."""
        if self.pending and draw.chance(0.08):
            return self.pending[draw.of(self.pending)]
        if draw.chance(0.03):
            self.templates[draw.of(range(len(self.templates)))] = self.template(draw)
        if draw.chance(0.6):
            self._last = draw.of(self.templates)
        pod, name = self._last.pod, f"pod-{number}"
        labels = {**pod.metadata.labels, **({"index": str(number)} if self._last.indexed else {})}
        spec = _reread(pod.spec) if draw.chance(0.3) else pod.spec
        status = replace(pod.status, nominated_node_name=self.some_node(draw) if draw.chance(0.02) else "")
        metadata = replace(pod.metadata, name=name, uid=name, labels=labels)
        return replace(pod, metadata=metadata, spec=spec, status=status)

    def some_node(self, draw: Chance) -> str:
        """The name of one that is there, or of none."""
        return str(draw.one("none", *sorted(self.naive.nodes), *sorted(self.naive.nodes)))

    # --- telling both -------------------------------------------------------------------------------------------------

    def put_node(self, tree: Tree) -> None:
        self.both.put(convert(tree, Node))

    def node_tree(self, name: str) -> Tree:
        """A node that is there, as JSON."""
        tree: Tree = msgspec.to_builtins(self.naive.nodes[name])
        return tree

    def remove_node(self, name: str) -> None:
        self.both.remove(self.naive.nodes[name])

    def put_storage(self, made: Any) -> None:
        self.both.put(made)

    def remove_storage(self, made: Any) -> None:
        self.both.remove(made)

    def set_namespace(self, name: str, labels: dict[str, str]) -> None:
        self.cache.counters.set_namespace(convert({"metadata": {"name": name, "labels": labels}}, Namespace))
        self.naive.namespaces[name] = labels

    def remove_namespace(self, name: str) -> None:
        self.cache.counters.remove_namespace(name)
        self.naive.namespaces.pop(name, None)

    def put_pod(self, pod: Pod) -> None:
        """The watch shows a pod on a node."""
        self.cache.add_pod(pod)
        self._is_placed(pod)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """The pod goes where it was decided; the watch has not told yet."""
        self.cache.assume_pod(pod, node_name)
        self._is_placed(replace(pod.pod, spec=replace(pod.pod.spec, node_name=node_name)))

    def _is_placed(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.naive.pods[uid] = pod
        self.naive.nominated.pop(uid, None)
        self.pending.pop(uid, None)

    def change_pod(self, uid: str, parts: Tree) -> None:
        """A pod on a node has changed in some fields of its metadata and status."""
        tree: Tree = msgspec.to_builtins(self.naive.pods[uid])
        for part, fields in parts.items():
            tree[part] = {**tree.get(part, {}), **fields}
        self.put_pod(convert(tree, Pod))

    def remove_pod(self, uid: str) -> None:
        self.cache.remove_pod(uid)
        del self.naive.pods[uid]

    def forget(self, uid: str) -> None:
        """The binding failed, unless the watch has told of it."""
        if self.cache.is_assumed(uid):
            del self.naive.pods[uid]
        self.cache.forget_pod(uid)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """As preemption does; an empty name takes it back."""
        self.cache.nominator.nominate(PodInfo(pod), node_name)
        self.naive.nominated.pop(pod.metadata.uid, None)
        if node_name:
            self.naive.nominated[pod.metadata.uid] = pod, node_name

    def put_service(self, name: str, tree: Tree | None) -> None:
        """A service, or none of this name (`namespace/name`)."""
        services = self.naive.workloads.services
        services[:] = [one for one in services if one.key != name]
        if tree is None:
            if name in self._services:
                self._services.remove(name)
        else:
            made = convert(tree, Service)
            self._services.put(name, made)
            services.append(made)

    def put_owner(self, kind: type[Any], name: str, tree: Tree | None) -> None:
        owners = self.naive.workloads.owners
        owners[:] = [one for one in owners if not (isinstance(one, kind) and one.key == name)]
        if tree is None:
            if name in self._owners[kind]:
                self._owners[kind].remove(name)
        else:
            made = convert(tree, kind)
            self._owners[kind].put(name, made)
            owners.append(made)

    def put_budget(self, tree: Tree) -> None:
        made = convert(tree, PodDisruptionBudget)
        self._budgets.put(made.key, made)
        self.naive.budgets[made.key] = made

    def has_room_for_ports(self, pod: Pod, name: str) -> bool:
        """Whether no pod there has one of its host ports: no kubelet would run them both, and dry runs get it wrong."""
        there = [one for one in self.naive.pods.values() if one.spec.node_name == name]
        taken = [port for one in there for port in host_ports(one)]
        return not any(ports_conflict(port, other) for port in host_ports(pod) for other in taken)


def _reread(spec: Any) -> Any:
    """An equal spec of its own, as each pod has it that the watch shows."""
    return convert(msgspec.to_builtins(spec), type(spec))


__all__ = ["APPS", "LEFT", "DecisionWorld"]
