"""Applying events of pods and nodes to cache and queue.

    pod without a node, of a profile     into the queue, and the nominator if its status names a node
    pod with a node                      into the cache; wakes pods in the queue
        whose resize is deferred         also into the queue, where the feature gate is on (`DeferredResizes`)
    node                                 into the cache; wakes pods in the queue

There is no order between kinds: a pod may appear before its node, and exist after it. Handlers never await, so an
event is applied completely before the next decision.
"""

from collections.abc import Callable, Collection
from functools import reduce
from operator import or_

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Node, Pod
from kscheduler.api.quantity import QuantityError
from kscheduler.framework import events
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.framework.nodes.node_info import MAX_RESOURCES
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.framework.pods.queued_pod import is_edited
from kscheduler.scheduling.attempt_events import PodAdded, PodGone
from kscheduler.scheduling.foreign_bindings import SECONDS_BETWEEN_LINES, ForeignBindings
from kscheduler.scheduling.observations import SETTLED_EVERY, Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.pod_log.lines import STEPS
from kscheduler.scheduling.resizes import DeferredResizes
from kscheduler.scheduling.supervision.held_pods import HeldPods
from kscheduler.state.cache import Cache
from kscheduler.state.queue.pod_updates import pod_update_events
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.waiting_pods import WaitingPodTable
from kscheduler.telemetry.logs import get_logger, verbose
from kscheduler.telemetry.logs.storms import Throttle


def node_update_event(old: Node, new: Node) -> ClusterEvent | None:
    """One event with a bit per changed property; `None` if no relevant property has changed, as in a heartbeat."""
    before, after = old.status, new.status
    changed = []
    if before.allocatable != after.allocatable:
        changed.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        changed.append(ActionType.UPDATE_NODE_LABEL)
    if old.metadata.annotations != new.metadata.annotations:
        changed.append(ActionType.UPDATE_NODE_ANNOTATION)
    if old.spec != new.spec:
        is_uncordoned = old.spec.unschedulable and not new.spec.unschedulable
        if is_uncordoned or old.spec.taints != new.spec.taints:
            changed.append(ActionType.UPDATE_NODE_TAINT)
        if old.spec.pod_preemption_policy != new.spec.pod_preemption_policy:
            changed.append(ActionType.UPDATE_NODE_PREEMPTION_POLICY)
    if before.conditions != after.conditions and _statuses_by_type(old) != _statuses_by_type(new):
        changed.append(ActionType.UPDATE_NODE_CONDITION)
    if before.declared_features != after.declared_features:
        changed.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return ClusterEvent(Resource.NODE, reduce(or_, changed)) if changed else None


def _statuses_by_type(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


_log = get_logger(__name__)

ASSIGNED_POD_UPDATE, UNSCHEDULABLE_POD_UPDATE = "AssignedPodUpdate", "UnschedulablePodUpdate"
# Labels for the time of handlers, in addition to the labels of events that move pods.
UNSCHEDULABLE_POD_DELETE = "UnschedulablePodDelete"


class _Timed:
    """Measures the handling of events by their label, unless it fails.

    There are three events per pod, so handlers read the clock themselves: a context manager would cost several times
    as much.
    """

    def __init__(self, clock: Clock, observations: Observations) -> None:
        self._clock = clock
        self._now = clock.monotonic
        self._observations = observations
        self._seconds_of = observations.handling
        self._until_settled = SETTLED_EVERY

    def _handled(self, event: str, began: float) -> float:
        """An event has been handled; it began at `began`. Returns the time: all in monotonic seconds."""
        ended = self._now()
        self._seconds_of[event](ended - began)
        self._until_settled -= 1
        if self._until_settled <= 0:
            self._until_settled = SETTLED_EVERY
            self._observations.settle()
        return ended


class PodHandler(_Timed):
    """Pods, from the informer to cache and queue. Implements `informers.Handler`."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        waiting: WaitingPodTable,
        profiles: Collection[str],
        clock: Clock,
        observations: Observations,
        observers: Observers,
        taken: ForeignBindings,
        resizes: DeferredResizes,
        held_pods: HeldPods,
    ) -> None:
        super().__init__(clock, observations)
        self._held_pods = held_pods
        self._cache = cache
        self._queue = queue
        self._waiting = waiting
        self._profiles = profiles
        self._tell = observers.tell
        self._taken = taken
        self._elsewhere = Throttle(SECONDS_BETWEEN_LINES)
        """Lines about pods that another client has bound while they were assumed."""
        self._resizes = resizes

    def on_add(self, obj: Pod, initial: bool) -> None:
        """A pod has appeared."""
        if obj.is_terminal:
            return
        if obj.spec.node_name:
            if not initial and self._is_ours(obj) and not self._cache.node_of(obj.metadata.uid):
                self._taken.born_on_node(obj)
            self._assigned(obj)
        elif obj.spec.scheduler_name in self._profiles:
            began, info = self._now(), PodInfo(obj)
            if verbose(STEPS):
                self._tell(PodAdded(obj))
            if self._cache.pod_groups.apis:
                self._cache.pod_groups.add_member(info)
            self._queue.add(info, self._clock.time())
            self._cache.nominator.add(info)
            self._handled(events.UNSCHEDULABLE_POD_ADD.label, began)

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod has changed."""
        if new.is_terminal:
            self.on_delete(new)
        elif not new.spec.node_name:
            if old.spec.scheduler_name != new.spec.scheduler_name:
                self._another_scheduler(old, new)
            elif self._is_ours(new):
                self._still_pending(old, new)
        elif not old.spec.node_name:
            self._was_placed(old, new)
        else:
            self._changed_on_its_node(old, new)

    def on_delete(self, obj: Pod) -> None:
        """A pod is gone or has ended. `obj` may be stale: only the cache knows on which node the pod counts."""
        began, now, info = self._now(), self._clock.time(), PodInfo(obj)
        uid, nominator = info.uid, self._cache.nominator
        if self._cache.pod_groups.apis:
            self._cache.pod_groups.remove_member(info)
        self._queue.delete(obj.key)
        if self._held_pods.are_any:
            self._held_pods.changed(obj, is_gone=True)
        is_pending = not obj.spec.node_name and self._is_ours(obj)
        if is_pending:
            self._handled(UNSCHEDULABLE_POD_DELETE, began)
        self._tell(PodGone(obj, is_pending, now))
        expected_on = ""
        if uid in nominator.node_of:
            expected_on = nominator.nominated_node(info)
            nominator.remove(uid)
        self._waiting.reject(uid)
        began = self._now()
        counted = self._cache.remove_pod(uid)
        if counted is not None:
            self._queue.move_all(events.ASSIGNED_POD_DELETE, placed(counted[0].pod, counted[1]), None, now)
            self._handled(events.ASSIGNED_POD_DELETE.label, began)
        elif expected_on:
            self._nomination_ended(placed(obj, expected_on))

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _assigned(self, pod: Pod) -> None:
        began = self._now()
        self._queue.delete(pod.key)
        assumed_on = self._cache.add_pod(pod)
        if assumed_on:
            self._warn_of_binding(pod, assumed_on)
            self._taken.bound(pod, pod.spec.node_name)
        self._queue.move_all(events.ASSIGNED_POD_ADD, None, pod, self._clock.time())
        self._handled(events.ASSIGNED_POD_ADD.label, began)
        if self._resizes.are_judged and self._resizes.concerns(pod) and self._is_ours(pod):
            self._queue.add(PodInfo(pod), self._clock.time())

    def _warn_of_binding(self, pod: Pod, assumed_on: str) -> None:
        """Two schedulers of one name meet at each pod: a line a minute has one of them, and their number."""
        if self._elsewhere.admits(self._clock.monotonic()):
            fields = {"node": pod.spec.node_name, "assumed_on": assumed_on}
            pods = 1 + self._elsewhere.take_left_out()
            _log.warning("pod_bound_elsewhere", pod=pod.key, **fields, pods=pods)

    def _was_placed(self, old: Pod, new: Pod) -> None:
        began = self._now()
        if self._cache.confirm(new):  # our own Binding
            self._queue.delete(new.key)
            self._queue.move_all(events.ASSIGNED_POD_ADD, None, new, self._clock.time())
            self._handled(events.ASSIGNED_POD_ADD.label, began)
        else:
            # What we bind counts before it is bound.
            if self._is_ours(new) and not self._cache.node_of(new.metadata.uid):
                self._taken.bound(new, new.spec.node_name)
            self._assigned(new)
        if old.spec.scheduler_name not in self._profiles:
            return
        self._seconds_of[UNSCHEDULABLE_POD_DELETE](0.0)  # upstream counts leaving the queue as an event of its own
        if old.status.nominated_node_name not in ("", new.spec.node_name):
            self._nomination_ended(old)  # it went elsewhere: pods that left room for it may use that room

    def _changed_on_its_node(self, old: Pod, new: Pod) -> None:
        began = self._now()
        self._cache.add_pod(new)
        if self._resizes.are_judged and self._is_ours(new):
            self._resize_changed(old, new)
        changes, moved = pod_update_events(old, new, Resource.ASSIGNED_POD), self._now()
        for event in changes:
            self._queue.move_all(event, old, new, self._clock.time())
            moved = self._handled(event.label, moved)
        self._seconds_of[ASSIGNED_POD_UPDATE](moved - began)

    def _resize_changed(self, old: Pod, new: Pod) -> None:
        """A running pod waits in the queue as long as its resize is deferred."""
        was_deferred, now = self._resizes.concerns(old), self._clock.time()
        if not self._resizes.concerns(new):
            self._queue.delete(new.key)
        elif was_deferred:
            self._queue.update(old, PodInfo(new), now)
        else:
            self._queue.add(PodInfo(new), now)

    def _still_pending(self, old: Pod, new: Pod) -> None:
        began = self._clock.monotonic()
        self._pending_changed(old, new)
        for label in {UNSCHEDULABLE_POD_UPDATE, *(event.label for event in pod_update_events(old, new))}:
            self._handled(label, began)

    def _another_scheduler(self, old: Pod, new: Pod) -> None:
        """The old annotation names another scheduler now (no spec can). A Binding that is under way is not stopped."""
        if not self._cache.is_assumed(PodInfo(new).uid):
            self.on_delete(old)
            self.on_add(new, initial=False)

    def _pending_changed(self, old: Pod, new: Pod) -> None:
        info = PodInfo(new)
        if self._cache.is_assumed(info.uid):
            if new.metadata.deletion_timestamp is not None:
                self._waiting.reject(info.uid)
            return
        if self._cache.pod_groups.apis:
            self._cache.pod_groups.add_member(info)
        if self._held_pods.are_any and is_edited(old, new):
            self._held_pods.changed(new, is_gone=False)
        self._queue.update(old, info, self._clock.time())
        self._cache.nominator.update(old, info)
        if old.status.nominated_node_name and _expects_less(old, new):
            self._nomination_ended(old)

    def _nomination_ended(self, pod: Pod) -> None:
        """Wake other pods of lower or equal priority: for them, this version of the pod counted on its node until now.

        Not the pod itself: its own nomination never stood in its way, and it would be tried again without end.
        """
        priority = pod.spec.priority or 0

        def had_to_leave_room(parked: PodInfo) -> bool:
            return parked.priority <= priority

        began, now = self._clock.monotonic(), self._clock.time()
        uid = pod.metadata.uid
        self._queue.move_all(events.ASSIGNED_POD_DELETE, pod, None, now, uid, pre_check=had_to_leave_room)
        self._handled(events.ASSIGNED_POD_DELETE.label, began)


def _expects_less(old: Pod, new: Pod) -> bool:
    """Whether a nominated pod is expected on another node now, or has smaller requests or other labels."""
    if old.status.nominated_node_name != new.status.nominated_node_name:
        return True
    changed = {event.action for event in pod_update_events(old, new)}
    return not changed.isdisjoint((ActionType.UPDATE_POD_LABEL, ActionType.UPDATE_POD_SCALE_DOWN))


class NodeHandler(_Timed):
    """Nodes, from the informer to cache and queue. Implements `informers.Handler`."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, clock: Clock, observations: Observations) -> None:
        super().__init__(clock, observations)
        self._cache = cache
        self._queue = queue

    def on_add(self, obj: Node, initial: bool) -> None:
        """A node has appeared."""
        del initial
        if self._is_accepted(obj, self._cache.add_node):
            began = self._clock.monotonic()
            self._queue.move_all(events.NODE_ADD, None, obj, self._clock.time())
            self._handled(events.NODE_ADD.label, began)

    def on_update(self, old: Node, new: Node) -> None:
        """A node has changed. A heartbeat wakes no pods (it may bring new images, but only the cache needs those)."""
        if not self._cache.has_node(new.metadata.name):  # it could not be read before, so it is new to the scheduler
            self.on_add(new, initial=False)
            return
        event = node_update_event(old, new)
        if self._is_accepted(new, self._cache.update_node) and event is not None:
            began = self._clock.monotonic()
            self._queue.move_all(event, old, new, self._clock.time())
            self._handled(event.label, began)

    def on_delete(self, obj: Node) -> None:
        """A node is gone. Pods nominated to it are tried again: they need not wait for their victims there."""
        began, name, now = self._clock.monotonic(), obj.metadata.name, self._clock.time()
        self._queue.move_all(events.NODE_DELETE, obj, None, now)
        self._cache.remove_node(name)
        self._queue.activate([pod.key for pod in self._cache.nominator.nominated_pods(name)], now)
        self._handled(events.NODE_DELETE.label, began)

    def _is_accepted(self, node: Node, take: Callable[[Node], None]) -> bool:
        """Apply `take`. Returns False for a node whose resources cannot be read; such a node is left out."""
        try:
            take(node)
        except QuantityError as failure:
            _log.error("node_not_readable", node=node.metadata.name, err=str(failure))
            known = self._cache.node_info(node.metadata.name)
            if known is not None and known.node is not None:
                self.on_delete(known.node)  # handled like a deleted node
            return False
        if len(node.status.allocatable) > MAX_RESOURCES:
            _log.warning(
                "node_has_too_many_resources",
                node=node.metadata.name,
                resources=len(node.status.allocatable),
                counted=MAX_RESOURCES,
            )
        return True
