"""A scheduler that decides by itself, while everything else happens as it was recorded.

Pods and nodes come, change and go at the recorded times; what the recorded scheduler did (Bindings, nominations,
evictions) does not happen. Every decision is made at once, every Binding succeeds, a victim is gone at once. So two
configurations are compared under the same conditions, and neither with what really was.

Limits: a pod that a controller made again after a recorded eviction comes in any case; a pod ends when it ended then,
also if it got its node later here. PreBind, extenders and plugins' own data are left out, but for the mix of typical
pods that FragmentationAware learns: it looks at the cluster in memory each minute of recorded time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kscheduler.aio.synchronous import run_synchronously
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.assembly import Assembly
from kscheduler.assembly.configured import Configured
from kscheduler.assembly.profiles_over import that_only_decide
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.fragments.typical_requests import pods_on_nodes
from kscheduler.fragments.unusable import finished, fragments
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.packing.fragmentation_aware import FragmentationAware
from kscheduler.recorder.alternatives.run_measurements import PodPlacement, RunMeasurements, nodes_in_use
from kscheduler.recorder.replaying.ports_of_replay import RecordedCluster, RecordedLister
from kscheduler.recorder.replaying.service_steps import decide, decide_group
from kscheduler.recorder.step_clock import MICROS, ReplayedClock
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt_events import EvictionStep, PodNotScheduled
from kscheduler.scheduling.eviction.evictions import RunningPreemption
from kscheduler.scheduling.observers import hears
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.state.queue.queued_group import QueuedPodGroup

SAMPLE_SECONDS: Final = 60.0
# A look at all pods takes longer than a sample.
FRAGMENTS_SECONDS: Final = 3600.0
# Decisions per waiting pod after one event: a pod that still moves then moves forever.
_MAX_DECISIONS: Final = 20


@dataclass(frozen=True, slots=True)
class ExternalChange:
    """A change that came from outside, or the queue's clock."""

    micros: int
    kind: Kind | None
    """`None`: it is time to flush the queue."""
    old: KubeObject | None = None
    new: KubeObject | None = None
    is_net: bool = False
    """The safety net's turn."""


class _Messages:
    def __init__(self) -> None:
        self.by_pod: dict[str, str] = {}

    @hears(PodNotScheduled)
    def failed(self, event: PodNotScheduled) -> None:
        self.by_pod[event.queued.key] = event.failure.message


class FreeRun:
    """One run under one configuration."""

    def __init__(self, configured: Configured, kinds: Sequence[Kind], victims: frozenset[str]) -> None:
        """`victims`: UIDs of the pods that the recorded scheduler has evicted. Raises `ConfigError`."""
        self.clock = ReplayedClock()
        self.measured = RunMeasurements(configured.config.gates.version)
        self._cluster = RecordedCluster(kinds)
        self._victims = victims
        self._arrived: dict[str, int] = {}
        """By UID, when a pod came, in microseconds."""
        self._gone: set[str] = set()
        """UIDs of pods that this run has evicted."""
        self._messages = _Messages()
        self._begun: list[RunningPreemption] = []
        self._held: list[Attempt] = []
        self._next_sample = self._next_fragments = 0
        self.assembly = Assembly(
            configured.config,
            configured.registry,
            self._cluster.reading_ports(journal=self._messages, lister=self._lister, log=PodLog(has_errors=False)),
            self.clock,
            build=that_only_decide,
            carry_out=self._begun.append,
        )
        self.assembly.plugin_reports.ignore_slow_calls()
        self.assembly.listen_to(self._cluster.listeners)

    # --- what happens -------------------------------------------------------------------------------------------------

    def apply_external(self, change: ExternalChange, *, is_last: bool = True) -> None:
        """Apply it, and let the scheduler do what it can; not `is_last`: only after other changes of the same time."""
        self.clock.set(max(change.micros, self.clock.micros))
        if change.micros >= self._next_sample:
            if self._next_sample:
                self.measured.samples.append(nodes_in_use(self.assembly.cache))
                self._learn()
            self._next_sample = change.micros + int(SAMPLE_SECONDS * MICROS)
        if change.micros >= self._next_fragments:
            if self._next_fragments:
                self.measured.fragments.append(self._fragments())
            self._next_fragments = change.micros + int(FRAGMENTS_SECONDS * MICROS)
        queue, now = self.assembly.queue, self.clock.time()
        if change.kind is None:
            queue.flush_backoff(now)
            if change.is_net:
                queue.flush_unschedulable(now)
            self._look_at_held()
        elif change.kind is PODS:
            self._apply_to_pod(change.old, change.new)
        elif change.new is not None:
            self._cluster.put(change.kind, change.new, initial=change.kind is NODES)
        elif change.old is not None:
            self._cluster.remove(change.kind, change.old.key)
        if is_last:
            self._decide_all()

    def end(self) -> RunMeasurements:
        """What came of it."""
        self.measured.samples.append(nodes_in_use(self.assembly.cache))
        self.measured.fragments.append(self._fragments())
        served = self.assembly.profiles
        for pod in self._cluster.pods():
            if not pod.spec.node_name and not pod.is_terminal and pod.spec.scheduler_name in served:
                self.measured.pending[pod.key] = self._messages.by_pod.get(pod.key, "it was not tried")
        return self.measured

    def pods(self) -> Sequence[Pod]:
        """All that are there now."""
        return self._cluster.pods()

    def pod_of(self, key: str) -> Pod | None:
        """The pod under `namespace/name`, as it is now."""
        return self._cluster.pod_of(key)

    @property
    def has_backoff(self) -> bool:
        """Whether pods wait for the queue's rounds."""
        return self.assembly.queue.statistics().backoff > 0

    def _fragments(self) -> tuple[ResourceFragmentation, ...]:
        """Without devices of claims, which the claims have as recorded."""
        cache = self.assembly.cache
        waiting = [PodInfo(pod) for pod in self._cluster.pods() if not pod.spec.node_name]
        return finished(fragments(cache, None, lambda: pods_on_nodes(cache), lambda: waiting))

    def _lister(self, kind: Kind) -> RecordedLister:
        return RecordedLister(self._cluster.store(kind))

    def _learn(self) -> None:
        for profile in self.assembly.profiles.values():
            for plugin in profile.instances:
                if isinstance(plugin, FragmentationAware):
                    run_synchronously(plugin.refresh())

    def _apply_to_pod(self, old: KubeObject | None, new: KubeObject | None) -> None:
        about: Any = new or old
        uid = about.metadata.uid
        if uid in self._gone:
            return
        if new is None or about.is_terminal:
            if uid not in self._victims:
                self._cluster.remove(PODS, about.key)
            return
        if uid in self._victims and about.metadata.deletion_timestamp is not None:
            return  # the recorded scheduler sent it away
        self._arrived.setdefault(uid, self.clock.micros)
        self._cluster.put(PODS, self._as_here(about))

    def _as_here(self, pod: Pod) -> Pod:
        """The pod with the node that it has in this run."""
        if pod.spec.scheduler_name not in self.assembly.profiles:
            return pod
        here = self._cluster.current(pod)
        if here is None:
            return pod  # it comes as it came: without a node, or on one since before the recording
        node_name, status = here.spec.node_name, pod.status
        if status.nominated_node_name:
            status = msgspec.structs.replace(status, nominated_node_name="")
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name), status=status)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decide_all(self) -> None:
        queue, scheduler = self.assembly.queue, self.assembly.scheduler
        left = _MAX_DECISIONS * (1 + sum(_sizes(queue.statistics())))
        while queue.has_ready() and left:
            left -= 1
            queued = queue.pop_next(self.clock.time())
            if queued is None:
                return
            if isinstance(queued, QueuedPodGroup):
                attempts = decide_group(scheduler, queued)
            else:
                self.measured.decisions += 1
                attempt = decide(scheduler, queued)
                attempts = [] if attempt is None else [attempt]
            for attempt in attempts:
                self._go_on(attempt)
            self._evict()

    def _go_on(self, attempt: Attempt) -> None:
        if not attempt.node_name:  # extenders are not asked
            self.assembly.queue.done(attempt.queued.pod.uid)
            self._look_at_held()
            return
        if attempt.record.best_score is not None:
            self.measured.note_scored(attempt.record.left_out)
        if attempt.held is not None and attempt.held.verdict is None:
            self._held.append(attempt)
        else:
            self._bind(attempt)
        self._look_at_held()

    def _look_at_held(self) -> None:
        """Pods that wait for Permit: their plugins may have answered, or their time is over."""
        waiting, self._held = self._held, []
        for attempt in waiting:
            held = attempt.held
            assert held is not None  # noqa: S101  that is why it is here
            if held.verdict is None:
                held.expire(self.clock.monotonic())
            if held.verdict is None:
                self._held.append(attempt)
                continue
            self.assembly.waiting.release(held.pod.uid)
            if held.verdict.is_success:
                self._bind(attempt)
            else:
                self.assembly.scheduler.release_and_requeue(attempt, held.verdict)

    def _bind(self, attempt: Attempt) -> None:
        pod, scheduler = attempt.queued.pod, self.assembly.scheduler
        scheduler.leave_queue(pod.uid)
        scheduler.bound(attempt)
        seconds = (self.clock.micros - self._arrived.get(pod.uid, self.clock.micros)) / MICROS
        self.measured.placed[pod.uid] = PodPlacement(pod.key, attempt.node_name, seconds)
        current = self._cluster.current(pod.pod)
        if current is not None:
            self._cluster.apply_binding(current, attempt.node_name)

    def _evict(self) -> None:
        """The victims of preemptions that have begun are gone at once."""
        while self._begun:
            entry = self._begun.pop(0)
            for victim in entry.victims:
                self._gone.add(victim.uid)
                self.measured.evicted.append((victim.key, entry.preemption.text))
                self.measured.placed.pop(victim.uid, None)
                self._cluster.remove(PODS, victim.key)
            self.assembly.evictions.apply(entry, EvictionStep.CLOSED)
            self.assembly.evictions.apply(entry, EvictionStep.FORGOTTEN)


def _sizes(statistics: Any) -> tuple[int, ...]:
    return statistics.active, statistics.backoff, statistics.unschedulable
