"""Gated pods, by the plugin that gates them.

Only an event that the gating plugin registered can let a gated pod in, so other events cost nothing, however many
pods wait behind the gate. A *standing* gate (`framework.standing_gate`) lists the pods that it may let in now; those
behind an *object* gate are known to `AwaitedObjects`. All others stay where they are, whatever the event. They are
kept in groups whose pods give the same answer to an event, so an event costs as much as there are groups.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, KeysView, Mapping
from typing import NamedTuple

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo

# The pods behind an *object gate*, filed by the object that each waits for (`framework.standing_gate.ObjectGate`).
#
# An object that changes concerns the pods that wait for it; all others stay where they are. A pod whose object has
# changed either may come in, or waits for another object, and is filed under that.


class ObjectGateCalls(NamedTuple):
    """The questions to an object gate. Neither raises: a gate that fails has its pods asked one by one."""

    awaited: Callable[[PodInfo], Collection[str] | None]
    """Keys of the objects of which one must change first; `None`: the pod may come in, for all that is known."""
    changed: Callable[[], Collection[str] | None]
    """Keys of the objects that have changed since the last call; `None`: perhaps all."""


class AwaitedObjects:
    """What the pods behind one gate wait for."""

    def __init__(self, gate: ObjectGateCalls) -> None:
        self._gate = gate
        self._pods: dict[str, QueuedPodInfo] = {}
        """Those that wait for something, by key."""
        self._objects: dict[str, frozenset[str]] = {}
        """What they wait for, by key of the pod."""
        self._waiting: dict[str, dict[str, None]] = {}
        """Keys of the pods by key of the object, in the order in which they came."""
        self._may_come_in: dict[str, None] = {}
        """Keys of pods that wait for nothing known."""
        self._others: dict[str, QueuedPodInfo] = {}
        """Those that wait for other objects than before, and of which nobody has been told so yet."""

    def put(self, queued: QueuedPodInfo) -> None:
        """File a pod that the gate has rejected, or that has changed since, or whose objects have."""
        key, objects, before = queued.key, self._gate.awaited(queued.pod), self._objects.get(queued.key)
        is_to_be_reported = key in self._others or key in self._may_come_in
        self.remove(key)
        if objects is None:
            self._may_come_in[key] = None
            return
        self._pods[key], self._objects[key] = queued, frozenset(objects)
        for name in self._objects[key]:
            self._waiting.setdefault(name, {})[key] = None
        if is_to_be_reported or before not in (None, self._objects[key]):
            self._others[key] = queued

    def remove(self, key: str) -> None:
        """Forget a pod; nothing happens if it is not here."""
        self._may_come_in.pop(key, None)
        self._others.pop(key, None)
        self._pods.pop(key, None)
        for name in self._objects.pop(key, ()):
            waiting = self._waiting[name]
            del waiting[key]
            if not waiting:
                del self._waiting[name]

    def may_let_in(self) -> Collection[str]:
        """Keys of the pods that wait for nothing any more. Looks only at pods whose objects have changed."""
        for key in self._concerned():
            self.put(self._pods[key])
        return self._may_come_in.keys()

    def take_others(self) -> list[QueuedPodInfo]:
        """The pods that wait for other objects since the last call: the gate's answer for them may read otherwise."""
        others = [*self._others.values()]
        self._others.clear()
        return others

    def _concerned(self) -> list[str]:
        changed = self._gate.changed()
        if changed is None:
            return [*self._pods]
        return [*dict.fromkeys(key for name in changed for key in self._waiting.get(name, ()))]


# Profile and plugin.
Gate = tuple[str, str]
# Keys of the pods that a standing gate has rejected and may let in now; `None` if it does not know this time.
MayLetIn = Callable[[], Collection[str] | None]
# Equal for pods of equal priority for which these plugins' hints give the same answers; `None` for a unique pod.
# Answers about nodes may depend on the pod's nominated node besides.
HintsAlike = Callable[[PodInfo, frozenset[str]], Hashable | None]
# A pod that represents several whose hints answer alike, and their number.
KeptOut = tuple[QueuedPodInfo, int]
_Group = dict[str, QueuedPodInfo]


def no_hints_alike(_pod: PodInfo, _plugins: frozenset[str]) -> Hashable | None:
    """Treat every pod as unique."""
    return None


class GatedPods:
    """Pods that PreEnqueue has rejected."""

    def __init__(
        self,
        standing: Mapping[Gate, MayLetIn] | None = None,
        hints_alike: HintsAlike = no_hints_alike,
        by_object: Mapping[Gate, ObjectGateCalls] | None = None,
    ) -> None:
        self._awaited = {gate: AwaitedObjects(calls) for gate, calls in (by_object or {}).items()}
        self._standing: dict[Gate, MayLetIn] = {
            **(standing or {}),
            **{gate: awaited.may_let_in for gate, awaited in self._awaited.items()},
        }
        self._hints_alike = hints_alike
        self._behind: dict[Gate, dict[str, QueuedPodInfo]] = {}
        """By gate and key."""
        self._groups: dict[Gate, dict[Hashable, _Group]] = {}
        """The pods behind standing gates, by gate and group."""
        self._group_of: dict[str, Hashable] = {}

    def __len__(self) -> int:
        return sum(map(len, self._behind.values()))

    def __bool__(self) -> bool:
        return bool(self._behind)

    def gates(self) -> KeysView[Gate]:
        """A view of the gates that keep anybody out, which follows later changes."""
        return self._behind.keys()

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (queued for pods in self._behind.values() for queued in pods.values())

    def by_plugin(self) -> dict[str, int]:
        """By plugin how many pods it gates, in all profiles."""
        counts: Counter[str] = Counter()
        for (_, plugin), pods in self._behind.items():
            counts[plugin] += len(pods)
        return dict(counts)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod with this key."""
        for pods in self._behind.values():
            if key in pods:
                return pods[key]
        return None

    def put(self, queued: QueuedPodInfo) -> None:
        """Add a pod that `queued.gating_plugin` gates; it must not be here already."""
        gate = _gate_of(queued)
        self._behind.setdefault(gate, {})[queued.key] = queued
        if gate in self._standing:
            self._join(gate, queued)
        if gate in self._awaited:
            self._awaited[gate].put(queued)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod with this key out."""
        for gate, pods in self._behind.items():
            if key in pods:
                queued = pods.pop(key)
                if not pods:
                    del self._behind[gate]
                self._leave(gate, key)
                if gate in self._awaited:
                    self._awaited[gate].remove(key)
                return queued
        return None

    def renew(self, queued: QueuedPodInfo) -> None:
        """Regroup a pod that has changed; its position stays."""
        gate = _gate_of(queued)
        if queued.key in self._group_of:
            self._leave(gate, queued.key)
            self._join(gate, queued)
        if gate in self._awaited:
            self._awaited[gate].put(queued)

    def _join(self, gate: Gate, queued: QueuedPodInfo) -> None:
        name = self._group_name(gate, queued)
        self._group_of[queued.key] = name
        self._groups.setdefault(gate, {}).setdefault(name, {})[queued.key] = queued

    def _group_name(self, gate: Gate, queued: QueuedPodInfo) -> Hashable:
        rejectors = queued.unschedulable_plugins | queued.pending_plugins
        if gate in self._awaited and rejectors == {gate[1]}:
            return queued.pod.priority, rejectors, queued.pending_plugins  # its hints answer alike for all that wait
        alike = self._hints_alike(queued.pod, rejectors)
        return queued.key if alike is None else (alike, rejectors, queued.pending_plugins)

    def _leave(self, gate: Gate, key: str) -> None:
        name = self._group_of.pop(key, None)
        if name is None:
            return
        groups = self._groups[gate]
        del groups[name][key]
        if not groups[name]:
            del groups[name]

    def behind(self, is_registered: Callable[[str, str], bool]) -> list[QueuedPodInfo]:
        """The pods behind the gates (profile, plugin) for which `is_registered` is true."""
        return [queued for gate, pods in self._behind.items() if is_registered(*gate) for queued in pods.values()]

    def registered_for(
        self, is_registered: Callable[[str, str], bool], spared: str, *, by_nomination: bool
    ) -> tuple[list[QueuedPodInfo], list[KeptOut]]:
        """The same in two parts: the pods that the gate may let in, and by group the pods that it would reject again.

        The pod with UID `spared` is not counted in the second part. `by_nomination`: the event is about a node, and
        hints may answer otherwise for a pod that is nominated to it.
        """
        found: list[QueuedPodInfo] = []
        kept_out: list[KeptOut] = []
        for gate, pods in self._behind.items():
            if not is_registered(*gate):
                continue
            keys = self._may_let_in(gate, pods)
            found += pods.values() if keys is None else [pods[key] for key in keys]
            if keys is not None:
                others = dict.fromkeys([*keys, *self._keys_of(spared, gate, keys)])
                kept_out += (self._kept_out_by_nomination if by_nomination else self._kept_out)(gate, others)
        return found, kept_out

    def _may_let_in(self, gate: Gate, pods: _Group) -> dict[str, None] | None:
        """The keys of the pods behind a gate for which it must be called; `None` if it must be called for all."""
        known = self._standing[gate]() if gate in self._standing else None
        return None if known is None else dict.fromkeys([key for key in known if key in pods])

    def _keys_of(self, spared: str, gate: Gate, but: Collection[str]) -> Iterable[str]:
        if not spared:
            return ()
        pods = self._behind[gate].items()
        return [key for key, queued in pods if queued.pod.uid == spared and key not in but]

    def _kept_out(self, gate: Gate, others: Collection[str]) -> Iterator[KeptOut]:
        by_group = Counter(map(self._group_of.__getitem__, others))
        for name, group in self._groups[gate].items():
            count = len(group) - by_group.get(name, 0)
            if count:
                for key, queued in group.items():
                    if key not in others:
                        yield queued, count
                        break

    def _kept_out_by_nomination(self, gate: Gate, others: Collection[str]) -> Iterator[KeptOut]:
        """The same; pods that are nominated to different nodes are in different groups."""
        for group in self._groups[gate].values():
            by_node: dict[str, list[QueuedPodInfo]] = {}
            for key, queued in group.items():
                if key not in others:
                    by_node.setdefault(queued.pod.pod.status.nominated_node_name, []).append(queued)
            yield from ((pods[0], len(pods)) for pods in by_node.values())

    def wait_for_others(self) -> list[QueuedPodInfo]:
        """The pods that wait for other objects than when they were rejected; each is told of once."""
        return [queued for awaited in self._awaited.values() for queued in awaited.take_others()]


def _gate_of(queued: QueuedPodInfo) -> Gate:
    return queued.pod.pod.spec.scheduler_name, queued.gating_plugin
