"""What a scheduler needs from outside, in one value.

A port is a small protocol or a function. Each has a default without effect, so that a test or a what-if names only
the ports that it uses. `observations` and `log` are ports too: the implementation of another port (such as the writer
of Bindings) counts and logs in the same place as the inner parts.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.events.scheduled import SuccessPolicy
from kscheduler.config.types import Extender
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.lister import NO_WORKLOADS, ListerOf, WorkloadListers, nothing_listed
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.cluster.volumes import VolumeWriter
from kscheduler.framework.handle import Writer
from kscheduler.framework.status import Status, error
from kscheduler.scheduling.claims.claim_storage import ClaimStorage
from kscheduler.scheduling.eviction.evictions import NominationWriter
from kscheduler.scheduling.eviction.victims import VictimWriter
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.failures.failure_handler import FailureSink
from kscheduler.scheduling.foreign_bindings import ForeignBindings
from kscheduler.scheduling.groups.group_status_writer import GroupStatusSink, NoGroupStatuses
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.reports import EventSink

# Ports without effect: nothing is written, nothing is notified, and there is nothing to read.
#
# Only the binder returns an error: a cycle over copied state may choose victims and report failures, and both end here.
# But a Binding that was never sent must not look like a success.


class NoBinder:
    """Refuses every Binding. Implements `framework.handle.Writer`."""

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Status:
        del annotations
        return error(f"binding is disabled: {pod.key} was not bound to {node_name}")


class NoEviction:
    """Finds every victim gone already. Implements `scheduling.eviction.victims.VictimWriter`."""

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        """Nothing to delete."""
        del pod, condition
        return False


class NoEvents:
    """Drops Events. Implements `scheduling.reports.EventSink`."""

    def record(self, regarding: Any, **fields: Any) -> None:
        """Pass."""


class NoStatuses:
    """Drops conditions and nominations. Implements `assembly.ports.StatusPort`."""

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        """Pass."""

    def report_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        """Pass."""

    def withdraw(self, uid: str) -> None:
        """Nothing is kept."""

    async def settled(self, uid: str) -> None:
        """Nothing is under way."""

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Nothing had to be changed."""
        del pod, condition, nominated_node_name
        return False


def no_pod(_key: str) -> Pod | None:
    """There is no pod of this key."""
    return None


def no_waiters() -> None:
    """Wake no worker on an arrival."""


def no_extenders(_extenders: Sequence[Extender]) -> Extenders | None:
    """Extenders are not called."""
    return None


class StatusPort(FailureSink, NominationWriter, Protocol):
    """Writes conditions and nominations into pods' statuses: `status_writer.StatusWriter`."""


class Ports(msgspec.Struct, frozen=True):
    """What the scheduler reads and writes outside of itself."""

    # --- what is written ----------------------------------------------------------------------------------------------

    binder: Writer = msgspec.field(default_factory=NoBinder)
    """Binds a pod to a node and returns the definite outcome. By default every Binding is refused."""
    evictor: VictimWriter = msgspec.field(default_factory=NoEviction)
    """Deletes a victim of preemption. By default each victim counts as gone already."""
    statuses: StatusPort = msgspec.field(default_factory=NoStatuses)
    """Takes conditions and nominations, which are written after the binds. By default they are dropped."""
    group_statuses: GroupStatusSink = msgspec.field(default_factory=NoGroupStatuses)
    """Writes conditions of pod groups. By default they are dropped."""
    events: EventSink = msgspec.field(default_factory=NoEvents)
    """Records Events. By default they are dropped."""
    successes: SuccessPolicy | None = None
    """Which bound pods get an Event (`--scheduled-events`). `None`: each of them."""
    volume_writer: VolumeWriter | None = None
    """Writes claims and volumes. `None`: a pod whose volumes must be bound first fails in PreBind."""
    claim_storage: ClaimStorage | None = None
    """Writes claims to devices. `None`: a pod with such claims fails in PreBind, and no claim is freed."""
    claims_at_once: bool = False
    """`claim_storage` never waits: what is asked of it is done within the call, and no event loop is needed."""

    # --- what is read -------------------------------------------------------------------------------------------------

    pod_of: Callable[[str], Pod | None] = no_pod
    """The newest version of a pod that the watch has shown, by key (`namespace/name`). By default there is none."""
    workloads: WorkloadListers = NO_WORKLOADS
    """Services and controllers, for default spreading. By default there are none."""
    budgets: DisruptionBudgets | None = None
    """PodDisruptionBudgets, for preemption. `None`: there are none."""

    lister: ListerOf = nothing_listed
    """Objects of any kind, for plugins. By default there are none."""
    client: ClusterClient | None = None
    """The API server, for plugins' own requests. `None`: there is none."""
    extenders: Callable[[Sequence[Extender]], Extenders | None] = no_extenders
    """Makes the extenders of a configuration. Where it returns `None`, nobody is called, and pods are decided without
    them; resources that are `ignoredByScheduler` are left to them all the same."""

    # --- what is notified ---------------------------------------------------------------------------------------------

    wake_worker: Callable[[], None] = no_waiters
    """Called when there is work for a worker: a pod has come into the active queue or into backoff, or one that stood
    in an extender wait queue has a turn."""
    observations: Observations = msgspec.field(default_factory=Observations)
    """Counts events for metrics."""
    taken: ForeignBindings = msgspec.field(default_factory=lambda: ForeignBindings(Observations(), REAL_CLOCK))
    """Hears of pods of ours that somebody else has bound. By default it says nothing."""
    journal: object | None = None
    """An observer (`scheduling.observers`) that hears of everything first: the flight recorder. By default none."""
    log: PodLog = msgspec.field(default_factory=PodLog)
    """Logs what happens to pods. What a parked pod waits for it reads from the queue in `PodRequeued`."""
