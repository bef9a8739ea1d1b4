"""What an attempt carries from step to step, and what it works on."""

from dataclasses import dataclass
from typing import Protocol

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.pre_binding import PreBindPlan
from kscheduler.scheduling.failures.failures import FailureHandler
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.reports import Reporter
from kscheduler.state.cache import Cache
from kscheduler.state.holding.pods_in_pre_bind import PodInPreBind, PodsInPreBind
from kscheduler.state.holding.waiting_pods import HeldPod, WaitingPodTable
from kscheduler.state.queue.scheduling_queue import SchedulingQueue


@dataclass(slots=True)
class Attempt:
    """A pod that has a node and is not bound yet."""

    queued: QueuedPodInfo
    profile: Profile
    record: SchedulingRecord
    started: float
    """Monotonic seconds."""
    held: HeldPod | None = None
    plan: PreBindPlan | None = None
    """Whose PreBind has something to do; `None` until they were asked."""
    entry: PodInPreBind | None = None
    """Where preemption can call it back, once PreBind has begun."""
    is_pre_bound: bool = False
    is_bound: bool = False
    """The API server has it so: from here on nothing may give the node back."""

    @property
    def node_name(self) -> str:
        """The node it is meant for."""
        return self.record.node_name


class Announcer(Protocol):
    """Tells the world where a pod will be: `status_writer.StatusWriter`."""

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Set the nominated node; whether it had to be changed. Raises `ClientError`."""
        ...


class PreemptionRunner(Protocol):
    """Carries out what PostFilter wants done: `evictions.AsyncEvictions`."""

    def begin(self, preemption: Preemption) -> None:
        """Start it; returns at once. From now on its victims count as going."""
        ...

    def gave_node_back(self, pod: PodInfo) -> None:
        """An attempt has ended without a binding: the pod counts on no node any more."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an attempt works on."""

    cache: Cache
    queue: SchedulingQueue
    waiting: WaitingPodTable
    profiles: Profiles
    failures: FailureHandler
    reporter: Reporter
    observations: Observations
    clock: Clock
    evictions: PreemptionRunner
    announcer: Announcer | None
    """`None` where the feature gate NominatedNodeNameForExpectation is off."""
    in_pre_bind: PodsInPreBind | None
    """`None` under the same gate: as in kube-scheduler, PreBind cannot be called back then."""
    infeasible: KnownInfeasible
    """What earlier attempts found out about pods that are judged alike; without classes of pods, nothing."""
    log: PodLog
    keeps_classes: bool
    """Whether what a cycle works out is kept for the next pods that plugins judge alike."""
