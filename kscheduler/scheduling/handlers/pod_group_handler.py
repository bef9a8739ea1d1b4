"""Pod groups, composite ones too, from the informer of one API to the table of groups and the queue."""

from typing import Any

from kscheduler.aio.clock import Clock
from kscheduler.api.groups import COMPOSITE_POD_GROUPS
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.scheduling.observations import Observations
from kscheduler.state.pod_groups.group_apis import GroupAPI
from kscheduler.state.pod_groups.group_table import PodGroupTable
from kscheduler.state.queue.scheduling_queue import SchedulingQueue


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
        resource = Resource.COMPOSITE_POD_GROUP if api.kind is COMPOSITE_POD_GROUPS else Resource.POD_GROUP
        self._added = ClusterEvent(resource, ActionType.ADD)
        self._updated = ClusterEvent(resource, ActionType.UPDATE)
        self._deleted = ClusterEvent(resource, ActionType.DELETE)

    def on_add(self, obj: Any, initial: bool) -> None:
        """A group has appeared: members that have waited for it join it."""
        del initial
        began, now = self._clock.monotonic(), self._clock.time()
        self._table.put(self._api.definition_of(obj))
        self._queue.group_appeared(self._api.key_of(obj), now)
        self._queue.move_all(self._added, None, obj, now)
        self._handled(self._added, began)

    def on_update(self, old: Any, new: Any) -> None:
        """A group has changed: it may ask for fewer members. With another parent it is another group."""
        began, now = self._clock.monotonic(), self._clock.time()
        before, after = self._api.definition_of(old), self._api.definition_of(new)
        if before.parent != after.parent:
            self.on_delete(old)
            self.on_add(new, initial=False)
            return
        self._table.put(after)
        if before.min_count != after.min_count:
            self._queue.group_changed(after.key, now)
            self._queue.move_all(self._updated, old, new, now)
        self._handled(self._updated, began)

    def on_delete(self, obj: Any) -> None:
        """A group is gone: its members without a node, and those of all groups below, wait for another of its name."""
        began, now = self._clock.monotonic(), self._clock.time()
        key = self._api.key_of(obj)
        root = self._table.root_of(key)
        self._table.remove(key)
        if root is not None:
            self._queue.group_gone(root, now)
        self._queue.move_all(self._deleted, obj, None, now)
        self._handled(self._deleted, began)

    def _handled(self, event: ClusterEvent, began: float) -> None:
        self._observations.event_handling(event.label, self._clock.monotonic() - began)
