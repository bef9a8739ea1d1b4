"""The queue's dependencies: the order of pods, the admission of pods, and which event may help which pod."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kscheduler.framework.cluster.pod_groups import PodGroupView
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Status
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.bundles import Element
from kscheduler.state.queue.gates.awaited_objects import ObjectGateCalls
from kscheduler.state.queue.gates.gated_pods import Gate, HintsAlike, MayLetIn, no_hints_alike
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.queued_group import QueuedPodGroup

ClassOf = Callable[[PodInfo], Hashable | None]
"""Equal for pods that every plugin treats alike; `None` for a unique pod."""


OnIncoming = Callable[[str, str, int, int], None]
"""Called on arrivals: queue, event label, number of pods, and for how many of them it is another queue than the hint
(or the failed attempt) has meant. kube-scheduler counts these only as arrivals of entities."""
OnMoved = Callable[[Element | QueuedPodGroup, str, str, float], None]
OnKeptOut = Callable[[QueuedPodInfo, str, str], None]
"""Called for a pod that PreEnqueue keeps out: the pod, why, and what is the same while nothing new is to be told."""


def no_class(_pod: PodInfo) -> Hashable | None:
    """Treat every pod as unique."""
    return None


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The functions and tables that the queue depends on."""

    sort_key: Callable[[QueuedPodInfo], Any]
    """The QueueSort plugin."""
    pre_enqueue: Callable[[PodInfo, str], Status]
    """The profile's PreEnqueue plugins, the named one first; Success lets the pod in."""
    hints: HintTable
    backoff: BackoffPolicy
    on_incoming: OnIncoming
    class_of: ClassOf = no_class
    standing_gates: Mapping[Gate, MayLetIn] = field(default_factory=dict)
    """The PreEnqueue plugins that know which pods they would reject again."""
    object_gates: Mapping[Gate, ObjectGateCalls] = field(default_factory=dict)
    """The PreEnqueue plugins that know for which object each pod waits."""
    hints_alike: HintsAlike = no_hints_alike
    gated_pods_wait_for_the_flush: bool = False
    """Whether the flush asks about a gated pod once in five minutes; else each time, once it has waited so long."""
    stopped: frozenset[str] = frozenset()
    """Scheduler names whose profiles schedule nothing until another policy is adopted: a plugin is quarantined. The
    safety net leaves their parked pods alone."""
    parked_by: Mapping[str, str] = field(default_factory=dict)
    """By scheduler name, the quarantined plugin that parks its pods, also while it is tried again. Until another policy
    says otherwise, they stay parked when this one is adopted."""
    on_trial: frozenset[str] = frozenset()
    """Of these, the scheduler names whose plugin is tried again: a pod of each namespace is moved for that."""
    on_moved: OnMoved | None = None
    """Called for each element that moves: the element, the queue, the event's label, now. `None` costs nothing."""
    on_kept_out: OnKeptOut | None = None
    """Called each time a pod is put behind its gate; whoever tells it knows what was told before."""
    groups: PodGroupView | None = None
    """Pod groups: members wait and are tried together. `None`: groups are off, and every pod is by itself."""
