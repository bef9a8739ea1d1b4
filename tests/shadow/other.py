"""Another scheduler, as slow and as disordered as an API server may make it, and a shadow that follows it.

It decides by the same cycle over a cache of its own. What it has decided is written later, in any order; what others
write it sees later, in the order of the writes.
"""

from typing import Any

import msgspec

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Node, Pod, PodSpec
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.api.meta import Condition, KubeObject
from kscheduler.assembly import profiles_over
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.explain.against import against
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.shadow.comparison import KSCHEDULER, Comparison, DifferenceKind, FollowedScheduler
from kscheduler.shadow.follower import Follower, ShadowSettings
from kscheduler.state.cache import Cache

NAME = "kscheduler"


def followed_by(
    config: LoadedConfig | None = None, followed: FollowedScheduler = KSCHEDULER, **settings: Any
) -> tuple[Follower, list[Comparison], VirtualClock]:
    """A follower that has begun, and the comparisons that it reaches. Needs a running loop."""
    clock, comparisons = VirtualClock(), list[Comparison]()
    follower = Follower(
        config or default_configuration(),
        registry(),
        ShadowSettings(frozenset({NAME}), followed, **settings),
        against,
        clock,
    )
    follower.on_comparison = comparisons.append
    follower.begin()
    return follower, comparisons, clock


def versioned(obj: Any, version: int) -> Any:
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(version))
    return msgspec.structs.replace(obj, metadata=metadata)


def on_node(pod: Pod, node: str) -> Pod:
    spec: PodSpec = msgspec.structs.replace(pod.spec, node_name=node)
    return msgspec.structs.replace(pod, spec=spec)


def being_deleted(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-11-24T12:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)


def rejected(pod: Pod) -> Pod:
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
    status = msgspec.structs.replace(pod.status, conditions=(condition,))
    return msgspec.structs.replace(pod, status=status)


def nominated(pod: Pod, node: str) -> Pod:
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)


class Written:
    """What the API server has taken, and tells the shadow at once."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.version = 100
        self.objects: dict[str, KubeObject] = {}

    def put(self, kind: Kind, obj: Any) -> Any:
        """An object is written; returns it with its version."""
        self.version += 1
        new, old = versioned(obj, self.version), self.objects.get(obj.key)
        self.objects[obj.key] = new
        self._follower.take(kind, old, new, str(self.version))
        return new

    def remove(self, kind: Kind, key: str) -> Any:
        """An object is gone."""
        self.version += 1
        old = self.objects.pop(key)
        self._follower.take(kind, old, None, str(self.version))
        return old


class OtherScheduler:
    """Decides, some time before its bindings are written and after what it has not seen yet was written."""

    def __init__(self, written: Written, nodes: list[Node]) -> None:
        self._written = written
        self._cache = Cache()
        for node in nodes:
            self._cache.add_node(written.put(NODES, node))
        self._profile = profiles_over(self._cache, default_configuration(), registry())[NAME]
        self._unseen: list[tuple[str, Pod]] = []
        self._queue: list[Pod] = []
        self.in_flight: list[tuple[Pod, str]] = []
        self.bound: list[Pod] = []

    def create(self, pod: Pod) -> None:
        """Somebody makes a pod."""
        self._unseen.append(("created", self._written.put(PODS, pod)))

    def end(self, index: int) -> None:
        """Somebody deletes a pod that is bound: it is being deleted, and then it is gone."""
        if self.bound:
            pod = self.bound.pop(index % len(self.bound))
            self._unseen.append(("bound", self._written.put(PODS, being_deleted(pod))))
            self._unseen.append(("gone", self._written.remove(PODS, pod.key)))

    def see(self, count: int) -> None:
        """The watch brings so many of the changes, in their order."""
        for what, pod in self._unseen[:count]:
            if what == "created":
                self._queue.append(pod)
            elif what == "bound":
                self._cache.add_pod(pod)
            else:
                self._cache.remove_pod(PodInfo(pod).uid)
        del self._unseen[:count]

    def decide(self) -> None:
        """The first pod of the queue gets a node, if any; the binding is under way."""
        if not self._queue:
            return
        pod = max(self._queue, key=lambda queued: queued.spec.priority or 0)
        self._queue.remove(pod)
        node = schedule(self._profile, PodInfo(pod), self._cache).node_name
        if node:
            self._cache.assume_pod(PodInfo(pod), node)
            self.in_flight.append((pod, node))
        else:
            self._written.put(PODS, rejected(pod))

    def write(self, index: int) -> None:
        """One of the bindings under way is written."""
        if self.in_flight:
            pod, node = self.in_flight.pop(index % len(self.in_flight))
            bound = self._written.put(PODS, on_node(pod, node))
            self.bound.append(bound)
            self._unseen.append(("bound", bound))

    def finish(self) -> None:
        """Everything comes to its end."""
        self.see(len(self._unseen))
        while self._queue:
            self.decide()
        while self.in_flight:
            self.write(0)


def kinds(comparisons: list[Comparison]) -> list[DifferenceKind]:
    return [comparison.kind for comparison in comparisons]
