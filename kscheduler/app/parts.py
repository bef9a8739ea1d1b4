"""The parts of one scheduler, each built once, and how they hear of each other.

    informers --handlers--> cache, queue --pop--> workers --decide, bind--> client
                               ^                     |'--failures--> status writer, Events
                               '--activate-- evictions <--PostFilter

Parts that come after these (leader election, extenders) are joined here and nowhere else.
"""

import os
import socket
from dataclasses import replace
from functools import partial
from typing import Final

from kscheduler.aio.ratelimit import TokenBucket
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, STORAGE_KINDS, WORKLOAD_KINDS
from kscheduler.app.api_server_monitor import APIServerMonitor
from kscheduler.app.options import Options
from kscheduler.client.connection import Connection, host_of
from kscheduler.client.events import EventRecorder
from kscheduler.client.pod_status import PodStatusPatcher
from kscheduler.client.reachability import APIServerReachability
from kscheduler.client.rest import APIClient
from kscheduler.client.volume_writes import ApiVolumeWriter
from kscheduler.client.writes import PodWriter
from kscheduler.framework.handle import Handle
from kscheduler.informers.factory import InformerFactory
from kscheduler.logs import verbose
from kscheduler.scheduling.attempt.attempt import Scheduler
from kscheduler.scheduling.attempt.binding import BindingWriter
from kscheduler.scheduling.attempt.concurrency import AdaptiveLimit
from kscheduler.scheduling.attempt.surroundings import Surroundings
from kscheduler.scheduling.attempt.volume_writer import VolumeBindingWriter
from kscheduler.scheduling.attempt.workers import Workers
from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.eviction.evictions import AsyncEvictions, EvictionSurroundings
from kscheduler.scheduling.eviction.victims import Victims
from kscheduler.scheduling.failures.failures import FailureHandler, failed_condition
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.scheduling.failures.status_writer import StatusWriter
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.handlers.namespace_handler import NamespaceHandler
from kscheduler.scheduling.handlers.storage_handlers import STORAGE_RESOURCES, StorageHandler
from kscheduler.scheduling.handlers.workloads import StoredWorkloads
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.plugin_reports import PluginReports
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.pod_log.lines import WAKING
from kscheduler.scheduling.profiles import build_profiles, queue_policy
from kscheduler.scheduling.reports import Reporter
from kscheduler.scheduling.stopwatch import timed_pre_enqueue
from kscheduler.scheduling.truth.truth_keeping import Periods, TruthKeeping
from kscheduler.state.cache import Cache
from kscheduler.state.gated import HintsAlike, no_hints_alike
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.queue import ClassOf, SchedulingQueue, no_class
from kscheduler.state.waiting_pods import WaitingPodTable

WATCHED: Final = (NODES, PODS, NAMESPACES, *WORKLOAD_KINDS, *STORAGE_KINDS, POD_DISRUPTION_BUDGETS)
"""What the plugins read."""
CLASSES_VARIABLE: Final = "KSCHEDULER_CLASSES"
"""Environment: `off` judges every pod by itself, and from scratch; for comparisons, and to rule classes out."""
QUEUED_EVENTS: Final = 10_000
"""Events that may wait behind the binds: a burst of bindings keeps its "Scheduled" Events, and memory stays bounded."""
MOST_WORKERS_PER_PARALLELISM: Final = 4
"""The workers adapt between 1 and this many times `parallelism`."""
CONNECTIONS_BESIDE_BINDS: Final = 32
"""For conditions, evictions, volumes and lists: a storm of those must not queue up before the binds."""


class Parts:
    """Everything that a service runs; nothing here runs yet."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self._gates = options.config.gates
        self._configuration = options.config.configuration
        self.clock = options.clock
        self.observations = Observations()
        self.cache = Cache()
        self.pod_log = PodLog(self._awaited_events)
        self.waiting = WaitingPodTable()
        self.in_pre_bind = PodsInPreBind() if self._expects_nodes else None
        self.limit = AdaptiveLimit(self._configuration.parallelism, self._most_workers)
        bucket = _bucket(options)
        connections = self._most_workers + CONNECTIONS_BESIDE_BINDS
        self.reachability = APIServerReachability(host_of(connection.base_url), self.clock.monotonic())
        self.client = APIClient(
            connection,
            bucket=bucket,
            max_connections=connections,
            clock=self.clock,
            reachability=self.reachability,
        )
        self.event_client = APIClient(connection, clock=self.clock, reachability=self.reachability)
        pods = PodWriter(self.client, self.clock)
        self.recorder = EventRecorder(
            self.event_client,
            reporting_instance=self._instance(),
            clock=self.clock,
            queue_size=QUEUED_EVENTS,
            is_busy=self._is_binding_hard,
        )
        self.reporter = Reporter(self.recorder)
        self.status_writer = StatusWriter(
            PodStatusPatcher(self.client, self.clock),
            self.recorder,
            self._pod,
            clock=self.clock,
            is_busy=self._is_binding_hard,
            on_call=partial(self.observations.async_api_call, "pod_status_patch"),
        )
        self.informers = InformerFactory(self.client, WATCHED, clock=self.clock)
        self.api_server_monitor = APIServerMonitor(self.reachability, self.event_client, self.informers, self.clock)
        self.evictions = self._build_evictions(pods)
        self.plugin_reports = PluginReports(
            self.observations, self.clock.monotonic, self.reporter.plugin_failed, self._tell_held
        )
        self.profiles = build_profiles(self._configuration, options.registry, self._handle(pods), self.plugin_reports)
        self._class_of, self._hints_alike = self._build_classes()
        self.queue = self._build_queue()
        self.workers = self._build_workers()
        self.truth = self._add_handlers(options.periods)

    @property
    def _expects_nodes(self) -> bool:
        """Whether a pod that waits for Permit or PreBind names its node; calling PreBind back goes with it (Q27)."""
        return self._gates.enabled("NominatedNodeNameForExpectation")

    def _awaited_events(self, profile: str, plugins: frozenset[str]) -> tuple[str, ...]:
        return self.queue.awaited_events(profile, plugins)

    @property
    def _most_workers(self) -> int:
        return MOST_WORKERS_PER_PARALLELISM * self._configuration.parallelism

    def _is_binding_hard(self) -> bool:
        """Whether the binds use all that the API server can do: conditions and Events can wait a little."""
        return not self.limit.has_room()

    def _instance(self) -> str:
        return f"{self._configuration.profiles[0].scheduler_name}-{socket.gethostname()}"

    def _build_evictions(self, pods: PodWriter) -> AsyncEvictions:
        """Before the profiles, whose plugins hold it; the queue, which comes after them, is asked for when needed."""
        around = EvictionSurroundings(
            victims=Victims(
                pods,
                self.waiting,
                self.in_pre_bind,
                self._pod,
                self.reporter,
                self.cache.node_of,
                self.pod_log,
                self.clock,
            ),
            nominator=self.cache.nominator,
            statuses=self.status_writer,
            activate=lambda keys: self.queue.activate(keys, self.clock.time()),
            observations=self.observations,
            clock=self.clock,
        )
        return AsyncEvictions(around)

    def _handle(self, pods: PodWriter) -> Handle:
        stores = [self.informers.informer(kind).store for kind in WORKLOAD_KINDS]
        return Handle(
            self.cache,
            BindingWriter(pods, self.clock, self.observations, self.limit.refused, self.pod_log),
            self.waiting,
            counters=self.cache.counters,
            nominator=self.cache.nominator,
            volumes=self.cache.volumes,
            volume_writer=VolumeBindingWriter(ApiVolumeWriter(self.client)),
            workloads=StoredWorkloads(*stores),
            clock=self.clock,
            budgets=StoredBudgets(self.informers.informer(POD_DISRUPTION_BUDGETS).store),
            evictions=self.evictions,
            features=self._gates.enabled_names(),
            observe_volumes=self.observations.volume_scheduling,
        )

    def _build_classes(self) -> tuple[ClassOf, HintsAlike]:
        if os.environ.get(CLASSES_VARIABLE, "") == "off":
            return no_class, no_hints_alike
        signatures = Signatures(self.profiles, self.cache.nominator)
        return signatures.class_of, signatures.hints_alike

    def _build_queue(self) -> SchedulingQueue:
        def on_incoming(queue: str, event: str, pods: int) -> None:
            self.observations.queue_incoming_many(queue, event, pods)
            self.workers.wake()

        policy = queue_policy(
            self.profiles,
            self._configuration,
            on_incoming,
            self._class_of,
            self.observations.queueing_hint,
            self._hints_alike,
        )
        observe = self.observations.extension_point
        timed = partial(timed_pre_enqueue, policy.pre_enqueue, observe, self.clock.monotonic)
        on_moved = self.pod_log.moved if verbose(WAKING) else None
        return SchedulingQueue(replace(policy, pre_enqueue=timed, on_moved=on_moved))

    def _build_workers(self) -> Workers:
        around = Surroundings(
            cache=self.cache,
            queue=self.queue,
            waiting=self.waiting,
            profiles=self.profiles,
            failures=FailureHandler(self.queue, self.cache.nominator, self._pod, self.status_writer, self.pod_log),
            reporter=self.reporter,
            observations=self.observations,
            clock=self.clock,
            announcer=self.status_writer if self._expects_nodes else None,
            in_pre_bind=self.in_pre_bind,
            infeasible=KnownInfeasible(self._class_of, lambda: self.cache.generation),
            log=self.pod_log,
            keeps_classes=self._class_of is not no_class,
        )
        return Workers(self._most_workers, self.queue, Scheduler(around), self.limit, self.clock)

    def _tell_held(self, pod: Pod, note: str) -> None:
        """A pod is kept out of the queue by a failure: no attempt will say so."""
        self.status_writer.report(pod, failed_condition(note), note)

    def _pod(self, key: str) -> Pod | None:
        found: Pod | None = self.informers.informer(PODS).store.get(key)
        return found

    def _add_handlers(self, periods: Periods) -> TruthKeeping:
        clock, observations = self.clock, self.observations
        pods = PodHandler(self.cache, self.queue, self.waiting, self.profiles, clock, observations, self.pod_log)
        self.informers.informer(PODS).add_handler(pods)
        nodes = NodeHandler(self.cache, self.queue, clock, observations)
        self.informers.informer(NODES).add_handler(nodes)
        self.informers.informer(NAMESPACES).add_handler(
            NamespaceHandler(self.cache.counters, self.queue, clock, observations)
        )
        for kind, resource in STORAGE_RESOURCES.items():
            handler = StorageHandler(resource, self.cache.volumes, self.queue, clock, observations)
            self.informers.informer(kind).add_handler(handler)
        return TruthKeeping(
            self.informers, self.cache, self.queue, self.profiles, (pods, nodes), self.client, clock, periods
        )


def _bucket(options: Options) -> TokenBucket | None:
    """A rate limit only where somebody set one (negative is none): the workers adapt to what the server can do."""
    connection = options.config.configuration.client_connection
    if not options.config.is_given("clientConnection.qps") or connection.qps < 0:
        return None
    return TokenBucket(connection.qps, connection.burst, options.clock)
