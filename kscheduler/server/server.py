"""A listening server, which runs from before the first sync until after all other parts have stopped."""

import asyncio
from collections.abc import Callable, Iterable
from typing import cast

import msgspec
from aiohttp import web

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.server.access import Access
from kscheduler.server.connection_rate_limiter import ConnectionRateLimiter
from kscheduler.server.connections import ConnectionSlots, Limits
from kscheduler.server.listener import Address, CannotListenError, ContextNow, Listener
from kscheduler.server.malformed import FailedHandshakes, MalformedRequests, RequestHandler
from kscheduler.server.routes import Endpoints, Offer, application
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.samples import Numbers, Sample, gauge
from kscheduler.telemetry.series import LabelValues, MetricSeries

_log = get_logger("server")

_CONNECTIONS = MetricSeries("kscheduler_http_connections", "Open connections to this server.")
_CLOSED = MetricSeries(
    "kscheduler_http_connections_closed_total",
    "Connections closed on clients that were too slow (timeout), too many (displaced), too large, or failed at TLS "
    "(handshake).",
    ("reason",),
)
_MALFORMED = MetricSeries("kscheduler_http_malformed_requests_total", "Requests refused because they are no HTTP.")
_REFUSED = MetricSeries(
    "kscheduler_http_requests_refused_total", "Requests refused (429) because too many were being answered."
)
_DELAYED = MetricSeries(
    "kscheduler_http_turns_delayed_total", "Handshakes and requests that waited, because too many came in a second."
)
# How long the rest of a refused body is read and discarded, so that the client sees the answer.
_LINGERING_SECONDS = 1.0
# How long requests in flight may take at the end, as in kube-scheduler.
_STOP_SECONDS = 5.0

MakeAccess = Callable[[ConnectionSlots], Access]


class Port(msgspec.Struct, frozen=True):
    """Where a server listens, what it offers, and to whom."""

    name: str
    """For the log: `https`, `metrics`, `insecure`."""
    address: Address
    offer: Offer
    access: MakeAccess
    context_now: ContextNow | None = None
    """`None`: plain HTTP."""


class Server:
    """The HTTP server of one port. Start it first and close it last."""

    def __init__(
        self, endpoints: Endpoints, port: Port, *, limits: Limits | None = None, clock: Clock = REAL_CLOCK
    ) -> None:
        self.connection_slots = ConnectionSlots(limits or Limits())
        self._settings = port
        bounds = self.connection_slots.limits
        # in real time, as the network is
        self._rate_limiter = ConnectionRateLimiter(bounds.turns_per_second, bounds.turns_at_once)
        self._malformed = MalformedRequests(clock)
        self._failed_handshakes = FailedHandshakes(clock)
        app = application(
            endpoints, port.offer, self.connection_slots, port.access(self.connection_slots), self._rate_limiter
        )
        self._runner = web.AppRunner(app, shutdown_timeout=_STOP_SECONDS)
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Listen. Raises `CannotListenError` if the address is not available."""
        await self._runner.setup()
        make_handler = self._runner.server
        if make_handler is None:
            message = "aiohttp's runner has no server after its setup"
            raise RuntimeError(message)
        settings = {
            "loop": asyncio.get_running_loop(),
            "access_log": None,
            "keepalive_timeout": self.connection_slots.limits.idle_seconds,
            "lingering_time": _LINGERING_SECONDS,
            "auto_decompress": False,  # such bodies are refused, and one that cannot be unpacked is no error of ours
        }

        def protocol() -> asyncio.Protocol:
            return cast("asyncio.Protocol", RequestHandler(make_handler, self._malformed, **settings))

        address, context_now = self._settings.address, self._settings.context_now
        try:
            self._listener = Listener(
                address, self.connection_slots, protocol, context_now, self._rate_limiter, self._failed_handshakes.note
            )
        except OSError as error:
            await self._runner.cleanup()
            failure = CannotListenError(error, address, self._settings.name)
            _log.error(
                "http_server_cannot_listen",
                name=self._settings.name,
                host=address.host,
                port=address.port,
                err=failure.strerror,
                advice=failure.advice,
            )
            raise failure from error
        scheme = "http" if context_now is None else "https"
        _log.info("http_server_listening", name=self._settings.name, scheme=scheme, host=address.host, port=self.port)

    @property
    def port(self) -> int:
        """The listening port. Raises `RuntimeError` before `start`."""
        if self._listener is None:
            message = "the server does not listen; call start() first"
            raise RuntimeError(message)
        return self._listener.port

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self.connection_slots)

    async def aclose(self) -> None:
        """Stop listening, let requests in flight finish (5 s at most), close all connections. May be called twice."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.aclose()
            self._rate_limiter.close()
            await self._runner.cleanup()
            self.connection_slots.abort_all()

    def counts(self) -> dict[MetricSeries, dict[LabelValues, float]]:
        """What `samples_of` adds up over all servers."""
        connection_slots = self.connection_slots
        return {
            _CONNECTIONS: {(): len(connection_slots)},
            _CLOSED: {
                ("timeout",): connection_slots.timed_out,
                ("displaced",): connection_slots.displaced,
                ("too_large",): connection_slots.too_large,
                ("handshake",): connection_slots.not_established,
            },
            _MALFORMED: {(): self._malformed.total},
            _REFUSED: {(): connection_slots.refused_requests},
            _DELAYED: {(): self._rate_limiter.delayed},
        }

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source` for this server alone."""
        return samples_of([self])


def samples_of(servers: Iterable[Server]) -> Iterable[Sample]:
    """A metrics `Source`: open connections, and what was closed, refused or delayed, of all servers together."""
    sums: dict[MetricSeries, dict[LabelValues, float]] = {
        series: {} for series in (_CONNECTIONS, _CLOSED, _MALFORMED, _REFUSED, _DELAYED)
    }
    for server in servers:
        for series, values in server.counts().items():
            for labels, value in values.items():
                sums[series][labels] = sums[series].get(labels, 0.0) + value
    for series, values in sums.items():
        yield gauge(series, values) if series is _CONNECTIONS else Numbers("counter", series, values)
