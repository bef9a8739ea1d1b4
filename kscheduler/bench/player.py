"""Plays and measures a scenario.

A loop does the work of the workers: pop, decide, bind; in between the watch delivers changes. The API server answers at
once, so one worker is as fast as many. Pods that wait for their volumes are prepared in tasks of their own, and the
event loop gets a turn as often as in the service.
"""

import asyncio
import gc
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from cProfile import Profile
from typing import Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.aio.collector import LongLived
from kscheduler.aio.tasks import BackgroundService, TaskSet, running
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NAMESPACES, PODS, RESOURCE_CLAIMS
from kscheduler.api.meta import KubeObject
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.bench.allocation import allocate_claims
from kscheduler.bench.attempt_clock import ATTEMPT_SECONDS, IDLE_SECONDS, AttemptClock
from kscheduler.bench.cluster import ServiceInProcess, StandIn
from kscheduler.bench.disturbance import Churning, Disturbance, Updating, deleting, has_labels
from kscheduler.bench.figures import Figures, Meter, resident_mebibytes
from kscheduler.bench.scenario import (
    DEFAULT_NAMESPACE,
    AllocateClaims,
    Barrier,
    BenchmarkScenario,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeletePods,
    Operation,
    Sleep,
    StartMeasuring,
    StopMeasuring,
    UpdateObjects,
)
from kscheduler.bench.template import ObjectTemplate, TemplateError, template
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.recorder.flight_recorder import FlightRecorder
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt.group_attempt import GroupConsultation
from kscheduler.scheduling.attempt_events import STEP_BEGAN, BackoffFlushed, GroupDecided, PodDecided
from kscheduler.scheduling.work.workers import SLICE_SECONDS
from kscheduler.state.queue.queued_group import QueuedPodGroup

# The scenario is given up if no pod is bound for this long while work is in progress.
STALL_SECONDS: Final = 120.0
# As much time is skipped for churn and deletions as scheduler_perf waits for pods.
_MOST_SKIPPED_SECONDS: Final = 600.0
_MICROSECONDS: Final = 1e6


async def play(scenario: BenchmarkScenario, plugins: Sequence[str] = ()) -> Figures:
    """Play the scenario in this process, with plugins as of `--plugin`. Raises `TemplateError` at a standstill."""
    return await Player(scenario, plugins).play()


class Player:
    """A run of a scenario; afterwards `cluster` has its final state."""

    def __init__(
        self,
        scenario: BenchmarkScenario,
        plugins: Sequence[str] = (),
        recorded_by: Callable[[StandIn], FlightRecorder] | None = None,
        profile: Profile | None = None,
    ) -> None:
        """`recorded_by` makes a flight recorder that hears the cluster first.

        With a `profile`, time is virtual, and what goes on from the first measured pod to the last is profiled.
        """
        self.scenario = scenario
        self._profile = profile
        self._virtual = None if profile is None else AttemptClock()
        self.cluster = StandIn()
        self.recorder = recorded_by(self.cluster) if recorded_by is not None else None
        clock: Clock = self._virtual or REAL_CLOCK
        if self.recorder is not None:
            clock = self.recorder.clock
        self._now = time.perf_counter if self._virtual is None else self._virtual.monotonic
        named = ",".join(gate if "=" in gate else f"{gate}=true" for gate in scenario.gates)
        gates = parse_feature_gates(named, version=scenario.version)
        self.service = ServiceInProcess(
            self.cluster,
            clock=clock,
            plugins=plugins,
            gates=gates,
            journal=self.recorder,
            configuration=scenario.configuration,
        )
        if self._virtual is not None:
            self.service.plugin_reports.ignore_slow_calls()  # they depend on the machine
        self._tell = self.service.observers.tell
        self._waiting = TaskSet("waiting", self.service.clock)
        self.meter = Meter()
        self._phase = Meter()
        """The current operation's meter; discarded unless its pods are measured."""
        self._resident = 0.0
        self._nodes: list[str] = []
        self._keys: dict[str, list[str]] = defaultdict(list)
        """Keys of pods by namespace, in the order of their creation."""
        self._coming: deque[Pod] = deque()
        """Pods of the current operation that have not arrived yet."""
        self._disturbances: list[Disturbance] = []
        self._due: list[float] = []
        """By disturbance: after how many measured pods its next step takes place."""
        self._skipped = 0.0
        """The time that was skipped, in measured pods."""
        self._awaited: dict[str, Pod] = {}
        """By UID the pods without a node that the current operation waits for."""
        self._not_awaited: dict[str, Pod] = {}
        """By UID the pods without a node that a barrier may wait for."""
        self._to_measure: set[str] = set()
        """UIDs of pods without a node that count when they get one."""
        self._is_measuring = self._in_window = False
        self._leaving: list[Pod] = []
        """Pods that have been bound, and are to be deleted for it."""
        self._leaves = False
        self._owned: dict[str, list[KubeObject]] = {}
        """By the UID of such a pod: its claims."""
        self._slice_ends = self._flush_at = 0.0
        self.cluster.on_bound = self._on_bound

    async def play(self) -> Figures:
        """Perform all operations in order; may be called once. Raises `TemplateError`."""
        service, problem = self.service, None
        services = (
            BackgroundService("long-lived objects", LongLived(service.clock).run),
            BackgroundService("conditions", service.status_writer.run),
            BackgroundService("conditions of groups", service.group_writer.run),
            BackgroundService("evictions", service.evictions.run),
        )
        async with running(*services):
            await asyncio.sleep(0)  # let them begin: long-lived objects are frozen while the cluster is filled, too
            try:
                for number, operation in enumerate(self.scenario.operations, start=1):
                    await self._perform(operation, f"namespace-{number}")
            except TemplateError as found:
                problem = found  # raised below, by itself rather than in an exception group
            finally:
                await self._waiting.cancel_all()
        if problem is not None:
            raise problem
        self._audit()
        return self._figures()

    # --- operations ---------------------------------------------------------------------------------------------------

    async def _perform(self, operation: Operation, own_namespace: str) -> None:
        """Perform an operation; some take their time, and wait until pods are bound or given up."""
        match operation:
            case CreatePods():
                await self._create_pods(operation, own_namespace)
            case Barrier():
                await self._wait_at(operation)
            case UpdateObjects(template=source):
                new = deque(self._make_all(source, operation.count, operation.namespace))
                await self._perform_all(Updating(source.kind, new), operation.per_second)
            case DeletePods(waits=True):
                deletions = deleting(operation, self.scenario.pace, self._keys)
                await self._perform_all(deletions, operation.per_second)
            case Sleep():
                await self._sleep(operation.seconds)
            case _:
                self._perform_at_once(operation, own_namespace)

    def _perform_at_once(self, operation: Operation, own_namespace: str) -> None:
        """Perform an operation that takes no time. Churn and deletions are registered: they take place later."""
        match operation:
            case CreateNodes():
                self._create_nodes(operation)
            case CreateNamespaces():
                self._create_namespaces(operation)
            case CreateObjects(template=source):
                for made in self._make_all(source, operation.count, operation.namespace):
                    self.cluster.create(source.kind, made)
            case AllocateClaims():
                with self._unmeasured():
                    allocate_claims(self.cluster, self.service, operation.namespace)
            case Churn():
                every = operation.interval_seconds * self.scenario.pace
                self._disturb(Churning(operation, every, operation.namespace or own_namespace, self._make))
            case DeletePods():
                self._disturb(deleting(operation, self.scenario.pace, self._keys))
            case StartMeasuring() | StopMeasuring():
                self._in_window = isinstance(operation, StartMeasuring)
                self._measure(is_on=self._in_window)

    def _disturb(self, disturbance: Disturbance) -> None:
        self._disturbances.append(disturbance)
        self._due.append(disturbance.every)

    def _create_nodes(self, operation: CreateNodes) -> None:
        for index, node in enumerate(self._make_all(operation.template, operation.count, "")):
            name = node.metadata.name
            zone = {ZONE: operation.zones[index % len(operation.zones)]} if operation.zones else {}
            node.metadata.labels = {**node.metadata.labels, HOSTNAME: name, **zone}
            self.cluster.create(operation.template.kind, node)
            self._nodes.append(name)
            for companion in operation.companions:
                namespace = DEFAULT_NAMESPACE if companion.kind.namespaced else ""
                self.cluster.create(companion.kind, self._make(companion, index, namespace, node=name))

    def _create_namespaces(self, operation: CreateNamespaces) -> None:
        made = template(NAMESPACES, f"{operation.prefix}-$index", {"metadata": {"labels": dict(operation.labels)}})
        for index in range(operation.count):
            self.cluster.create(NAMESPACES, self._make(made, index, ""))

    async def _sleep(self, seconds: float) -> None:
        ends = self._now() + seconds
        while self._now() < ends:
            if not await self._try_next():
                self._let_pass(IDLE_SECONDS)
                await self._take_turn()

    async def _perform_all(self, work: Disturbance, per_second: float) -> None:
        """Make all steps: at once for 0 `per_second`, else with the scheduler going on for that long between two."""
        while not work.is_over:
            work.step(self.cluster)
            if per_second:
                self.cluster.deliver_all()
                await self._try_all(1 / per_second)
        self.cluster.deliver_all()

    async def _create_pods(self, operation: CreatePods, own_namespace: str) -> None:
        if self._profile is not None and operation.measured:
            self._profile.enable()  # what comes with a pod, such as its claim, is the scheduler's work, too
        with self._unmeasured():
            pods = list(self._pods(operation, operation.namespace or own_namespace))
            gc.collect()  # freeze the present objects, as the service's first full collection would do
        by_uid = {pod.metadata.uid: pod for pod in pods}
        if operation.measured:
            self._to_measure.update(by_uid)
        if not operation.waits:
            self._not_awaited.update(by_uid)
            self._coming.extend(pods)
            self._arrive(len(pods))
            return
        if operation.arrival == "pending":
            self._awaited.update(by_uid)
        alone = operation.measured and not self._in_window
        if alone:
            self._measure(is_on=True)
        self._leaves = operation.leaves
        self._coming.extend(pods)
        self._arrive(operation.at_once or len(pods))
        await self._schedule(operation.at_once, to_the_end=not operation.measured)
        self._leaves = False
        if alone:
            self._measure(is_on=False)
        self._give_up_on_rest(is_measured=operation.measured)

    async def _wait_at(self, barrier: Barrier) -> None:
        """Schedule until the pods are bound, or until all pods that can be tried have been."""
        if barrier.until == "attempted":
            await self._try_all()
            return
        here = {
            uid: pod
            for uid, pod in self._not_awaited.items()
            if (not barrier.namespaces or pod.metadata.namespace in barrier.namespaces)
            and has_labels(pod, barrier.labels)
        }
        for uid in here:
            del self._not_awaited[uid]
        self._awaited.update(here)
        await self._schedule()
        self._give_up_on_rest(is_measured=self._to_measure.issuperset(self._awaited))

    def _give_up_on_rest(self, *, is_measured: bool) -> None:
        """Raises `TemplateError` if pods that are not measured found no node; for measured pods the figures tell."""
        if self._awaited and not is_measured:
            raise TemplateError(f"{self.scenario.name}: {len(self._awaited)} pods found no node before it began")
        self._awaited.clear()
        self._coming.clear()

    # --- measuring ----------------------------------------------------------------------------------------------------

    def _measure(self, *, is_on: bool) -> None:
        """Begin or end the measurement."""
        self._is_measuring = is_on
        if is_on:
            gc.collect()
            self._phase = self.meter
            if self._profile is not None:
                self._profile.enable()
            self.meter.start()
            return
        self.meter.stop()
        if self._profile is not None:
            self._profile.disable()
        self._phase = Meter()
        self._resident = resident_mebibytes()

    @contextmanager
    def _unmeasured(self) -> Iterator[None]:
        """What users do is no work of the scheduler: a meter that runs stands still meanwhile."""
        if self._is_measuring:
            self.meter.stop()
        try:
            yield
        finally:
            if self._is_measuring:
                self.meter.start()

    def _on_bound(self, uid: str) -> None:
        pod = self._awaited.pop(uid, None) or self._not_awaited.pop(uid, None)
        if uid in self._to_measure:
            self._to_measure.discard(uid)
            self.meter.bound += self._is_measuring
        if self._leaves and pod is not None:
            self._leaving.append(pod)

    def _let_go(self) -> None:
        """Delete the pods that were to leave, with their claims."""
        for pod in self._leaving:
            self.cluster.delete(PODS, self.cluster.pod_of(pod.key) or pod)
            for claim in self._owned.pop(pod.metadata.uid, ()):
                self.cluster.delete(RESOURCE_CLAIMS, self.cluster.stores[RESOURCE_CLAIMS].get(claim.key) or claim)
        self._leaving.clear()

    # --- objects ------------------------------------------------------------------------------------------------------

    def _pods(self, operation: CreatePods, namespace: str) -> Iterator[Pod]:
        """The pods of an operation; their companions are created on the way."""
        for index in range(operation.count):
            values = self._values(operation, index)
            values["namespace"] = namespace.replace("$set", values["set"])
            if operation.per_set and index % operation.per_set == 0:
                for source in operation.of_set:
                    of_set = {**values, "index": values["set"], "member": str(operation.per_set)}
                    self.cluster.create(source.kind, source.make(of_set | {"pod": "", "poduid": ""}))
            values["pod"], values["poduid"] = operation.template.name(values), operation.template.uid(values)
            for companion in operation.companions:
                made = companion.make(values)
                self.cluster.create(companion.kind, made)
                if operation.leaves and companion.kind is RESOURCE_CLAIMS:
                    self._owned.setdefault(values["poduid"], []).append(made)
            pod: Pod = operation.template.make(values)
            if operation.arrival == "running":
                pod.spec = msgspec.structs.replace(pod.spec, node_name=values["node"])
            self._keys[values["namespace"]].append(pod.key)
            yield pod

    def _values(self, operation: CreatePods, index: int) -> dict[str, str]:
        member, group = divmod(index, operation.sets)
        if operation.per_set:
            group, member = divmod(index, operation.per_set)
        if operation.one_per_node:
            group, member = divmod(index, len(self._nodes))
        node = self._nodes[index % len(self._nodes)]
        return {"index": str(index), "set": str(group), "member": str(member), "node": node}

    def _make_all(self, made_of: ObjectTemplate, count: int, namespace: str) -> list[KubeObject]:
        with self._unmeasured():
            return [self._make(made_of, index, namespace) for index in range(count)]

    def _make(self, made_of: ObjectTemplate, index: int, namespace: str, node: str = "") -> KubeObject:
        values = {"index": str(index), "set": str(index), "member": "0", "node": node, "namespace": namespace}
        values |= {"pod": "", "poduid": ""}
        made: KubeObject = made_of.make(values)
        return made

    # --- scheduling ---------------------------------------------------------------------------------------------------

    async def _schedule(self, at_once: int = 0, *, to_the_end: bool = False) -> None:
        """Try ready pods until those that are waited for are bound, or no pod is ready and no work is in progress.

        `at_once`: as of `CreatePods`. `to_the_end`: go on after they are bound, until no other pod is ready either.
        """
        last, progress = len(self._awaited), self._now()
        while to_the_end or self._awaited:
            if not await self._try_next():
                if self._is_idle() and not self._skip_time():
                    if not self._awaited or not self.service.queue.statistics().backoff:
                        return
                    await asyncio.sleep(IDLE_SECONDS)  # a group in backoff is not tried before its time
                self._let_pass(IDLE_SECONDS)
                await self._take_turn()
            if len(self._awaited) != last:
                last, progress = len(self._awaited), self._now()
                self._let_go()
                self._arrive(at_once - last + len(self._coming))
                self._disturb_if_due()
            elif self._now() - progress > STALL_SECONDS:
                raise TemplateError(f"{self.scenario.name}: standstill with {last} pods to go")

    async def _try_all(self, seconds: float = float("inf")) -> None:
        """Try pods until none is ready, or the time is over."""
        ends = self._now() + seconds
        while self._now() < ends and (await self._try_next() or not self._is_idle()):
            await self._take_turn()

    def _skip_time(self) -> bool:
        """Nothing can be done until churn or a deletion goes on: let it, if a pod waits for it."""
        due = [due for due, one in zip(self._due, self._disturbances, strict=True) if not one.is_over]
        if not due or not self._awaited or self._skipped > _MOST_SKIPPED_SECONDS * self.scenario.pace:
            return False
        self._skipped += max(min(due) - self._passed, 0.0)
        self._disturb_if_due()
        return True

    @property
    def _passed(self) -> float:
        """The time since measured pods began to come, in measured pods."""
        return self.meter.bound + self._skipped

    def _arrive(self, count: int) -> None:
        """Let `count` pods arrive."""
        began = time.perf_counter()
        for _ in range(min(count, len(self._coming))):
            self.cluster.create(PODS, self._coming.popleft())
        self._phase.arriving += time.perf_counter() - began

    def _is_idle(self) -> bool:
        is_writing = self.service.claims is not None and len(self.service.claims) > 0
        return not len(self.service.evictions) and not is_writing and not self._waiting.statistics().running

    async def _try_next(self) -> bool:
        """Make an attempt and deliver its watch events; whether a pod was ready."""
        phase, now = self._phase, self._now
        began = now()
        self._tell(STEP_BEGAN)
        queued = self.service.queue.pop_next(self.service.clock.time())
        if queued is None:
            return False
        tried = len(queued) if isinstance(queued, QueuedPodGroup) else 1
        attempts = self._decide(queued)
        decided = now()
        phase.attempts.extend([(decided - began) / tried] * tried)
        phase.rejected += tried - len(attempts)
        for attempt in attempts:
            feasible = len(attempt.record.feasible)
            phase.scored_nodes += feasible if feasible > 1 else 0
            await self._bind(attempt)
        bound = now()
        self.cluster.deliver_all()
        self._let_pass(ATTEMPT_SECONDS * tried)
        shown = now()
        phase.binding += bound - decided
        phase.watching += shown - bound
        if shown >= self._slice_ends:
            await self._take_turn()
        return True

    def _decide(self, queued: QueuedPodInfo | QueuedPodGroup) -> Sequence[Attempt]:
        if isinstance(queued, QueuedPodGroup):
            attempts = self.service.scheduler.decide_group(queued)
            if isinstance(attempts, GroupConsultation):
                raise TypeError("no extenders are asked in scenarios")
            self._tell(GroupDecided(queued.key.text, attempts))
            return attempts
        attempt = self.service.scheduler.decide(queued)
        self._tell(PodDecided(queued, attempt))
        return () if attempt is None else (attempt,)

    async def _bind(self, attempt: Attempt) -> None:
        if self.service.scheduler.must_wait(attempt):
            self._waiting.spawn(attempt.queued.key, self._prepare(attempt))
        else:
            await self.service.scheduler.bind(attempt)

    async def _prepare(self, attempt: Attempt) -> None:
        if await self.service.scheduler.prepare(attempt):
            await self.service.scheduler.bind(attempt)

    async def _take_turn(self) -> None:
        """Give the event loop a turn; then deliver watch events and flush finished backoffs."""
        await asyncio.sleep(0)
        self.cluster.deliver_all()
        now = self._now()
        self._slice_ends = now + SLICE_SECONDS
        if now >= self._flush_at:
            self._tell(STEP_BEGAN)
            self.service.queue.flush_backoff(self.service.clock.time())
            self._tell(BackoffFlushed())
            self._flush_at = now + 1.0

    def _let_pass(self, seconds: float) -> None:
        if self._virtual is not None:
            self._virtual.passes(seconds)

    def _disturb_if_due(self) -> None:
        for number, disturbance in enumerate(self._disturbances):
            while self._due[number] <= self._passed and not disturbance.is_over:
                self._due[number] += disturbance.every
                disturbance.step(self.cluster)
        self.cluster.deliver_all()

    # --- the result ---------------------------------------------------------------------------------------------------

    def _audit(self) -> None:
        """Raises `TemplateError` if a handler failed or a node is overcommitted: then the figures are worthless."""
        failed = sum(informer.statistics().handler_errors for informer in self.cluster.informers.values())
        if failed:
            raise TemplateError(f"{self.scenario.name}: {failed} events could not be handled; see the log")
        nodes = self.service.cache.nodes
        rows = nodes.rows()
        over = (nodes.requested[:, rows] > nodes.allocatable[:, rows]).any(axis=0)
        if over.any() or (nodes.pod_count[rows] > nodes.allowed_pods[rows]).any():
            raise TemplateError(f"{self.scenario.name}: a node is over its allocatable")

    def _figures(self) -> Figures:
        meter, scenario = self.meter, self.scenario
        decisions = max(meter.bound, 1)
        deciding = sum(meter.attempts)
        where = {
            "arriving": meter.arriving,
            "deciding": deciding,
            "binding": meter.binding,
            "watching": meter.watching,
            "all": meter.wall,
        }
        return Figures(
            scenario=scenario.name,
            nodes=scenario.nodes,
            pods=scenario.pods,
            bound=meter.bound,
            rejected=meter.rejected,
            decisions_per_second=round(meter.bound / meter.wall, 1) if meter.wall else 0.0,
            goal=scenario.goal,
            cpu_us_per_decision=round(meter.cpu / decisions * _MICROSECONDS, 1),
            p50_us=round(meter.quantile(0.5) * _MICROSECONDS, 1),
            p99_us=round(meter.quantile(0.99) * _MICROSECONDS, 1),
            rss_mib=round(self._resident, 1),
            scored_nodes_per_decision=round(meter.scored_nodes / decisions, 1),
            seconds={name: round(seconds, 4) for name, seconds in where.items()},
        )
