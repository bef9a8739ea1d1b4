"""What a scheduler needs from outside, in one value.

A port is a small protocol, or a function. Each has a default that leads nowhere, so that a test or a what-if names only
what it looks at. `observations` and `log` are ports too: whoever implements another port (the writer of Bindings, say)
counts and logs in the same place as the parts inside.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.api.core import Pod
from kscheduler.assembly.unconnected import NoBinder, NoEvents, NoEviction, NoStatuses, no_pod, nobody_waits
from kscheduler.framework.cluster.listers import NO_WORKLOADS, WorkloadListers
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.cluster.volumes import VolumeWriter
from kscheduler.framework.handle import Writer
from kscheduler.scheduling.eviction.evictions import NominationWriter
from kscheduler.scheduling.eviction.victims import VictimWriter
from kscheduler.scheduling.failures.failures import FailureSink
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.reports import EventSink


class StatusPort(FailureSink, NominationWriter, Protocol):
    """Who writes conditions and nominations into pods' statuses: `status_writer.StatusWriter`."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Who does what outside of the scheduler."""

    # --- what is written ----------------------------------------------------------------------------------------------

    binder: Writer = field(default_factory=NoBinder)
    """Binds a pod to a node, and knows for certain what became of it. By default every Binding is refused."""
    evictor: VictimWriter = field(default_factory=NoEviction)
    """Deletes a victim of preemption. By default each victim is said to be gone already."""
    statuses: StatusPort = field(default_factory=NoStatuses)
    """Takes conditions and nominations, and holds them back behind the binds. By default they are dropped."""
    events: EventSink = field(default_factory=NoEvents)
    """Records Events. By default they are dropped."""
    volume_writer: VolumeWriter | None = None
    """Writes claims and volumes. `None`: a pod whose volumes have to be bound first fails in PreBind."""

    # --- what is read -------------------------------------------------------------------------------------------------

    pod_of: Callable[[str], Pod | None] = no_pod
    """The newest version of a pod by its key (`namespace/name`), as the watch has shown it. By default, none."""
    workloads: WorkloadListers = NO_WORKLOADS
    """Services and controllers, for default spreading. By default there are none."""
    budgets: DisruptionBudgets | None = None
    """PodDisruptionBudgets, for preemption. `None`: there are none."""

    # --- who is told --------------------------------------------------------------------------------------------------

    on_arrival: Callable[[], None] = nobody_waits
    """There may be a pod to try: called on each arrival in the active queue or in back-off. Wakes a worker."""
    observations: Observations = field(default_factory=Observations)
    """Counts what happens, for metrics."""
    log: PodLog = field(default_factory=PodLog)
    """Writes a line about what happens to pods. The assembly tells it which events a parked pod waits for."""
