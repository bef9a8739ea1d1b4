"""The composition root: everything is built once, started in order, stopped in reverse.

    start   HTTP server -> Events -> informers -> wait for sync -> conditions -> evictions -> workers
    stop    workers (drain the binds that were sent, 10 s at most) -> evictions (what has begun, 5 s at most)
            -> conditions -> informers -> Events -> HTTP server

Probes are answered from the first moment, and `/readyz` tells what is still missing. Parts that come after this one
(leader election, extenders) are joined here and nowhere else.
"""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Final

import msgspec

from kscheduler import __version__
from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.aio.ratelimit import TokenBucket
from kscheduler.aio.services import Service, running
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, STORAGE_KINDS, WORKLOAD_KINDS
from kscheduler.client.connection import Connection, load_connection
from kscheduler.client.events import EventRecorder
from kscheduler.client.pod_status import PodStatusPatcher
from kscheduler.client.rest import APIClient
from kscheduler.client.volume_writes import VolumeWriter
from kscheduler.client.writes import PodWriter
from kscheduler.config.errors import config_error
from kscheduler.config.loader import LoadedConfig, to_tree
from kscheduler.config.unhonoured import unhonoured
from kscheduler.framework.handle import Handle
from kscheduler.framework.registry import Registry
from kscheduler.informers.factory import InformerFactory
from kscheduler.logs import get_logger
from kscheduler.metrics import (
    Exposition,
    Gauges,
    LoopLag,
    build_info_source,
    event_source,
    informer_source,
    process_families,
    rest_client_source,
    scheduler_source,
    status_source,
    truth_source,
)
from kscheduler.plugins import in_tree
from kscheduler.scheduling.attempt import Scheduler, Surroundings
from kscheduler.scheduling.binding import BindingWriter
from kscheduler.scheduling.concurrency import AdaptiveLimit
from kscheduler.scheduling.disruption_budgets import StoredBudgets
from kscheduler.scheduling.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.evictions import AsyncEvictions, EvictionSurroundings
from kscheduler.scheduling.failures import FailureHandler
from kscheduler.scheduling.infeasible import KnownInfeasible
from kscheduler.scheduling.namespace_handler import NamespaceHandler
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.profiles import build_profiles, queue_policy, rules_not_built
from kscheduler.scheduling.reports import Reporter
from kscheduler.scheduling.signatures import Signatures
from kscheduler.scheduling.status_writer import StatusWriter
from kscheduler.scheduling.stopwatch import timed_pre_enqueue
from kscheduler.scheduling.storage_handlers import STORAGE_RESOURCES, StorageHandler
from kscheduler.scheduling.truth_keeping import Periods, TruthKeeping
from kscheduler.scheduling.victims import Victims
from kscheduler.scheduling.volume_writer import VolumeBindingWriter
from kscheduler.scheduling.workers import Workers
from kscheduler.scheduling.workloads import StoredWorkloads
from kscheduler.server import (
    Endpoints,
    Health,
    ProgressCheck,
    Server,
    TokenFile,
    WaitingPodsEndpoint,
    is_loopback,
)
from kscheduler.state.cache import Cache
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.queue import ClassOf, SchedulingQueue, no_class
from kscheduler.state.waiting_pods import WaitingPodTable

_log = get_logger("kscheduler")

WATCHED: Final = (NODES, PODS, NAMESPACES, *WORKLOAD_KINDS, *STORAGE_KINDS, POD_DISRUPTION_BUDGETS)
"""What the plugins read."""
CLASSES_VARIABLE: Final = "KSCHEDULER_CLASSES"
"""Environment: `off` judges every pod by itself, as kube-scheduler does; for comparisons, and to rule classes out."""
DRAIN_SECONDS: Final = 10.0
FLUSH_EVENTS_SECONDS: Final = 2.0
FLUSH_PATCHES_SECONDS: Final = 2.0
QUEUED_EVENTS: Final = 10_000
"""Events that may wait behind the binds: a burst of bindings keeps its "Scheduled" Events, and memory stays bounded."""
SYNC_WARNING_SECONDS: Final = 10.0
MOST_WORKERS_PER_PARALLELISM: Final = 4
"""The workers adapt between 1 and this many times `parallelism`."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says beside the configuration file."""

    config: LoadedConfig
    kubeconfig: str = ""
    master: str = ""
    bind_address: str = "0.0.0.0"
    port: int = 10259
    periods: Periods = field(default_factory=Periods)
    """How often cache and stores are checked."""
    clock: Clock = field(default=REAL_CLOCK)
    permit_token_file: str = ""
    """Whose token opens `/waiting-pods`; without it the path is shut."""
    registry: Registry = field(default_factory=in_tree.registry)
    """Plugins by name: the in-tree ones, and whatever a program of yours has registered besides."""


class App:
    """One scheduler: its state, the parts around it, and how they hear of each other."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self._options = options
        self._clock = options.clock
        self._configuration = options.config.configuration
        self._observations = Observations()
        self._cache = Cache()
        self._waiting = WaitingPodTable()
        self._in_pre_bind = PodsInPreBind() if self._expects_nodes else None
        self._limit = AdaptiveLimit(
            self._configuration.parallelism, MOST_WORKERS_PER_PARALLELISM * self._configuration.parallelism
        )
        self._client = APIClient(
            connection, bucket=self._bucket(), max_connections=self._most_workers, clock=self._clock
        )
        self._event_client = APIClient(connection, clock=self._clock)
        pods = PodWriter(self._client, self._clock)
        self._recorder = EventRecorder(
            self._event_client, reporting_instance=self._instance(), clock=self._clock, queue_size=QUEUED_EVENTS
        )
        self._status_writer = StatusWriter(
            PodStatusPatcher(self._client, self._clock),
            self._recorder,
            self._pod,
            clock=self._clock,
            is_busy=lambda: not self._limit.has_room(),
        )
        self._informers = InformerFactory(self._client, WATCHED, clock=self._clock)
        self._reporter = Reporter(self._recorder)
        self._evictions = self._build_evictions(pods)
        self.profiles = build_profiles(self._configuration, options.registry, self._handle(pods))
        self._class_of = self._build_classes()
        self._queue = self._build_queue()
        self._workers = self._build_workers()
        self._truth = self._add_handlers()
        self._loop_lag = LoopLag(clock=self._clock)
        self._exposition = self._build_exposition(connection)
        self.server = Server(self._endpoints())
        self._exposition.add(self.server.samples)
        self._is_stopping = False

    @property
    def _expects_nodes(self) -> bool:
        """Whether a pod that waits for Permit or PreBind names its node; calling PreBind back goes with it (Q27)."""
        return self._options.config.gates.enabled("NominatedNodeNameForExpectation")

    @property
    def _most_workers(self) -> int:
        return MOST_WORKERS_PER_PARALLELISM * self._configuration.parallelism

    # --- building -----------------------------------------------------------------------------------------------------

    def _bucket(self) -> TokenBucket | None:
        """A rate limit only where somebody set one (negative is none): the workers adapt to what the server can do."""
        connection = self._configuration.client_connection
        if not self._options.config.is_given("clientConnection.qps") or connection.qps < 0:
            return None
        return TokenBucket(connection.qps, connection.burst, self._clock)

    def _instance(self) -> str:
        return f"{self._configuration.profiles[0].scheduler_name}-{socket.gethostname()}"

    def _build_evictions(self, pods: PodWriter) -> AsyncEvictions:
        """Before the profiles, whose plugins hold it; the queue, which comes after them, is asked for when needed."""
        around = EvictionSurroundings(
            victims=Victims(pods, self._waiting, self._in_pre_bind, self._pod, self._reporter),
            nominator=self._cache.nominator,
            statuses=self._status_writer,
            activate=lambda keys: self._queue.activate(keys, self._clock.time()),
            observations=self._observations,
            clock=self._clock,
        )
        return AsyncEvictions(around)

    def _handle(self, pods: PodWriter) -> Handle:
        stores = [self._informers.informer(kind).store for kind in WORKLOAD_KINDS]
        return Handle(
            self._cache,
            BindingWriter(pods, self._clock, self._observations, self._limit.refused),
            self._waiting,
            counters=self._cache.counters,
            nominator=self._cache.nominator,
            volumes=self._cache.volumes,
            volume_writer=VolumeBindingWriter(VolumeWriter(self._client)),
            workloads=StoredWorkloads(*stores),
            clock=self._clock,
            budgets=StoredBudgets(self._informers.informer(POD_DISRUPTION_BUDGETS).store),
            evictions=self._evictions,
        )

    def _build_classes(self) -> ClassOf:
        if os.environ.get(CLASSES_VARIABLE, "") == "off":
            return no_class
        return Signatures(self.profiles, self._cache.nominator).class_of

    def _build_queue(self) -> SchedulingQueue:
        def on_incoming(queue: str, event: str, pods: int) -> None:
            self._observations.queue_incoming_many(queue, event, pods)
            self._workers.wake()

        observe_hint = self._observations.queueing_hint
        policy = queue_policy(self.profiles, self._configuration, on_incoming, self._class_of, observe_hint)
        observe = self._observations.extension_point
        timed = partial(timed_pre_enqueue, policy.pre_enqueue, observe, self._clock.monotonic)
        return SchedulingQueue(replace(policy, pre_enqueue=timed))

    def _build_workers(self) -> Workers:
        around = Surroundings(
            cache=self._cache,
            queue=self._queue,
            waiting=self._waiting,
            profiles=self.profiles,
            failures=FailureHandler(self._queue, self._cache.nominator, self._pod, self._status_writer),
            reporter=self._reporter,
            observations=self._observations,
            clock=self._clock,
            announcer=self._status_writer if self._expects_nodes else None,
            in_pre_bind=self._in_pre_bind,
            infeasible=KnownInfeasible(self._class_of, lambda: self._cache.generation),
        )
        return Workers(self._most_workers, self._queue, Scheduler(around), self._limit, self._clock)

    def _pod(self, key: str) -> Pod | None:
        found: Pod | None = self._informers.informer(PODS).store.get(key)
        return found

    def _add_handlers(self) -> TruthKeeping:
        clock, observations = self._clock, self._observations
        pods = PodHandler(self._cache, self._queue, self._waiting, self.profiles, clock, observations)
        self._informers.informer(PODS).add_handler(pods)
        nodes = NodeHandler(self._cache, self._queue, clock, observations)
        self._informers.informer(NODES).add_handler(nodes)
        self._informers.informer(NAMESPACES).add_handler(
            NamespaceHandler(self._cache.counters, self._queue, clock, observations)
        )
        for kind, resource in STORAGE_RESOURCES.items():
            handler = StorageHandler(resource, self._cache.volumes, self._queue, clock, observations)
            self._informers.informer(kind).add_handler(handler)
        periods, handlers = self._options.periods, (pods, nodes)
        return TruthKeeping(
            self._informers, self._cache, self._queue, self.profiles, handlers, self._client, clock, periods
        )

    def _build_exposition(self, connection: Connection) -> Exposition:
        gauges = Gauges(
            pending_pods=self._pending_pods,
            cache_size=lambda: asdict(self._cache.statistics()),
            unschedulable_pods=self._queue.rejections,
            inflight_events=self._inflight_events,
            goroutines=lambda: {"binding": self._workers.binding},
        )
        return Exposition(
            [
                scheduler_source(self._observations, gauges),
                rest_client_source(connection.base_url, [self._client.statistics, self._event_client.statistics]),
                informer_source(self._informers.statistics),
                event_source(self._recorder.statistics),
                status_source(self._status_writer.statistics),
                truth_source(self._truth.check.statistics, self._truth.audits.statistics),
                self._loop_lag.samples,
                build_info_source(__version__),
            ],
            on_thread=[process_families],
            on_reset=self._observations.reset,
        )

    def _pending_pods(self) -> Mapping[str, float]:
        sizes = self._queue.statistics()
        return {
            "active": sizes.active,
            "backoff": sizes.backoff,
            "unschedulable": sizes.unschedulable,
            "gated": sizes.gated,
        }

    def _inflight_events(self) -> Mapping[str, float]:
        sizes = self._queue.statistics()
        return {"PodPopped": sizes.in_flight, **sizes.in_flight_events}

    def _endpoints(self) -> Endpoints:
        progress = ProgressCheck(
            done=lambda: sum(self._observations.schedule_attempts.values()),
            has_work=lambda: self._queue.has_ready() and self._limit.has_room() and self._has_synced(),
            monotonic=self._clock.monotonic,
        )
        return Endpoints(
            livez=Health("livez", {"event-loop": self._loop_lag.problem, "workers": progress}),
            readyz=Health(
                "readyz", {"sched-handler-sync": self._sync_problem, "shutdown": self._shutdown_problem}, self._notes
            ),
            healthz=Health("healthz", {"event-loop": self._loop_lag.problem}),
            exposition=self._exposition,
            component_config=lambda: msgspec.json.encode(to_tree(self._configuration)),
            waiting_pods=WaitingPodsEndpoint(self._waiting, self._token(), self._clock),
        )

    def _token(self) -> TokenFile | None:
        """What opens `/waiting-pods`. Raises `ConfigError` where it cannot be read: now, not when it is needed."""
        path = self._options.permit_token_file
        if not path:
            return None
        token = TokenFile(path)
        try:
            token.read()
        except (OSError, ValueError) as failure:
            raise config_error("", str(failure), "--permit-token-file") from failure
        return token

    # --- health -------------------------------------------------------------------------------------------------------

    def _has_synced(self) -> bool:
        return all(one.synced or one.resting for one in self._informers.statistics())

    def _sync_problem(self) -> str | None:
        waiting = [
            f"{one.resource} ({one.problem})" if one.problem else one.resource
            for one in self._informers.statistics()
            if not (one.synced or one.resting)
        ]
        return f"handlers are not fully synchronized: {', '.join(waiting)}" if waiting else None

    def _shutdown_problem(self) -> str | None:
        return "process is shutting down" if self._is_stopping else None

    def _notes(self) -> Iterable[str]:
        """What `/readyz?verbose` tells beside its checks: objects passed over, and kinds that the server lacks."""
        for one in self._informers.statistics():
            if one.resting:
                yield f"{one.resource}: the API server does not have it; waiting for it to appear"
            for key, reason in one.undecodable.items():
                yield f"{one.resource}: {key} cannot be decoded and is passed over: {reason}"

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and schedule until `stop` is set; then end in order."""
        self._announce()
        async with AsyncExitStack() as ends:
            ends.callback(self._exposition.close)
            await self.server.start(self._options.bind_address, self._options.port)
            ends.push_async_callback(self.server.aclose)
            await ends.enter_async_context(self._client)
            await ends.enter_async_context(self._event_client)
            services = (
                Service("loop-lag", self._loop_lag.run),
                Service("events", self._recorder.run, lambda: self._recorder.flush(FLUSH_EVENTS_SECONDS)),
                Service("informers", self._informers.run),
            )
            async with running(*services):
                if await self._synced(stop):
                    gc.freeze()  # what the first lists brought lives long: the collector need not walk it again
                    await self._schedule(stop)
                self._is_stopping = True

    def ask_for_dump(self) -> None:
        """Write cache and queue to the log and compare them with the stores, once they are synced."""
        _log.info("dump_requested")
        self._truth.dump.ask()

    async def _schedule(self, stop: asyncio.Event) -> None:
        services = (
            Service("conditions", self._status_writer.run, lambda: self._status_writer.flush(FLUSH_PATCHES_SECONDS)),
            Service("evictions", self._evictions.run, self._evictions.stop),
            Service("back-off", self._workers.keep_flushing),
            *self._truth.services(),
            Service("workers", self._workers.run, self._drain),
        )
        async with running(*services):
            _log.info("scheduling", profiles=sorted(self.profiles), **asdict(self._cache.statistics()))
            await stop.wait()
            _log.info("stopping")
            self._is_stopping = True

    async def _synced(self, stop: asyncio.Event) -> bool:
        """Wait until all handlers have had their first lists; whether that happened before the stop."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                synced = asyncio.ensure_future(self._informers.wait_for_sync(SYNC_WARNING_SECONDS))
                await asyncio.wait({synced, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not synced.done():
                    synced.cancel()
                    await asyncio.wait({synced})
                elif not synced.result():
                    return True
                else:
                    _log.warning("waiting_for_sync", missing=list(synced.result()))
            return False
        finally:
            stopped.cancel()

    async def _drain(self) -> None:
        if not await self._workers.stop(DRAIN_SECONDS):
            _log.warning("binds_not_drained", pods=self._workers.binding, seconds=DRAIN_SECONDS)

    def _announce(self) -> None:
        _log.info("starting", version=__version__, pid=os.getpid())
        for warning in unhonoured(self._options.config):
            _log.warning("setting_not_honoured", setting=warning.path, reason=warning.reason)
        if self._options.permit_token_file and not is_loopback(self._options.bind_address):
            _log.warning(
                "permit_token_in_clear", bind_address=self._options.bind_address, reason="the server has no TLS"
            )
        for profile in self.profiles.values():
            missing = rules_not_built(profile)
            if missing:
                _log.info("rules_not_built", profile=profile.name, plugins=missing)


async def run(options: Options) -> None:
    """Run the service until SIGTERM or SIGINT; a second signal ends it at once."""
    connection = await load_connection(
        master=options.master,
        kubeconfig=options.kubeconfig or options.config.configuration.client_connection.kubeconfig,
    )
    _log.info("connecting", server=connection.description)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop, number)
    app = App(options, connection)
    loop.add_signal_handler(signal.SIGUSR2, app.ask_for_dump)
    try:
        await app.run(stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            loop.remove_signal_handler(number)


def _on_signal(stop: asyncio.Event, number: int) -> None:
    if stop.is_set():
        _log.warning("ending_at_once", signal=signal.Signals(number).name)
        os._exit(1)
    _log.info("requested_to_terminate", signal=signal.Signals(number).name)
    stop.set()
