"""Storage objects of all kinds, from their informers to the volume table and the queue.

The table is updated first, so that a pod that the event wakes is judged with the new state.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api import kinds
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.scheduling.observations import Observations
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.storage.volumes import VolumeTable

STORAGE_RESOURCES: Final[Mapping[Kind, Resource]] = MappingProxyType(
    {
        kinds.PERSISTENT_VOLUMES: Resource.PERSISTENT_VOLUME,
        kinds.PERSISTENT_VOLUME_CLAIMS: Resource.PERSISTENT_VOLUME_CLAIM,
        kinds.STORAGE_CLASSES: Resource.STORAGE_CLASS,
        kinds.CSI_NODES: Resource.CSI_NODE,
        kinds.CSI_DRIVERS: Resource.CSI_DRIVER,
        kinds.CSI_STORAGE_CAPACITIES: Resource.CSI_STORAGE_CAPACITY,
        kinds.VOLUME_ATTACHMENTS: Resource.VOLUME_ATTACHMENT,
    }
)
"""By kind, the resource under which plugins register its events."""


def storage_handlers(
    volumes: VolumeTable, queue: SchedulingQueue, clock: Clock, observations: Observations
) -> Mapping[Kind, "StorageHandler"]:
    """The handlers by kind."""
    seen = volumes, queue, clock, observations
    return {kind: StorageHandler(resource, *seen) for kind, resource in STORAGE_RESOURCES.items()}


class StorageHandler:
    """Objects of one kind. Implements `informers.Handler`."""

    def __init__(
        self,
        resource: Resource,
        volumes: VolumeTable,
        queue: SchedulingQueue,
        clock: Clock,
        observations: Observations,
    ) -> None:
        self._added = ClusterEvent(resource, ActionType.ADD)
        self._updated = ClusterEvent(resource, ActionType.UPDATE)
        self._deleted = ClusterEvent(resource, ActionType.DELETE)
        self._volumes = volumes
        self._queue = queue
        self._clock = clock
        self._observations = observations

    def on_add(self, obj: KubeObject, initial: bool) -> None:
        """An object has appeared."""
        del initial
        self._volumes.put(obj)
        self._move(self._added, None, obj)

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        """An object has changed."""
        self._volumes.put(new)
        self._move(self._updated, old, new)

    def on_delete(self, obj: KubeObject) -> None:
        """An object is gone."""
        self._volumes.remove(obj)
        self._move(self._deleted, obj, None)

    def _move(self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None) -> None:
        started = self._clock.monotonic()
        self._queue.move_all(event, old, new, self._clock.time())
        self._observations.event_handling(event.label, self._clock.monotonic() - started)
