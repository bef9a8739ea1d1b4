"""The nodes and the pods on them, as the next decision must see them.

The watch reports a binding a few milliseconds after the decision. Until then the pod is *assumed*: it counts on its
node from the moment of the decision, so that the next pod cannot take the same room.

    pod's life here            assume_pod           add_pod (the watch has it)
              (unknown) ---------------> Assumed -------------------------------> Added --+
                  |                         |                                       ^  |  | update_pod
                  |                         | forget_pod                            |  +--+
                  |  add_pod                v                                       |  remove_pod
                  +-----------------------------------------------------------------+-----------> (unknown)

Assumptions do not expire: an assumed pod leaves by `forget_pod` (its binding definitely failed) or by a watch event.
A pod may arrive before its node, and a node may go before its pods: such pods wait on a ghost NodeInfo, which has no
row. Pods are identified by UID, never by name: a StatefulSet creates the same name again and again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import Kind
from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours
from kscheduler.framework.cluster.pod_groups import Absence
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo, WholeResizePodInfo
from kscheduler.framework.pods.requests import pending_resize
from kscheduler.state.devices.device_table import DeviceTable
from kscheduler.state.group_apis import GroupAPI
from kscheduler.state.nominator import NominatedColumns, NominatedPods
from kscheduler.state.pod_groups import PodGroupTable, nothing_known
from kscheduler.state.storage.volumes import VolumeTable
from kscheduler.state.topology.counters import TopologyCounts
from kscheduler.state.topology_levels import TopologyLevels, none_awaited

# What takes a change of the cache back that was made for a trial. To be called before anybody awaits.
Undo = Callable[[], None]


@dataclass(slots=True)
class _Assumption:
    """Where an assumed pod counts, which its object does not say."""

    node_name: str
    settled: float | None = None
    """Wall-clock time at which its binding was known to have succeeded; the watch has not confirmed it yet."""


class CacheStatistics(msgspec.Struct, frozen=True):
    """The size of the cache."""

    nodes: int
    pods: int
    assumed_pods: int


class Cache:
    """Nodes, pods and the columns made of them. Implements `framework.handle.ClusterView`."""

    def __init__(
        self,
        behaviours: Behaviours = BEHAVIOURS[VERSION],
        group_apis: Sequence[GroupAPI] = (),
        why_group_missing: Absence = nothing_known,
        tie_name: Callable[[str], str] = str,
        why_awaited: Callable[[Kind], str] = none_awaited,
    ) -> None:
        """`why_group_missing`: as `why_missing` of `PodGroupTable`. `tie_name`: the name that breaks ties.
        `why_awaited`: why the objects of a kind that names levels of the topology are not known; empty: they are.
        """
        self._pod_info = _pod_info_of(behaviours)
        self.nodes = NodeTable(tie_name)
        self.counters = TopologyCounts(self.nodes)
        """Counts of pods per row. The cache updates the pods, the handler of namespaces their labels."""
        self.volumes = VolumeTable(self.nodes)
        """Storage. The cache updates pods and nodes, the handlers of storage objects everything else."""
        self.devices = DeviceTable()
        """Devices and claims to them, updated by their handlers."""
        self.devices.follow_version(behaviours)
        self.nominator = NominatedPods()
        """Pods that are expected on a node; a pod that counts on a node is not nominated."""
        self.nominator.nominates_gated_pods = behaviours.nominates_gated_pods
        self.nominated = NominatedColumns(self.nodes, self.nominator)
        """The nominated pods by row, for cycles that must leave room for them."""
        self.pod_groups = PodGroupTable(group_apis, why_group_missing)
        """Pod groups. The cache moves members between states, the handlers of pods and groups do the rest."""
        self.topology_levels = TopologyLevels(why_awaited)
        """What is wide and what is narrow: from the configuration, and from objects by their handlers."""
        self._infos: dict[str, NodeInfo] = {}
        self._pods: dict[str, PodInfo] = {}
        """All that count on a node, by UID."""
        self._assumed: dict[str, _Assumption] = {}
        """By UID. All other pods count on the node that their object names."""
        self._changes = 0

    @property
    def generation(self) -> int:
        """Changes with all that a verdict may depend on: nodes, pods, counters, storage, devices, nominations."""
        parts = self.nodes.last_generation + self.counters.changes + self.volumes.changes + self.nominator.changes
        return parts + self.devices.changes + self._changes

    def statistics(self) -> CacheStatistics:
        """Sizes, for metrics."""
        return CacheStatistics(len(self.nodes), len(self._pods), len(self._assumed))

    # --- nodes --------------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node; pods seen on it before count at once. Of a node that is there already, it is the new version.

        Raises `QuantityError` without any change.
        """
        name = node.metadata.name
        if self.has_node(name):
            self.update_node(node)
            return
        info = self._infos.get(name) or NodeInfo()
        info.set_node(node)
        self._infos[name] = info
        row = self.nodes.add(info)
        self.volumes.row_changed(name)
        for pod in info.pods.values():
            self.counters.add(row, pod)

    def update_node(self, node: Node) -> None:
        """Take the new version of a node that is there. Raises `QuantityError` without any change, else `KeyError`."""
        name = node.metadata.name
        info = self._infos[name]
        previous = info.node
        if previous is None:
            raise KeyError(name)
        if previous.status.allocatable == node.status.allocatable:  # as in a heartbeat: nothing to parse
            info.node = node
        else:
            info.set_node(node)
        self._changes += 1
        row = self.nodes.row_of(name)
        if _shows_the_same(previous, node):
            self.nodes.log_change(row)
        else:
            self.nodes.update(row, previous)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods are kept on a ghost until the watch reports that they are gone, too."""
        info = self._infos.get(name)
        if info is None or info.node is None:
            return
        row = self.nodes.row_of(name)
        for pod in info.pods.values():
            self.counters.remove(row, pod)
        self.nodes.remove(row)
        info.node = None
        info.allocatable = {}
        if not info.pods:
            del self._infos[name]

    def touch(self, names: Iterable[str], *, may_fit: bool = True) -> None:
        """Count these nodes as changed: what plugins have answered about them is out of date. Unknown names
        are ignored.

        For what a plugin knows about a node and the node object does not say. `may_fit`: whether a verdict may be
        another one now; otherwise it is only the points.
        """
        for name in names:
            row = self.nodes.row_of(name)
            if row >= 0:
                self.nodes.log_change(row)
        self._changes += may_fit

    def rebuild_node(self, name: str) -> None:
        """Repair a node: recompute its sums, its row and its counters from the pods that count on it.

        Walks over all pods. Changes neither the node object nor the node of any pod.
        """
        info = self._infos.get(name)
        if info is None:
            info = self._infos[name] = NodeInfo()
        info.recount(pod for uid, pod in self._pods.items() if self.node_of(uid) == name)
        if info.node is not None:
            row = self.nodes.row_of(name)
            self.nodes.rebuild(row)
            self.counters.rebuild(row, info.pods.values())
        elif not info.pods:
            del self._infos[name]

    def node_names(self) -> list[str]:
        """The names of all nodes and ghosts, a copy."""
        return list(self._infos)

    def has_node(self, name: str) -> bool:
        """Whether the node exists; false for a ghost."""
        return self.nodes.row_of(name) >= 0

    def node_info(self, name: str) -> NodeInfo | None:
        """The NodeInfo with this name, also of a ghost."""
        return self._infos.get(name)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def assume_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on the node it will be bound to. Raises `ValueError` if it already counts on a node."""
        if pod.uid in self._pods:
            raise ValueError(f"pod {pod.key} (uid {pod.uid}) is in the cache already and cannot be assumed")
        self._count_in(_readable(pod), node_name)
        self._assumed[pod.uid] = _Assumption(node_name)

    def annotate(self, uid: str, annotations: Mapping[str, str]) -> None:
        """An assumed pod has these annotations, too: it gets them with its Binding."""
        assumption = self._assumed.get(uid)
        if assumption is None:
            return
        old = self._pods[uid]
        metadata = old.pod.metadata
        metadata = msgspec.structs.replace(metadata, annotations={**metadata.annotations, **annotations})
        annotated = self._pod_info(msgspec.structs.replace(old.pod, metadata=metadata))
        annotated.take(old)
        self._swap(old, annotated, assumption.node_name)

    def forget_pod(self, uid: str) -> None:
        """Remove an assumed pod whose binding has definitely failed. Does nothing for a confirmed pod."""
        if uid in self._assumed:
            pod = self._pods[uid]
            self._count_out(pod)
            if self.pod_groups.apis:
                self.pod_groups.displaced(pod, is_still_there=True)

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod counts on a node that the watch has not confirmed yet."""
        return uid in self._assumed

    def finish_binding(self, uid: str, now: float) -> None:
        """Record that the API server has accepted the pod's binding; the watch still has to confirm it."""
        assumption = self._assumed.get(uid)
        if assumption is not None:
            assumption.settled = now

    def assumed(self) -> list[tuple[str, float | None]]:
        """The UIDs of all assumed pods, and when the API server has accepted the binding of each, if it has."""
        return [(uid, assumption.settled) for uid, assumption in self._assumed.items()]

    def settled_since(self, uid: str) -> float | None:
        """When the API server accepted an assumed pod's binding, in wall-clock seconds; `None` if it has not yet."""
        assumption = self._assumed.get(uid)
        return None if assumption is None else assumption.settled

    def pod_uids(self) -> list[str]:
        """The UIDs of all pods that count on a node, a copy."""
        return list(self._pods)

    def pod_of(self, uid: str) -> PodInfo | None:
        """The version of a pod that counts."""
        return self._pods.get(uid)

    def pods_on(self, node_name: str) -> list[PodInfo]:
        """The pods that count on a node or a ghost, a copy."""
        info = self._infos.get(node_name)
        return list(info.pods.values()) if info is not None else []

    def node_of(self, uid: str) -> str:
        """The node that a pod counts on, or empty."""
        assumption = self._assumed.get(uid)
        if assumption is not None:
            return assumption.node_name
        pod = self._pods.get(uid)
        return "" if pod is None else pod.pod.spec.node_name

    def add_pod(self, pod: Pod) -> str:
        """Confirm the pod on the node that the watch shows. Returns the node on which it was *assumed*, if it differs.

        Raises `QuantityError`, without any change, if its requests cannot be parsed.
        """
        new = self._pod_info(pod)
        uid, node_name = new.uid, pod.spec.node_name
        old = self._pods.get(uid)
        if old is None:
            self._count_in(_readable(new), node_name)
            return ""
        takes_the_same = _takes_the_same(old, new)
        assumption = self._assumed.get(uid)
        before = old.pod.spec.node_name if assumption is None else assumption.node_name
        if before != node_name or not takes_the_same:
            self._count_out(old)
            self._count_in(new, node_name)
        else:
            if assumption is not None:
                del self._assumed[uid]
            self._swap(old, new, node_name)
        return before if before != node_name else ""

    def confirm(self, pod: Pod) -> bool:
        """Confirm an assumed pod of which its Binding is all that has changed, as mostly. Nothing happens to any other.

        Each pod comes by here once. The informer has shared what both versions have in common (`PodTransform.renew`),
        so parts that are the same are one and the same: whatever is not, `add_pod` compares by value.
        """
        assumption = self._assumed.get(pod.metadata.uid)
        if assumption is None or assumption.node_name != pod.spec.node_name:
            return False
        old = self._pods[pod.metadata.uid]
        spec, others, metadata = pod.spec, old.pod.spec, pod.metadata
        before, after = old.pod.status, pod.status
        if not (
            spec.containers is others.containers
            and spec.init_containers is others.init_containers
            and spec.volumes is others.volumes
            and spec.overhead is others.overhead
            and spec.resources is others.resources
            and spec.affinity is others.affinity
            and metadata.labels is old.pod.metadata.labels
            and metadata.deletion_timestamp is old.pod.metadata.deletion_timestamp
            and not (before.container_statuses or after.container_statuses)
            and not (before.init_container_statuses or after.init_container_statuses)
            and before.resources is after.resources is None
            and not pending_resize(pod)
        ):
            return False
        new = self._pod_info(pod)  # without a report of a kubelet sums are the same by any version's rule
        new.take_counted(old)
        info = self._infos[assumption.node_name]
        if info.node is not None:
            self.nodes.replace_pod(self.nodes.row_of(assumption.node_name))
        del self._assumed[new.uid]
        self._pods[new.uid] = info.pods[new.uid] = new
        self._changes += 1
        return True

    def follow(self, behaviours: Behaviours) -> None:
        """Count resizes and devices, and nominate new gated pods, as this version does from now on."""
        self.devices.follow_version(behaviours)
        self.nominator.nominates_gated_pods = behaviours.nominates_gated_pods
        pod_info = _pod_info_of(behaviours)
        if pod_info is self._pod_info:
            return
        self._pod_info = pod_info
        for pod in [pod for uid, pod in self._pods.items() if uid not in self._assumed]:
            self.add_pod(pod.pod)

    def update_pod(self, pod: Pod) -> None:
        """Update a pod on a node."""
        self.add_pod(pod)

    def remove_pod(self, uid: str) -> tuple[PodInfo, str] | None:
        """Remove a pod that is gone or has ended, and free its room.

        Returns the version that has counted and its node; `None`: the pod is unknown.
        """
        pod = self._pods.get(uid)
        if pod is None:
            return None
        node_name = self.node_of(uid)
        self._count_out(pod)
        if self.pod_groups.apis:
            self.pod_groups.displaced(pod, is_still_there=False)
        return pod, node_name

    # --- trials -------------------------------------------------------------------------------------------------------

    def lift_pod(self, uid: str) -> Undo:
        """Take a pod off its node for a trial that ends before anybody awaits. Returns what puts it back, once.

        Its group still counts it. Raises `KeyError` if the pod counts nowhere.
        """
        pod, assumption = self._pods[uid], self._assumed.get(uid)
        node_name = self.node_of(uid)
        self._count_out(pod)

        def put_back() -> None:
            self._count_in(pod, node_name)
            if assumption is not None:
                self._assumed[uid] = assumption

        return put_back

    def lift_pod_in_order(self, uid: str) -> Undo:
        """As `lift_pod`; what puts it back restores the order of the node's pods, which breaks ties."""
        node_name = self.node_of(uid)
        info = self._infos.get(node_name)
        order = list(info.pods) if info is not None else []
        put_back = self.lift_pod(uid)

        def put_in_order() -> None:
            put_back()
            self.restore_order(node_name, order)

        return put_in_order

    def restore_order(self, node_name: str, uids: Sequence[str]) -> None:
        """The pods of a node in this order again, after a trial: it decides between victims that are equal."""
        info = self._infos.get(node_name)
        if info is not None:
            pods = dict(info.pods)
            info.pods.clear()
            info.pods.update((uid, pods.pop(uid)) for uid in uids if uid in pods)
            info.pods.update(pods)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count_in(self, pod: PodInfo, node_name: str) -> None:
        info = self._infos.get(node_name)
        if info is None:
            info = self._infos[node_name] = NodeInfo()
        info.add_pod(pod)
        self._pods[pod.uid] = pod
        self._changes += 1
        if pod.uid in self.nominator.node_of:
            self.nominator.remove(pod.uid)
        if pod.pod.spec.volumes:
            self.volumes.add_pod(pod, node_name)
        if self.pod_groups.apis:
            self.pod_groups.placed(pod, node_name)
        if info.node is not None:
            row = self.nodes.row_of(node_name)
            self.nodes.add_pod(row, pod)
            self.counters.add(row, pod)

    def _count_out(self, pod: PodInfo) -> None:
        assumption = self._assumed.pop(pod.uid, None)
        node_name = pod.pod.spec.node_name if assumption is None else assumption.node_name
        info = self._infos[node_name]
        info.remove_pod(pod)
        del self._pods[pod.uid]
        self._changes += 1
        if pod.pod.spec.volumes:
            self.volumes.remove_pod(pod, node_name)
        if info.node is not None:
            row = self.nodes.row_of(node_name)
            self.nodes.remove_pod(row, pod)
            self.counters.remove(row, pod)
        elif not info.pods:
            del self._infos[node_name]

    def _swap(self, old: PodInfo, new: PodInfo, node_name: str) -> None:
        """Take a new version with unchanged requests: no column of the table changes."""
        info = self._infos[node_name]
        if info.node is not None:
            row = self.nodes.row_of(node_name)
            self.counters.replace(row, old, new)
            self.nodes.replace_pod(row)
        self._pods[new.uid] = info.pods[new.uid] = new
        self._changes += 1


def _pod_info_of(behaviours: Behaviours) -> type[PodInfo]:
    return WholeResizePodInfo if behaviours.sums_whole_resizes else PodInfo


def _readable(pod: PodInfo) -> PodInfo:
    """The pod with its sums computed: unparsable requests fail here, before anything is counted."""
    pod.count_sums()
    _sums(pod)
    return pod


def _takes_the_same(old: PodInfo, new: PodInfo) -> bool:
    """Whether the new version leaves the node's sums unchanged. Raises `QuantityError` if it cannot be parsed."""
    if old.resizing is new.resizing and new.take_sums(old):
        return old.pod.spec.volumes == new.pod.spec.volumes
    new.count_sums()
    return _sums(old) == _sums(new) and old.pod.spec.volumes == new.pod.spec.volumes


def _sums(pod: PodInfo) -> tuple[object, ...]:
    return pod.accounted, pod.nonzero_accounted, pod.host_ports


def _shows_the_same(old: Node, new: Node) -> bool:
    """Whether no column would change: a heartbeat changes only conditions and the version."""
    before, after = old.status, new.status
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and before.allocatable == after.allocatable
        and before.images == after.images
        and before.declared_features == after.declared_features
    )
