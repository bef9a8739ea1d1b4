"""The scheduler that is measured: the real parts, joined as `app.parts` joins them, over a cluster that stands in.

Metrics, records, classes of pods, conditions and preemption are on, as in the service. What is left out is what talks
to a network: the client, the workers whose only work is to wait for it, and the sending of Events.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.kinds import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, WORKLOAD_KINDS, Kind
from kscheduler.client.events import EventRecorder
from kscheduler.config.loader import default_configuration
from kscheduler.framework.handle import Handle
from kscheduler.informers.informer import Handler
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.attempt.attempt import Scheduler
from kscheduler.scheduling.attempt.surroundings import Surroundings
from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.eviction.evictions import AsyncEvictions, EvictionSurroundings
from kscheduler.scheduling.eviction.victims import Victims
from kscheduler.scheduling.failures.failures import FailureHandler
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.scheduling.failures.status_writer import StatusWriter
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.handlers.namespace_handler import NamespaceHandler
from kscheduler.scheduling.handlers.storage_handlers import STORAGE_RESOURCES, StorageHandler
from kscheduler.scheduling.handlers.workloads import StoredWorkloads
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import build_profiles, queue_policy
from kscheduler.scheduling.reports import Reporter
from kscheduler.scheduling.stopwatch import timed_pre_enqueue
from kscheduler.simulation.benchmarks.cluster import StandIn
from kscheduler.state.cache import Cache
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.queue import ClassOf, SchedulingQueue
from kscheduler.state.waiting_pods import WaitingPodTable

SCHEDULER_NAME: Final = "kscheduler"


class CountedEvents(EventRecorder):
    """Events are counted; their bodies and their way to the API server belong to the wire."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, *_: Any, **__: Any) -> None:
        """One more."""
        self.count += 1


class ServiceInProcess:
    """A scheduler without a network; nothing in it runs by itself but the conditions' tasks."""

    def __init__(self, cluster: StandIn, *, clock: Clock = REAL_CLOCK, events: EventRecorder | None = None) -> None:
        """`events`: who records them; by default they are counted."""
        self.cluster = cluster
        self.clock = clock
        self.observations = Observations()
        self.cache = Cache()
        self.waiting = WaitingPodTable()
        self.in_pre_bind = PodsInPreBind()
        self.events = CountedEvents() if events is None else events
        self.reporter = Reporter(self.events)
        self.status_writer = StatusWriter(cluster, self.events, cluster.pod_of, clock=self.clock)
        self.evictions = self._build_evictions()
        configuration = default_configuration(SCHEDULER_NAME).configuration
        self.profiles: Mapping[str, Profile] = build_profiles(configuration, registry(), self._handle())
        signatures = Signatures(self.profiles, self.cache.nominator)
        told = self.observations.queue_incoming_many, signatures.class_of, self.observations.queueing_hint
        policy = queue_policy(self.profiles, configuration, *told, signatures.hints_alike)
        timed = partial(timed_pre_enqueue, policy.pre_enqueue, self.observations.extension_point, self.clock.monotonic)
        self.queue = SchedulingQueue(replace(policy, pre_enqueue=timed))
        self.scheduler = Scheduler(self._surroundings(signatures.class_of))
        self._add_handlers()

    def _build_evictions(self) -> AsyncEvictions:
        pod_of, node_of = self.cluster.pod_of, self.cache.node_of
        victims = Victims(self.cluster, self.waiting, self.in_pre_bind, pod_of, self.reporter, node_of)
        return AsyncEvictions(
            EvictionSurroundings(
                victims=victims,
                nominator=self.cache.nominator,
                statuses=self.status_writer,
                activate=lambda keys: self.queue.activate(keys, self.clock.time()),
                observations=self.observations,
                clock=self.clock,
            )
        )

    def _handle(self) -> Handle:
        informers = self.cluster.informers
        return Handle(
            self.cache,
            self.cluster,
            self.waiting,
            counters=self.cache.counters,
            nominator=self.cache.nominator,
            volumes=self.cache.volumes,
            volume_writer=self.cluster,
            workloads=StoredWorkloads(*(informers[kind].store for kind in WORKLOAD_KINDS)),
            clock=self.clock,
            budgets=StoredBudgets(informers[POD_DISRUPTION_BUDGETS].store),
            evictions=self.evictions,
        )

    def _surroundings(self, class_of: ClassOf) -> Surroundings:
        nominator, pod_of = self.cache.nominator, self.cluster.pod_of
        return Surroundings(
            cache=self.cache,
            queue=self.queue,
            waiting=self.waiting,
            profiles=self.profiles,
            failures=FailureHandler(self.queue, nominator, pod_of, self.status_writer),
            reporter=self.reporter,
            observations=self.observations,
            clock=self.clock,
            evictions=self.evictions,
            announcer=self.status_writer,
            in_pre_bind=self.in_pre_bind,
            infeasible=KnownInfeasible(class_of, lambda: self.cache.generation),
        )

    def _add_handlers(self) -> None:
        seen = self.clock, self.observations
        handlers: dict[Kind, Handler[Any]] = {
            PODS: PodHandler(self.cache, self.queue, self.waiting, self.profiles, *seen),
            NODES: NodeHandler(self.cache, self.queue, *seen),
            NAMESPACES: NamespaceHandler(self.cache.counters, self.queue, *seen),
        }
        for kind, resource in STORAGE_RESOURCES.items():
            handlers[kind] = StorageHandler(resource, self.cache.volumes, self.queue, *seen)
        for kind, handler in handlers.items():
            self.cluster.informers[kind].add_handler(handler)
        self.cluster.informers[PODS].add_handler(self.evictions.sightings)
