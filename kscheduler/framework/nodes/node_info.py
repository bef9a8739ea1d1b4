"""A node as a plain object, with its pods and exact sums.

Columns saturate at int64; a NodeInfo keeps the true sums as Python integers, so that added amounts can be subtracted
again. It is also the object that a user's plain per-node plugin gets.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from kscheduler.api.core import Node, ResourceList, Taint
from kscheduler.api.quantity import milli_value, value
from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU, PODS, is_counted

_NO_NODE = Node()


# Of a node that are counted. Each one takes a column for all nodes: a node of 1.5 MB has fifty thousand of them, which
# would be 400 MB for a thousand nodes, and anyone who has the credentials of its kubelet may write them.
MAX_RESOURCES: Final = 512


def allocatable_amounts(resources: ResourceList) -> dict[str, int]:
    """A node's allocatable amounts by resource, `pods` included; resources that are not counted are left out.

    Of more than `MAX_RESOURCES` those of Kubernetes itself are counted, and of the others the first by name.
    """
    if len(resources) > MAX_RESOURCES:
        names = sorted(resources, key=lambda name: ("/" in name, name))[:MAX_RESOURCES]
        resources = {name: resources[name] for name in names}
    return {
        name: milli_value(quantity) if name == CPU else value(quantity)
        for name, quantity in resources.items()
        if name == PODS or is_counted(name)
    }


# Resources of a node whose amounts are remembered.
_LARGEST_KEPT: Final = 32
# Half a kilobyte each, plus the amounts that an entry holds.
_KEPT_AMOUNTS: Final = 1024
# By identity: informers share equal amounts of nodes. Holding them keeps their ids from being reused.
_amounts: RecentlyUsed[int, tuple[ResourceList, Mapping[str, int]]] = RecentlyUsed(_KEPT_AMOUNTS)


def _amounts_of_like(resources: ResourceList) -> Mapping[str, int]:
    """The amounts of nodes with these resources: nodes are of a few sizes. Raises `QuantityError`."""
    known = _amounts.get(id(resources))
    if known is not None and known[0] is resources:
        return known[1]
    amounts = allocatable_amounts(resources)
    if len(resources) <= _LARGEST_KEPT:
        _amounts[id(resources)] = resources, amounts
    return amounts


class NodeInfo:
    """A node with its pods and the exact sums of their requests.

    A NodeInfo without a node is a ghost: pods have been seen on a node name that does not exist yet, or no longer.
    """

    __slots__ = ("allocatable", "node", "nonzero_cpu", "nonzero_memory", "pods", "requested")

    def __init__(self, node: Node | None = None) -> None:
        self.node = node
        """The object; `None` for a ghost."""
        self.pods: dict[str, PodInfo] = {}
        """By UID."""
        self.requested: dict[str, int] = {}
        """The pods' requests by resource, in units as `allocatable`, without most of those that are 0."""
        self.nonzero_cpu = 0
        self.nonzero_memory = 0
        self.allocatable: Mapping[str, int] = {}
        """What the node offers, by resource: cpu in thousandths, memory and storage in bytes, all else in units."""
        if node is not None:
            self.set_node(node)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name or 'ghost'}, {len(self.pods)} pods)"

    def set_node(self, node: Node) -> None:
        """Take a new version of the node. Raises `QuantityError` if its allocatable cannot be parsed."""
        self.allocatable = _amounts_of_like(node.status.allocatable)
        self.node = node

    @property
    def name(self) -> str:
        """The node's name, empty for a ghost."""
        return (self.node or _NO_NODE).metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels; read-only, because a user's plugin must not write to the cache."""
        return MappingProxyType((self.node or _NO_NODE).metadata.labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations; read-only, too."""
        return MappingProxyType((self.node or _NO_NODE).metadata.annotations)

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return (self.node or _NO_NODE).spec.taints

    def fork(self) -> "NodeInfo":
        """A copy whose pods can change without touching this one."""
        forked = NodeInfo()
        forked.node, forked.allocatable = self.node, self.allocatable
        forked.pods, forked.requested = dict(self.pods), dict(self.requested)
        forked.nonzero_cpu, forked.nonzero_memory = self.nonzero_cpu, self.nonzero_memory
        return forked

    def add_pod(self, pod: PodInfo) -> None:
        """Add a pod and its requests."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove_pod(self, pod: PodInfo) -> None:
        """Remove a pod and its requests; `pod` must be the version that was added."""
        del self.pods[pod.uid]
        self._count(pod, -1)

    def recount(self, pods: Iterable[PodInfo]) -> None:
        """Replace all pods by these, and recompute all sums."""
        self.pods, self.requested = {}, {}
        self.nonzero_cpu = self.nonzero_memory = 0
        for pod in pods:
            self.add_pod(pod)

    def _count(self, pod: PodInfo, sign: int) -> None:
        requested = self.requested
        for name, amount in pod.accounted.items():
            total = requested.get(name, 0) + sign * amount
            if total or sign > 0:
                requested[name] = total
            else:
                requested.pop(name, None)  # tenants choose names: one that nobody asks for any more must not stay
        cpu, memory = pod.nonzero_accounted
        self.nonzero_cpu += sign * cpu
        self.nonzero_memory += sign * memory
