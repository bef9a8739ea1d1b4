"""The answers of each path."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Protocol

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from kscheduler.server.access import HEALTH, Access, DelegatedAccess
from kscheduler.server.browser_login import EVENTS, UI, TokenAuthorizer
from kscheduler.server.connection_rate_limiter import ConnectionRateLimiter
from kscheduler.server.connections import ConnectionSlots
from kscheduler.server.handlers import Handler
from kscheduler.server.health import Health
from kscheduler.server.login.user import status_answer
from kscheduler.server.malformed import SERVED_BY
from kscheduler.server.pages.zpages import BuildVersion, PathIndex, build_version
from kscheduler.server.waiting_pods import WAITING_PODS, WaitingPodsEndpoint
from kscheduler.telemetry.exposition import Exposition, TextFormat, accepts
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger("server")
_JSON = "application/json"


class Offer(Enum):
    """What a port offers."""

    EVERYTHING = auto()
    """Over HTTPS, behind a login."""
    EVERYTHING_WITHOUT_LOGIN = auto()
    """On the plain port of this machine."""
    HEALTH_AND_METRICS = auto()


class ServedPage(msgspec.Struct, frozen=True):
    """A page by its path."""

    handler: Handler
    method: str = "GET"
    is_long: bool = False
    """Whether the answer comes in parts, which may take its time."""
    only_reads: bool = False
    """Whether a request that is no GET changes nothing: then it needs no name."""
    body_bytes: int | None = None
    """The largest body, where it may be larger than others."""
    posted: Handler | None = None
    """Beside a page that is a GET: what a POST gets, which only reads, too."""


class PageForBrowsers(Protocol):
    """The status page (`status_page.site.StatusPage`)."""

    def add_to(self, app: web.Application, judge: TokenAuthorizer | None) -> None:
        """Add its paths to a server. `judge`: of the port's login, if it has one."""
        ...


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of the server's answers."""

    livez: Health
    readyz: Health
    healthz: Health
    exposition: Exposition
    component_config: Callable[[], bytes]
    """The configuration in force, as the JSON of KubeSchedulerConfiguration v1."""
    version: BuildVersion = msgspec.field(default_factory=build_version)
    waiting_pods: WaitingPodsEndpoint | None = None
    pages: Mapping[str, ServedPage] = {}
    """Further pages, by path: `/statusz`, `/debug/...`."""
    status_page: PageForBrowsers | None = None


async def _nothing(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


_ORDINARY = ServedPage(_nothing)


def application(
    endpoints: Endpoints,
    offer: Offer,
    connection_slots: ConnectionSlots,
    access: Access,
    rate_limiter: ConnectionRateLimiter,
) -> web.Application:
    """The aiohttp application; every request passes the boundary, the guard of `connection_slots`, and `access`."""
    app = web.Application(
        middlewares=[_guarded(connection_slots, rate_limiter, _with_streams(endpoints)), _boundary, _admitted(access)],
        client_max_size=connection_slots.limits.body_bytes,
    )
    for health in (endpoints.livez, endpoints.readyz, endpoints.healthz):
        app.router.add_get(f"/{health.name}", _health_handler(health, access))
        app.router.add_get(f"/{health.name}/{{check}}", _single_check_handler(health))
    app.router.add_get("/metrics", _metrics_handler(endpoints.exposition))
    if offer is not Offer.HEALTH_AND_METRICS:
        app.router.add_get("/configz", _configz_handler(endpoints.component_config))
        app.router.add_get("/version", _json_handler(endpoints.version))
        for path, page in endpoints.pages.items():
            if page.method == "GET":
                app.router.add_get(path, page.handler)
                if page.posted is not None:
                    app.router.add_post(path, page.posted)
            elif offer is Offer.EVERYTHING or page.only_reads:  # who changes something has to be let in by name
                app.router.add_route(page.method, path, page.handler)
        if endpoints.waiting_pods is not None:
            endpoints.waiting_pods.add_to(app.router, has_login=offer is Offer.EVERYTHING)
        if endpoints.status_page is not None:
            endpoints.status_page.add_to(app, access if isinstance(access, DelegatedAccess) else None)
    app.router.add_get("/", _json_handler(PathIndex(tuple(_paths(endpoints, offer)))))
    app.on_response_prepare.append(_set_headers)
    return app


def _with_streams(endpoints: Endpoints) -> Mapping[str, ServedPage]:
    """The pages, and the status page's stream, which may take its time too."""
    streams = {} if endpoints.status_page is None else {EVENTS: ServedPage(_nothing, is_long=True)}
    return {**endpoints.pages, **streams}


def _paths(endpoints: Endpoints, offer: Offer) -> list[str]:
    healths = (endpoints.livez, endpoints.readyz, endpoints.healthz)
    single = [f"/{health.name}/{check}" for health in healths for check in health.all_checks()]
    listed = [*(f"/{health.name}" for health in healths), *single, "/metrics"]
    if offer is not Offer.HEALTH_AND_METRICS:
        listed += ["/configz", "/version", *(path for path, page in endpoints.pages.items() if page.method == "GET")]
        listed += [f"{UI}/"] if endpoints.status_page is not None else []
        waiting = endpoints.waiting_pods
        if waiting is not None and (waiting.token is not None or offer is Offer.EVERYTHING):
            listed.append(WAITING_PODS)
    return sorted(listed)


def _health_handler(health: Health, access: Access) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        excluded = frozenset(request.query.getall("exclude", []))
        verbose = "verbose" in request.query
        passes, text = health.report(
            excluded=excluded, verbose=verbose, shows_notes=verbose and await access.shows_names(request)
        )
        return web.Response(text=text, status=200 if passes else 500)

    return handle


def _single_check_handler(health: Health) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        report = health.report_one(request.match_info["check"])
        if report is None:
            raise web.HTTPNotFound
        passes, text = report
        return web.Response(text=text, status=200 if passes else 500)

    return handle


def _metrics_handler(exposition: Exposition) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        text_format = TextFormat.accepted_by(",".join(request.headers.getall(hdrs.ACCEPT, [])))
        gzipped = accepts(request.headers.get(hdrs.ACCEPT_ENCODING, ""), "gzip")
        exposed = await exposition.render(text_format, gzipped=gzipped)
        headers = {hdrs.CONTENT_TYPE: exposed.content_type, hdrs.VARY: "Accept, Accept-Encoding"}
        if exposed.gzipped:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        return web.Response(body=exposed.body, headers=headers)

    return handle


def _configz_handler(component_config: Callable[[], bytes]) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        body = msgspec.json.encode({"componentconfig": msgspec.Raw(component_config())})
        return web.Response(body=body, content_type=_JSON)

    return handle


def _json_handler(value: object) -> Handler:
    body = msgspec.json.encode(value)

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=_JSON)

    return handle


def _guarded(
    connection_slots: ConnectionSlots, rate_limiter: ConnectionRateLimiter, pages: Mapping[str, ServedPage]
) -> Middleware:
    """Tell the connection's guard when a request begins and when its answer has been sent.

    A limited number of requests is answered at a time; until a client has taken its answer, its request counts. Health
    checks do not count, so that there is always a connection that a probe can replace.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connection_slots.of(request.transport)
        if connection is None:
            return web.Response(status=503)  # the client has gone
        if connection.was_used:  # the first request came with the turn of the handshake
            await _turn(rate_limiter, connection.peer)
        connection.was_used = True
        connection.request_begins()
        page = pages.get(request.path, _ORDINARY)
        if page.is_long:
            connection.is_streaming()
        with connection_slots.answering(is_probe=_is_probe(request)) as is_admitted:
            most = page.body_bytes or connection_slots.limits.body_bytes
            try:
                return await _send(request, await _response(request, handler if is_admitted else _too_many, most))
            finally:
                connection.request_ends()

    return guard


def _is_probe(request: web.Request) -> bool:
    """Whether it is a health check as the kubelet makes it; `?verbose` may ask the API server who wants to know."""
    return request.path in HEALTH and "verbose" not in request.query


async def _send(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Send the answer here rather than later in aiohttp, so that the client's time to read it counts."""
    with suppress(ConnectionError):  # the client has gone, or was too slow; aiohttp notices by itself
        await response.prepare(request)
        await response.write_eof()
    return response


async def _too_many(request: web.Request) -> web.StreamResponse:
    refusal = status_answer(request, 429, "too many requests are being answered, please try again later")
    refusal.headers[hdrs.RETRY_AFTER] = "1"
    return refusal


async def _turn(rate_limiter: ConnectionRateLimiter, address: str) -> None:
    """Wait for a turn. A client that goes away meanwhile gives it up."""
    granted = asyncio.Event()
    turn = rate_limiter.ask(address, granted.set)
    try:
        await granted.wait()
    finally:
        turn.cancel()


def _admitted(access: Access) -> Middleware:
    """Let a request through that is allowed and can be read."""

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        if hdrs.CONTENT_ENCODING in request.headers:
            raise web.HTTPUnsupportedMediaType(text="415: bodies are read as they are, not compressed")
        if request.rel_url.path_safe != request.path:
            raise web.HTTPNotFound  # an escaped slash: what is allowed and what is found could be two things
        return await access.refusal(request) or await handler(request)

    return admit


async def _response(request: web.Request, handler: Handler, most_bytes: int) -> web.StreamResponse:
    if (request.content_length or 0) > most_bytes:
        text = f"the body of {request.content_length} bytes is larger than the limit of {most_bytes}"
        response: web.StreamResponse = status_answer(request, 413, text)
    else:
        response = await handler(request)
    if request.can_read_body:
        response.force_close()  # the rest of an unread body must not become the next request
    return response


@web.middleware
async def _boundary(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn aiohttp's exceptions into answers, and a bug into a log line and a 500 without details."""
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge as answer:  # a body that did not say its size; the text names the limit
        return status_answer(request, 413, answer.text or "the body is too large")
    except web.HTTPException as answer:
        allow = answer.headers.get(hdrs.ALLOW)
        headers = {} if allow is None else {hdrs.ALLOW: allow}
        return web.Response(text=answer.text, status=answer.status, headers=headers)
    except Exception as failure:  # noqa: BLE001  # the HTTP handler is a boundary (`logs.caught`)
        if isinstance(failure, ConnectionError) and _is_gone(request):
            # A closed tab while events are sent, or a body that ends too early: no bug, and nobody reads the answer.
            return web.Response(text="400: Bad Request", status=400)
        count_caught(Boundary.HTTP)
        _log.exception("http_handler_failed", method=request.method, path=request.path)
        return web.Response(text="500: Internal Server Error", status=500)


def _is_gone(request: web.Request) -> bool:
    """Whether the client has closed the connection, or was cut off."""
    return request.transport is None or request.transport.is_closing()


async def _set_headers(_request: web.Request, response: web.StreamResponse) -> None:
    kept = response.headers.get(hdrs.CACHE_CONTROL)  # the status page knows better
    response.headers.update(SERVED_BY)
    if kept is not None:
        response.headers[hdrs.CACHE_CONTROL] = kept
