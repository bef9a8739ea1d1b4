"""The nodes and the pods on them, as the next decision must see them.

The watch tells of a binding a few milliseconds after it was decided. Until then the pod is *assumed*: it counts on its
node from the moment of the decision, so that the next pod cannot take the same room.

    pod's life here            assume_pod           add_pod (the watch has it)
              (unknown) ---------------> Assumed -------------------------------> Added --+
                  |                         |                                       ^  |  | update_pod
                  |                         | forget_pod                            |  +--+
                  |  add_pod                v                                       |  remove_pod
                  +-----------------------------------------------------------------+-----------> (unknown)

Nothing expires: an assumed pod leaves by `forget_pod` (its binding failed for certain) or by what the watch says.
A pod may arrive before its node, and a node may go before its pods: such pods wait on a ghost NodeInfo, which has no
row. Pods are told apart by UID, never by name: a StatefulSet makes the same name again and again.
"""

from dataclasses import dataclass

from kscheduler.api.core import Node, Pod
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.nominations.nominated_columns import NominatedColumns
from kscheduler.state.nominations.nominator import NominatedPods
from kscheduler.state.storage.volumes import VolumeTable
from kscheduler.state.topology.counters import TopologyCounts


@dataclass(slots=True)
class _PodState:
    """A pod and where it counts."""

    pod: PodInfo
    node_name: str
    assumed: bool
    settled: float | None = None
    """Wall-clock seconds since which its binding is known to have succeeded; the watch has not said so yet."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """How much the cache holds."""

    nodes: int
    pods: int
    assumed_pods: int


class Cache:
    """Nodes, pods and the columns made of them. Implements `framework.handle.ClusterView`."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.counters = TopologyCounts(self.nodes)
        """Which pods are where. It hears of pods from here, of namespaces from whoever watches them."""
        self.volumes = VolumeTable(self.nodes)
        """Storage. It hears of pods and nodes from here, of volumes and claims from whoever watches them."""
        self.nominator = NominatedPods()
        """Pods that are expected on a node; one that counts on a node is expected nowhere."""
        self.nominated = NominatedColumns(self.nodes, self.nominator)
        """The same by row, for those who must leave room for them."""
        self._infos: dict[str, NodeInfo] = {}
        self._pods: dict[str, _PodState] = {}
        self._assumed = 0
        self._changes = 0

    @property
    def generation(self) -> int:
        """Moves whenever anything that a verdict may depend on changes: nodes, pods, counters, storage, nominations."""
        parts = self.nodes.last_generation + self.counters.changes + self.volumes.changes + self.nominator.changes
        return parts + self._changes

    def statistics(self) -> CacheStatistics:
        """Sizes, for metrics."""
        return CacheStatistics(len(self.nodes), len(self._pods), self._assumed)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """A node is there; pods that were seen on it before count at once. Raises `QuantityError`, changing nothing."""
        name = node.metadata.name
        info = self._infos.get(name)
        if info is not None and info.node is not None:
            self._replace_node(info, info.node, node)
            return
        info = info or NodeInfo()
        info.set_node(node)
        self._infos[name] = info
        row = self.nodes.add(info)
        self.volumes.row_changed(name)
        for pod in info.pods.values():
            self.counters.add(row, pod)

    def update_node(self, node: Node) -> None:
        """A node has changed. Raises `QuantityError`, changing nothing."""
        self.add_node(node)

    def remove_node(self, name: str) -> None:
        """A node is gone; what is still on it is kept until the watch says that the pods are gone too."""
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

    def _replace_node(self, info: NodeInfo, previous: Node, node: Node) -> None:
        info.set_node(node)
        self._changes += 1
        if _shows_the_same(previous, node):
            self.nodes.tell(self.nodes.row_of(info.name))
            return
        self.nodes.update(self.nodes.row_of(info.name), previous)

    def rebuild_node(self, name: str) -> None:
        """Work out a node's sums, its row and its counters anew from the pods that count on it: a repair.

        Walks over all pods. Neither the node nor any pod's place is changed.
        """
        info = self._infos.get(name)
        if info is None:
            info = self._infos[name] = NodeInfo()
        info.recount(state.pod for state in self._pods.values() if state.node_name == name)
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
        """Whether the node is there; a ghost is not."""
        return self.nodes.row_of(name) >= 0

    def node_info(self, name: str) -> NodeInfo | None:
        """What is known of a node by name, a ghost included."""
        return self._infos.get(name)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def assume_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on the node it is about to be bound to. Raises `ValueError` when it already counts somewhere."""
        if pod.uid in self._pods:
            raise ValueError(f"pod {pod.key} (uid {pod.uid}) is in the cache already and cannot be assumed")
        self._count_in(_PodState(_readable(pod), node_name, assumed=True))
        self._assumed += 1

    def forget_pod(self, uid: str) -> None:
        """Take an assumed pod back: its binding failed for certain. Nothing happens to a confirmed pod."""
        state = self._pods.get(uid)
        if state is not None and state.assumed:
            self._count_out(state)

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod counts on a node that the watch has not confirmed yet."""
        state = self._pods.get(uid)
        return state is not None and state.assumed

    def finish_binding(self, uid: str, now: float) -> None:
        """The API server has taken the pod's binding; what is missing is the watch's word."""
        state = self._pods.get(uid)
        if state is not None and state.assumed:
            state.settled = now

    def settled_since(self, uid: str) -> float | None:
        """Since when an assumed pod's binding is settled, in wall-clock seconds; `None` where it is not."""
        state = self._pods.get(uid)
        return state.settled if state is not None and state.assumed else None

    def pod_uids(self) -> list[str]:
        """The UIDs of all pods that count somewhere, a copy."""
        return list(self._pods)

    def pod_of(self, uid: str) -> PodInfo | None:
        """The version of a pod that counts."""
        state = self._pods.get(uid)
        return state.pod if state is not None else None

    def node_of(self, uid: str) -> str:
        """The node that a pod counts on, or empty."""
        state = self._pods.get(uid)
        return state.node_name if state is not None else ""

    def add_pod(self, pod: Pod) -> str:
        """The watch shows the pod on a node. Returns the node it was *assumed* on, where that is another one.

        Raises `QuantityError`, changing nothing, where its requests cannot be read.
        """
        new = PodInfo(pod)
        state = self._pods.get(new.uid)
        if state is None:
            self._count_in(_PodState(_readable(new), new.node_name, assumed=False))
            return ""
        takes_the_same = _takes_the_same(state.pod, new)
        elsewhere = state.node_name if state.node_name != new.node_name else ""
        if state.assumed:
            self._assumed -= 1
            state.assumed = False
        if elsewhere or not takes_the_same:
            self._count_out(state)
            self._count_in(_PodState(new, new.node_name, assumed=False))
        else:
            self._swap(state, new)
        return elsewhere

    def update_pod(self, pod: Pod) -> None:
        """A pod on a node has changed."""
        self.add_pod(pod)

    def remove_pod(self, uid: str) -> None:
        """The pod is gone or has ended; it frees what it took. Unknown pods are passed over."""
        state = self._pods.get(uid)
        if state is not None:
            self._count_out(state)

    def _count_in(self, state: _PodState) -> None:
        info = self._infos.get(state.node_name)
        if info is None:
            info = self._infos[state.node_name] = NodeInfo()
        info.add_pod(state.pod)
        self._pods[state.pod.uid] = state
        self._changes += 1
        self.nominator.remove(state.pod.uid)
        self.volumes.add_pod(state.pod, state.node_name)
        if info.node is not None:
            row = self.nodes.row_of(state.node_name)
            self.nodes.add_pod(row, state.pod)
            self.counters.add(row, state.pod)

    def _count_out(self, state: _PodState) -> None:
        info = self._infos[state.node_name]
        info.remove_pod(state.pod)
        del self._pods[state.pod.uid]
        self._changes += 1
        self.volumes.remove_pod(state.pod, state.node_name)
        if state.assumed:
            self._assumed -= 1
        if info.node is not None:
            row = self.nodes.row_of(state.node_name)
            self.nodes.remove_pod(row, state.pod)
            self.counters.remove(row, state.pod)
        elif not info.pods:
            del self._infos[state.node_name]

    def _swap(self, state: _PodState, new: PodInfo) -> None:
        """A new version that takes the same: no column of the table moves."""
        info = self._infos[state.node_name]
        if info.node is not None:
            row = self.nodes.row_of(state.node_name)
            self.counters.replace(row, state.pod, new)
            self.nodes.replace_pod(row)
        state.pod = new
        info.pods[new.uid] = new
        self._changes += 1


def _readable(pod: PodInfo) -> PodInfo:
    """The pod, with its sums worked out: what cannot be read fails here, before anything is counted."""
    _sums(pod)
    return pod


def _takes_the_same(old: PodInfo, new: PodInfo) -> bool:
    """Whether nothing of a node moves with the new version. Raises `QuantityError` where it cannot be read."""
    same_sums = new.take_sums(old) or _sums(old) == _sums(new)
    return same_sums and old.pod.spec.volumes == new.pod.spec.volumes


def _sums(pod: PodInfo) -> tuple[object, ...]:
    return pod.accounted, pod.nonzero_accounted, pod.host_ports


def _shows_the_same(old: Node, new: Node) -> bool:
    """Whether no column would move: a heartbeat changes conditions and the version, nothing else."""
    before, after = old.status, new.status
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and before.allocatable == after.allocatable
        and before.images == after.images
        and before.declared_features == after.declared_features
    )
