"""How plugins reach the cluster without importing the modules that keep its state.

Small protocols that `state` and `scheduling` implement and `assembly` joins. A plugin that is built without a cluster
(in `explain --from`, in tests) gets the same Handle over copied state.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.core import Pod
from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.cluster.claim_writing import ClaimWriter
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.cluster.lister import NO_WORKLOADS, ListerOf, WorkloadListers, nothing_listed
from kscheduler.framework.cluster.pod_groups import NO_POD_GROUPS, PodGroupView
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
        """Record that a plugin lets the pod through; after the last plugin the pod goes on to binding."""
        ...

    def reject(self, plugin: str, message: str) -> bool:
        """Fail the pod with this message; it then waits for an event. False if the pod already has a verdict."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """Fail the pod; it is tried again after its backoff. False if the pod already has a verdict."""
        ...


class WaitingPods(Protocol):
    """All pods held back by Permit."""

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this UID, if there is one."""
        ...

    def reject(self, uid: str) -> bool:
        """Reject a pod with the message `removed`. Returns whether it was waiting for a verdict."""
        ...

    def all(self) -> tuple[WaitingPod, ...]:
        """All waiting pods, in the order in which they began to wait."""
        ...


class Writer(Protocol):
    """What plugins may write to the API server."""

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Status:
        """Bind the pod to the node; Success only when the API server has stored the binding.

        `annotations`: what the pod gets with it (`BindingAnnotations`).
        """
        ...


class VolumeObserver(Protocol):
    """Counts the volume operations of VolumeBinding."""

    def __call__(self, operation: str, seconds: float, *, is_ok: bool) -> None:
        """Record that `operation` (`predicate`, `assume` or `bind`) took this long; `is_ok`: without an error."""
        ...


def _observe_nothing(operation: str, seconds: float, *, is_ok: bool) -> None:
    """Count nothing: the default."""


class NodesChanged(Protocol):
    """Takes note of what a plugin knows."""

    def __call__(self, names: Iterable[str], *, plugin: str = "") -> None:
        """These nodes have changed for this plugin; a plugin's own Handle names it."""
        ...


def _change_nothing(names: Iterable[str], *, plugin: str = "") -> None:
    """Where nothing is kept between decisions: the default."""


class Handle(msgspec.Struct, frozen=True):
    """Everything outside of a plugin that it may use."""

    view: ClusterView
    """The nodes as cycles see them."""
    writer: Writer
    """For plugins that bind."""
    waiting_pods: WaitingPods
    """The pods that Permit plugins hold back."""
    counters: TopologyCounters | None = None
    nominator: Nominator | None = None
    """Which pods are expected on which nodes; `None` where a test leaves it out."""
    volumes: Volumes | None = None
    volume_writer: VolumeWriter | None = None
    devices: Devices | None = None
    claim_writer: ClaimWriter | None = None
    clock: Clock = REAL_CLOCK
    """Ask it instead of `time`: tests and simulations run in virtual time."""
    workloads: WorkloadListers = NO_WORKLOADS
    budgets: DisruptionBudgets | None = None
    evictions: Evictions = NO_EVICTIONS
    features: Collection[str] = frozenset()
    """Feature gates that are on, by name."""
    behaviours: Behaviours = BEHAVIOURS[VERSION]
    """What kube-scheduler of the followed version does otherwise than that of another one."""
    observe_volumes: VolumeObserver = _observe_nothing
    lister: ListerOf = nothing_listed
    """`lister(kind)`: the objects of a kind (`api.kinds`), as the watch last showed them.

    A kind that the scheduler does not watch gets an informer; its changes are events under `Kind.event_resource`."""
    client: ClusterClient | None = None
    """The API server; `None` where there is none: in tests, and for decisions about a file."""
    nodes_changed: NodesChanged = _change_nothing
    """`nodes_changed(names)`: what the plugin knows of these nodes beside their objects has changed.

    Results that were kept for these rows (`Source.ROW`) are worked out again, for no other rows; and pods wake that the
    plugin has rejected, if it registered `Resource.PLUGIN_DATA` or registers no events. Unknown names are ignored.
    On the event loop only, and not from within a method of a cycle."""
    pod_groups: PodGroupView = NO_POD_GROUPS
    """Pod groups and their members; where groups are off, no pod is in any."""


# Typed arguments for in-tree plugins (a `config` struct), a plain mapping for all others.
PluginArgs = Mapping[str, object] | object | None
