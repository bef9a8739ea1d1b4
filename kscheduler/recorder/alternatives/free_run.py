"""A scheduler that decides by itself, while everything else happens as it was recorded.

Pods and nodes come, change and go at the recorded times; what the recorded scheduler did (Bindings, nominations,
evictions, devices of claims) does not happen. Every decision is made at once, every Binding succeeds, a victim is gone
at once, devices are ready at once. So two configurations are compared under the same conditions, and neither with what
really was.

Limits: a pod that a controller made again after a recorded eviction comes in any case; a pod ends when it ended then,
also if it got its node later here. Volumes and their claims are bound as recorded, whatever node a pod gets here. Of
PreBind only claims to devices are written (`claims_of_run`). Extenders and plugins' own data are left out, but for the
mix of typical pods that FragmentationAware learns: it looks at the cluster in memory each minute of recorded time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from kscheduler.aio.synchronous import run_at_once, run_synchronously
from kscheduler.aio.tasks import finished
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS, RESOURCE_CLAIMS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.assembly import Assembly
from kscheduler.assembly.configured import Configured
from kscheduler.assembly.profiles_over import that_only_decide
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.fragments.typical_requests import pods_on_nodes
from kscheduler.fragments.unusable import fragments, used_up
from kscheduler.framework.cluster.claim_writing import ClaimRules, PodReservation
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.plugins.packing.fragmentation_aware import FragmentationAware
from kscheduler.recorder.alternatives.claims_of_run import ClaimsOfRun, PodQuestion
from kscheduler.recorder.alternatives.run_measurements import PodPlacement, RunMeasurements, nodes_in_use
from kscheduler.recorder.replaying.ports_of_replay import RecordedCluster, RecordedLister
from kscheduler.recorder.replaying.recorded_configuration import followed_kinds
from kscheduler.recorder.replaying.service_steps import decide, decide_group
from kscheduler.recorder.step_clock import MICROS, ReplayedClock
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt_events import EvictionStep, PodNotScheduled
from kscheduler.scheduling.eviction.evictions import RunningPreemption
from kscheduler.scheduling.observers import hears
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.profile import device_counter, ignores_resource
from kscheduler.state.queue.queued_group import QueuedPodGroup

SAMPLE_SECONDS: Final = 60.0
# Of a recording in which samples a minute apart would be fewer.
_MIN_SAMPLES: Final = 20
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


class _Cluster(RecordedCluster):
    """The objects of a run. A pod that is gone, for whatever reason, holds no claims to devices."""

    def __init__(self, kinds: Sequence[Kind], is_as_recorded: PodQuestion, stays: PodQuestion) -> None:
        super().__init__(kinds)
        self.claims = ClaimsOfRun(self, is_as_recorded, stays)

    def remove(self, kind: Kind, key: str) -> None:
        """An object is gone, if it was there."""
        pod = self.pod_of(key) if kind is PODS else None
        super().remove(kind, key)
        if pod is not None and (pod.spec.resource_claims or pod.status.extended_resource_claim_status is not None):
            self.claims.pod_is_gone(pod)


class FreeRun:
    """One run under one configuration."""

    def __init__(
        self, configured: Configured, kinds: Sequence[Kind], victims: frozenset[str], length: int | None = None
    ) -> None:
        """Raises `ConfigError`.

        `victims`: UIDs of the pods that the recorded scheduler has evicted. `length`: of the recording, in
        microseconds: a short one is sampled more often than once a minute.
        """
        self.clock = ReplayedClock()
        followed = followed_kinds(kinds, configured.config)
        self._followed = {kind.resource: kind for kind in followed}
        self.measured = RunMeasurements(configured.config.gates.version)
        self._cluster = _Cluster(followed, self._is_pod_as_recorded, self._does_pod_stay)
        self._claims = self._cluster.claims
        self._victims = victims
        self._arrived: dict[str, int] = {}
        """By UID, when a pod came, in microseconds."""
        self._gone: set[str] = set()
        """UIDs of pods that this run has evicted."""
        self._messages = _Messages()
        self._begun: list[RunningPreemption] = []
        self._held: list[Attempt] = []
        self._next_minute = self._next_fragments = 0
        is_short = length is not None and length < _MIN_SAMPLES * SAMPLE_SECONDS * MICROS
        self._step = max(1, length // _MIN_SAMPLES) if length is not None and is_short else 0
        """Between the samples of a short recording, in microseconds; 0: they are taken once a minute."""
        self._next_sample: int | None = None
        """When a short recording is sampled next."""
        self.assembly = Assembly(
            configured.config,
            configured.registry,
            self._cluster.reading_ports(
                claim_storage=self._claims,
                claims_at_once=True,
                journal=self._messages,
                lister=self._lister,
                log=PodLog(has_errors=False),
            ),
            self.clock,
            build=that_only_decide,
            carry_out=self._begun.append,
        )
        self.assembly.plugin_reports.ignore_slow_calls()
        self.assembly.listen_to(self._cluster.listeners)
        self._devices = ClassDevices(self.assembly.cache, lambda: device_counter(self.assembly.profiles.values()))

    # --- what happens -------------------------------------------------------------------------------------------------

    def apply_external(self, change: ExternalChange, *, is_last: bool = True) -> None:
        """Apply it, and let the scheduler do what it can; not `is_last`: only after other changes of the same time."""
        self.clock.set(max(change.micros, self.clock.micros))
        self._measure(change.micros)
        queue, now = self.assembly.queue, self.clock.time()
        if change.kind is None:
            queue.flush_backoff(now)
            if change.is_net:
                queue.flush_unschedulable(now)
            self._look_at_held()
        elif change.kind is PODS:
            self._apply_to_pod(change.old, change.new)
        elif change.kind is RESOURCE_CLAIMS:
            claims: tuple[Any, Any] = change.old, change.new
            self._claims.apply(*claims)
        else:
            self._apply_to(self._followed.get(change.kind.resource, change.kind), change)
        if is_last:
            self._decide_all()

    def _measure(self, micros: int) -> None:
        """What is due before the changes of this time."""
        if self._step:
            self._sample_until(micros)
        if micros >= self._next_minute:
            if self._next_minute:
                if not self._step:
                    self.measured.samples.append(nodes_in_use(self.assembly.cache))
                self._learn()
            self._next_minute = micros + int(SAMPLE_SECONDS * MICROS)
        if micros >= self._next_fragments:
            if self._next_fragments:
                self.measured.fragments.append(self._fragments())
            self._next_fragments = micros + int(FRAGMENTS_SECONDS * MICROS)

    def _sample_until(self, micros: int) -> None:
        """The samples of a short recording that are due before this change: nothing has changed since the last one.

        The first is of the time of the snapshot, whose objects all have the same time.
        """
        if self._next_sample is None:
            self._next_sample = micros
        if micros > self._next_sample:
            sample = nodes_in_use(self.assembly.cache)
            due = -(-(micros - self._next_sample) // self._step)
            self.measured.samples += [sample] * due
            self._next_sample += due * self._step

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
        cache, ignores = self.assembly.cache, partial(ignores_resource, self.assembly.profiles)
        waiting = [PodInfo(pod) for pod in self._cluster.pods() if not pod.spec.node_name]
        found = finished(fragments(cache, self._devices, lambda: pods_on_nodes(cache), lambda: waiting, ignores))
        return (*found, *used_up(self._devices, found))

    def _lister(self, kind: Kind) -> RecordedLister:
        return RecordedLister(self._cluster.store(kind))

    def _learn(self) -> None:
        for profile in self.assembly.profiles.values():
            for plugin in profile.instances:
                if isinstance(plugin, FragmentationAware):
                    run_synchronously(plugin.refresh())

    def _apply_to(self, kind: Kind, change: ExternalChange) -> None:
        """`kind`: in the version that the configuration of this run follows."""
        if change.new is not None:
            self._cluster.put(kind, change.new, initial=kind is NODES)
        elif change.old is not None:
            self._cluster.remove(kind, change.old.key)

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
        pod, is_new = self._as_here(about), uid not in self._arrived
        if is_new:
            self._arrived[uid] = self.clock.micros
            if len(self._cluster.store(RESOURCE_CLAIMS)) and not self._is_as_recorded(pod):
                left_over = self.assembly.cache.devices.claims.for_extended_resources(pod)
                self._claims.pod_to_decide(pod, left_over)
        self._cluster.put(PODS, pod)

    def _is_as_recorded(self, pod: Pod) -> bool:
        """Whether the pod is decided by another scheduler, or was before the recording began."""
        is_served = pod.spec.scheduler_name in self.assembly.profiles
        return not is_served or (bool(pod.spec.node_name) and pod.metadata.uid not in self.measured.placed)

    def _pod_with(self, namespace: str, name: str, uid: str) -> Pod | None:
        pod = self._cluster.pod_of(f"{namespace}/{name}")
        return pod if pod is not None and pod.metadata.uid == uid else None

    def _is_pod_as_recorded(self, namespace: str, name: str, uid: str) -> bool:
        """The same of one that may be gone, or not known yet."""
        pod = self._pod_with(namespace, name, uid)
        return uid not in self._arrived if pod is None else self._is_as_recorded(pod)

    def _does_pod_stay(self, namespace: str, name: str, uid: str) -> bool:
        """Whether the pod is here and keeps what it holds, whatever became of it in the recording."""
        pod = self._pod_with(namespace, name, uid)
        return pod is not None and (pod.spec.scheduler_name in self.assembly.profiles or uid in self._victims)

    def _as_here(self, pod: Pod) -> Pod:
        """The pod with the node that it has in this run."""
        if pod.spec.scheduler_name not in self.assembly.profiles:
            return pod
        here, status = self._cluster.current(pod), pod.status
        if pod.spec.node_name and here is None:
            return pod  # it comes as it came, on a node since before the recording
        named = None if here is None else here.status.extended_resource_claim_status
        if status.extended_resource_claim_status is not named:
            status = msgspec.structs.replace(status, extended_resource_claim_status=named)
        if here is None:
            return pod if status is pod.status else msgspec.structs.replace(pod, status=status)
        if status.nominated_node_name:
            status = msgspec.structs.replace(status, nominated_node_name="")
        spec = msgspec.structs.replace(pod.spec, node_name=here.spec.node_name)
        return msgspec.structs.replace(pod, spec=spec, status=status)

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
        status = self._write_claims(attempt)
        if not status.is_success:
            scheduler.release_and_requeue(attempt, status)
            return
        scheduler.leave_queue(pod.uid)
        scheduler.bound(attempt)
        seconds = (self.clock.micros - self._arrived.get(pod.uid, self.clock.micros)) / MICROS
        self.measured.placed[pod.uid] = PodPlacement(pod.key, attempt.node_name, seconds)
        current = self._cluster.current(pod.pod)
        if current is not None:
            self._cluster.apply_binding(current, attempt.node_name)

    def _write_claims(self, attempt: Attempt) -> Status:
        """The devices that were chosen for the pod's claims become theirs."""
        reservation, writer = attempt.record.state.find(PodReservation), self.assembly.claims
        if reservation is None or writer is None:
            return SUCCESS
        return run_at_once(writer.pre_bind(reservation, ClaimRules()))

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
