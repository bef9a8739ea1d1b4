"""The parts of a scheduler that talk to an API server, and the assembly whose ports they implement.

    informers --handlers--> assembly --pop--> workers --decide, bind--> client
                               ^                 '--failures--> status writer, Events
                               '--compared with the stores-- drift check

`kscheduler.assembly` joins everything that decides. All of its writes but Events go through `client`, whose fence lets
nothing out while this process does not lead; only an extender that binds writes by itself, and is asked behind the same
fence.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from kscheduler.aio.rate_limiters import TokenBucket
from kscheduler.aio.tasks import Slicer, run_in_slices
from kscheduler.api.core import Node, Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import (
    DEVICE_KINDS,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_KINDS,
    WORKLOAD_KINDS,
    Kind,
)
from kscheduler.api.meta import KubeObject
from kscheduler.api.topologies import not_served
from kscheduler.assembly import (
    ApplyResult,
    Assembly,
    CompiledConfiguration,
    Ports,
    configured_kinds,
    group_apis,
    topology_kinds,
)
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.client.access.connection import Connection, host_of
from kscheduler.client.claim_writes import ApiClaimWriter, ApiVolumeWriter
from kscheduler.client.errors import APIError
from kscheduler.client.events.recorder import WORKERS_BESIDE_BINDS, EventRecorder
from kscheduler.client.events.scheduled import success_policy
from kscheduler.client.pod_writes import PodGroupStatusPatcher, PodStatusPatcher, PodWriter
from kscheduler.client.reachability import APIServerReachability
from kscheduler.client.rest import APIClient
from kscheduler.framework.cluster.pod_groups import NOT_SERVED, GroupKey, unreadable
from kscheduler.framework.events import ClusterEvent
from kscheduler.informers.catch_up import CatchUp
from kscheduler.informers.factory import InformerFactory
from kscheduler.informers.informer import InformerStatistics
from kscheduler.informers.plugin_listers import CONNECTIONS_OF_PLUGINS, PluginListers
from kscheduler.informers.transform import AnnotatedPodTransform
from kscheduler.scheduling.attempt.binding import BindingWriter
from kscheduler.scheduling.attempt.retired_plugins import RetiredPlugins
from kscheduler.scheduling.attempt.volume_writes import VolumeBindingWriter
from kscheduler.scheduling.background.refreshed_plugins import RefreshedPlugins
from kscheduler.scheduling.drift.drift_check import DriftDetection, Periods
from kscheduler.scheduling.drift.dump import WaitsBesideQueue
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.failures.status_writer import StatusWriter
from kscheduler.scheduling.foreign_bindings import ForeignBindings
from kscheduler.scheduling.groups.group_status_writer import GroupStatusWriter
from kscheduler.scheduling.long_waits import IncompleteWaits, PermitWaits
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.overcommit.repair import OvercommitKeeping
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.stored_workloads import StoredWorkloads
from kscheduler.scheduling.topology_reports import TopologyReports
from kscheduler.scheduling.work.concurrency import AdaptiveLimit
from kscheduler.scheduling.work.workers import Workers
from kscheduler.server.tls.serving_contexts import MadePair
from kscheduler.service.extender_connections import ExtenderConnections
from kscheduler.service.leadership import EarlierTerm, Leadership, fence_of
from kscheduler.service.monitors.api_server_monitor import APIServerMonitor
from kscheduler.service.monitors.hanging_writes import (
    EVENT,
    PREEMPTION,
    STATUS_PATCH,
    HangingWritesMonitor,
    normal_silence,
)
from kscheduler.service.monitors.memory_watch import MemoryWatch, cgroup_limit, limit_with_alarm, resident_bytes
from kscheduler.service.options import Options
from kscheduler.service.removed_profiles import RemovedProfiles
from kscheduler.service.server_version import ServerVersion
from kscheduler.state.cache import Cache

if TYPE_CHECKING:  # imported where something is recorded
    from kscheduler.recorder.flight_recorder import FlightRecorder, RecordedState

# The resources that the plugins read.
WATCHED: Final = (NODES, PODS, NAMESPACES, *WORKLOAD_KINDS, *STORAGE_KINDS, POD_DISRUPTION_BUDGETS, *DEVICE_KINDS)
# Events that may wait behind the binds: a burst of bindings keeps its "Scheduled" Events, and memory stays bounded.
QUEUED_EVENTS: Final = 10_000
# The workers adapt between 1 and this many times `parallelism`.
MAX_WORKERS_PER_PARALLELISM: Final = 4
# Pods whose claim templates are kept: more than are asked about at a time.
MAX_QUERIED_PODS: Final = 64
_TEMPLATES_BYTES: Final = 8 * 2**20
# For conditions, evictions, volumes and lists: a storm of such requests must not delay the binds.
CONNECTIONS_BESIDE_BINDS: Final = 32


class Parts:
    """All parts of a service, built and connected, but not running yet."""

    def __init__(self, options: Options, connection: Connection, earlier: EarlierTerm | None = None) -> None:
        """`earlier`: of this process, which has lost its lease. Raises `ConfigError` if a profile cannot be built."""
        self._options = options
        self._configuration = options.config.configuration
        self.origins = options.origins
        """Where the plugins in force were loaded from."""
        self.clock = options.clock
        self.observations = Observations()
        self.pod_log = PodLog()
        self.taken = ForeignBindings(self.observations, self.clock, self._may_write)
        self.limit = AdaptiveLimit(self._configuration.parallelism, self._most_workers)
        host, now = host_of(connection.base_url), self.clock.monotonic()
        self.process_began = earlier.process_began if earlier is not None else now
        """When its first term began, in monotonic seconds."""
        self.reachability = earlier.reachability if earlier is not None else APIServerReachability(host, now)
        fence = fence_of(options)
        elector = earlier.elector if earlier is not None else None
        self.leadership = (
            Leadership(options, connection, self.reachability, fence, elector) if fence is not None else None
        )
        self.client = self._build_client(options, connection)
        self.plugin_client = self._build_plugin_client(connection)
        self.event_client = APIClient(
            connection,
            clock=self.clock,
            reachability=self.reachability,
            pipeline_depth=options.pipeline_depth,
            busy=WORKERS_BESIDE_BINDS,
        )
        self.recorder = self._build_recorder()
        self.successes = success_policy(options.scheduled_events, self.recorder.record, self.clock)
        self.election = self.leadership.election(self.recorder) if self.leadership is not None else None
        """`None`: `leaderElect` is off, and this process schedules at once."""
        self.status_writer = self._build_status_writer()
        self.group_status_writer = GroupStatusWriter(PodGroupStatusPatcher(self.client, self.clock), self.clock)
        annotated = {"pods": AnnotatedPodTransform()} if self._configuration.honor_scheduler_name_annotation else None
        self.group_kinds = {api.kind.resource: api.kind for api in group_apis(options.config)}
        """The kinds of pod groups that are followed, by resource."""
        kinds = (*WATCHED, *configured_kinds(options.config))
        self.informers = InformerFactory(
            self.client,
            kinds,
            transforms=annotated,
            clock=self.clock,
            may_be_absent=(DEVICE_TAINT_RULES,),
            views=earlier.views if earlier is not None else None,
            holds_room=lambda uid: self.assembly.cache.is_assumed(uid),  # noqa: PLW0108  it comes after the informers
        )
        self.catch_up = CatchUp(self.client, self.informers, PODS, self.clock)
        known_version = earlier.server_version if earlier is not None else ""
        self.server_version = ServerVersion(self.client, self.clock, known_version, self._look_for_absent)
        self.api_server_monitor = APIServerMonitor(
            self.reachability, self.event_client, self.informers, self.clock, on_return=self.server_version.ask
        )
        self.claim_templates: RecentlyUsed[str, Mapping[str, ResourceClaimTemplate | None]] = RecentlyUsedByWeight(
            MAX_QUERIED_PODS, _TEMPLATES_BYTES, lambda _, templates: weight_of(templates)
        )
        """Templates named by pods recently asked about, as they were then: nobody watches them."""
        self.exchanging = asyncio.Lock()
        """Held while another configuration is read and taken over: of two at a time one would be lost."""
        self.plugin_listers = PluginListers(self.plugin_client, self.informers, self.clock, self._own_kind_changed)
        self._kinds = kinds
        self.flight_recorder = self._build_flight_recorder(options)
        """`None`: nothing is recorded."""
        self.extenders = ExtenderConnections(
            PodWriter(self.client, self.clock),
            self.client,
            self._node,
            self._pod,
            self._may_write,
            self.observations,
            self.clock,
            Observers(self.pod_log),  # what extenders bind is no Binding of ours: it counts as no conflict
            self._extenders_in_use,
        )
        deciding_clock = self.clock if self.flight_recorder is None else self.flight_recorder.clock
        self.assembly = Assembly(
            options.config,
            options.registry,
            self._ports(),
            deciding_clock,
            cache=Cache(
                why_group_missing=self._why_group_missing, tie_name=self._tie_name(), why_awaited=self._why_awaited
            ),
            on_quarantine=self._quarantine_soon,
        )
        self.assembly.listen_to(self.informers)
        queue, scheduler = self.assembly.queue, self.assembly.scheduler
        self.workers = Workers(
            self._most_workers,
            queue,
            scheduler,
            self.limit,
            deciding_clock,
            self.assembly.observers,
            on_attempt_end=self._attempt_ended,
        )
        self.retired = RetiredPlugins(self.assembly.profiles.values, self._profiles_in_use, self.clock)
        self.refreshed = RefreshedPlugins(self.assembly.profiles.values, self.clock, on_end=self.retired.look)
        self.extenders.apply(self.assembly.scheduler.extenders)
        self.permit_waits = PermitWaits(self.assembly.waiting, self.clock.monotonic)
        self.drift_detection = self._build_drift_detection(options.periods)
        self.incomplete_waits = IncompleteWaits(
            self.assembly.queue.incomplete_groups, self._groups_version, self.clock.monotonic
        )
        cache = self.assembly.cache
        levels = cache.topology_levels
        self.topology_reports = TopologyReports(
            levels.problems, lambda: (levels.version, cache.nodes.names()), self._check_topologies
        )
        pods = self.informers.informer(PODS).store.list
        self.removed_profiles = RemovedProfiles(self.assembly.profiles, pods, self.clock.monotonic)
        self.overcommit = self._build_overcommit_keeping(repairs=options.repairs_overcommitted_nodes)
        limit = limit_with_alarm(options.memory_alarm, cgroup_limit)
        clients = self.client, self.event_client, self.plugin_client
        evictions = self.assembly.evictions.work_slots
        senders = {
            STATUS_PATCH: (self.status_writer.work_slots, self.status_writer.waiting),
            EVENT: (self.recorder.work_slots, lambda _: 0),
            PREEMPTION: (evictions, lambda _: 0),
        }
        work_slots = [client.work_slots for client in clients]
        self.hanging_writes = HangingWritesMonitor(
            self.workers,
            work_slots,
            self.clock,
            senders,
            is_suspended=lambda: self.has_lost or self.reachability.is_outage(self.clock.monotonic()),
            last_heard_at=lambda: self.reachability.last_heard_at,
            normal_silence_seconds=normal_silence(self._configuration.leader_election),
            failures=[client.write_failures for client in clients],
        )
        self.memory = MemoryWatch(resident_bytes, limit, self._plugins_of_users, self.clock)

    def end_of_term(self, bound: int, certificate: MadePair | None) -> EarlierTerm:
        """What the next term begins with. To be called after a lost lease, when everything has ended.

        `bound`: pods, by the process; `certificate`: of its HTTPS port.
        """
        assert self.election is not None  # noqa: S101  # it has lost its lease
        config, registry = self.assembly.config, self.assembly.registry
        options = replace(self._options, config=config, registry=registry, origins=self.origins)
        # A follower that is to hold no cache would hold these objects until it leads.
        views = {} if config.configuration.delay_cache_until_active else self.informers.views()
        return EarlierTerm(
            options,
            self.election.next_term(),
            views,
            self.reachability,
            self.process_began,
            self.server_version.text,
            bound,
            certificate,
        )

    def unserved_groups(self) -> tuple[str, ...]:
        """Kinds of pod groups that are followed and that the API server does not have."""
        return tuple(name for name, kind in self.group_kinds.items() if self.informers.informer(kind).resting)

    def missing_groups(self) -> dict[str, str]:
        """How groups are missing that may be there, as `why_missing` takes it: of a kind, or one by one."""
        missing = dict.fromkeys(self.unserved_groups(), NOT_SERVED)
        for name, kind in self.group_kinds.items():
            informer = self.informers.informer(kind)
            missing |= {f"{name} {bad.key}": unreadable(bad.error) for bad in informer.unreadable()}
        return missing

    def _why_group_missing(self, key: GroupKey) -> str:
        """How a group is missing; empty: the API server serves its kind, and has no such object as far as is known."""
        kind = self.group_kinds.get(key.resource)
        if kind is None:
            return ""
        informer = self.informers.informer(kind)
        bad = informer.unreadable_under(key.text)
        return NOT_SERVED if informer.resting else unreadable(bad.error) if bad is not None else ""

    async def _check_topologies(self) -> bool:
        """Look for what is wrong with objects that name levels; returns whether that could be done yet."""
        cache = self.assembly.cache
        if not self.informers.informer(NODES).has_list:
            return False
        return await run_in_slices(cache.topology_levels.check(cache.nodes), Slicer())

    def _why_awaited(self, kind: Kind) -> str:
        """Why the objects of a kind are not known; empty: they are."""
        if kind not in topology_kinds(self._options.config):
            return "this service does not read them"  # the configuration of a question may name more
        informer = self.informers.informer(kind)
        if informer.resting:
            return not_served(kind)
        return "" if informer.has_list else "they are not listed yet"

    def _groups_version(self) -> object:
        """As long as it is equal, nothing has happened to any group, nor to their kinds at the API server."""
        kinds = self.group_kinds.values()
        return (
            self.assembly.queue.groups_version(),
            self.unserved_groups(),
            *(self.informers.informer(kind).unreadable_version for kind in kinds),
        )

    def apply(self, compiled: CompiledConfiguration) -> ApplyResult:
        """Decide by another configuration from now on; never awaits.

        What concerns connections is not read again: `config.changes` refuses a configuration that differs there.
        """
        before, self._configuration = self._configuration, compiled.config.configuration
        profiles_before = tuple(self.assembly.profiles.values())
        apply_result = self.assembly.apply(compiled, self._listed)
        self.removed_profiles.note_removed(apply_result.profiles_removed)
        self.recorder.report_as(self._instance())
        if before.parallelism != self._configuration.parallelism:
            self.limit.restart(self._configuration.parallelism, self._most_workers)
            self.client.allow(self._most_workers + CONNECTIONS_BESIDE_BINDS)
            self.workers.grow_to(self._most_workers)
        self.refreshed.look()
        self.retired.retire(profiles_before)
        self.extenders.apply(compiled.evaluators.extenders)
        self._wake_worker()
        return apply_result

    def _listed(self, kind: Kind) -> Sequence[KubeObject]:
        """All objects of a kind that the watch has shown."""
        return self.informers.informer(kind).store.list()

    async def wait_for_sync(self, seconds: float) -> tuple[str, ...]:
        """Wait for the first list of each kind; returns what is missing, and why."""
        return await self.informers.wait_for_sync(seconds) or await self.plugin_listers.wait_for_sync(seconds)

    def informer_statistics(self) -> Sequence[InformerStatistics]:
        """A snapshot of each informer, those of plugins' own kinds last."""
        return (*self.informers.statistics(), *self.plugin_listers.statistics())

    def _profiles_in_use(self) -> Iterable[Profile]:
        """The profiles whose plugins an attempt or a refresh has."""
        return chain(self.workers.profiles_in_use(), self.refreshed.profiles_in_use())

    def _plugins_of_users(self) -> Sequence[str]:
        """The plugins that are not in-tree, sorted."""
        return sorted({plugin for plugin, _, _ in self.assembly.circuits.supervised()})

    def _quarantine_soon(self) -> None:
        """A plugin must be called no more. The decision that found it out is under way, so it is exchanged after it."""
        asyncio.get_running_loop().call_soon(self._quarantine)
        self.workers.end_slice()

    def _quarantine(self) -> None:
        compiled = self.assembly.draft_quarantines()
        if compiled is not None:
            self.apply(compiled)

    @property
    def _most_workers(self) -> int:
        return MAX_WORKERS_PER_PARALLELISM * self._configuration.parallelism

    def _is_binding_hard(self) -> bool:
        """Whether the binds use all of the API server's capacity: then conditions and Events can wait a little."""
        return not self.limit.has_room()

    def _instance(self) -> str:
        return f"{self._configuration.profiles[0].scheduler_name}-{socket.gethostname()}"

    def _build_client(self, options: Options, connection: Connection) -> APIClient:
        return APIClient(
            connection,
            bucket=_bucket(options),
            max_connections=self._most_workers + CONNECTIONS_BESIDE_BINDS,
            clock=self.clock,
            reachability=self.reachability,
            fence=self.leadership.fence if self.leadership is not None else None,
            pipeline_depth=options.pipeline_depth,
        )

    def _build_plugin_client(self, connection: Connection) -> APIClient:
        """For plugins' own requests. An aggregated API that is away says nothing about the API server's health."""
        return APIClient(
            connection,
            max_connections=CONNECTIONS_OF_PLUGINS,
            clock=self.clock,
            fence=self.leadership.fence if self.leadership is not None else None,
        )

    @property
    def has_lost(self) -> bool:
        """Whether this process has lost its lease: nothing that it has begun can be brought to an end."""
        return self.election is not None and self.election.has_lost

    def events_omitted(self) -> int:
        """Bound pods without an Event of their own."""
        return 0 if self.successes is None else self.successes.omitted

    def _build_recorder(self) -> EventRecorder:
        return EventRecorder(
            self.event_client,
            reporting_instance=self._instance(),
            clock=self.clock,
            queue_size=QUEUED_EVENTS,
            is_busy=self._is_binding_hard,
        )

    def _build_status_writer(self) -> StatusWriter:
        return StatusWriter(
            PodStatusPatcher(self.client, self.clock),
            self.recorder,
            self._pod,
            clock=self.clock,
            is_busy=self._is_binding_hard,
            on_call=partial(self.observations.async_api_call, "pod_status_patch"),
        )

    def _ports(self) -> Ports:
        """The ports, all implemented by the API server."""
        pods, observers = PodWriter(self.client, self.clock), Observers(self.observations, self.pod_log)
        return Ports(
            binder=BindingWriter(
                pods, self.clock, self.observations, self._throttled, observers, self.taken, self._bind_pauses
            ),
            evictor=pods,
            statuses=self.status_writer,
            group_statuses=self.group_status_writer,
            events=self.recorder,
            successes=self.successes,
            volume_writer=VolumeBindingWriter(ApiVolumeWriter(self.client)),
            claim_storage=ApiClaimWriter(self.client),
            pod_of=self._pod,
            workloads=StoredWorkloads(*(self.informers[kind].store for kind in WORKLOAD_KINDS)),
            budgets=StoredBudgets(self.informers[POD_DISRUPTION_BUDGETS].store),
            lister=self.plugin_listers.lister,
            client=self.plugin_client,
            extenders=self.extenders,
            wake_worker=self._wake_worker,
            observations=self.observations,
            taken=self.taken,
            log=self.pod_log,
            journal=self.flight_recorder,
        )

    def _tie_name(self) -> Callable[[str], str]:
        if self.flight_recorder is None:
            return str
        from kscheduler.recorder.building import tie_name_of

        return tie_name_of(self.flight_recorder)

    def recorded_state(self) -> "RecordedState":
        """Where the flight recorder finds what a segment begins with."""
        from kscheduler.recorder.building import recorded_state_of

        return recorded_state_of(self.assembly, self.informers, self._kinds, lambda: self.origins)

    def _build_flight_recorder(self, options: Options) -> "FlightRecorder | None":
        if options.record is None:
            return None
        from kscheduler.recorder.building import flight_recorder
        from kscheduler.recorder.flight_recorder import tap

        recorder = flight_recorder(options.record, self.clock)
        tap(recorder, self.informers, self._kinds)  # before the handlers that change the state
        return recorder

    def _wake_worker(self) -> None:
        """Wake a worker. A method, because the queue that calls it is built before the workers."""
        self.workers.wake()

    def _throttled(self, namespace: str, refusal: APIError) -> None:
        """A Binding was answered with 429."""
        if refusal.is_overload:
            self.limit.refused()
        elif not self.workers.work_slots.have_others_finished():
            self.limit.refused_for(namespace, self.clock.monotonic())

    def _bind_pauses(self, uid: str) -> None:
        """A Binding sleeps before it is sent again. A method, likewise."""
        self.workers.pauses(uid)

    def _own_kind_changed(self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None) -> None:
        """Plugins have heard of a change that only they follow. A method, because the listers are built first."""
        self.assembly.own_kind_changed(event, old, new)

    def _extenders_in_use(self) -> Iterable[Extenders | None]:
        """The extenders of all attempts under way. A method, because the workers are built later."""
        return self.workers.extenders_in_use()

    def _pod(self, key: str) -> Pod | None:
        found: Pod | None = self.informers.informer(PODS).store.get(key)
        return found

    def _node(self, name: str) -> Node | None:
        found = self.assembly.cache.node_info(name)
        return found.node if found is not None else None

    def _look_for_absent(self) -> None:
        """The API server was upgraded: it may serve what the rules of its version read. They are taken over at once."""
        self.informers.look_for_absent()
        self.plugin_listers.look_for_absent()

    def _may_write(self) -> bool:
        """Whether this process leads: writes of others on our behalf pass no fence of our client."""
        return self.leadership is None or self.leadership.fence.is_open()

    def _attempt_ended(self) -> None:
        """What a configuration before this one needed is closed once no attempt has it."""
        self.retired.look()
        self.extenders.look()

    def _build_overcommit_keeping(self, *, repairs: bool) -> OvercommitKeeping:
        evictor = PodWriter(self.client, self.clock) if repairs else None
        watched = self.assembly.cache, self.assembly.profiles, self.taken
        return OvercommitKeeping(*watched, self.recorder, evictor, self.observations, self.clock)

    def _build_drift_detection(self, periods: Periods) -> DriftDetection:
        assembly = self.assembly
        handlers = assembly.pod_handler, assembly.node_handler
        return DriftDetection(
            self.informers,
            assembly.cache,
            assembly.queue,
            assembly.profiles,
            handlers,
            self.client,
            self.clock,
            periods,
            assembly.observers,
            WaitsBesideQueue(assembly.scheduler.lines.in_line, self.workers.standing.all, self.permit_waits.by_pod),
        )


def _bucket(options: Options) -> TokenBucket | None:
    """The rate limit that the user set, if any (negative means none): without it, the workers adapt to the server."""
    connection = options.config.configuration.client_connection
    if not options.config.is_given("clientConnection.qps") or connection.qps < 0:
        return None
    return TokenBucket(connection.qps, connection.burst, options.clock)
