"""What the service serves over HTTP: health, metrics, its configuration, pods that wait for Permit."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

import msgspec

from kscheduler import __version__
from kscheduler.app.options import Options
from kscheduler.app.parts import Parts
from kscheduler.app.reloading import ConfigReloader
from kscheduler.client.access.connection import Connection
from kscheduler.client.reachability import ReachabilityStatistics
from kscheduler.config.errors import config_error
from kscheduler.config.extenders import without_secrets
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import to_tree
from kscheduler.metrics import (
    Exposition,
    Gauges,
    LoopLag,
    build_info_source,
    config_reload_source,
    event_source,
    feature_source,
    informer_source,
    process_families,
    program_samples,
    reachability_source,
    rest_client_source,
    scheduler_source,
    status_source,
    truth_source,
    work_queue_source,
)
from kscheduler.server import (
    Access,
    Endpoints,
    Health,
    PermitTokenFile,
    ProgressCheck,
    Server,
    WaitingPodsEndpoint,
)


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


class Surface:
    """The HTTP server over the parts. It only reads them, except that it can allow or reject waiting pods."""

    def __init__(self, options: Options, connection: Connection, parts: Parts, reloader: ConfigReloader) -> None:
        self._options = options
        self._parts = parts
        self._reloader = reloader
        self.is_stopping = False
        self.loop_lag = LoopLag(clock=parts.clock, slowest_call=parts.assembly.plugin_reports.take_slowest)
        self.exposition = self._build_exposition(connection)
        self.server = Server(self._endpoints(), clock=parts.clock)
        self.exposition.add(self.server.samples)

    def _build_exposition(self, connection: Connection) -> Exposition:
        gauges = Gauges(
            pending_pods=self._pending_pods,
            cache_size=lambda: asdict(self._parts.assembly.cache.statistics()),
            unschedulable_pods=self._parts.assembly.queue.rejections,
            inflight_events=self._inflight_events,
            goroutines=lambda: {"binding": self._parts.workers.binding},
            pending_api_calls=lambda: {"pod_status_patch": self._parts.status_writer.statistics().pending},
        )
        return Exposition(
            [
                scheduler_source(self._parts.observations, gauges),
                rest_client_source(
                    connection.base_url, [self._parts.client.statistics, self._parts.event_client.statistics]
                ),
                reachability_source(connection.base_url, self._reachability),
                informer_source(self._parts.informers.statistics),
                event_source(self._parts.recorder.statistics),
                work_queue_source(self._parts.recorder.work_queue),
                status_source(self._parts.status_writer.statistics),
                config_reload_source(self._reloader.statistics),
                truth_source(self._parts.truth.check.statistics, self._parts.truth.audits.statistics),
                self.loop_lag.samples,
                build_info_source(__version__),
                feature_source(lambda: features_of(self._options.config.gates)),
                program_samples,
            ],
            on_thread=[process_families],
        )

    def _pending_pods(self) -> Mapping[str, float]:
        sizes = self._parts.assembly.queue.statistics()
        return {
            "active": sizes.active,
            "backoff": sizes.backoff,
            "unschedulable": sizes.unschedulable,
            "gated": sizes.gated,
        }

    def _inflight_events(self) -> Mapping[str, float]:
        sizes = self._parts.assembly.queue.statistics()
        return {"PodPopped": sizes.in_flight, **sizes.in_flight_events}

    def _endpoints(self) -> Endpoints:
        progress = ProgressCheck(
            done=lambda: sum(self._parts.observations.schedule_attempts.values()),
            has_work=lambda: (
                self._parts.assembly.queue.has_ready() and self._parts.limit.has_room() and self._has_synced()
            ),
            monotonic=self._parts.clock.monotonic,
        )
        token = token_of(self._options)
        return Endpoints(
            livez=Health("livez", {"event-loop": self.loop_lag.problem, "workers": progress}),
            readyz=Health(
                "readyz",
                {
                    "api-server": self._api_server_problem,
                    "sched-handler-sync": self._sync_problem,
                    "shutdown": self._shutdown_problem,
                },
                self._notes,
            ),
            healthz=Health("healthz", {"event-loop": self.loop_lag.problem}),
            exposition=self.exposition,
            component_config=self._component_config,
            waiting_pods=WaitingPodsEndpoint(self._parts.assembly.waiting, token, self._parts.clock),
            access=Access(token),
        )

    def _component_config(self) -> bytes:
        return msgspec.json.encode(to_tree(without_secrets(self._parts.assembly.config.configuration)))

    # --- health -------------------------------------------------------------------------------------------------------

    def _has_synced(self) -> bool:
        return all(informer.synced or informer.resting for informer in self._parts.informers.statistics())

    def _reachability(self) -> ReachabilityStatistics:
        return self._parts.reachability.statistics(self._parts.clock.monotonic())

    def _api_server_problem(self) -> str | None:
        return self._parts.reachability.problem(self._parts.clock.monotonic())

    def _sync_problem(self) -> str | None:
        waiting = [
            f"{informer.resource} ({informer.problem})" if informer.problem else informer.resource
            for informer in self._parts.informers.statistics()
            if not (informer.synced or informer.resting)
        ]
        return f"handlers are not fully synchronized: {', '.join(waiting)}" if waiting else None

    def _shutdown_problem(self) -> str | None:
        return "process is shutting down" if self.is_stopping else None

    def _notes(self) -> Iterable[str]:
        """Additional lines of `/readyz?verbose`: a refused configuration, unreadable objects, kinds that the server
        does not have.
        """
        yield from self._reloader.notes()
        for informer in self._parts.informers.statistics():
            if informer.synced and informer.problem and not informer.resting:
                yield f"{informer.resource}: list or watch fails: {informer.problem}"
            if informer.resting:
                yield f"{informer.resource}: the API server does not have it; waiting for it to appear"
            for key, reason in informer.undecodable.items():
                yield f"{informer.resource}: {key} cannot be decoded and is passed over: {reason}"
