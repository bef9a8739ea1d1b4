"""Putting a snapshot back: a fresh assembly becomes as the recorded one was."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.assembly import Assembly
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.events import ActionType, ClusterEvent, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers.store import Store
from kscheduler.recorder.reservations import Reservations, release_on_failure
from kscheduler.recorder.snapshot import FLAGS
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.eviction.evictions import RunningPreemption
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.queue.in_flight import SeenEvent
from kscheduler.state.queue.queue_snapshot import (
    FACTS,
    OF_GROUP,
    GroupsSnapshot,
    QueueSnapshot,
    WaitingElement,
    WaitingGroup,
    queued_from,
)
from kscheduler.state.waiting_pods import PodAtPermit

_SETS = frozenset(("unschedulable_plugins", "pending_plugins"))
Stores = Mapping[Kind, Store[Any]]


class SnapshotRestore:
    """One snapshot, whose objects are in the stores already."""

    def __init__(self, assembly: Assembly, stores: Stores, versions: Sequence[tuple[int, KubeObject]]) -> None:
        """`versions`: objects in other versions than the stores', by kind in the order of the file."""
        self._assembly = assembly
        self._stores = stores
        self._kinds = list(stores)
        self._other_versions = versions
        self._versions: list[KubeObject | None] = []
        self._infos: dict[str | int, PodInfo] = {}

    def put(self, state: Mapping[str, Any], now: float) -> dict[int, Attempt]:
        """Put all of it back; returns the attempts under way, by number.

        Raises `KeyError`, `IndexError` or `TypeError` for what no recorder has written.
        """
        self._versions = versions_in(state, self._other_versions)
        self._show_others()
        self._assume(state)
        self._place_pods(state["nodes"])
        self._know_members()
        for node_name, pod in state["nominated"]:
            self._assembly.cache.nominator.nominate(self._info(pod), node_name)
        self._resume_preemptions(state)
        self._assembly.queue.restore(self._queue(state), now)
        for pod, node_name, timeouts, since in state["held"]:
            deadlines = {plugin: since + seconds for plugin, seconds in timeouts.items()}
            self._assembly.waiting.hold(PodAtPermit(self._info(pod), node_name, deadlines, timeouts, since))
        for name, start in state["samplers"].items():
            if name in self._assembly.scheduler.samplers:
                self._assembly.scheduler.samplers[name].next_start = start
        attempts = {number: attempt for number, attempt in self._attempts(state["attempts"]) if attempt is not None}
        for number, *reserved in state.get("reserved", ()):
            if number in attempts:
                release_on_failure(attempts[number], self._reserved(*reserved))
        return attempts

    def _show_others(self) -> None:
        """Everything but nodes and pods, whose order in the cache the snapshot says."""
        for kind, store in self._stores.items():
            handler = self._assembly.handlers.get(kind)
            if handler is not None and kind not in (NODES, PODS):
                for obj in store.list():
                    handler.on_add(obj, initial=True)

    def _assume(self, state: Mapping[str, Any]) -> None:
        """What decisions see beyond the stores; older recordings lack it."""
        devices, volumes = self._assembly.cache.devices, self._assembly.cache.volumes
        devices.let_stand_for(state.get("extended resources"))
        claim: Any
        for claim in map(self._object, state.get("assumed claims", ())):
            devices.claims.assume(claim)
        for uid, named, sharers in state.get("pending claims", ()):
            claim = self._object(named)
            devices.claims.put_pending_back(uid, claim, sharers)
        for obj in map(self._object, state.get("assumed volumes", ())):
            if isinstance(obj, PersistentVolume):
                volumes.assume_volume(obj)
            elif isinstance(obj, PersistentVolumeClaim):
                volumes.assume_claim(obj)

    def _reserved(self, claims: Sequence[Any], bindings: Sequence[Any], provisions: Sequence[Any]) -> Reservations:
        of: Any = self._object
        return Reservations(
            tuple((uid, of(claim)) for uid, claim in claims),
            tuple((of(volume), of(claim)) for volume, claim in bindings),
            tuple(map(of, provisions)),
        )

    def _place_pods(self, nodes: Sequence[Any]) -> None:
        cache, stored = self._assembly.cache, self._stores[NODES]
        for name, _ in nodes:
            node = stored.get(name)
            if node is not None:
                self._assembly.node_handler.on_add(node, initial=True)
        for name, pods in nodes:
            for pod, is_assumed, settled in pods:
                if not is_assumed:
                    cache.add_pod(self._pod(pod))
                    continue
                info = self._info(pod)
                cache.assume_pod(info, name)
                if settled is not None:
                    cache.finish_binding(info.uid, settled)

    def _know_members(self) -> None:
        """Members of groups without a node: gates count them."""
        groups, profiles = self._assembly.cache.pod_groups, self._assembly.profiles
        for pod in self._stores[PODS].list() if groups.apis else ():
            if not pod.spec.node_name and not pod.is_terminal and pod.spec.scheduler_name in profiles:
                groups.add_member(self._info(pod.key))

    def _queue(self, state: Mapping[str, Any]) -> QueueSnapshot:
        elements = tuple(
            WaitingElement(
                place,
                None if common is None else _facts(OF_GROUP, common),
                tuple((self._info(pod), _facts(FACTS, facts)) for pod, facts in members),
            )
            for place, common, members in state["queue"]
        )
        return QueueSnapshot(
            elements,
            tuple(each if isinstance(each, str) else self._event(each) for each in state["in flight"]),
            tuple(state["resting"]),
            tuple((uid, key) for uid, key in state["in flight keys"]),
            has_failed_gates=state["failed gates"],
            has_groups=False,
            costly_turns=tuple(state["costly turns"]) if state.get("costly turns") else None,
            groups=_groups(state.get("groups")),
        )

    def _event(self, packed: Sequence[Any]) -> SeenEvent:
        is_own, resource, action, name, old, new, only = packed
        event = ClusterEvent(resource if is_own else Resource(resource), ActionType(action), name)
        return SeenEvent(event, self._object(old), self._object(new), only)

    def _attempts(self, attempts: Sequence[Any]) -> Iterator[tuple[int, Attempt | None]]:
        for number, pod, facts, node_name in attempts:
            queued = queued_from(self._info(pod), _facts(FACTS, facts))
            profile = self._assembly.profiles.get(queued.pod.pod.spec.scheduler_name)
            if profile is None:
                yield number, None
                continue
            record = SchedulingRecord(queued.pod, profile.name, node_name=node_name)
            held = self._assembly.waiting.get(queued.pod.uid)
            yield number, Attempt(queued, profile, record, 0.0, held=held)

    # --- preemptions --------------------------------------------------------------------------------------------------

    def _resume_preemptions(self, state: Mapping[str, Any]) -> None:
        entries = [self._preemption(each) for each in state["preemptions"]]
        self._assembly.evictions.resume(state["preemptions begun"], entries, state["pausing"])

    def _preemption(self, packed: Mapping[str, Any]) -> RunningPreemption:
        def infos(name: str) -> list[PodInfo]:
            return [self._info(pod) for pod in packed[name]]

        preemption = Preemption(
            self._info(packed["preemptor"]),
            packed["node"],
            tuple(infos("all")),
            packed["plugin"],
            tuple(infos("outbid")),
        )
        return RunningPreemption(
            packed["number"],
            preemption,
            infos("victims"),
            awaited=infos("awaited"),
            stopped=infos("stopped"),
            last=tuple(infos("last")),
            neighbours=dict.fromkeys(packed["neighbours"]),
            **dict(zip(FLAGS, packed["flags"], strict=True)),
        )

    # --- names --------------------------------------------------------------------------------------------------------

    def _info(self, name: str | int) -> PodInfo:
        """One `PodInfo` for each version, as in the process that recorded."""
        known = self._infos.get(name)
        if known is None:
            known = self._infos[name] = PodInfo(self._pod(name))
        return known

    def _pod(self, name: str | int) -> Pod:
        found = self._versions[name] if isinstance(name, int) else self._stores[PODS].get(name)
        if not isinstance(found, Pod):
            raise KeyError(name)
        return found

    def _object(self, named: Sequence[Any] | None) -> KubeObject | None:
        if named is None:
            return None
        kind, name = named
        if isinstance(name, int):
            return self._versions[name]
        found: KubeObject | None = self._stores[self._kinds[kind]].get(name)
        return found


def versions_in(state: Mapping[str, Any], versions: Sequence[tuple[int, KubeObject]]) -> list[KubeObject | None]:
    """The objects in other versions than the stores', as the state numbers them. `versions`: as they were read."""
    of_kind: dict[int, deque[KubeObject]] = {}
    for kind, obj in versions:
        of_kind.setdefault(kind, deque()).append(obj)
    return [of_kind[kind].popleft() if of_kind.get(kind) else None for kind in state["versions"]]


def _groups(packed: Sequence[Any] | None) -> GroupsSnapshot | None:
    """`None`: there are none, or an older kscheduler has recorded."""
    if packed is None:
        return None
    waiting, has_room, last_arrival = packed
    groups = (WaitingGroup(place, tuple(uids), tuple(facts), rejected) for place, uids, facts, rejected in waiting)
    return GroupsSnapshot(tuple(groups), has_room, last_arrival)


def _facts(names: Sequence[str], packed: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(frozenset(value) if name in _SETS else value for name, value in zip(names, packed, strict=True))
