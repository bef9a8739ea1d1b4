"""Namespaces, from their informer to the counters and the queue: namespace selectors match the current labels.

kube-scheduler has no event for changed labels of a namespace, so a pod whose affinity selects namespaces by labels
waits for the five-minute flush. Here it is an event like any other.
"""

from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Namespace
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.scheduling.observations import Observations
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.topology.counters import TopologyCounts

_ADDED: Final = ClusterEvent(Resource.NAMESPACE, ActionType.ADD)
_UPDATED: Final = ClusterEvent(Resource.NAMESPACE, ActionType.UPDATE)
_DELETED: Final = ClusterEvent(Resource.NAMESPACE, ActionType.DELETE)


class NamespaceHandler:
    """Implements `informers.Handler`."""

    def __init__(
        self, counters: TopologyCounts, queue: SchedulingQueue, clock: Clock, observations: Observations
    ) -> None:
        self._counters = counters
        self._queue = queue
        self._clock = clock
        self._observations = observations

    def on_add(self, obj: Namespace, initial: bool) -> None:
        """A namespace has appeared."""
        del initial
        self._counters.set_namespace(obj)
        self._move(_ADDED, None, obj)

    def on_update(self, old: Namespace, new: Namespace) -> None:
        """A namespace has changed; only its labels matter."""
        self._counters.set_namespace(new)
        if old.metadata.labels != new.metadata.labels:
            self._move(_UPDATED, old, new)

    def on_delete(self, obj: Namespace) -> None:
        """A namespace is gone."""
        self._counters.remove_namespace(obj.metadata.name)
        self._move(_DELETED, obj, None)

    def _move(self, event: ClusterEvent, old: Namespace | None, new: Namespace | None) -> None:
        started = self._clock.monotonic()
        self._queue.move_all(event, old, new, self._clock.time())
        self._observations.event_handling(event.label, self._clock.monotonic() - started)
