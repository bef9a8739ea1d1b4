"""Comparing cache and queue with the informers' stores, object by object, and repairing differences.

The problem: cache and queue are updated by events, so the effect of one bug in a handler lasts until the next restart,
and goes unnoticed. The idea: store and handlers change in the same step, so between two steps each object can be
checked by itself, in any order, a few at a time. If it differs, it is replayed through the handlers like a watch event.

    stored pod on a node       counts on that node in the stored version, unless its requests cannot be read
    stored pod without a node  counts nowhere unless it is assumed; a pod of a profile is queued, in flight or assumed
    pod that counts            is stored
    node                       the cache has the stored version, unless it cannot be read; its sums match its pods

If the binding of an assumed pod is settled and the watch does not confirm it, the API server is asked. If it has bound
the pod, the store is wrong (`informers.audit` finds that). If it has not (what answered the Binding was not the API
server), the pod is forgotten and queued again. If it does not answer, nothing is repaired, and that is counted.
Limits: storage objects, namespaces and nominations are not compared.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator
from enum import StrEnum
from typing import Final, Literal, Protocol

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Node, Pod
from kscheduler.api.quantity import QuantityError
from kscheduler.client.errors import APIError, ClientError, NotSentError
from kscheduler.framework import events
from kscheduler.framework.nodes.node_info import allocatable_amounts
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.attempt_events import StateRepaired
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.row_check import row_fault

# If the watch does not show a binding this long after it was settled, the store is compared with the API server.
UNCONFIRMED_SECONDS: Final = 60.0


class DriftType(StrEnum):
    """What is wrong with an object."""

    MISSING = "missing"
    """The object is stored, but not in the cache."""
    REDUNDANT = "redundant"
    """The object is in the cache, but not stored."""
    ELSEWHERE = "elsewhere"
    """The pod counts on another node than the one it is on."""
    STALE = "stale"
    """The cache has another version than the store."""
    SUMS = "sums"
    """The sums in a node's row are not the sums of its pods."""
    UNQUEUED = "unqueued"
    """A pod of a profile without a node is neither queued nor in flight nor assumed."""
    UNCONFIRMED = "unconfirmed"
    """A pod is bound, but the watch does not show it on its node."""


Side = Literal["stored", "cached"]
KindName = Literal["pods", "nodes"]


class Subject(msgspec.Struct, frozen=True):
    """One object to check, on one of the two sides."""

    side: Side
    kind: KindName
    name: str
    """On the stored side the key in the store; on the cached side a pod's UID or a node's name."""


class Drift(msgspec.Struct, frozen=True):
    """A difference, with a description of both sides."""

    kind: KindName
    what: DriftType
    name: str
    """The object's key."""
    uid: str
    stored: str
    cached: str

    @property
    def is_mendable(self) -> bool:
        """Whether replaying the object can end the difference; a missing confirmation must come from the API server."""
        return self.what is not DriftType.UNCONFIRMED


class PodsStored(Protocol):
    """The part of an informer's store of pods that is read here."""

    def get(self, key: str) -> Pod | None: ...

    def keys(self) -> list[str]:
        """All keys, a copy."""
        ...


class NodesStored(Protocol):
    """The same for nodes."""

    def get(self, key: str) -> Node | None: ...

    def keys(self) -> list[str]:
        """All keys, a copy."""
        ...


class Sides(msgspec.Struct, frozen=True):
    """The two sides of the comparison: the stores, and the cache and queue that follow them."""

    pods: PodsStored
    nodes: NodesStored
    cache: Cache
    queue: SchedulingQueue
    profiles: Collection[str]


class Comparer:
    """Checks one subject at a time; changes nothing."""

    def __init__(self, sides: Sides, clock: Clock) -> None:
        self._sides = sides
        self._clock = clock

    def look_at_all(self) -> Iterator[tuple[Subject, Drift] | None]:
        """Check everything, one subject per step; nodes first, because repairing a pod needs its node.

        Objects may come and go between two steps: an object that is gone is no drift.
        """
        sides = self._sides
        yield from self._look_at("cached", "nodes", sides.cache.node_names())
        yield from self._look_at("stored", "nodes", sides.nodes.keys())
        yield from self._look_at("cached", "pods", sides.cache.pod_uids())
        yield from self._look_at("stored", "pods", sides.pods.keys())

    def _look_at(self, side: Side, kind: KindName, names: list[str]) -> Iterator[tuple[Subject, Drift] | None]:
        judge = self._judge(side, kind)
        for name in names:
            drift = judge(name)
            yield None if drift is None else (Subject(side, kind, name), drift)

    def look(self, subject: Subject) -> Drift | None:
        """What is wrong with the subject; `None` if nothing is, or if it is gone on that side."""
        return self._judge(subject.side, subject.kind)(subject.name)

    def unconfirmed(self, after_seconds: float) -> list[str]:
        """The UIDs of pods whose binding was settled so long ago, and that the watch has not shown on their nodes."""
        before = self._clock.time() - after_seconds
        return [uid for uid, settled in self._sides.cache.assumed() if settled is not None and settled < before]

    def look_at_unconfirmed(self, uid: str, after_seconds: float) -> tuple[Drift, str] | None:
        """Such a pod with its node; `None` if it is none any more."""
        drift = self._cached_pod(uid, after_seconds)
        if drift is None or drift.what is not DriftType.UNCONFIRMED:
            return None
        return drift, self._sides.cache.node_of(uid)

    def _judge(self, side: Side, kind: KindName) -> Callable[[str], Drift | None]:
        if kind == "nodes":
            return self._stored_node if side == "stored" else self._cached_node
        return self._stored_pod if side == "stored" else self._cached_pod

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _stored_node(self, name: str) -> Drift | None:
        node, info = self._sides.nodes.get(name), self._sides.cache.node_info(name)
        if node is None:
            return None
        uid = node.metadata.uid
        if info is None or info.node is None:
            return Drift("nodes", DriftType.MISSING, name, uid, _version(node), "") if _is_readable_node(node) else None
        if info.node is node or info.node == node:
            return None
        return Drift("nodes", DriftType.STALE, name, uid, _version(node), _version(info.node))

    def _cached_node(self, name: str) -> Drift | None:
        info, node = self._sides.cache.node_info(name), self._sides.nodes.get(name)
        if info is None:
            return None
        if info.node is not None and (node is None or not _is_readable_node(node)):
            return Drift("nodes", DriftType.REDUNDANT, name, info.node.metadata.uid, "", _version(info.node))
        fault = row_fault(self._sides.cache, name)
        if fault is None:
            return None
        which, expected, kept = fault
        return Drift("nodes", DriftType.SUMS, name, "", f"{which}: {expected}", f"{which}: {kept}")

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _stored_pod(self, key: str) -> Drift | None:
        pod = self._sides.pods.get(key)
        if pod is None or pod.is_terminal:
            return None
        uid = pod.metadata.uid or pod.key
        found = self._assigned(pod, uid) if pod.spec.node_name else self._pending(pod, uid)
        if found is None:
            return None
        what, cached = found
        return Drift("pods", what, key, uid, _place(pod), cached)

    def _assigned(self, pod: Pod, uid: str) -> tuple[DriftType, str] | None:
        counted = self._sides.cache.pod_of(uid)
        if counted is not None and counted.pod is pod and self._sides.cache.node_of(uid) == pod.spec.node_name:
            return None
        if not _is_readable_pod(pod):
            return None
        if counted is None:
            return DriftType.MISSING, ""
        node_name = self._sides.cache.node_of(uid)
        if node_name != pod.spec.node_name:
            return DriftType.ELSEWHERE, node_name
        return None if counted.pod == pod else (DriftType.STALE, _place(counted.pod))

    def _pending(self, pod: Pod, uid: str) -> tuple[DriftType, str] | None:
        cache, queue = self._sides.cache, self._sides.queue
        if cache.pod_of(uid) is not None or pod.spec.scheduler_name not in self._sides.profiles:
            return None
        if pod.metadata.deletion_timestamp is not None or queue.is_in_flight(uid):
            return None
        found = queue.find(pod.key)
        if found is None:
            return DriftType.UNQUEUED, ""
        queued = found[1].pod
        return None if queued.uid == uid else (DriftType.UNQUEUED, f"uid {queued.uid} in {found[0]}")

    def _cached_pod(self, uid: str, unconfirmed_after: float = UNCONFIRMED_SECONDS) -> Drift | None:
        # From the inside out: is the pod in its node's row, is it stored, and if it is stored without a node, is it
        # still assumed and its binding recent?
        cache = self._sides.cache
        counted, node_name = cache.pod_of(uid), cache.node_of(uid)
        if counted is None:
            return None
        info = cache.node_info(node_name)
        if info is None or info.pods.get(uid) is not counted:
            return Drift("nodes", DriftType.SUMS, node_name, "", f"pods: {counted.key}", "pods: it does not have it")
        stored = self._sides.pods.get(counted.key)
        if stored is counted.pod and stored.spec.node_name:
            return None
        if stored is None or (stored.metadata.uid or stored.key) != uid or stored.is_terminal:
            return Drift("pods", DriftType.REDUNDANT, counted.key, uid, "", node_name)
        if stored.spec.node_name:
            return None  # the check of the stored side finds a difference
        if not cache.is_assumed(uid):
            return Drift("pods", DriftType.REDUNDANT, counted.key, uid, _place(stored), node_name)
        settled = cache.settled_since(uid)
        if settled is None or self._clock.time() - settled <= unconfirmed_after:
            return None
        return Drift("pods", DriftType.UNCONFIRMED, counted.key, uid, _place(stored), f"assumed on {node_name}")


async def no_reader(_namespace: str, _name: str) -> Pod:
    """Where there is no API server."""
    raise NotSentError("there is no API server")


class DriftRepair:
    """Brings cache and queue back in agreement with the stores."""

    def __init__(
        self,
        sides: Sides,
        pod_handler: PodHandler,
        node_handler: NodeHandler,
        clock: Clock,
        on_unconfirmed: Callable[[], None],
        observers: Observers = NO_OBSERVERS,
        read: Callable[[str, str], Awaitable[Pod]] = no_reader,
    ) -> None:
        """`on_unconfirmed` is called if the store may lack an object; it should compare store and API server. `read`:
        a pod as the API server has it now, not as a cache has it.
        """
        self._sides = sides
        self._pod_handler = pod_handler
        self._node_handler = node_handler
        self._clock = clock
        self._on_unconfirmed = on_unconfirmed
        self._tell = observers.tell
        self._read = read

    async def is_unbound(self, drift: Drift) -> bool | None:
        """Whether the API server says that a pod whose binding is unconfirmed has no node; `None`: it cannot be known.

        A binding cannot be undone: what is read without a node now was never bound by an answer of before.
        """
        namespace, _, name = drift.name.partition("/")
        try:
            found = await self._read(namespace, name)
        except APIError as refusal:
            return False if refusal.is_not_found else None  # it is gone, and the store does not know
        except (ClientError, UndecodableError):
            return None
        return (found.metadata.uid or found.key) == drift.uid and not found.spec.node_name

    def requeue(self, drift: Drift) -> None:
        """The API server says that the pod is unbound: give the room back and queue it. `drift` must be current."""
        self._tell(StateRepaired(f"{drift.kind} {drift.name}: {drift.what.value}"))
        pod, counted = self._sides.pods.get(drift.name), self._sides.cache.pod_of(drift.uid)
        if pod is None or counted is None:
            return
        self._sides.cache.forget_pod(drift.uid)
        self._pod_handler.on_add(pod, initial=False)
        self._sides.queue.move_all(events.ASSIGNED_POD_DELETE, counted.pod, None, self._clock.time(), drift.uid)

    def mend(self, drift: Drift) -> None:
        """Replay the object. `drift` must be current: do not await between check and repairing."""
        self._tell(StateRepaired(f"{drift.kind} {drift.name}: {drift.what.value}"))
        if drift.kind == "nodes":
            self._mend_node(drift)
        elif drift.what is DriftType.UNCONFIRMED:
            self._on_unconfirmed()
        elif drift.what is DriftType.REDUNDANT:
            self._remove_pod(drift)
        else:
            pod = self._sides.pods.get(drift.name)
            if pod is not None:
                self._pod_handler.on_add(pod, initial=False)

    def _mend_node(self, drift: Drift) -> None:
        node, info = self._sides.nodes.get(drift.name), self._sides.cache.node_info(drift.name)
        cached = info.node if info is not None else None
        if drift.what is DriftType.SUMS:
            self._sides.cache.rebuild_node(drift.name)
            if node is not None:
                self._sides.queue.move_all(events.NODE_ADD, None, node, self._clock.time())
        elif drift.what is DriftType.REDUNDANT and cached is not None:
            self._node_handler.on_delete(cached)
        elif node is not None and cached is not None:
            self._node_handler.on_update(cached, node)
        elif node is not None:
            self._node_handler.on_add(node, initial=False)

    def _remove_pod(self, drift: Drift) -> None:
        """Remove by UID: another pod may wait under the same name."""
        counted = self._sides.cache.pod_of(drift.uid)
        if counted is not None:
            self._sides.cache.remove_pod(drift.uid)
            self._sides.queue.move_all(events.ASSIGNED_POD_DELETE, counted.pod, None, self._clock.time())


def _version(node: Node) -> str:
    return f"version {node.metadata.resource_version}, uid {node.metadata.uid}"


def _place(pod: Pod) -> str:
    return f"{pod.spec.node_name or 'no node'}, version {pod.metadata.resource_version}"


def _is_readable_node(node: Node) -> bool:
    try:
        allocatable_amounts(node.status.allocatable)
    except QuantityError:
        return False
    return True


def _is_readable_pod(pod: Pod) -> bool:
    """Whether the cache can take the pod; one that cannot be read was reported when it arrived."""
    info = PodInfo(pod)
    try:
        _ = info.accounted, info.nonzero_accounted, info.host_ports
    except QuantityError:
        return False
    return True
