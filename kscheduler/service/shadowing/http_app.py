"""What a shadow answers over HTTP, in plain: health and metrics for everybody, its report on this machine only."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from kscheduler import __version__
from kscheduler.client.access.connection import Connection
from kscheduler.config.extenders import without_secrets
from kscheduler.config.loader import to_tree
from kscheduler.informers.informer import InformerStatistics
from kscheduler.server import Address, Endpoints, Health, LoopbackAccess, Offer, OpenAccess, Port, ServedPage, Server
from kscheduler.server.handlers import made_page
from kscheduler.server.serving import LOOPBACK
from kscheduler.service.metrics.api_client import informer_source, reachability_source, rest_client_source
from kscheduler.service.metrics.loop_lag import LoopLag
from kscheduler.service.metrics.process import build_info_source, process_families, program_samples
from kscheduler.service.metrics.scheduler import plugin_data_source
from kscheduler.service.shadowing.connected import ConnectedShadow
from kscheduler.service.shadowing.options import ShadowOptions
from kscheduler.shadow.as_page import shadow_page
from kscheduler.shadow.metrics import shadow_source
from kscheduler.shadow.report import ShadowReport
from kscheduler.telemetry.exposition import Exposition


class ShadowHTTPApp:
    """The servers of a shadow. They only read."""

    def __init__(
        self, options: ShadowOptions, connection: Connection, parts: ConnectedShadow, report: Callable[[], ShadowReport]
    ) -> None:
        self._options = options
        self._parts = parts
        self._report = report
        self.is_stopping = False
        slowest_call = parts.follower.assembly.plugin_reports.take_slowest
        self.loop_lag = LoopLag(clock=parts.clock, slowest_call=slowest_call)
        self.exposition = self._exposition(connection)
        endpoints = self._endpoints()
        self.servers = [Server(endpoints, port, clock=parts.clock) for port in self._ports()]

    def report_url(self) -> str:
        """Where the report is once the servers listen; empty: `--insecure-port off`."""
        if self._options.serving.insecure_port is None:
            return ""
        return f"http://{LOOPBACK}:{self.servers[-1].port}/shadow"

    def _ports(self) -> Iterator[Port]:
        serving = self._options.serving
        if serving.metrics_address is not None:
            address = Address(*serving.metrics_address)
            yield Port("metrics", address, Offer.HEALTH_AND_METRICS, lambda _places: OpenAccess())
        if serving.insecure_port is not None:
            access = LoopbackAccess(None)
            address = Address(LOOPBACK, serving.insecure_port)
            yield Port("insecure", address, Offer.EVERYTHING_WITHOUT_LOGIN, lambda _places: access)

    def _exposition(self, connection: Connection) -> Exposition:
        parts, assembly = self._parts, self._parts.follower.assembly
        now = parts.clock.monotonic
        return Exposition(
            [
                shadow_source(parts.follower, now),
                rest_client_source(connection.base_url, [parts.client.statistics, parts.plugin_client.statistics]),
                reachability_source(connection.base_url, lambda: parts.reachability.statistics(now())),
                informer_source(lambda: (*parts.informers.statistics(), *parts.plugin_listers.statistics())),
                self.loop_lag.samples,
                plugin_data_source(parts.refreshed.results, parts.refreshed.ages),
                build_info_source(__version__, lambda: assembly.config.gates.version),
                program_samples,
            ],
            on_thread=[process_families],
        )

    def _endpoints(self) -> Endpoints:
        return Endpoints(
            livez=Health("livez", {"event-loop": self.loop_lag.problem}),
            readyz=Health(
                "readyz",
                {
                    "api-server": self._api_server_problem,
                    "sched-handler-sync": self._sync_problem,
                    "watches": self._parts.informers.old_views,
                    "shutdown": lambda: "process is shutting down" if self.is_stopping else None,
                },
                self._notes,
            ),
            healthz=Health("healthz", {"event-loop": self.loop_lag.problem}),
            exposition=self.exposition,
            component_config=self._config,
            pages={
                "/shadow": ServedPage(made_page(lambda: shadow_page(self._report()), "text/html")),
                "/shadow.json": ServedPage(made_page(lambda: msgspec.json.encode(self._report()), "application/json")),
            },
        )

    def _config(self) -> bytes:
        return msgspec.json.encode(to_tree(without_secrets(self._parts.follower.assembly.config.configuration)))

    def _api_server_problem(self) -> str | None:
        """Unlike a scheduler, which keeps deciding for a while, a shadow has nothing to follow at once."""
        now = self._parts.clock.monotonic()
        return self._parts.reachability.problem(now) or self._parts.reachability.outage(now)

    def _unsynced(self) -> list[InformerStatistics]:
        return [each for each in self._parts.informers.statistics() if not (each.synced or each.resting)]

    def _sync_problem(self) -> str | None:
        waiting = [f"{each.resource} ({each.problem})" if each.problem else each.resource for each in self._unsynced()]
        return f"handlers are not fully synchronized: {', '.join(waiting)}" if waiting else None

    def _notes(self) -> Iterable[str]:
        """For `/readyz?verbose`."""
        yield from self._parts.refreshed.notes()
        yield from (
            f"plugin {each.plugin} is quarantined" for each in self._parts.follower.assembly.circuits.quarantines()
        )
