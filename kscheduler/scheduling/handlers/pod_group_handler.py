"""Pod groups, from the informer of one API to the table of groups and the queue."""

from typing import Any, Final

from kscheduler.aio.clock import Clock
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.scheduling.observations import Observations
from kscheduler.state.pod_groups.group_apis import GroupAPI
from kscheduler.state.pod_groups.group_table import PodGroupTable
from kscheduler.state.queue.scheduling_queue import SchedulingQueue

_ADDED: Final = ClusterEvent(Resource.POD_GROUP, ActionType.ADD)
_UPDATED: Final = ClusterEvent(Resource.POD_GROUP, ActionType.UPDATE)
_DELETED: Final = ClusterEvent(Resource.POD_GROUP, ActionType.DELETE)


class PodGroupHandler:
    """Implements `informers.Handler`."""

    def __init__(
        self, api: GroupAPI, table: PodGroupTable, queue: SchedulingQueue, clock: Clock, observations: Observations
    ) -> None:
        self._api = api
        self._table = table
        self._queue = queue
        self._clock = clock
        self._observations = observations

    def on_add(self, obj: Any, initial: bool) -> None:
        """A group has appeared: members that have waited for it join it."""
        del initial
        began, now = self._clock.monotonic(), self._clock.time()
        self._table.put(self._api.definition_of(obj))
        self._queue.group_appeared(self._api.key_of(obj), now)
        self._queue.move_all(_ADDED, None, obj, now)
        self._handled(_ADDED, began)

    def on_update(self, old: Any, new: Any) -> None:
        """A group has changed: it may ask for fewer members."""
        began, now = self._clock.monotonic(), self._clock.time()
        self._table.put(self._api.definition_of(new))
        if self._api.definition_of(old).min_count != self._api.definition_of(new).min_count:
            self._queue.group_changed(self._api.key_of(new), now)
            self._queue.move_all(_UPDATED, old, new, now)
        self._handled(_UPDATED, began)

    def on_delete(self, obj: Any) -> None:
        """A group is gone: its members without a node wait for another of its name."""
        began = self._clock.monotonic()
        key = self._api.key_of(obj)
        self._table.remove(key)
        self._queue.group_gone(key)
        self._queue.move_all(_DELETED, obj, None, self._clock.time())
        self._handled(_DELETED, began)

    def _handled(self, event: ClusterEvent, began: float) -> None:
        self._observations.event_handling(event.label, self._clock.monotonic() - began)
