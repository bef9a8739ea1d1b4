"""Handlers of the objects that pods depend on: namespaces, pod groups, volumes and claims, devices.

Each writes its object into the cache and tells the queue which cluster event that was.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from kscheduler.aio.clock import Clock
from kscheduler.api import kinds
from kscheduler.api.core import Namespace
from kscheduler.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kscheduler.api.kinds import NAMESPACES, NODES, PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.topologies import HyperNode, KueueTopology
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.informers.informer import Handler
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.observations import Observations
from kscheduler.state.cache import Cache
from kscheduler.state.devices.claims import ClaimTracker
from kscheduler.state.devices.device_table import DeviceTable
from kscheduler.state.group_apis import GroupAPI
from kscheduler.state.pod_groups import PodGroupTable
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.storage.volumes import VolumeTable
from kscheduler.state.topology.counters import TopologyCounts
from kscheduler.state.topology_levels import TopologyLevels

# Namespaces, from their informer to the counters and the queue: namespace selectors match the current labels.
#
# kube-scheduler has no event for changed labels of a namespace, so a pod whose affinity selects namespaces by labels
# waits for the five-minute flush. Here it is an event like any other.

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


# Pod groups, composite ones too, from the informer of one API to the table of groups and the queue.


class PodGroupHandler:
    """Implements `informers.Handler`."""

    def __init__(
        self, api: GroupAPI, table: PodGroupTable, queue: SchedulingQueue, clock: Clock, observations: Observations
    ) -> None:
        self._first_api = api
        self._table = table
        self._queue = queue
        self._clock = clock
        self._observations = observations
        resource = Resource.COMPOSITE_POD_GROUP if api.is_composite else Resource.POD_GROUP
        self._added = ClusterEvent(resource, ActionType.ADD)
        self._updated = ClusterEvent(resource, ActionType.UPDATE)
        self._deleted = ClusterEvent(resource, ActionType.DELETE)

    @property
    def _api(self) -> GroupAPI:
        """As the version has it that is followed now."""
        first = self._first_api
        return next((api for api in self._table.apis if api.kind is first.kind), first)

    def on_add(self, obj: Any, initial: bool) -> None:
        """A group has appeared: members that have waited for it join it."""
        del initial
        began, now = self._clock.monotonic(), self._clock.time()
        self._table.put(self._api.definition_of(obj))
        self._queue.group_appeared(self._api.key_of(obj), now)
        self._queue.move_all(self._added, None, obj, now)
        self._handled(self._added, began)

    def on_update(self, old: Any, new: Any) -> None:
        """A group has changed: it may ask for fewer members, or for another topology. With another parent it is
        another group.
        """
        began, now = self._clock.monotonic(), self._clock.time()
        before, after = self._api.definition_of(old), self._api.definition_of(new)
        if before.parent != after.parent:
            self.on_delete(old)
            self.on_add(new, initial=False)
            return
        self._table.put(after)
        if before.min_count != after.min_count or before.topology != after.topology:
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


# Storage objects of all kinds, from their informers to the volume table and the queue.
#
# The table is updated first, so that a pod that the event wakes is judged with the new state.

# By kind, the resource under which plugins register its events.
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


# Claims, slices, classes and rules of taints, from their informers to the device table and the queue.
#
# The table is updated first, so that a pod that the event wakes is judged with the new state. Events of claims come
# from the claim tracker, as in kube-scheduler: an assumed claim wakes the pods that wait for it before the watch shows
# it.


def device_handlers(
    devices: DeviceTable, queue: SchedulingQueue, clock: Clock, observations: Observations
) -> Mapping[Kind, Any]:
    """The handlers by kind."""
    move = DeviceEventMover(queue, clock, observations)
    return {
        kinds.RESOURCE_CLAIMS: ClaimHandler(devices.claims, move),
        kinds.RESOURCE_SLICES: SliceHandler(devices, move),
        kinds.DEVICE_CLASSES: DeviceClassHandler(devices, move),
        kinds.DEVICE_TAINT_RULES: TaintRuleHandler(devices, move),
    }


class MovePods(Protocol):
    """Moves the pods that an event may help."""

    def __call__(self, resource: Resource, old: KubeObject | None, new: KubeObject | None) -> None:
        """An object was `old` and is `new`; `None` where there was or is none."""
        ...


class DeviceEventMover:
    """Moves pods in the queue, and counts the time."""

    def __init__(self, queue: SchedulingQueue, clock: Clock, observations: Observations) -> None:
        self._queue = queue
        self._clock = clock
        self._observations = observations

    def __call__(self, resource: Resource, old: KubeObject | None, new: KubeObject | None) -> None:
        """Ask the pods that registered the event."""
        event = _EVENTS[resource, _action(old, new)]
        started = self._clock.monotonic()
        self._queue.move_all(event, old, new, self._clock.time())
        self._observations.event_handling(event.label, self._clock.monotonic() - started)


class ClaimHandler:
    """Claims. Implements `informers.Handler`."""

    def __init__(self, claims: ClaimTracker, move: MovePods) -> None:
        self._claims = claims
        self._move = move
        claims.on_change(self._changed)

    def on_add(self, obj: ResourceClaim, initial: bool) -> None:
        """A claim has appeared."""
        del initial
        self._claims.add(obj)

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:
        """A claim has changed."""
        del old
        self._claims.update(new)

    def on_delete(self, obj: ResourceClaim) -> None:
        """A claim is gone."""
        self._claims.delete(obj)

    def _changed(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        self._move(Resource.RESOURCE_CLAIM, before, now)


class SliceHandler:
    """Slices. Implements `informers.Handler`."""

    def __init__(self, devices: DeviceTable, move: MovePods) -> None:
        self._devices = devices
        self._move = move

    def on_add(self, obj: ResourceSlice, initial: bool) -> None:
        """A slice has appeared."""
        del initial
        self._devices.put_slice(obj)
        self._move(Resource.RESOURCE_SLICE, None, obj)

    def on_update(self, old: ResourceSlice, new: ResourceSlice) -> None:
        """A slice has changed."""
        self._devices.put_slice(new)
        self._move(Resource.RESOURCE_SLICE, old, new)

    def on_delete(self, obj: ResourceSlice) -> None:
        """A slice is gone."""
        self._devices.remove_slice(obj.metadata.name)
        self._move(Resource.RESOURCE_SLICE, obj, None)


class DeviceClassHandler:
    """Classes of devices. Implements `informers.Handler`."""

    def __init__(self, devices: DeviceTable, move: MovePods) -> None:
        self._devices = devices
        self._move = move

    def on_add(self, obj: DeviceClass, initial: bool) -> None:
        """A class has appeared."""
        del initial
        self._devices.put_class(obj)
        self._move(Resource.DEVICE_CLASS, None, obj)

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        """A class has changed."""
        self._devices.put_class(new)
        self._move(Resource.DEVICE_CLASS, old, new)

    def on_delete(self, obj: DeviceClass) -> None:
        """A class is gone."""
        self._devices.remove_class(obj.metadata.name)
        self._move(Resource.DEVICE_CLASS, obj, None)


class TaintRuleHandler:
    """Rules of taints: for pods, a change of the slices whose devices get other taints. Implements `informers.Handler`.

    However many slices that are, it is one event: the pods that wait for slices are woken by any change of one.
    """

    def __init__(self, devices: DeviceTable, move: MovePods) -> None:
        self._devices = devices
        self._move = move

    def on_add(self, obj: DeviceTaintRule, initial: bool) -> None:
        """A rule has appeared."""
        del initial
        self._changed(self._devices.put_rule(obj))

    def on_update(self, old: DeviceTaintRule, new: DeviceTaintRule) -> None:
        """A rule has changed."""
        del old
        self._changed(self._devices.put_rule(new))

    def on_delete(self, obj: DeviceTaintRule) -> None:
        """A rule is gone."""
        self._changed(self._devices.remove_rule(obj.metadata.name))

    def _changed(self, slices: Iterable[tuple[ResourceSlice, ResourceSlice]]) -> None:
        for before, now in slices:
            self._move(Resource.RESOURCE_SLICE, before, now)
            return


def _action(old: KubeObject | None, new: KubeObject | None) -> ActionType:
    if old is None:
        return ActionType.ADD
    return ActionType.UPDATE if new is not None else ActionType.DELETE


_RESOURCES: Final = (Resource.RESOURCE_CLAIM, Resource.RESOURCE_SLICE, Resource.DEVICE_CLASS)
_ACTIONS: Final = (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
# Made once: the queue keeps what it knows of an event by its value.
_EVENTS: Final = {(resource, action): ClusterEvent(resource, action) for resource in _RESOURCES for action in _ACTIONS}


class TopologyHandler:
    """Objects that name levels. Rejected groups may find other domains then.

    Implements `informers.Handler` and `informers.ListHandler`: that there are no objects is news, too.
    """

    def __init__(self, levels: TopologyLevels, queue: SchedulingQueue) -> None:
        self._levels = levels
        self._queue = queue

    def on_add(self, obj: KueueTopology | HyperNode, initial: bool) -> None:
        """An object has appeared."""
        del initial
        self._levels.put(obj)
        self._queue.topology_changed()

    def on_update(self, old: KueueTopology | HyperNode, new: KueueTopology | HyperNode) -> None:
        """An object has changed; its status is none of ours."""
        if old.spec != new.spec:
            self._levels.put(new)
            self._queue.topology_changed()

    def on_delete(self, obj: KueueTopology | HyperNode) -> None:
        """An object is gone."""
        self._levels.remove(obj)
        self._queue.topology_changed()

    def on_synced(self) -> None:
        """All objects are known, if only that there are none: groups have waited for that."""
        self._queue.topology_changed()


def handlers_of(
    pods: PodHandler,
    nodes: NodeHandler,
    cache: Cache,
    queue: SchedulingQueue,
    clock: Clock,
    observations: Observations,
) -> Mapping[Kind, Handler[Any]]:
    """The handlers, by kind, that turn watch events into changes of cache and queue."""
    seen = queue, clock, observations
    table = cache.pod_groups
    return {
        PODS: pods,
        NODES: nodes,
        NAMESPACES: NamespaceHandler(cache.counters, *seen),
        **storage_handlers(cache.volumes, *seen),
        **device_handlers(cache.devices, *seen),
        **{api.kind: PodGroupHandler(api, table, *seen) for api in table.apis},
        **{kind: TopologyHandler(cache.topology_levels, queue) for kind in cache.topology_levels.kinds},
    }
