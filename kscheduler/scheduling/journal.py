"""What a flight recorder hears: each step that changes what later decisions see, in the order of the event loop.

A cycle is a function of profile, pod and state, so a recording needs no more than the order of the steps and what came
from outside. The steps of handlers and workers are synchronous; between them the tasks that talk to the API server
report theirs. A step is told when it begins, because the clock stands still within it (`recorder.step_clock`), and when
it has ended, with what came of it. `NO_JOURNAL` hears nothing and is what everybody has who records nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Protocol

from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Status


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


class AttemptFailure(Protocol):
    """How an attempt failed: `failures.Failure`."""

    @property
    def message(self) -> str:
        """The text of the condition."""
        ...

    @property
    def nominated_node_name(self) -> str | None:
        """The node that preemption has chosen."""
        ...


class Decided(Protocol):
    """An attempt: `attempt.context.Attempt`."""

    @property
    def queued(self) -> QueuedPodInfo: ...

    @property
    def node_name(self) -> str:
        """Empty while something is awaited before the decision."""
        ...


class Journal:
    """Hears nothing; a recorder overrides all of it. Methods are short and never raise: they stand in the hot path."""

    is_on = False

    def begins(self) -> None:
        """A step begins: the time is read once for all of it."""

    def decided(self, queued: QueuedPodInfo, attempt: Decided | None) -> None:
        """A pod was popped and decided about; `None`: its attempt is over."""

    def group_waits(self, name: str) -> None:
        """A pod group was popped, and extenders must be asked about its members."""

    def group_answered(self, name: str, answers: Mapping[str, Any]) -> None:
        """Extenders have answered; `decided_group` comes next. By member what they said (`ExtenderResults`)."""

    def decided_group(self, name: str, attempts: Sequence[Decided]) -> None:
        """A pod group was popped and decided about; the attempts of members that have a node."""

    def decided_later(self, attempt: Decided, *, has_node: bool) -> None:
        """A pod that left its worker before the decision (extenders, a long search) is decided about."""

    def costly_tried(self, seconds: float) -> None:
        """Within a step: a decision about a pod that costs much took so long, and the next such one waits for it."""

    def failed(self, queued: QueuedPodInfo, failure: AttemptFailure) -> None:
        """Within a step: the pod has no node, and this is why."""

    def let_go(self, queued: QueuedPodInfo) -> None:
        """Within a step: the pod needs no node any more."""

    def preempting(self, preemption: Preemption) -> None:
        """Within a step: victims are chosen."""

    def continues_in_background(self, pod: PodInfo, node_name: str) -> None:
        """Within a step: the pod preempts nobody, since others' victims are still to go from its nominated node."""

    def leaves_queue(self, uid: str) -> None:
        """The pod is about to be bound: the queue keeps no events for it any longer."""

    def bound(self, queued: QueuedPodInfo) -> None:
        """The API server has accepted the Binding."""

    def abandoned(self, queued: QueuedPodInfo, status: Status) -> None:
        """A step after the decision has failed."""

    def given_up(self, queued: QueuedPodInfo, failure: BaseException) -> None:
        """An exception has ended an attempt that had no node yet."""

    def released(self, uid: str) -> None:
        """The pod waits for Permit no longer."""

    def flushed_backoff(self) -> None:
        """Pods whose back-off is over have moved."""

    def flushed_unschedulable(self) -> None:
        """The safety net has run."""

    def evicting(self, number: int, step: EvictionStep, subject: str = "", keys: Collection[str] = ()) -> None:
        """The task of a preemption is about to take a step."""

    def began(self) -> None:
        """The state is known, and the first decision comes next."""

    def applied(self, config: Any, quarantined: Sequence[tuple[str, str]]) -> None:
        """Another compiled configuration is in force (`LoadedConfig`); plugins, by profile, that were quarantined."""

    def touched(self, names: Sequence[str], plugin: str) -> None:
        """A plugin has other data about these nodes."""

    def assumed_claim(self, claim: Any) -> None:
        """The API server has accepted a claim as written: decisions see it so from now on."""

    def stays_pending(self, claim_uid: str) -> None:
        """Within a step: the pod is given up while the claim is being written, and what was chosen stays taken."""

    def no_longer_pending(self, claim_uid: str, *, force: bool) -> None:
        """A write has ended: what was chosen for the claim is given up by one pod, or by all of them (`force`)."""

    def repaired(self, what: str) -> None:
        """Cache or queue were corrected by hand: what follows is not decided from what was recorded."""


# For everybody who records nothing.
NO_JOURNAL: Final = Journal()
