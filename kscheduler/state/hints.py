"""Which events may let a parked pod through.

Each profile's plugins have registered events, some with a hint that looks at the objects. A pod is asked about an event
only through the plugins that turned it down; a plugin it never met cannot help it.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.queued_pod import QueuedPodInfo

Registrations = Mapping[str, Sequence[ClusterEventWithHint]]
"""Plugin name to the events that may change its verdict."""


class QueueingStrategy(Enum):
    """Where an event sends a parked pod."""

    SKIP = "skip"
    AFTER_BACKOFF = "after backoff"
    IMMEDIATELY = "immediately"


class HintTable:
    """The registrations of all profiles, by scheduler name."""

    def __init__(self, registrations: Mapping[str, Registrations]) -> None:
        self._registrations = registrations
        self._interesting: dict[ClusterEvent, bool] = {}

    def interests_anyone(self, event: ClusterEvent) -> bool:
        """Whether any plugin of any profile registered the event."""
        known = self._interesting.get(event)
        if known is None:
            known = self._interesting[event] = self._is_registered(event)
        return known

    def _is_registered(self, event: ClusterEvent) -> bool:
        if event.resource is Resource.WILDCARD:
            return True
        return any(
            one.event.matches(event)
            for plugins in self._registrations.values()
            for registered in plugins.values()
            for one in registered
        )

    def gating_event(self, queued: QueuedPodInfo, event: ClusterEvent) -> bool:
        """Whether the plugin that gates the pod registered the event."""
        registered = self._of(queued).get(queued.gating_plugin, ())
        return any(one.event.matches(event) for one in registered)

    def strategy(
        self, queued: QueuedPodInfo, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None
    ) -> QueueingStrategy:
        """What the event means for the pod: the hints of the plugins that turned it down."""
        rejectors = queued.unschedulable_plugins | queued.pending_plugins
        if not rejectors or event.resource is Resource.WILDCARD:
            return QueueingStrategy.AFTER_BACKOFF
        answer = QueueingStrategy.SKIP
        of = self._of(queued)
        for plugin in rejectors:
            if any(_says_queue(one, event, queued, old, new) for one in of.get(plugin, ())):
                if plugin in queued.pending_plugins:
                    return QueueingStrategy.IMMEDIATELY
                answer = QueueingStrategy.AFTER_BACKOFF
        return answer

    def _of(self, queued: QueuedPodInfo) -> Registrations:
        return self._registrations.get(queued.pod.pod.spec.scheduler_name, {})


def _says_queue(
    registered: ClusterEventWithHint,
    event: ClusterEvent,
    queued: QueuedPodInfo,
    old: KubeObject | None,
    new: KubeObject | None,
) -> bool:
    if not registered.event.matches(event):
        return False
    if registered.hint is None:
        return True
    try:
        return registered.hint(queued.pod, old, new) is QueueingHint.QUEUE
    except Exception:  # noqa: BLE001  a plugin call: a hint that fails must not strand the pod, so it queues (as upstream)
        return True
