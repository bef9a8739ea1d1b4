"""What the service serves over HTTP: health, metrics, configuration, pods that wait for Permit, pages for people."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import asdict

from kscheduler import __version__
from kscheduler.api.core import Pod
from kscheduler.api.kinds import DEVICE_TAINT_RULES, PODS
from kscheduler.client.access.connection import Connection
from kscheduler.client.reachability import ReachabilityStatistics
from kscheduler.client.rest_statistics import RESTStatistics
from kscheduler.config.errors import config_error
from kscheduler.config.extenders import without_secrets
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import to_tree
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.informers.informer import InformerStatistics
from kscheduler.informers.store import Store
from kscheduler.scheduling.drift.prebind_waits import ClaimsNow
from kscheduler.scheduling.observations import OF_COMPOSITE, OF_GROUP, SINGLE_POD
from kscheduler.scheduling.pending_pods import PendingPods
from kscheduler.scheduling.profile import device_counter, ignores_resource
from kscheduler.server import (
    Address,
    Check,
    Endpoints,
    Health,
    LoopbackAccess,
    Offer,
    OpenAccess,
    PermitTokenFile,
    Port,
    ProgressCheck,
    ServedPage,
    Server,
    WaitingPodsEndpoint,
    samples_of,
)
from kscheduler.server.pages.debugging import ProfilePage, dump_page, set_verbosity_page, stacks_page
from kscheduler.server.pages.pending import pending_page
from kscheduler.server.pages.pod_resources import pod_resources
from kscheduler.server.pages.query_pages import (
    BODY_BYTES,
    explain_new_page,
    explain_page,
    helping_changes,
    nodes_page,
    simulate_page,
)
from kscheduler.server.pages.zpages import flagz, openapi_page, statusz
from kscheduler.server.serving import LOOPBACK
from kscheduler.server.status_page.site import StatusPage
from kscheduler.server.tls.serving_contexts import MadePair
from kscheduler.service.asking.live_copies import LiveCopies
from kscheduler.service.asking.live_queries import LiveQueries
from kscheduler.service.asking.memory_headroom import MemoryHeadroom, cgroup_used
from kscheduler.service.login import Login, LoginConnections
from kscheduler.service.metrics.api_client import event_source, informer_source, reachability_source, rest_client_source
from kscheduler.service.metrics.background_writes import status_source, work_queue_source
from kscheduler.service.metrics.config_reloads import config_reload_source
from kscheduler.service.metrics.drift import drift_source
from kscheduler.service.metrics.elections import election_source
from kscheduler.service.metrics.followed_version import FollowedVersionStatistics, followed_version_source
from kscheduler.service.metrics.loop_lag import LoopLag
from kscheduler.service.metrics.process import (
    build_info_source,
    feature_source,
    process_families,
    program_samples,
)
from kscheduler.service.metrics.scheduler import Gauges, plugin_data_source, scheduler_source
from kscheduler.service.monitors.devices import DevicePools, OfferedDevices
from kscheduler.service.monitors.free_room import FreeRoom, PendingPodSource
from kscheduler.service.monitors.memory_watch import cgroup_limit, limit_with_alarm, resident_bytes
from kscheduler.service.options import Options
from kscheduler.service.page_sources import StatusPageQueries, page_sources
from kscheduler.service.parts import Parts
from kscheduler.service.reloading import ConfigReloader
from kscheduler.telemetry.exposition import Exposition
from kscheduler.telemetry.samples import Source


def features_of(gates: FeatureGates) -> dict[tuple[str, str], bool]:
    """All known gates, by name and stage as in Kubernetes' metric."""
    return {(state.name, state.stage): state.enabled for state in gates.states()}


def token_of(options: Options) -> PermitTokenFile | None:
    """The token for `/waiting-pods`, and for `/configz` from other machines.

    Raises `ConfigError` if it cannot be read, at the start rather than at the first use.
    """
    path = options.permit_token_file
    if not path:
        return None
    token = PermitTokenFile(path)
    try:
        token.read()
    except OSError as failure:
        raise config_error("", f"{path}: {failure.strerror or failure}", "--permit-token-file") from failure
    except ValueError as failure:
        raise config_error("", str(failure), "--permit-token-file") from failure
    return token


def _objects(store: Store[Pod]) -> Iterator[Pod]:
    """The objects of a store, which may change meanwhile."""
    for key in store.keys():  # noqa: SIM118  a copy of the keys
        found = store.get(key)
        if found is not None:
            yield found


class HTTPApp:
    """The HTTP server over the parts. It only reads them, except that it can allow or reject waiting pods."""

    def __init__(
        self,
        options: Options,
        connection: Connection,
        parts: Parts,
        reloader: ConfigReloader,
        followed_version: Callable[[], FollowedVersionStatistics],
        login_connections: LoginConnections | None = None,
        made: MadePair | None = None,
    ) -> None:
        """`login_connections`: whom the login asks; by default the scheduler's own API server. `made`: the certificate
        that this process serves already. Raises `ConfigError`.
        """
        self._options = options
        self._parts = parts
        self._reloader = reloader
        self._followed_version = followed_version
        self.is_stopping = False
        self.has_begun = False
        """Everything was synced once. Kinds that a new configuration adds are its business from then on: the one before
        decides until they are synced."""
        self.is_scheduling = False
        """The workers run: work that waits while another replica leads is not stuck."""
        self.loop_lag = LoopLag(clock=parts.clock, slowest_call=parts.assembly.plugin_reports.take_slowest)
        limit = limit_with_alarm(options.memory_alarm, cgroup_limit)
        room = MemoryHeadroom(limit, partial(cgroup_used, resident_bytes))
        self.copies = LiveCopies(room)
        """Answer questions about the state as it is."""
        self.queries = LiveQueries(parts, self.copies, self._has_synced, lambda: self.is_scheduling)
        self._token = token_of(options)
        self.login: Login | None = None
        if options.serving.secure_port is not None:
            asked = login_connections or LoginConnections(connection, connection)
            self.login = Login(options.serving, asked, parts.clock, self._token, made)
        assembly, pods = parts.assembly, parts.informers.informer(PODS).store
        self.class_devices = ClassDevices(assembly.cache, lambda: device_counter(assembly.profiles.values()))
        waiting = PendingPodSource(assembly.queue.waiting_keys, pods.get)
        ignores = partial(ignores_resource, assembly.profiles)
        self.free_room = FreeRoom(assembly.cache, self.class_devices, waiting, parts.clock, self._has_synced, ignores)
        self.exposition = self._build_exposition(connection)
        self.status_page: StatusPage | None = None
        """`None`: it is off, or there is no port that could show it."""
        endpoints = self._endpoints()
        self.servers = [Server(endpoints, port, clock=parts.clock) for port in self._ports()]
        self.exposition.add(lambda: samples_of(self.servers))

    @property
    def server(self) -> Server:
        """The first of the servers. Raises `IndexError` where all ports are off."""
        return self.servers[0]

    def _ports(self) -> Iterator[Port]:
        """HTTPS, then plain HTTP for health and metrics, then plain HTTP for what only reads on this machine."""
        serving = self._options.serving
        if self.login is not None and serving.secure_port is not None:
            address = Address(serving.bind_address, serving.secure_port, serving.shares_port)
            contexts = self.login.contexts
            yield Port("https", address, Offer.EVERYTHING, self.login.access, lambda: contexts.current)
        if serving.metrics_address is not None:
            address = Address(*serving.metrics_address)
            yield Port("metrics", address, Offer.HEALTH_AND_METRICS, lambda _places: OpenAccess())
        if serving.insecure_port is not None:
            address = Address(LOOPBACK, serving.insecure_port)
            access = LoopbackAccess(self._token)
            yield Port("insecure", address, Offer.EVERYTHING_WITHOUT_LOGIN, lambda _places: access)

    def _build_exposition(self, connection: Connection) -> Exposition:
        assembly = self._parts.assembly
        offered = OfferedDevices(assembly.cache)
        gauges = Gauges(
            pending_pods=self._pending_pods,
            queued_entities=self._queued_entities,
            cache_size=lambda: asdict(self._parts.assembly.cache.statistics()),
            unschedulable_pods=self._parts.assembly.queue.rejections,
            inflight_events=self._inflight_events,
            goroutines=lambda: {"binding": self._parts.workers.in_binding_cycle},
            extender_pods=self._extender_pods,
            gated_pods=self._gated_pods,
            device_pools=DevicePools(lambda: assembly.profiles).counts,
            devices=offered.devices,
            extended_resources=offered.extended_resources,
            group_members=self._group_members,
            pods_at_permit=self._parts.permit_waits.pods_by_plugin,
            quarantined_plugins=self._parts.assembly.circuits.supervised,
            overcommitted_nodes=self._parts.overcommit.counts,
            pending_api_calls=lambda: {"pod_status_patch": self._parts.status_writer.statistics().pending},
        )
        election = self._parts.election
        return Exposition(
            [
                scheduler_source(self._parts.observations, gauges),
                self.free_room.samples,
                rest_client_source(connection.base_url, self._request_statistics()),
                *([election_source(election.statistics)] if election is not None else []),
                reachability_source(connection.base_url, self._reachability),
                informer_source(self._parts.informer_statistics),
                event_source(self._parts.recorder.statistics, self._parts.events_omitted),
                work_queue_source(self._parts.recorder.work_queue),
                status_source(self._parts.status_writer.statistics),
                config_reload_source(self._reloader.statistics),
                followed_version_source(self._followed_version),
                drift_source(
                    self._parts.drift_detection.check.statistics, self._parts.drift_detection.audits.statistics
                ),
                self.loop_lag.samples,
                self._parts.memory.samples,
                self._parts.hanging_writes.samples,
                self.queries.samples,
                *self._recorder_source(),
                plugin_data_source(self._parts.refreshed.results, self._parts.refreshed.ages),
                build_info_source(__version__, self._followed),
                feature_source(lambda: features_of(self._parts.assembly.config.gates)),
                program_samples,
                *([] if self.login is None else [self.login.samples]),
            ],
            on_thread=[process_families],
        )

    def _recorder_source(self) -> list[Source]:
        recorder = self._parts.flight_recorder
        if recorder is None:
            return []
        from kscheduler.recorder.metrics import recorder_source

        return [recorder_source(recorder.statistics)]

    def _request_statistics(self) -> Sequence[Callable[[], RESTStatistics]]:
        own = [self._parts.client.statistics, self._parts.event_client.statistics, self._parts.plugin_client.statistics]
        if self._parts.leadership is not None:
            own.append(self._parts.leadership.client.statistics)
        return own if self.login is None else [*own, *self.login.request_statistics()]

    def _pending_pods(self) -> Mapping[str, float]:
        of_groups = {"incomplete": 0, "pending": 0} if self._parts.observations.counts_entities else {}
        sizes = self._parts.assembly.queue.statistics()
        known = {"incomplete": sizes.incomplete, "pending": sizes.pending}
        return {
            **self._waiting_pods(),
            **of_groups,
            **{place: count for place, count in known.items() if count is not None},
        }

    def _waiting_pods(self) -> dict[str, float]:
        """Pods by queue, members of groups that wait as an element too."""
        sizes = self._parts.assembly.queue.statistics()
        return {
            "active": sizes.active,
            "backoff": sizes.backoff,
            "unschedulable": sizes.unschedulable,
            "gated": sizes.gated,
        }

    def _queued_entities(self) -> Mapping[tuple[str, str], float]:
        """Single pods, and groups where they are followed. Empty where the followed version has no such series."""
        if not self._parts.observations.counts_entities:
            return {}
        groups = self._parts.assembly.queue.statistics().groups
        entities: dict[tuple[str, str], float] = {}
        for queue, pods in self._waiting_pods().items():
            count, composites, members = groups.get(queue, (0, 0, 0))
            entities[queue, SINGLE_POD] = pods - members
            if groups:
                entities[queue, OF_GROUP] = count
            if groups and self._parts.observations.labels_entities:  # else there is no name for them
                entities[queue, OF_COMPOSITE] = composites
        return entities

    def _gated_pods(self) -> dict[str, float]:
        return {"DynamicResources": 0, **self._parts.assembly.queue.gated_by_plugin()}

    def _group_members(self) -> dict[str, float]:
        groups = self._parts.assembly.queue.statistics().groups
        return {queue: members for queue, (*_, members) in groups.items()}

    def _extender_pods(self) -> dict[tuple[str, str], float]:
        pods: dict[tuple[str, str], float] = {}
        for line in self._parts.assembly.scheduler.lines.statistics():
            pods[line.extenders, "asked"], pods[line.extenders, "waiting"] = line.asked, line.waiting
        return pods

    def _inflight_events(self) -> Mapping[str, float]:
        sizes = self._parts.assembly.queue.statistics()
        return {"PodPopped": sizes.in_flight, **sizes.in_flight_events}

    def _endpoints(self) -> Endpoints:
        progress = ProgressCheck(
            done=lambda: sum(self._parts.observations.schedule_attempts.values()),
            has_work=lambda: (
                self.is_scheduling
                and self._parts.assembly.queue.has_ready()
                and self._parts.limit.has_room()
                and self._has_synced()
            ),
            monotonic=self._parts.clock.monotonic,
        )
        election = self._parts.election
        renewed: dict[str, Check] = {"leaderElection": election.renewal_problem} if election is not None else {}
        usable: dict[str, Check] = {"leaderElection": election.problem} if election is not None else {}
        readyz = Health(
            "readyz",
            {
                "api-server": self._api_server_problem,
                **usable,
                "sched-handler-sync": self._sync_problem,
                "watches": self._parts.informers.old_views,
                "shutdown": self._shutdown_problem,
            },
            self._notes,
        )
        if self._options.serving.status_page:
            asks = self._options.serves_queries
            answers = StatusPageQueries(self.queries) if asks else None
            sources = page_sources(
                self._parts,
                answers,
                self._waiting(),
                readyz,
                lambda: self.is_scheduling,
                self._has_synced,
                self.class_devices,
                self.free_room.fragments,
            )
            self.status_page = StatusPage(sources)
        return Endpoints(
            livez=Health("livez", {"event-loop": self.loop_lag.problem, "workers": progress}),
            readyz=readyz,
            healthz=Health("healthz", {"event-loop": self.loop_lag.problem, **renewed}),
            exposition=self.exposition,
            component_config=self._component_config,
            waiting_pods=WaitingPodsEndpoint(self._parts.assembly.waiting, self._token, self._parts.clock),
            pages=self._pages(),
            status_page=self.status_page,
        )

    def _waiting(self) -> PendingPods:
        assembly = self._parts.assembly
        pods = self._parts.informers.informer(PODS).store
        return PendingPods(assembly.queue, pods, assembly.profiles.__contains__, self._claims_now())

    def _claims_now(self) -> ClaimsNow:
        assembly = self._parts.assembly
        return ClaimsNow(assembly.cache, lambda: assembly.config)

    def _pages(self) -> dict[str, ServedPage]:
        """Pages that gates and `enableProfiling` decide about, and resources by pod."""
        config = self._options.config
        pods = self._parts.informers.informer(PODS).store
        resources = pod_resources(lambda: _objects(pods), lambda: self.is_scheduling)
        changes = helping_changes(self.queries) if self._options.serves_queries else None
        pages = {
            "/metrics/resources": ServedPage(resources, is_long=True),
            "/openapi.json": ServedPage(openapi_page()),
            "/pending": ServedPage(pending_page(self._waiting().all, changes), is_long=True),
        }
        if self._options.serves_queries:
            simulates = simulate_page(self.queries)
            pages |= {
                "/explain": ServedPage(
                    explain_page(self.queries), posted=explain_new_page(self.queries), body_bytes=BODY_BYTES
                ),
                "/nodes": ServedPage(nodes_page(self.queries)),
                "/simulate": ServedPage(simulates, method="POST", only_reads=True, body_bytes=BODY_BYTES),
            }
        if config.configuration.enable_profiling:
            dump = self._parts.drift_detection.dump
            pages |= {
                "/debug/cache": ServedPage(dump_page(dump.cache_entries), is_long=True),
                "/debug/queue": ServedPage(dump_page(dump.queue_entries), is_long=True),
                "/debug/stacks": ServedPage(stacks_page),
                "/debug/profile": ServedPage(ProfilePage().handle, is_long=True),
                "/debug/flags/v": ServedPage(set_verbosity_page, method="PUT"),
            }
        if config.gates.enabled("ComponentFlagz"):
            pages["/flagz"] = ServedPage(flagz(self._options.flags))
        if config.gates.enabled("ComponentStatusz"):
            listed = [*pages, "/configz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"]
            clock, began = self._parts.clock, self._parts.process_began
            status = statusz(__version__, self._followed, lambda: listed, clock, began)
            pages["/statusz"] = ServedPage(status)
        return pages

    def _component_config(self) -> bytes:
        return msgspec.json.encode(to_tree(without_secrets(self._parts.assembly.config.configuration)))

    # --- health -------------------------------------------------------------------------------------------------------

    def _has_synced(self) -> bool:
        return not self._unsynced()

    def _unsynced(self) -> list[InformerStatistics]:
        parts = self._parts
        found = parts.informers.statistics() if self.has_begun else parts.informer_statistics()
        return [informer for informer in found if not (informer.synced or informer.resting)]

    def _reachability(self) -> ReachabilityStatistics:
        return self._parts.reachability.statistics(self._parts.clock.monotonic())

    def _api_server_problem(self) -> str | None:
        return self._parts.reachability.problem(self._parts.clock.monotonic())

    def _sync_problem(self) -> str | None:
        waiting = [
            f"{informer.resource} ({informer.problem})" if informer.problem else informer.resource
            for informer in self._unsynced()
        ]
        return f"handlers are not fully synchronized: {', '.join(waiting)}" if waiting else None

    def begin_stopping(self) -> None:
        """The service ends: it is not ready any more, and requests that wait for an answer are told at once."""
        self.is_stopping = True
        self.copies.stop()

    def _shutdown_problem(self) -> str | None:
        return "process is shutting down" if self.is_stopping else None

    def _followed(self) -> str:
        """The version of Kubernetes whose rules are in force."""
        return self._parts.assembly.config.gates.version

    def _notes(self) -> Iterable[str]:
        """Additional lines of `/readyz?verbose`: who leads, an API server that was not tested, a refused configuration
        or certificate, removed profiles, plugins that are quarantined or held back, overcommitted nodes,
        unreadable objects, kinds that the server does not have.
        """
        if self._parts.election is not None:
            yield self._parts.election.note()
        yield from self._parts.server_version.notes()
        yield from self._parts.reachability.notes(self._parts.clock.monotonic())
        yield from self._parts.extenders.notes()
        yield from self._parts.hanging_writes.notes()
        yield from self._parts.refreshed.notes()
        yield from self._parts.assembly.scheduler.lines.notes()
        yield from self._parts.permit_waits.notes()
        yield from self._parts.incomplete_waits.notes()
        yield from self._parts.topology_reports.notes()
        yield from self.ongoing_problems()
        awaited = self._parts.assembly.cache.topology_levels.awaited()
        follows_rules = self._parts.assembly.config.gates.enabled("DRADeviceTaintRules")
        for informer in self._parts.informer_statistics():
            if informer.synced and informer.problem and not informer.resting:
                yield f"{informer.resource}: list or watch fails: {informer.down_text or informer.problem}"
            # Without their gate, taint rules do not count.
            if informer.resting and (follows_rules or informer.resource != DEVICE_TAINT_RULES.resource):
                wait = ", and pods of such groups wait" if informer.resource in self._parts.group_kinds else ""
                if informer.resource in awaited:
                    wait = ", and so do pod groups that require its levels"
                yield f"{informer.resource}: the API server does not have it; waiting for it to appear{wait}"

    def ongoing_problems(self) -> Iterable[str]:
        """Those of the notes that begin with a warning or an error in the log, which is not repeated."""
        yield from self._reloader.notes()
        yield from self._parts.removed_profiles.notes()
        yield from (quarantine.note for quarantine in self._parts.assembly.circuits.quarantines())
        yield from self._parts.assembly.circuits.held_pods.notes()
        yield from self._parts.memory.notes()
        yield from self._parts.overcommit.notes()
        if self._parts.flight_recorder is not None:
            yield from self._parts.flight_recorder.notes()
        if self.login is not None:
            yield from self.login.contexts.notes()
        for informer in self._parts.informer_statistics():
            for key, reason in informer.undecodable.items():
                yield f"{informer.resource}: {key} cannot be decoded and is skipped: {reason}"
