"""The state of an attempt, which goes from step to step, and the parts of the scheduler that attempts work on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.framework.cluster.claim_writing import ClaimWriter
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.nodes.search_budget import UnfinishedSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.pre_bind import PreBindPlan
from kscheduler.scheduling.eviction.evictions import NominationWriter
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.failures.failure_handler import FailureHandler
from kscheduler.scheduling.groups.group_status_writer import GroupReports
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.resizes import DeferredResizes
from kscheduler.state.cache import Cache
from kscheduler.state.pods_in_pre_bind import PodInPreBind, PodsInPreBind
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.waiting_pods import PodAtPermit, WaitingPodTable


@dataclass(slots=True)
class Attempt:
    """A pod that has a node, but is not bound yet; or that has none yet, because extenders must be asked first, or a
    search goes on.
    """

    queued: QueuedPodInfo
    profile: Profile
    record: SchedulingRecord
    started: float
    """Monotonic seconds."""
    extenders: Extenders | None = None
    """The extenders of the configuration that the attempt began under, whether the pod concerns them or not."""
    is_consulted: bool = False
    """Extenders have a say in which node is chosen, or in the preemption."""
    rest: UnfinishedSearch | None = None
    """What must be searched before the pod is decided about."""
    objectors: tuple[str, ...] = ()
    """The extenders that have failed or rejected nodes, for the log of a failed attempt."""
    was_given_to_binder: bool = False
    """The extender that binds was asked, and left it to the plugins."""
    held: PodAtPermit | None = None
    plan: PreBindPlan | None = None
    """The plugins whose PreBind has something to do; `None` before PreBindPreFlight."""
    entry: PodInPreBind | None = None
    """Lets preemption cancel PreBind, once it has begun."""
    is_in_pre_bind: bool = False
    """Plugins do now what the pod needs before it is bound, or wait for it."""
    is_pre_bound: bool = False
    is_bound: bool = False
    """The API server has accepted the Binding: from here on nothing may release the node."""

    @classmethod
    def undecided(cls, queued: QueuedPodInfo, profile: Profile, started: float, extenders: Extenders) -> "Attempt":
        """Of a pod that concerns extenders: nothing is decided and nothing assumed before they have answered."""
        record = SchedulingRecord(queued.pod, profile.name)
        return cls(queued, profile, record, started, extenders, is_consulted=True)

    def leave(self, rest: UnfinishedSearch) -> None:
        """Its cycle has left a search: nothing is decided before that is done."""
        self.record = SchedulingRecord(self.queued.pod, self.profile.name)
        self.rest = rest

    @property
    def node_name(self) -> str:
        """The chosen node; empty while extenders are asked or a search goes on."""
        return self.record.node_name


class PreemptionRunner(Protocol):
    """Carries out preemptions that PostFilter has chosen: `evictions.AsyncEvictions`."""

    def begin(self, preemption: Preemption) -> None:
        """Start the preemption and return at once. From now on its victims count as terminating."""
        ...

    def requeued(self, uid: str) -> None:
        """The pod group with this UID is back in the queue, after the attempt that began its preemption."""
        ...

    def released_node(self, pod: PodInfo) -> None:
        """An attempt has ended without a binding: the pod no longer counts on a node."""
        ...


class AttemptContext(msgspec.Struct, frozen=True):
    """What `Scheduler` works on; it gives its own parts what each of them needs."""

    cache: Cache
    queue: SchedulingQueue
    waiting: WaitingPodTable
    failures: FailureHandler
    observers: Observers
    """Those who hear what happens."""
    observations: Observations
    """Where extension points are timed."""
    clock: Clock
    evictions: PreemptionRunner
    announcer: NominationWriter | None
    """`None` if the feature gate NominatedNodeNameForExpectation is off."""
    in_pre_bind: PodsInPreBind | None
    """`None` if the same gate is off: as in kube-scheduler, PreBind cannot be cancelled then."""
    claims: ClaimWriter | None
    """Frees claims of their devices; `None` where nothing is written."""
    pod_of: Callable[[str], Pod | None]
    """The newest version of a pod that the watch has shown, by key."""
    wake_worker: Callable[[], None]
    """Called when a pod that stood in an extender wait queue has a turn."""
    resizes: DeferredResizes
    group_reports: GroupReports
    """Conditions of pod groups."""
