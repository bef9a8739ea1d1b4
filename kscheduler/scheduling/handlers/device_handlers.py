"""Claims, slices, classes and rules of taints, from their informers to the device table and the queue.

The table is updated first, so that a pod that the event wakes is judged with the new state. Events of claims come from
the claim tracker, as in kube-scheduler: an assumed claim wakes the pods that wait for it before the watch shows it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from kscheduler.aio.clock import Clock
from kscheduler.api import kinds
from kscheduler.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.scheduling.observations import Observations
from kscheduler.state.devices.claims import ClaimTracker
from kscheduler.state.devices.device_table import DeviceTable
from kscheduler.state.queue.scheduling_queue import SchedulingQueue


def device_handlers(
    devices: DeviceTable, queue: SchedulingQueue, clock: Clock, observations: Observations
) -> Mapping[Kind, Any]:
    """The handlers by kind."""
    move = MovedByDevices(queue, clock, observations)
    return {
        kinds.RESOURCE_CLAIMS: ClaimHandler(devices.claims, move),
        kinds.RESOURCE_SLICES: SliceHandler(devices, move),
        kinds.DEVICE_CLASSES: DeviceClassHandler(devices, move),
        kinds.DEVICE_TAINT_RULES: TaintRuleHandler(devices, move),
    }


class Moving(Protocol):
    """Moves the pods that an event may help."""

    def __call__(self, resource: Resource, old: KubeObject | None, new: KubeObject | None) -> None:
        """An object was `old` and is `new`; `None` where there was or is none."""
        ...


class MovedByDevices:
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

    def __init__(self, claims: ClaimTracker, move: Moving) -> None:
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

    def __init__(self, devices: DeviceTable, move: Moving) -> None:
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

    def __init__(self, devices: DeviceTable, move: Moving) -> None:
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

    def __init__(self, devices: DeviceTable, move: Moving) -> None:
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
_EVENTS: Final = {(resource, action): ClusterEvent(resource, action) for resource in _RESOURCES for action in _ACTIONS}
"""Made once: the queue keeps what it knows of an event by its value."""
