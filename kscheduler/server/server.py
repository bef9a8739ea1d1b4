"""Listens, from before the caches are synced until after everything else has stopped."""

import asyncio
from collections.abc import Iterable
from typing import cast

from aiohttp import web

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.well_known import SCHEDULER_PORT
from kscheduler.logs import get_logger
from kscheduler.metrics.samples import Numbers, Sample, gauge
from kscheduler.scheduling.observations import LabelValues, MetricSeries
from kscheduler.server.connections import ConnectionPlaces, Limits
from kscheduler.server.malformed import MalformedRequests, RequestHandler
from kscheduler.server.routes import Endpoints, application

_log = get_logger("server")

_CONNECTIONS = MetricSeries("kscheduler_http_connections", "Open connections to this server.")
_CLOSED = MetricSeries(
    "kscheduler_http_connections_closed_total",
    "Connections closed on clients that were too slow (timeout), too many (displaced) or too large.",
    ("reason",),
)
_MALFORMED = MetricSeries("kscheduler_http_malformed_requests_total", "Requests refused because they are no HTTP.")
_LINGERING_SECONDS = 1.0
"""How long the rest of a body that nobody wants is read and thrown away, so that the client sees the answer."""
_STOP_SECONDS = 5.0
"""What requests under way get at the end, as in kube-scheduler."""


class Server:
    """The HTTP server. Start it first and close it last."""

    def __init__(self, endpoints: Endpoints, *, limits: Limits | None = None, clock: Clock = REAL_CLOCK) -> None:
        self._places = ConnectionPlaces(limits or Limits())
        self._malformed = MalformedRequests(clock)
        self._runner = web.AppRunner(application(endpoints, self._places), shutdown_timeout=_STOP_SECONDS)
        self._listener: asyncio.Server | None = None

    async def start(self, host: str = "0.0.0.0", port: int = SCHEDULER_PORT) -> None:
        """Listen; `port` 0 takes a free one. Raises OSError when the address cannot be had."""
        await self._runner.setup()
        make_handler = self._runner.server
        if make_handler is None:
            message = "aiohttp's runner has no server after its setup"
            raise RuntimeError(message)
        settings = {
            "loop": asyncio.get_running_loop(),
            "access_log": None,
            "keepalive_timeout": self._places.limits.idle_seconds,
            "lingering_time": _LINGERING_SECONDS,
        }

        def protocol() -> asyncio.Protocol:
            return cast("asyncio.Protocol", RequestHandler(make_handler, self._malformed, **settings))

        factory = self._places.factory(protocol)
        try:
            self._listener = await asyncio.get_running_loop().create_server(factory, host or None, port)
        except OSError:
            await self._runner.cleanup()
            raise
        _log.info("http_server_listening", host=host, port=self.port)

    @property
    def port(self) -> int:
        """The port listened on. RuntimeError before `start`."""
        if self._listener is None:
            message = "the server does not listen; call start() first"
            raise RuntimeError(message)
        return int(self._listener.sockets[0].getsockname()[1])

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source`: connections now, and those that were closed on clients."""
        closed: dict[LabelValues, float] = {
            ("timeout",): self._places.timed_out,
            ("displaced",): self._places.displaced,
            ("too_large",): self._places.too_large,
        }
        return [
            gauge(_CONNECTIONS, {(): len(self._places)}),
            Numbers("counter", _CLOSED, closed),
            Numbers("counter", _MALFORMED, {(): self._malformed.total}),
        ]

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._places)

    async def aclose(self) -> None:
        """Stop listening, let requests under way finish (5 s at most), close every connection. May be called twice."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            await self._runner.cleanup()
            self._places.abort_all()
