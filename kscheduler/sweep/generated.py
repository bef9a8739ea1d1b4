"""Generated workloads: pods and gangs arrive at random times, wait for room, run, and end.

All random choices are made before the run, in the order of the arrivals: what arrives does not depend on the policy.

A pod ends when its run time is over, which begins when it gets its node. A gang is a PodGroup of scheduler-plugins, all
members of which arrive at once. Its run time begins when the last member gets its node, and all members end at once.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL, SCHEDULER_PLUGINS_POD_GROUPS, SchedulerPluginsPodGroup
from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.recorder.alternatives.run_measurements import PRICE_KEY
from kscheduler.recorder.step_clock import MICROS
from kscheduler.sweep.policies import configured
from kscheduler.sweep.run_spec import GeneratedGangs, GeneratedPods, GeneratedWorkload, PlayedPolicy
from kscheduler.sweep.timed import TimedRun, shaped_node

# When the first generated pod may arrive: whole seconds since the epoch.
_START: Final = 1_790_000_000
_NAMESPACE: Final = "default"
# The intervals at which the service flushes the queue.
_FLUSH_SECONDS: Final = 1
_SAFETY_NET_SECONDS: Final = 30

# Changes of the same time, after the last of which the scheduler decides.
Batch = tuple[ExternalChange, ...]


def generated_run(workload: GeneratedWorkload, policy: PlayedPolicy, seed: int) -> TimedRun:
    """Play the whole workload. Raises `ConfigError`."""
    gangs = workload.gangs
    decides = configured(policy, has_gangs=bool(gangs))
    kinds = [NODES, PODS, SCHEDULER_PLUGINS_POD_GROUPS] if gangs else [NODES, PODS]
    timed = TimedRun(FreeRun(decides, kinds, frozenset()), workload.gpu)
    start = _START * MICROS
    for node in _nodes(workload):
        timed.apply(ExternalChange(start, NODES, None, node))
    # A rejected gang never leaves the backoff queue; its longest backoff grows with the root of its members.
    largest = max((max(each.members) for each in gangs), default=1)
    longest_backoff = decides.config.configuration.pod_max_backoff_seconds * math.sqrt(largest) + _FLUSH_SECONDS
    player = _Player(workload, timed, Random(seed))  # noqa: S311  a seeded draw, nothing is secret
    player.play(start, int(longest_backoff * MICROS))
    if gangs:
        timed.gangs, timed.gangs_waiting = player.gangs, player.gangs - player.gangs_started
    return timed


@dataclass(slots=True)
class _Gang:
    group: SchedulerPluginsPodGroup
    members: dict[str, Pod]
    """By UID."""
    without_node: set[str]
    """UIDs of members that have not had a node yet."""
    run_micros: int


class _Player:
    """Applies the drawn arrivals, and the ends of what has got its nodes."""

    def __init__(self, workload: GeneratedWorkload, timed: TimedRun, rng: Random) -> None:
        self.gangs = self.gangs_started = 0
        self._timed = timed
        self._run_micros: dict[str, int] = {}
        """By UID of pods without a gang."""
        self._gang_of: dict[str, _Gang] = {}
        """By UID of members."""
        self._placed: set[str] = set()
        """UIDs of pods that have had a node."""
        self._evictions_seen = 0
        self._due: list[tuple[int, int, Batch]] = []
        self._sequence = 0
        self._draw(workload, rng)

    # --- arrivals -----------------------------------------------------------------------------------------------------

    def _draw(self, workload: GeneratedWorkload, rng: Random) -> None:
        gangs = workload.gangs
        now, weights = float(_START), [each.weight for each in (*workload.pods, *gangs)]
        for number in range(workload.count):
            now += rng.expovariate(1 / workload.arrival_seconds) if workload.arrival_seconds else 0.0
            kind = rng.choices(range(len(weights)), weights)[0]
            run_seconds = rng.expovariate(1 / workload.life_seconds) if workload.life_seconds else 0.0
            micros, run_micros = int(now * MICROS), int(run_seconds * MICROS)
            gang_kind = kind - len(workload.pods)
            if gang_kind < 0:
                pod = _pod(f"pod-{kind}-{number:06}", workload.pods[kind])
                self._run_micros[pod.metadata.uid] = run_micros
                self._add((ExternalChange(micros, PODS, None, pod),))
            else:
                chosen = gangs[gang_kind]
                gang = _gang(f"gang-{gang_kind}-{number:06}", chosen, rng.choice(chosen.members), run_micros)
                self._gang_of.update(dict.fromkeys(gang.members, gang))
                self.gangs += 1
                self._add(
                    (
                        ExternalChange(micros, SCHEDULER_PLUGINS_POD_GROUPS, None, gang.group),
                        *(ExternalChange(micros, PODS, None, pod) for pod in gang.members.values()),
                    )
                )

    def _add(self, batch: Batch) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (batch[0].micros, self._sequence, batch))

    # --- the run ------------------------------------------------------------------------------------------------------

    def play(self, now: int, longest_backoff: int) -> None:
        """Until nothing is due, and nothing that backs off can get a node.

        What backs off is tried again within `longest_backoff`. If that passes without a change that may make it fit, it
        would be rejected again, so the queue is not flushed until the next change: long gaps cost nothing.
        """
        run = self._timed.run
        safety_net = helped = now
        while True:
            flush = now + _FLUSH_SECONDS * MICROS
            is_flushed = run.has_backoff and now < helped + longest_backoff
            if is_flushed and (not self._due or flush < self._due[0][0]):
                now = flush
                is_net = now - safety_net >= _SAFETY_NET_SECONDS * MICROS
                safety_net = now if is_net else safety_net
                batch: Batch = (ExternalChange(now, None, is_net=is_net),)
            elif self._due:
                now, _, batch = heapq.heappop(self._due)
            else:
                return
            if self._apply(batch):
                helped = now

    def _apply(self, batch: Batch) -> bool:
        """Whether something ended, was evicted or got a node: then pods that were rejected before may fit."""
        *first, last = batch
        for change in first:
            self._timed.apply(change, is_last=False)
        self._timed.apply(last)
        placed = list(self._newly_placed())
        for uid, pod in placed:
            self._placed.add(uid)
            if uid in self._gang_of:
                self._has_had_node(uid, last.micros)
            elif self._run_micros[uid]:
                self._add((ExternalChange(last.micros + self._run_micros[uid], PODS, pod, None),))
        has_evicted = self._look_at_evictions(last.micros)
        has_ended = last.kind is not None and last.new is None
        return bool(placed) or has_evicted or has_ended

    def _newly_placed(self) -> Iterator[tuple[str, Pod]]:
        """A pod gets a node once, as a victim does not come again."""
        for uid in reversed(self._timed.run.measured.placed):
            if uid in self._placed:
                return
            pod = self._timed.run.pod_of(self._timed.run.measured.placed[uid].pod)
            if pod is not None:
                yield uid, pod

    def _look_at_evictions(self, now: int) -> bool:
        """Whether there are any. A member that was evicted at once has had a node: its gang must not wait for it."""
        evicted = self._timed.run.measured.evicted
        for key, _ in evicted[self._evictions_seen :]:
            uid = key.removeprefix(f"{_NAMESPACE}/")
            if uid in self._gang_of:
                self._has_had_node(uid, now)
        is_new = len(evicted) > self._evictions_seen
        self._evictions_seen = len(evicted)
        return is_new

    def _has_had_node(self, uid: str, now: int) -> None:
        gang = self._gang_of.pop(uid)
        gang.without_node.remove(uid)
        if gang.without_node:
            return
        self.gangs_started += 1
        if gang.run_micros:
            end = now + gang.run_micros
            self._add(
                (
                    *(ExternalChange(end, PODS, pod, None) for pod in gang.members.values()),
                    ExternalChange(end, SCHEDULER_PLUGINS_POD_GROUPS, gang.group, None),
                )
            )


# --- objects ----------------------------------------------------------------------------------------------------------


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


def _gang(name: str, kind: GeneratedGangs, size: int, run_micros: int) -> _Gang:
    metadata = {"name": name, "namespace": _NAMESPACE, "uid": name, "annotations": dict(kind.annotations)}
    group = convert({"metadata": metadata, "spec": {"minMember": size}}, SchedulerPluginsPodGroup)
    pods: Iterable[Pod] = (_pod(f"{name}-{index}", kind, {SCHEDULER_PLUGINS_LABEL: name}) for index in range(size))
    members = {pod.metadata.uid: pod for pod in pods}
    return _Gang(group, members, set(members), run_micros)


def _pod(name: str, kind: GeneratedPods, labels: dict[str, str] | None = None) -> Pod:
    spec: dict[str, Any] = {
        "schedulerName": OWN_SCHEDULER_NAME,
        "priority": kind.priority,
        "containers": [{"name": "main", "resources": {"requests": dict(kind.requests)}}],
        **kind.spec,
    }
    metadata = {"name": name, "namespace": _NAMESPACE, "uid": name, "labels": {**kind.labels, **(labels or {})}}
    return convert({"metadata": metadata, "spec": spec}, Pod)
