"""One node as a plain object: what is on it, exactly.

Columns saturate at int64; a NodeInfo keeps the true sums as Python integers, so that what was added can be taken away
again. It is also what a user's plain per-node plugin sees.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kscheduler.api.core import Node, ResourceList, Taint
from kscheduler.api.quantity import milli_value, value
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU, PODS, is_counted

_NO_NODE = Node()


def allocatable_amounts(resources: ResourceList) -> dict[str, int]:
    """What a node gives, by resource, pods included; resources that no scheduler counts are left out."""
    return {
        name: milli_value(quantity) if name == CPU else value(quantity)
        for name, quantity in resources.items()
        if name == PODS or is_counted(name)
    }


class NodeInfo:
    """A node with its pods and the exact sums of what they take.

    A NodeInfo without a node is a ghost: pods have been seen on a name that no node carries (yet, or any more).
    """

    __slots__ = ("allocatable", "node", "nonzero_cpu", "nonzero_memory", "pods", "requested")

    def __init__(self, node: Node | None = None) -> None:
        self.node = node
        self.pods: dict[str, PodInfo] = {}
        """By UID."""
        self.requested: dict[str, int] = {}
        self.nonzero_cpu = 0
        self.nonzero_memory = 0
        self.allocatable: Mapping[str, int] = {}
        if node is not None:
            self.set_node(node)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name or 'ghost'}, {len(self.pods)} pods)"

    def set_node(self, node: Node) -> None:
        """Take a new version of the node. Raises `QuantityError` where its allocatable cannot be read."""
        self.allocatable = allocatable_amounts(node.status.allocatable)
        self.node = node

    @property
    def name(self) -> str:
        """The node's name, empty for a ghost."""
        return (self.node or _NO_NODE).metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels; a view, for a user's plugin must not write to the cache."""
        return MappingProxyType((self.node or _NO_NODE).metadata.labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations; a view, as above."""
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
        """Count a pod in."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove_pod(self, pod: PodInfo) -> None:
        """Count a pod out; `pod` is the version that was counted in."""
        del self.pods[pod.uid]
        self._count(pod, -1)

    def recount(self, pods: Iterable[PodInfo]) -> None:
        """Hold exactly these pods, all sums worked out anew."""
        self.pods, self.requested = {}, {}
        self.nonzero_cpu = self.nonzero_memory = 0
        for pod in pods:
            self.add_pod(pod)

    def _count(self, pod: PodInfo, sign: int) -> None:
        for name, amount in pod.accounted.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        cpu, memory = pod.nonzero_accounted
        self.nonzero_cpu += sign * cpu
        self.nonzero_memory += sign * memory
