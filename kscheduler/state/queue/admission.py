"""The way into the sub-queues: a pod goes through PreEnqueue into a heap, or is parked.

Events and failed attempts say how soon a pod should be tried (`QueueingStrategy`); where that leads is decided here.
A pod that is to be tried, but that PreEnqueue keeps out, is parked behind its gate. Of an equivalence group PreEnqueue
judges one pod; if that one is kept out, the equivalence group falls apart, and each pod is judged by itself.

Arrivals are counted on the way. `meant` is the queue that an event's hint or a failed attempt asks for, empty where
nobody has asked for one: `QueuePolicy.on_incoming` is told how many pods went elsewhere.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec

from kscheduler.framework.cluster.pod_groups import PodGroupView
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Code, Status
from kscheduler.state.queue.backoff import BackoffPolicy, is_backing_off
from kscheduler.state.queue.equivalence_groups import Element, EquivalenceGroup
from kscheduler.state.queue.gated_pods import Gate, HintsAlike, MayLetIn, ObjectGateCalls, no_hints_alike
from kscheduler.state.queue.hints import HintTable, QueueingStrategy
from kscheduler.state.queue.queued_group import QueuedPodGroup
from kscheduler.state.queue.sub_queues import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, SubQueues

# The queue's dependencies: the order of pods, the admission of pods, and which event may help which pod.

# Equal for pods that every plugin treats alike; `None` for a unique pod.
ClassOf = Callable[[PodInfo], Hashable | None]


# Called on arrivals: queue, event label, number of pods, and for how many of them it is another queue than the hint (or
# the failed attempt) has meant. kube-scheduler counts these only as arrivals of entities.
OnIncoming = Callable[[str, str, int, int], None]
OnMoved = Callable[[Element | QueuedPodGroup, str, str, float], None]
# Called for a pod that PreEnqueue keeps out: the pod, why, and what is the same while nothing new is to be told.
OnKeptOut = Callable[[QueuedPodInfo, str, str], None]


def no_class(_pod: PodInfo) -> Hashable | None:
    """Treat every pod as unique."""
    return None


class QueuePolicy(msgspec.Struct, frozen=True):
    """The functions and tables that the queue depends on."""

    sort_key: Callable[[QueuedPodInfo], Any]
    """The QueueSort plugin."""
    pre_enqueue: Callable[[PodInfo, str], Status]
    """The profile's PreEnqueue plugins, the named one first; Success lets the pod in."""
    hints: HintTable
    backoff: BackoffPolicy
    on_incoming: OnIncoming
    class_of: ClassOf = no_class
    standing_gates: Mapping[Gate, MayLetIn] = {}
    """The PreEnqueue plugins that know which pods they would reject again."""
    object_gates: Mapping[Gate, ObjectGateCalls] = {}
    """The PreEnqueue plugins that know for which object each pod waits."""
    hints_alike: HintsAlike = no_hints_alike
    gated_pods_wait_for_the_flush: bool = False
    """Whether the flush asks about a gated pod once in five minutes; else each time, once it has waited so long."""
    groups_stop_at_the_first_gate: bool = False
    """Whether of a group's members none is asked behind the first that is gated."""
    stopped: frozenset[str] = frozenset()
    """Scheduler names whose profiles schedule nothing until another policy is applied: a plugin is quarantined. The
    safety net leaves their parked pods alone."""
    parked_by: Mapping[str, str] = {}
    """By scheduler name, the quarantined plugin that parks its pods, also while it is tried again. Until another policy
    says otherwise, they stay parked when this one is applied."""
    on_trial: frozenset[str] = frozenset()
    """Of these, the scheduler names whose plugin is tried again: a pod of each namespace is moved for that."""
    on_moved: OnMoved | None = None
    """Called for each element that moves: the element, the queue, the event's label, now. `None` costs nothing."""
    on_kept_out: OnKeptOut | None = None
    """Called each time a pod is put behind its gate; the caller knows what was reported before."""
    groups: PodGroupView | None = None
    """Pod groups: members wait and are tried together. `None`: groups are off, and every pod is by itself."""


def policy_before_profiles() -> QueuePolicy:
    """Of a queue that is built before the profiles, since their plugins reach it: nothing waits, no event helps."""

    def count_nothing(queue: str, event: str, pods: int, unasked: int) -> None:
        """No pod is added before there are profiles."""

    return QueuePolicy(
        lambda queued: queued.key, lambda _pod, _plugin: SUCCESS, HintTable({}), BackoffPolicy(), count_nothing
    )


class QueueAdmission:
    """Puts elements into sub-queues, under one policy."""

    def __init__(self, policy: QueuePolicy, sub_queues: SubQueues) -> None:
        self._policy = policy
        self._sub_queues = sub_queues
        self.has_failed_gates = False
        """Whether PreEnqueue has failed for a pod, instead of answering: `flush_unschedulable` asks again."""

    def place(self, element: Element, strategy: QueueingStrategy, label: str, now: float) -> None:
        """Put an element where it belongs; it must be in no place yet, except that a pod may be parked."""
        if isinstance(element, EquivalenceGroup):
            if not self._policy.pre_enqueue(element.pod, "").is_success:
                for member in self._sub_queues.equivalence_groups.dissolve(element):
                    self.place(member, strategy, label, now)
                return
        elif strategy is QueueingStrategy.SKIP:
            self._park(element, label, meant=UNSCHEDULABLE)
            return
        if strategy is QueueingStrategy.IMMEDIATELY:
            self.admit(ACTIVE, element, label, now, meant=ACTIVE)
        elif is_backing_off(element, now):
            self.admit(BACKOFF, element, label, now, meant=BACKOFF)
        else:
            self.admit(ACTIVE, element, label, now, meant=BACKOFF)

    def admit(self, place: str, element: Element, label: str, now: float, meant: str = "") -> None:
        """Put an element into a heap if PreEnqueue lets it in, else behind its gate. An equivalence group was judged
        before.
        """
        if isinstance(element, EquivalenceGroup) or self.admits(element):
            self.enter(place, element, label, now, meant)
        else:
            self._park(element, label, meant)

    def enter(self, place: str, element: Element, label: str, now: float, meant: str = "") -> None:
        """Put an element that PreEnqueue has let in into a heap; counted as incoming."""
        pods = 1
        if isinstance(element, EquivalenceGroup):
            pods = len(element)
        elif place == ACTIVE:
            element.initial_attempt_timestamp = element.initial_attempt_timestamp or now
        self._sub_queues.put(element, place)
        self._policy.on_incoming(place, label, pods, 0 if place == meant else pods)
        if self._policy.on_moved is not None:
            self._policy.on_moved(element, place, label, now)

    def enter_group(self, element: QueuedPodGroup, place: str, label: str, now: float) -> None:
        """Put a group into a heap. One that is kept out (`GATED`) is in none: its `GroupQueue` has it."""
        if place != GATED:
            self._sub_queues.put(element, place)
        pods = len(element)
        self._policy.on_incoming(UNSCHEDULABLE if place == GATED else place, label, pods, pods)
        if self._policy.on_moved is not None:
            self._policy.on_moved(element, place, label, now)

    def _park(self, queued: QueuedPodInfo, label: str, meant: str) -> None:
        """Park a pod in the pool or behind its gate; counted as incoming unless it was parked before."""
        was_here = self._sub_queues.unpark(queued.key) is not None
        place = GATED if queued.gating_plugin else UNSCHEDULABLE
        self._sub_queues.put(queued, place)
        if not was_here:
            self._policy.on_incoming(UNSCHEDULABLE, label, 1, 0 if meant == UNSCHEDULABLE else 1)
            if self._policy.on_moved is not None:
                self._policy.on_moved(queued, place, label, queued.timestamp)
        if queued.gating_plugin:
            self.report_gated(queued, ", ".join(queued.gate_reasons))

    def recheck_gate(self, queued: QueuedPodInfo) -> None:
        """A gated pod stays where it is, perhaps for another reason than before."""
        status = self._policy.pre_enqueue(queued.pod, queued.gating_plugin)
        if status.plugin == queued.gating_plugin and status.reasons != queued.gate_reasons:
            queued.gate_reasons = status.reasons
            self.report_gated(queued, ", ".join(status.reasons))

    def report_gated(self, queued: QueuedPodInfo, message: str, reason: str = "") -> None:
        """Tell why a pod is gated. `reason`: stands for the message where that changes with each pod that comes."""
        if self._policy.on_kept_out is not None:
            self._policy.on_kept_out(queued, message, reason or f"{queued.gating_plugin}: {message}")

    def admits(self, queued: QueuedPodInfo) -> bool:
        """Whether PreEnqueue lets the pod in; notes on the pod which plugin keeps it out."""
        status = self._policy.pre_enqueue(queued.pod, queued.gating_plugin)
        queued.gate_failed = status.code is Code.ERROR
        if status.is_success:
            queued.gating_plugin = ""
            queued.gate_reasons = ()
            return True
        self.has_failed_gates = self.has_failed_gates or queued.gate_failed
        queued.gating_plugin = status.plugin
        queued.gate_reasons = status.reasons
        if status.plugin not in queued.unschedulable_plugins | queued.pending_plugins:
            self._sub_queues.count((status.plugin,), queued.pod.pod.spec.scheduler_name, 1)
        queued.unschedulable_plugins |= {status.plugin}
        return False
