"""What the queue asks of its surroundings: in which order pods go, who may come in, which event may help whom."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Status
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.bundles import Element
from kscheduler.state.queue.gated import Gate, HintsAlike, MayLetIn, no_hints_alike
from kscheduler.state.queue.hints import HintTable

ClassOf = Callable[[PodInfo], Hashable | None]
"""Equal for pods that every plugin judges alike; `None` for a pod that is like no other."""


OnMoved = Callable[[Element, str, str, float], None]


def no_class(_pod: PodInfo) -> Hashable | None:
    """Every pod is judged by itself."""
    return None


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """What the queue asks of its surroundings."""

    sort_key: Callable[[QueuedPodInfo], Any]
    """The QueueSort plugin."""
    pre_enqueue: Callable[[PodInfo, str], Status]
    """The profile's PreEnqueue plugins, the named one first; Success lets the pod in."""
    hints: HintTable
    backoff: BackoffPolicy
    on_incoming: Callable[[str, str, int], None]
    """Told of arrivals: queue, event label, number of pods."""
    class_of: ClassOf = no_class
    standing_gates: Mapping[Gate, MayLetIn] = field(default_factory=dict)
    """The PreEnqueue plugins that know whom they would turn away again."""
    hints_alike: HintsAlike = no_hints_alike
    on_moved: OnMoved | None = None
    """Told of each element that moves: the element, the queue, the event's label, now. Costs nothing where `None`."""
