"""What happens in attempts, evictions and claims, as values: each is told once, to the `Observers`.

    popped --> AttemptBegun --> PodJudged, CycleTimed --> PodAssumed --> PodWaits --> PodWaitEnded --> PodLeftQueue
       |                             |                       (Permit, PreBind)              |               |
       | needs no node               | no node                                   failed     |            Bind
       v                             v                                                      v               |
    PodSkipped   PreemptionChosen, PodNominated, AttemptFailed <----------------------------+               v
                                     |                                                      |           PodBound
                                     v                                                      |               |
                   PodNotScheduled --> PodRequeued      (it is gone meanwhile: PodLetGo)    |           PostBind
                                                                                            v               v
                                                                              ReservationReleased   AttemptCompleted

    PreemptionBegun --> for each victim: VictimStopped | VictimEvictionBegun --> VictimEvicted or VictimNotEvicted
                    |                    | VictimSpared
                    '-> PreemptionEnded

An event says what has happened, never what is to be done about it: observers count, log, report and record, and nothing
that they do changes a decision. Those that a recording needs in order to be decided again say when a *step* begins
(`StepBegan`) and what it has brought; a step is what one turn of the event loop changes. Four events are details, told
only while the log shows them, because every pod has them: `PodAdded`, `AttemptBegun`, `PodJudged`, `PodAssumed`.

Seconds are floats: `seconds` of a monotonic clock, `now` of the wall clock.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Protocol

import msgspec

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Status
from kscheduler.scheduling.failure import Failure
from kscheduler.scheduling.record import SchedulingRecord


class SchedulingEvent(msgspec.Struct, frozen=True, gc=False):
    """Something has happened. Immutable, and short-lived: an observer keeps what it needs of it."""


# --- deciding ---------------------------------------------------------------------------------------------------------


class PodAdded(SchedulingEvent, frozen=True, gc=False):
    """The watch shows a pod that wants a node. A detail."""

    pod: Pod


class PodGone(SchedulingEvent, frozen=True, gc=False):
    """The watch shows that a pod was deleted, or has ended."""

    pod: Pod
    is_pending: bool
    """It was ours and had no node."""
    now: float


class AttemptBegun(SchedulingEvent, frozen=True, gc=False):
    """A pod is about to be judged. A detail."""

    queued: QueuedPodInfo


class PodSkipped(SchedulingEvent, frozen=True, gc=False):
    """The pod is not tried, or not any more, and is in no queue now: for example, it is being deleted."""

    queued: QueuedPodInfo
    reason: str
    is_reported: bool = False
    """kube-scheduler records an Event about it: the pod was popped, and is being deleted."""


class PodJudged(SchedulingEvent, frozen=True, gc=False):
    """A cycle has run: which plugin rejected which nodes, and the points. A detail."""

    record: SchedulingRecord


class CostlyCycle(SchedulingEvent, frozen=True, gc=False):
    """Within a step: a decision about a pod that costs much took so long, and the next such one waits for it."""

    seconds: float


class PreemptionChosen(SchedulingEvent, frozen=True, gc=False):
    """Within a step: PostFilter has chosen victims; the preemption begins next."""

    preemption: Preemption


class PodNominated(SchedulingEvent, frozen=True, gc=False):
    """PostFilter has chosen a node for the pod, and the victims there."""

    record: SchedulingRecord


class PodAssumed(SchedulingEvent, frozen=True, gc=False):
    """A node is chosen and reserved, and the pod counts there in the cache. A detail."""

    record: SchedulingRecord


# --- from the decision to the binding ---------------------------------------------------------------------------------


class PodWaits(SchedulingEvent, frozen=True, gc=False):
    """The pod has a node, and waits in Permit or PreBind (`point`) before it is bound."""

    pod: PodInfo
    node_name: str
    point: str
    plugins: Collection[str]
    timeout_seconds: float | None = None


class PodWaitEnded(SchedulingEvent, frozen=True, gc=False):
    """The wait in Permit or PreBind is over. `status`: the label of its code."""

    pod: PodInfo
    node_name: str
    point: str
    status: str
    seconds: float


class PermitGivenAtOnce(SchedulingEvent, frozen=True, gc=False):
    """Permit was waited for only until the group's last member was placed. `status`: the label of its code."""

    status: str


class PermitReleased(SchedulingEvent, frozen=True, gc=False):
    """The pod waits for Permit no longer."""

    uid: str


class PodLeftQueue(SchedulingEvent, frozen=True, gc=False):
    """The pod is about to be bound: the queue keeps no events for it any longer."""

    uid: str


class PodBound(SchedulingEvent, frozen=True, gc=False):
    """The API server has accepted the Binding. PostBind comes next."""

    queued: QueuedPodInfo
    record: SchedulingRecord
    profile: str
    seconds: float
    """Since the attempt began."""
    now: float


class AttemptCompleted(SchedulingEvent, frozen=True, gc=False):
    """The end of the step of `PodBound`: PostBind has run, and the pods that it names are active."""

    queued: QueuedPodInfo


class BindingNotSent(SchedulingEvent, frozen=True, gc=False):
    """The API server could not be reached; the Binding will be sent again."""

    pod: Pod
    node_name: str
    err: str


class BindingInDoubt(SchedulingEvent, frozen=True, gc=False):
    """The response to a Binding does not show whether it was applied, or is a conflict: the pod will be read."""

    pod: Pod
    node_name: str
    err: str


class BindingSettled(SchedulingEvent, frozen=True, gc=False):
    """Reading the pod has shown the outcome of the Binding: `bound` or `lost`."""

    pod: Pod
    node_name: str
    outcome: str
    err: str


# --- failing ----------------------------------------------------------------------------------------------------------


class AttemptFailed(SchedulingEvent, frozen=True, gc=False):
    """An attempt has ended without a node. What becomes of the pod is told next."""

    failure: Failure
    profile: str
    seconds: float
    """Since the attempt began."""


class PodNotScheduled(SchedulingEvent, frozen=True, gc=False):
    """Within a step: the pod has no node, and is requeued next. Also told of pods rejected with their class."""

    queued: QueuedPodInfo
    failure: Failure
    now: float


class QueueView(Protocol):
    """Where pods wait, and for what: `SchedulingQueue`."""

    def find(self, key: str) -> tuple[str, QueuedPodInfo] | None:
        """The sub-queue of a pod, and its record; `None` if it does not wait."""
        ...

    def awaited_events(self, profile: str, plugins: frozenset[str]) -> Sequence[str]:
        """The events that these plugins have registered under a profile."""
        ...


class PodRequeued(SchedulingEvent, frozen=True, gc=False):
    """The pod is back in the queue after a failure, and its condition is on its way."""

    queued: QueuedPodInfo
    failure: Failure
    now: float
    is_news: bool
    """The last attempt did not fail like this."""
    queue: QueueView
    """For observers that say where the pod waits: a look costs more than most failures may."""


class ClassRejected(SchedulingEvent, frozen=True, gc=False):
    """Parked pods share a new verdict; the pod `like` went through the cycle."""

    name: Hashable
    keys: Collection[str]
    failure: Failure
    like: str


class PodLetGo(SchedulingEvent, frozen=True, gc=False):
    """Within a step: an attempt failed, and the pod must not be scheduled any more; that is not an error."""

    queued: QueuedPodInfo
    failure: Failure
    current: Pod | None
    """As the watch shows it now; `None`: it is gone, or another pod has its name."""


class ReservationReleased(SchedulingEvent, frozen=True, gc=False):
    """The end of a step: one after the decision has failed, the node is released, and the pod is requeued."""

    queued: QueuedPodInfo
    status: Status


class UndecidedGivenUp(SchedulingEvent, frozen=True, gc=False):
    """The end of a step: an exception has ended an attempt that had no node yet."""

    queued: QueuedPodInfo
    failure: BaseException


# --- steps, as a recording has them -----------------------------------------------------------------------------------


class Decided(Protocol):
    """An attempt: `attempt.context.Attempt`."""

    @property
    def queued(self) -> QueuedPodInfo: ...

    @property
    def node_name(self) -> str:
        """Empty while something is awaited before the decision."""
        ...


class StepBegan(SchedulingEvent, frozen=True, gc=False):
    """A step begins: a recorder reads the time once for all of it."""


# They are all alike.
STEP_BEGAN: Final = StepBegan()


class PodDecided(SchedulingEvent, frozen=True, gc=False):
    """The end of a step: a pod was popped and decided about; `None`: its attempt is over."""

    queued: QueuedPodInfo
    attempt: Decided | None


class PodDecidedLater(SchedulingEvent, frozen=True, gc=False):
    """The end of a step: a pod that left its worker before the decision (extenders, a long search) is decided about."""

    attempt: Decided
    has_node: bool


class ConfigurationApplied(SchedulingEvent, frozen=True, gc=False):
    """Another compiled configuration is in force."""

    config: Any
    """Its `LoadedConfig`."""
    quarantined: Sequence[tuple[str, str]]
    """By profile the plugins that are quarantined."""


class NodesTouched(SchedulingEvent, frozen=True, gc=False):
    """A plugin has other data about these nodes."""

    node_names: Sequence[str]
    plugin: str


class BackoffFlushed(SchedulingEvent, frozen=True, gc=False):
    """Pods whose backoff is over have moved."""


class UnschedulableFlushed(SchedulingEvent, frozen=True, gc=False):
    """The safety net has run."""


class SchedulingBegan(SchedulingEvent, frozen=True, gc=False):
    """The state is known, and the first decision comes next."""


class StateRepaired(SchedulingEvent, frozen=True, gc=False):
    """Cache or queue were corrected by hand: what follows is not decided from what was recorded."""

    what: str


# --- pod groups -------------------------------------------------------------------------------------------------------


class GroupAwaitsExtenders(SchedulingEvent, frozen=True, gc=False):
    """A pod group was popped, and extenders must be asked about its members."""

    name: str


class GroupExtendersQueried(SchedulingEvent, frozen=True, gc=False):
    """Extenders were asked about all members; `GroupDecided` comes next. By member what they said."""

    name: str
    answers: Mapping[str, Any]
    """`ExtenderResults`, by the member's key."""


class GroupDecided(SchedulingEvent, frozen=True, gc=False):
    """The end of a step: a pod group was popped and decided about; the attempts of members that have a node."""

    name: str
    attempts: Sequence[Decided]


class GroupCycleTimed(SchedulingEvent, frozen=True, gc=False):
    """A pod group was decided about, without the search for room by preemption."""

    profile: str
    kind: str
    """`podgroup` or `compositepodgroup`."""
    seconds: float


class PlacementsTried(SchedulingEvent, frozen=True, gc=False):
    """A pod group was tried in these placements; for each, whether it fits there, and the seconds of the trial."""

    profile: str
    kind: str
    generated: int
    """How many there were to be tried in."""
    tried: Sequence[tuple[bool, float]]


class GroupPreemptionSearched(SchedulingEvent, frozen=True, gc=False):
    """A pod group that fits nowhere has gone through PodGroupPostFilter."""

    profile: str
    kind: str
    result: str
    """The label of the search's status code; empty: no plugin has looked for victims."""
    status: str
    """The label of the status code of the extension point."""
    seconds: float


class GroupAttempted(SchedulingEvent, frozen=True, gc=False):
    """An attempt to place a pod group has ended; binding its members comes after it."""

    name: str
    kind: str
    result: str
    """A `GroupAttemptResult`."""
    profile: str
    seconds: float
    message: str
    placed: int
    pods: int
    attempts: int


# --- preemption -------------------------------------------------------------------------------------------------------


class EvictionStep(IntEnum):
    """What the task of a preemption does to what decisions see."""

    LAST_TURN = 1
    """The last victim's turn has come."""
    AWAITED = 2
    """The API server has accepted the deletion of a victim."""
    STOPPED = 3
    """A victim was stopped in memory."""
    CLOSED = 4
    RETRIED = 5
    """It has failed: the preemptor is woken at once."""
    PAUSED = 6
    """It has failed again: the preemptor is woken after a pause."""
    FORGOTTEN = 7
    RESUMED = 8
    """A pause is over."""
    CLEARED = 9
    """A pod has lost its nomination to a preemptor."""
    WOKEN = 10
    """The pod that has lost it is tried again."""


class EvictionStepTaken(SchedulingEvent, frozen=True, gc=False):
    """A step of its own: the task of a preemption is about to change what decisions see."""

    number: int
    """Of the preemption; 0: none needs to be under way for it."""
    step: EvictionStep
    subject: str = ""
    keys: Collection[str] = ()


class PodAwaitsOthersVictims(SchedulingEvent, frozen=True, gc=False):
    """Within a step: the pod preempts nobody, since others' victims are still to go from its nominated node."""

    pod: PodInfo
    node_name: str


class PreemptionBegun(SchedulingEvent, frozen=True, gc=False):
    """Victims are chosen, `to_go` of whom do not terminate yet; where there are none, nothing is done."""

    preemption: Preemption
    to_go: int
    now: float


class VictimStopped(SchedulingEvent, frozen=True, gc=False):
    """A victim was stopped in memory, before it was bound, and keeps its object."""

    victim: PodInfo
    preemption: Preemption
    now: float


class VictimEvictionBegun(SchedulingEvent, frozen=True, gc=False):
    """A victim is about to be deleted: the watch may show its end before the response to the deletion arrives."""

    victim: PodInfo
    preemption: Preemption
    now: float


class VictimEvicted(SchedulingEvent, frozen=True, gc=False):
    """The API server has accepted the deletion."""

    victim: PodInfo
    preemption: Preemption


class VictimNotEvicted(SchedulingEvent, frozen=True, gc=False):
    """The deletion failed, or the victim was gone already: this preemption does not cause its end."""

    victim: PodInfo


class VictimSpared(SchedulingEvent, frozen=True, gc=False):
    """A victim may stay: its room is not needed any more."""

    victim: PodInfo
    preemption: Preemption
    is_outbid: bool


class PreemptionEnded(SchedulingEvent, frozen=True, gc=False):
    """All requests of a preemption have succeeded, or some have failed."""

    preemption: Preemption
    seconds: float
    succeeded: bool


# --- claims to devices ------------------------------------------------------------------------------------------------


class ClaimCreated(SchedulingEvent, frozen=True, gc=False):
    """A claim for a pod's extended resources was created, or could not be."""

    is_created: bool


class ClaimAssumed(SchedulingEvent, frozen=True, gc=False):
    """A step of its own: the API server has accepted a claim as written, and decisions see it so from now on."""

    claim: Any


class ClaimStaysPending(SchedulingEvent, frozen=True, gc=False):
    """Within a step: the pod is given up while the claim is being written, and what was chosen stays taken."""

    claim_uid: str


class ClaimNoLongerPending(SchedulingEvent, frozen=True, gc=False):
    """A step of its own: a write has ended, and what was chosen for the claim is given up by one pod, or by all of
    them (`force`).
    """

    claim_uid: str
    force: bool


class DevicesAwaited(SchedulingEvent, frozen=True, gc=False):
    """PreBind waits until the pod's devices are ready."""

    pod: Pod
    node_name: str


class DevicesWaitEnded(SchedulingEvent, frozen=True, gc=False):
    """The wait for a pod's devices is over."""

    profile: str
    drivers: Sequence[str]
    """Of each of the pod's devices."""
    drivers_with_conditions: Sequence[str]
    """Of each device that has binding conditions."""
    result: str
    """A `WaitResult`."""
    seconds: float
