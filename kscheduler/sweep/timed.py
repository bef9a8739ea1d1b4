"""Workloads with a time of their own: pods come, run and go, and wait where there is no room.

A recording is played as `kscheduler replay --config` plays it. Generated pods come at random times, and end when they
have run as long as was drawn for them, from when they got their node.
"""

import heapq
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import yaml

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.quantity import Quantity, nano_value
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.recorder.alternatives.comparing import HASHED, RecordedRun
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.recorder.alternatives.run_measurements import PRICE_KEY, RunMeasurements
from kscheduler.recorder.replaying.recorded_configuration import changed_plugins, configured_as
from kscheduler.recorder.replaying.replay import last_run_of
from kscheduler.recorder.step_clock import MICROS
from kscheduler.sweep.cluster_samples import SampleSeries, sample_of
from kscheduler.sweep.policies import configured
from kscheduler.sweep.run_spec import UNCHANGED, GeneratedWorkload, NodeShaping, PlayedPolicy, RecordedWorkload

# When the first generated pod comes: whole seconds since the epoch.
_BEGIN: Final = 1_790_000_000
# The queue's own rounds, as in the service.
_BACKOFF_SECONDS: Final = 1
_NET_SECONDS: Final = 30
_NANO: Final = 10**9


class TimedRun:
    """A run by one policy, and samples of its cluster."""

    def __init__(self, run: FreeRun, gpu: str) -> None:
        """`gpu`: the extended resource that counts GPUs."""
        self.run = run
        self.samples = SampleSeries()
        self.arrived = 0
        self.notes: tuple[str, ...] = ()
        """What a recording lacks."""
        self._seen: set[str] = set()
        self._gpu = gpu

    def apply(self, change: ExternalChange) -> None:
        """Apply a change; if a sample is due, it is taken before the change."""
        now = change.micros / MICROS
        if self.samples.is_due(now):
            self._sample(now)
        new = change.new
        if isinstance(new, Pod) and not new.spec.node_name and not new.is_terminal:
            served = new.spec.scheduler_name in self.run.assembly.profiles
            if served and new.metadata.uid not in self._seen:
                self._seen.add(new.metadata.uid)
                self.arrived += 1
        self.run.apply_external(change)

    def end(self) -> RunMeasurements:
        """End the run."""
        self._sample(self.run.clock.time())
        return self.run.end()

    def _sample(self, now: float) -> None:
        self.samples.add(sample_of(self.run.assembly.cache, self.run.pods(), self._gpu), now)


# --- recordings -------------------------------------------------------------------------------------------------------


def recorded_run(workload: RecordedWorkload, policy: PlayedPolicy) -> TimedRun:
    """The whole of it. Raises `RecordingError`, `SegmentError`, `ConfigError`, `OSError`."""
    recorded = RecordedRun(last_run_of(Path(workload.path)))
    description = recorded.description
    if policy.kind == "recorded":
        decides = configured_as(description)
        notes = tuple(changed_plugins(description, decides.origins))
    else:
        tree = yaml.safe_load(description.configuration)
        names = [profile["schedulerName"] for profile in tree["profiles"]]
        decides = configured(policy, names, description.feature_gates, beside=tree)
        notes = (HASHED,) if description.is_redacted else ()
    timed = TimedRun(FreeRun(decides, recorded.beginning.kinds, recorded.victims), workload.gpu)
    shaped = _Shaped(workload.shape)
    for change in recorded.external_changes():
        timed.apply(shaped.change(change))
    timed.notes = (*recorded.notes, *notes)
    return timed


class _Shaped:
    """Changes of nodes as the node shape has them. Nodes are counted in the order in which they are first seen."""

    def __init__(self, shape: NodeShaping) -> None:
        self._shape = shape
        self._places: dict[str, int] = {}

    def change(self, change: ExternalChange) -> ExternalChange:
        if change.kind is not NODES or self._shape == UNCHANGED:
            return change
        named: Any = change.new or change.old
        place = self._places.setdefault(named.metadata.name, len(self._places))
        if not self._shape.has_node(place):
            return ExternalChange(change.micros, None)
        new: Any = change.new
        return (
            change if new is None else ExternalChange(change.micros, NODES, change.old, shaped_node(new, self._shape))
        )


def shaped_node(node: Node, shape: NodeShaping) -> Node:
    """The node with what the shape makes of its resources."""
    allocatable = dict(node.status.allocatable)
    for resource, factor in shape.scale:
        if resource in allocatable:
            allocatable[resource] = _scaled(allocatable[resource], resource, factor)
    status = msgspec.structs.replace(node.status, allocatable=allocatable)
    return msgspec.structs.replace(node, status=status)


def _scaled(quantity: Quantity, resource: str, factor: float) -> str:
    nano = int(nano_value(quantity) * Fraction(str(factor)))
    return f"{nano // 10**6}m" if resource == "cpu" else str(nano // _NANO)


# --- generated pods ---------------------------------------------------------------------------------------------------


def generated_run(workload: GeneratedWorkload, policy: PlayedPolicy, seed: int) -> TimedRun:
    """The whole of it. Raises `ConfigError`."""
    timed = TimedRun(FreeRun(configured(policy), [NODES, PODS], frozenset()), workload.gpu)
    begin = _BEGIN * MICROS
    for node in _nodes(workload):
        timed.apply(ExternalChange(begin, NODES, None, node))
    _Generated(workload, timed, Random(seed)).play(begin)  # noqa: S311  a seeded draw, nothing is secret
    return timed


class _Generated:
    """Pods that come, and the ends of those that run."""

    def __init__(self, workload: GeneratedWorkload, timed: TimedRun, rng: Random) -> None:
        self._timed = timed
        self._lives: dict[str, int] = {}
        """By UID, in microseconds."""
        self._running: set[str] = set()
        self._due: list[tuple[int, int, ExternalChange]] = []
        self._number = 0
        self._draw(workload, rng)

    def _draw(self, workload: GeneratedWorkload, rng: Random) -> None:
        """All of it beforehand: what comes must not depend on what the policy does."""
        now, weights = float(_BEGIN), [each.weight for each in workload.pods]
        for number in range(workload.count):
            now += rng.expovariate(1 / workload.arrival_seconds) if workload.arrival_seconds else 0.0
            kind = rng.choices(range(len(weights)), weights)[0]
            life = rng.expovariate(1 / workload.life_seconds) if workload.life_seconds else 0.0
            micros, pod = int(now * MICROS), _pod(workload, kind, number)
            self._lives[pod.metadata.uid] = int(life * MICROS)
            self._add(ExternalChange(micros, PODS, None, pod))

    def _add(self, change: ExternalChange) -> None:
        self._number += 1
        heapq.heappush(self._due, (change.micros, self._number, change))

    def play(self, now: int) -> None:
        """Until nothing happens any more."""
        net = now
        while self._due:
            micros = self._due[0][0]
            # The queue's rounds, while somebody waits for them.
            while now + _BACKOFF_SECONDS * MICROS < micros and self._timed.run.has_backoff:
                now += _BACKOFF_SECONDS * MICROS
                is_net = now - net >= _NET_SECONDS * MICROS
                net = now if is_net else net
                self._happens(ExternalChange(now, None, is_net=is_net))
            now = micros
            self._happens(heapq.heappop(self._due)[2])

    def _happens(self, change: ExternalChange) -> None:
        self._timed.apply(change)
        for uid, pod in self._new():
            self._running.add(uid)
            if self._lives[uid]:
                self._add(ExternalChange(change.micros + self._lives[uid], PODS, pod, None))

    def _new(self) -> Iterator[tuple[str, Pod]]:
        """Pods that have got their nodes just now: a pod gets one once, as a victim does not come again."""
        for uid in reversed(self._timed.run.measured.placed):
            if uid in self._running:
                return
            pod = self._timed.run.pod_of(self._timed.run.measured.placed[uid].pod)
            if pod is not None:
                yield uid, pod


def _nodes(workload: GeneratedWorkload) -> Sequence[Node]:
    found: list[Node] = []
    place = 0
    for kind, group in enumerate(workload.nodes):
        for number in range(group.count):
            name = f"node-{kind}-{number:04}"
            labels = {HOSTNAME: name, **group.labels}
            if group.zones:
                labels[ZONE] = group.zones[number % len(group.zones)]
            allocatable = {"pods": "110", **group.allocatable}
            metadata = {"name": name, "labels": labels, "annotations": {PRICE_KEY: group.price} if group.price else {}}
            node = convert({"metadata": metadata, "status": {"allocatable": allocatable}}, Node)
            if workload.shape.has_node(place):
                found.append(shaped_node(node, workload.shape))
            place += 1
    return found


def _pod(workload: GeneratedWorkload, kind: int, number: int) -> Pod:
    group = workload.pods[kind]
    name = f"pod-{kind}-{number:06}"
    spec = {
        "schedulerName": OWN_SCHEDULER_NAME,
        "priority": group.priority,
        "containers": [{"name": "main", "resources": {"requests": dict(group.requests)}}],
        **group.spec,
    }
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": dict(group.labels)}
    return convert({"metadata": metadata, "spec": spec}, Pod)
