"""How plugins reach the cluster without knowing who keeps it.

A few small protocols; `state` and `scheduling` implement them and `assembly` joins them. A plugin that is built without
a cluster (in `explain --from`, in tests) gets the same Handle over copied state.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.core import Pod
from kscheduler.framework.cluster.listers import NO_WORKLOADS, WorkloadListers
from kscheduler.framework.cluster.preemption import NO_EVICTIONS, DisruptionBudgets, Evictions
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.cluster.volumes import Volumes, VolumeWriter
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status


class ClusterView(Protocol):
    """The state that a cycle reads: live in the service, copied in what-if."""

    @property
    def nodes(self) -> NodeTable:
        """The nodes, in columns."""
        ...


class Nominator(Protocol):
    """Pods that are expected on a node before they are bound to it."""

    def nominated_node(self, pod: PodInfo) -> str:
        """The node a pod is nominated to, or empty."""
        ...

    def nominated_pods(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node."""
        ...


class WaitingPod(Protocol):
    """A pod that Permit plugins hold back after its node is reserved."""

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        ...

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that have not let it through yet."""
        ...

    def allow(self, plugin: str) -> None:
        """One plugin lets it through; with the last one it goes on to be bound."""
        ...

    def reject(self, plugin: str, message: str) -> bool:
        """It fails, with this message, and waits for an event. Whether that came before any other verdict."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """It fails and is tried again after its back-off. Whether that came before any other verdict."""
        ...


class WaitingPods(Protocol):
    """All pods held back by Permit."""

    def get(self, uid: str) -> WaitingPod | None:
        """One of them."""
        ...

    def reject(self, uid: str) -> bool:
        """Turn one of them down, with the message `removed`. Whether it waited for a verdict."""
        ...

    def all(self) -> tuple[WaitingPod, ...]:
        """Every one, in the order they began to wait."""
        ...


class Writer(Protocol):
    """What plugins may write to the API server."""

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Bind the pod to the node; Success only when the API server has it so."""
        ...


class VolumeObserver(Protocol):
    """Who counts what is done about volumes."""

    def __call__(self, operation: str, seconds: float, *, is_ok: bool) -> None:
        """`predicate`, `assume` or `bind` took so long; `is_ok`: without an error."""
        ...


def _observe_nothing(operation: str, seconds: float, *, is_ok: bool) -> None:
    """Where nobody counts."""


@dataclass(frozen=True, slots=True)
class Handle:
    """Everything outside itself that a plugin may use."""

    view: ClusterView
    writer: Writer
    waiting_pods: WaitingPods
    counters: TopologyCounters | None = None
    nominator: Nominator | None = None
    volumes: Volumes | None = None
    volume_writer: VolumeWriter | None = None
    clock: Clock = REAL_CLOCK
    workloads: WorkloadListers = NO_WORKLOADS
    budgets: DisruptionBudgets | None = None
    evictions: Evictions = NO_EVICTIONS
    features: Collection[str] = frozenset()
    """Feature gates that are on, by name."""
    observe_volumes: VolumeObserver = _observe_nothing


PluginArgs = Mapping[str, object] | object | None
"""Typed arguments for in-tree plugins (a `config` struct), a plain mapping for everybody else's."""
