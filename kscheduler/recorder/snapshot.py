"""Taking a snapshot.

On the event loop only references are copied: lists of objects, of pods by node, and a tuple per waiting pod. At 5,000
nodes and 50,000 pods that holds the loop for some milliseconds, once per segment. All the rest is done in the thread
that writes, from references to objects that never change.

An object that somebody holds is named by its key if the store has the very same version, else written once more.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.assembly import Assembly
from kscheduler.framework.events import Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.recorder.entries import Op
from kscheduler.recorder.reservations import Reservations, reserved_by
from kscheduler.scheduling.attempt_events import Decided
from kscheduler.scheduling.eviction.evictions import RunningPreemption
from kscheduler.state.queue.in_flight import SeenEvent
from kscheduler.state.queue.queue_snapshot import GroupsSnapshot, QueueSnapshot, facts_of

# Objects in an entry.
CHUNK: Final = 500

Stored = Mapping[Kind, Sequence[KubeObject]]
# Of a running preemption.
FLAGS: Final = ("is_open", "is_over", "kept_out", "is_outbid", "is_called_off")


class SchedulerSnapshot(msgspec.Struct, frozen=True):
    """References to the state at one moment."""

    micros: int
    configuration: Any
    objects: Stored
    """By kind, in the order of the store."""
    nodes: Sequence[tuple[str, Sequence[PodInfo]]]
    """By node or ghost, in the order of the cache, the pods in the order in which they were counted."""
    assumed: Mapping[str, float | None]
    nominated: Sequence[tuple[str, PodInfo]]
    queue: QueueSnapshot
    held: Sequence[tuple[PodInfo, str, Mapping[str, float], float]]
    attempts: Sequence[tuple[int, QueuedPodInfo, tuple[Any, ...], str]]
    """Number, pod, facts and node of each attempt under way."""
    number: int
    """Of the last attempt."""
    preemptions: Sequence[tuple[RunningPreemption, tuple[Any, ...]]]
    preemptions_begun: int
    pausing: Sequence[str]
    samplers: Mapping[str, int]
    reserved: Sequence[tuple[int, Reservations]]
    """By number of an attempt what it has taken besides its node."""
    assumptions: "Assumptions"
    inexact: Sequence[str]
    """What cannot be put back as it was, in words."""

    def entries(self) -> Iterator[Sequence[Any]]:
        """Of a segment's beginning. Called in a thread."""
        yield Op.SNAPSHOT, "configuration", self.configuration, self.micros, [kind.resource for kind in self.objects]
        for number, objects in enumerate(self.objects.values()):
            for first in range(0, len(objects), CHUNK):
                yield Op.SNAPSHOT, "objects", number, objects[first : first + CHUNK]
        names = _Names(self.objects)
        state = self._state(names)
        versions = names.versions
        for first in range(0, len(versions), CHUNK):
            some = versions[first : first + CHUNK]
            for number in sorted({number for number, _ in some}):
                yield Op.SNAPSHOT, "versions", number, [obj for each, obj in some if each == number]
        order = [number for number, _ in versions]
        yield Op.SNAPSHOT, "state", {**state, "versions": order}

    def _state(self, names: "_Names") -> dict[str, Any]:
        pod, queue = names.pod, self.queue
        return {
            "nodes": [
                (name, [(pod(each), each.uid in self.assumed, self.assumed.get(each.uid)) for each in pods])
                for name, pods in self.nodes
            ],
            "nominated": [(node, pod(each)) for node, each in self.nominated],
            "queue": [
                (each.place, _plain(each.common), [(pod(member), _plain(facts)) for member, facts in each.members])
                for each in queue.elements
            ],
            "in flight": [each if isinstance(each, str) else names.event(each) for each in queue.in_flight],
            "resting": queue.resting,
            "in flight keys": queue.keys,
            "failed gates": queue.has_failed_gates,
            "costly turns": queue.costly_turns,
            "groups": _groups(queue.groups),
            "held": [(pod(each), node, dict(timeouts), since) for each, node, timeouts, since in self.held],
            "attempts": [
                (number, pod(queued.pod), _plain(facts), node) for number, queued, facts, node in self.attempts
            ],
            "number": self.number,
            "preemptions": [_preemption(entry, flags, names) for entry, flags in self.preemptions],
            "preemptions begun": self.preemptions_begun,
            "pausing": self.pausing,
            "samplers": dict(self.samplers),
            **_reservations(self.reserved, self.assumptions, names.object),
            "inexact": self.inexact,
        }


class Assumptions(msgspec.Struct, frozen=True):
    """What decisions see of devices and volumes, and the API server does not show."""

    pending: Sequence[tuple[str, ResourceClaim, int]]
    """UID, claim with the devices that were chosen for it, and how many pods share them."""
    claims: Sequence[ResourceClaim]
    volumes: Sequence[PersistentVolume | PersistentVolumeClaim]
    classes: Mapping[str, str]
    """By extended resource, the class whose devices stand for it: that depends on the order of events."""


def _reservations(
    reserved: Sequence[tuple[int, Reservations]],
    assumed: Assumptions,
    name: Callable[[KubeObject], tuple[int, str | int] | None],
) -> dict[str, Any]:
    """Read by their names, because older recordings lack them."""
    return {
        "reserved": [
            (
                number,
                [(uid, name(claim)) for uid, claim in each.claims],
                [(name(volume), name(claim)) for volume, claim in each.bindings],
                [name(claim) for claim in each.provisions],
            )
            for number, each in reserved
        ],
        "pending claims": [(uid, name(claim), sharers) for uid, claim, sharers in assumed.pending],
        "assumed claims": [name(claim) for claim in assumed.claims],
        "assumed volumes": [name(obj) for obj in assumed.volumes],
        "extended resources": dict(assumed.classes),
    }


class _Names:
    """How the state names objects."""

    def __init__(self, objects: Stored) -> None:
        self._kinds = {kind.type: number for number, kind in enumerate(objects)}
        self._stored = [{obj.key: obj for obj in stored} for stored in objects.values()]
        self._pods = self._kinds.get(Pod, -1)
        self.versions: list[tuple[int, KubeObject]] = []
        """Objects in other versions than the stores', with the numbers of their kinds."""
        self._known: dict[int, int] = {}

    def pod(self, info: PodInfo) -> str | int:
        """A key, or a number in `versions`."""
        name = self.object(info.pod)
        assert name is not None  # noqa: S101  only an object that is None has no name
        return name[1]

    def object(self, obj: KubeObject | None) -> tuple[int, str | int] | None:
        """The number of the kind, and key or number."""
        if obj is None:
            return None
        kind = self._kinds.get(type(obj), -1)
        if kind >= 0 and self._stored[kind].get(obj.key) is obj:
            return kind, obj.key
        known = self._known.get(id(obj))
        if known is None:
            known = self._known[id(obj)] = len(self.versions)
            self.versions.append((kind, obj))
        return kind, known

    def event(self, seen: SeenEvent) -> tuple[Any, ...]:
        """An event in flight."""
        event = seen.event
        is_own = not isinstance(event.resource, Resource)
        resource = event.resource.value if isinstance(event.resource, Resource) else event.resource
        about = self.object(seen.old), self.object(seen.new)
        return is_own, resource, int(event.action), event.name, *about, seen.only


def _plain(facts: tuple[Any, ...] | None) -> list[Any] | None:
    """Sets as sorted lists: their order in memory differs from process to process."""
    return None if facts is None else [sorted(each) if isinstance(each, frozenset) else each for each in facts]


def _groups(found: GroupsSnapshot | None) -> tuple[Any, ...] | None:
    """Older recordings lack it."""
    if found is None:
        return None
    waiting = [(each.place, each.uids, each.facts, each.is_rejected) for each in found.waiting]
    return waiting, found.has_room, found.last_arrival


def _preemption(entry: RunningPreemption, flags: tuple[Any, ...], names: _Names) -> dict[str, Any]:
    preemption, of = entry.preemption, names.pod
    stopped, awaited, last, neighbours = flags[: len(_LISTS)]
    return {
        "number": entry.number,
        "preemptor": of(preemption.preemptor),
        "node": preemption.node_name,
        "plugin": preemption.plugin,
        "all": [of(each) for each in preemption.victims],
        "outbid": [of(each) for each in preemption.outbid],
        "victims": [of(each) for each in entry.victims],
        "stopped": [of(each) for each in stopped],
        "awaited": [of(each) for each in awaited],
        "last": [of(each) for each in last],
        "neighbours": list(neighbours),
        "flags": flags[len(_LISTS) :],
    }


_LISTS: Final = ("stopped", "awaited", "last", "neighbours")


def _flags(entry: RunningPreemption) -> tuple[Any, ...]:
    return *(tuple(getattr(entry, name)) for name in _LISTS), *(getattr(entry, name) for name in FLAGS)


def snapshot_of(
    assembly: Assembly,
    objects: Stored,
    configuration: Any,
    micros: int,
    attempts: Mapping[str, tuple[int, Decided]],
    number: int,
) -> SchedulerSnapshot:
    """The state now, between two steps. `attempts`: those under way, by UID; `number`: of the last."""
    cache, evictions = assembly.cache, assembly.evictions
    nodes: list[tuple[str, Sequence[PodInfo]]] = []
    for name in cache.node_names():
        info = cache.node_info(name)
        if info is not None:
            nodes.append((name, tuple(info.pods.values())))
    nominations = (cache.nominator.nomination(uid) for uid in cache.nominator.nominated())
    queue, running = assembly.queue.snapshot(), evictions.running()
    return SchedulerSnapshot(
        micros=micros,
        configuration=configuration,
        objects=objects,
        nodes=nodes,
        assumed=dict(cache.assumed()),
        nominated=[each for each in nominations if each is not None],
        queue=queue,
        held=[(each.pod, each.node_name, dict(each.timeouts), each.since) for each in assembly.waiting.all()],
        attempts=[
            (each, attempt.queued, facts_of(attempt.queued), attempt.node_name) for each, attempt in attempts.values()
        ],
        number=number,
        preemptions=[(entry, _flags(entry)) for entry in running if entry.preemption.group is None],
        preemptions_begun=evictions.begun,
        pausing=list(evictions.pausing),
        samplers={name: sampler.next_start for name, sampler in assembly.scheduler.samplers.items()},
        reserved=[(each, found) for each, attempt in attempts.values() if not (found := reserved_by(attempt)).is_empty],
        assumptions=Assumptions(
            cache.devices.claims.all_pending(),
            cache.devices.claims.assumed(),
            cache.volumes.assumed(),
            cache.devices.classes_of_resources(),
        ),
        inexact=list(_inexact(assembly, queue, running)),
    )


def _inexact(assembly: Assembly, queue: QueueSnapshot, running: Sequence[RunningPreemption]) -> Iterator[str]:
    if queue.is_group_tried:
        yield "a pod group was being tried; members that came meanwhile are placed as if they had just come"
    if any(entry.preemption.group is not None for entry in running):
        yield "a pod group was preempting"
    if queue.resting:
        yield "pods stood in line for extenders"
    stateful = sorted(
        {
            plugin
            for profile in assembly.profiles.values()
            for plugin, traits in profile.traits.items()
            if not traits.is_in_tree
        }
    )
    if stateful:
        yield f"your own plugins start without their state, which is not recorded: {', '.join(stateful)}"


assert {field.name for field in fields(RunningPreemption)} >= {*_LISTS, *FLAGS}  # noqa: S101  they are read by name
