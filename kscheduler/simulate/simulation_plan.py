"""What is asked: a cluster, pods that do not exist yet, nodes that come, go or change."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

import msgspec

from kscheduler.api.core import Node, Pod, Taint
from kscheduler.api.devices import ResourceSlice
from kscheduler.api.well_known import HOSTNAME, UNSCHEDULABLE
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.registry import Registry
from kscheduler.scenario.absent import NOTHING_ABSENT, Absent
from kscheduler.scenario.device_claims import slices_like
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import nearest_node
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.simulate.requested_nodes import MoreNodes, NodeEdit
from kscheduler.state.cache import Cache

_CORDON = Taint(key=UNSCHEDULABLE, effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class HeldCluster:
    """The state cache of a service, in a copy of its process, and the objects that it holds already."""

    cache: Cache
    objects: ClusterObjects


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """What is asked."""

    objects: ClusterObjects
    config: LoadedConfig
    where: str
    """The source of the objects, for messages."""
    new_pods: tuple[Pod, ...] = ()
    """They come after the pods that wait already, in this order."""
    groups: tuple[GroupDefinition, ...] = ()
    plugins: Registry | None = None
    more_nodes: tuple[MoreNodes, ...] = ()
    given_nodes: frozenset[str] = frozenset()
    """Nodes among the objects that the cluster does not have: manifests brought them."""
    gone_nodes: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    edits: tuple[NodeEdit, ...] = ()
    counts_capacity: bool = False
    """Count how many more pods like the first new one would fit in the end, or gangs like its own."""
    running: HeldCluster | None = None
    """A service's own cache, to be changed; `None`: one is made of the objects."""
    left_out: tuple[str, ...] = ()
    """Objects of the cluster that cannot be read and are not among `objects`: `node web-1`."""
    absent: Absent = NOTHING_ABSENT
    """Of a live cluster; the cache of a service knows it itself."""
    seconds: float = inf
    """How long it may be played, of real time: then it ends where it is."""

    def nodes(self) -> tuple[Node, ...]:
        """The nodes as they would be at the beginning, by name; those to be drained are cordoned.

        Raises `ScenarioError` for a name that no node has.
        """
        found = {node.metadata.name: node for node in self.objects.nodes}
        for edit in self.edits:
            found[edit.node] = edited(_known(found, edit.node, self.where), edit)
        for _, copy in self._copied(found):
            found[copy.metadata.name] = copy
        for name in (*self.cordoned, *self.drained):
            found[name] = cordoned(_known(found, name, self.where))
        for name in self.gone_nodes:
            _known(found, name, self.where)
        return tuple(found[name] for name in sorted(found) if name not in self.gone_nodes)

    def without_effect(self) -> Iterator[str]:
        """A note for each change that changes nothing, or that another one outdoes. Raises as `nodes`."""
        found = {node.metadata.name: node for node in self.objects.nodes}
        for edit in self.edits:
            node = _known(found, edit.node, self.where)
            for key in (key for key, value in (edit.labels or {}).items() if value is None):
                if key not in node.metadata.labels:
                    yield f"node {edit.node} has no label {key}: nothing is removed"
            if edit.taint is not None and edit.removes_taint and edited(node, edit).spec.taints == node.spec.taints:
                taint = f"{edit.taint.key}:{edit.taint.effect}" if edit.taint.effect else edit.taint.key
                yield f"node {edit.node} has no taint {taint}: nothing is removed"
            found[edit.node] = edited(node, edit)
        for name in dict.fromkeys(self.drained):
            if name in self.gone_nodes:
                yield f"node {name} is removed, which takes its pods at once: it is not drained before"

    def _copied(self, nodes: Mapping[str, Node]) -> Iterator[tuple[MoreNodes, Node]]:
        """The nodes to add. Raises `ScenarioError`."""
        known = dict(nodes)
        for more in self.more_nodes:
            for copy in list(_copies(_known(known, more.like, self.where), more, known)):
                known[copy.metadata.name] = copy
                yield more, copy

    def added_slices(self) -> Iterator[ResourceSlice]:
        """The devices in the nodes that are copies. Raises as `nodes`."""
        for more, copy in self._copied({node.metadata.name: node for node in self.objects.nodes}):
            yield from slices_like(self.objects.resourceslices, more.like, copy.metadata.name)

    def added_nodes(self) -> frozenset[str]:
        """The names of the nodes that come, whether of manifests or as copies. Raises as `nodes`."""
        there = {node.metadata.name for node in self.objects.nodes} - self.given_nodes
        return frozenset(node.metadata.name for node in self.nodes() if node.metadata.name not in there)


def cordoned(node: Node) -> Node:
    """The node as `kubectl cordon` leaves it, and the node controller after it."""
    taints = node.spec.taints if _CORDON in node.spec.taints else (*node.spec.taints, _CORDON)
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True, taints=taints))


def edited(node: Node, edit: NodeEdit) -> Node:
    """The node with other labels and taints."""
    labels = dict(node.metadata.labels)
    for key, value in (edit.labels or {}).items():
        if value is None:
            labels.pop(key, None)
        else:
            labels[key] = value
    taints: Iterable[Taint] = node.spec.taints
    if edit.taint is not None:
        taints = [each for each in taints if not _is_same(each, edit.taint, exactly=not edit.removes_taint)]
        taints += () if edit.removes_taint else (edit.taint,)
    metadata = msgspec.structs.replace(node.metadata, labels=labels)
    spec = msgspec.structs.replace(node.spec, taints=tuple(taints))
    return msgspec.structs.replace(node, metadata=metadata, spec=spec)


def _is_same(taint: Taint, other: Taint, *, exactly: bool) -> bool:
    """As `kubectl taint`: key and effect tell taints apart; an empty effect, for removal, is any."""
    return taint.key == other.key and (taint.effect == other.effect or not (exactly or other.effect))


def _known(nodes: Mapping[str, Node], name: str, where: str) -> Node:
    if name not in nodes:
        near = nearest_node(name, nodes)
        raise ScenarioError(f"{where}: there is no node {name}{near or f' among its {len(nodes)} nodes'}")
    return nodes[name]


def _copies(node: Node, more: MoreNodes, known: Mapping[str, Node]) -> Iterable[Node]:
    """New, ready nodes of the same kind, named after it."""
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/"))
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints, provider_id="")
    number = 0
    for _ in range(more.count):
        number += 1
        while f"{node.metadata.name}-new-{number}" in known:
            number += 1
        name = f"{node.metadata.name}-new-{number}"
        labels = {**node.metadata.labels, HOSTNAME: name}
        metadata = msgspec.structs.replace(node.metadata, name=name, uid=f"uid-{name}", labels=labels)
        yield msgspec.structs.replace(node, metadata=metadata, spec=spec)
