"""What each path answers."""

import platform
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from kscheduler import __version__
from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught
from kscheduler.metrics import Exposition, TextFormat, accepts
from kscheduler.server.access import Access
from kscheduler.server.connections import ConnectionPlaces
from kscheduler.server.health import Health
from kscheduler.server.malformed import SERVED_BY
from kscheduler.server.waiting_pods import PATH as WAITING_PODS
from kscheduler.server.waiting_pods import WaitingPodsEndpoint

_log = get_logger("server")
_JSON = "application/json"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_version() -> dict[str, str]:
    """What `/version` tells, with the field names of the API server's own `/version`."""
    major, minor = __version__.split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{__version__}",
        "pythonVersion": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """What the server answers with."""

    livez: Health
    readyz: Health
    healthz: Health
    exposition: Exposition
    component_config: Callable[[], bytes]
    """The configuration in force, as the JSON of KubeSchedulerConfiguration v1."""
    version: Mapping[str, str] = field(default_factory=build_version)
    waiting_pods: WaitingPodsEndpoint | None = None
    access: Access = field(default_factory=Access)
    """Who may see the configuration and names of objects."""


def application(endpoints: Endpoints, places: ConnectionPlaces) -> web.Application:
    """The aiohttp application; every request passes the boundary and the guard of `places`."""
    app = web.Application(middlewares=[_guarded(places), _boundary], client_max_size=places.limits.body_bytes)
    for health in (endpoints.livez, endpoints.readyz, endpoints.healthz):
        app.router.add_get(f"/{health.name}", _health_handler(health, endpoints.access))
        app.router.add_get(f"/{health.name}/{{check}}", _single_check_handler(health))
    app.router.add_get("/metrics", _metrics_handler(endpoints.exposition))
    app.router.add_get("/configz", _configz_handler(endpoints.component_config, endpoints.access))
    app.router.add_get("/version", _json_handler(dict(endpoints.version)))
    if endpoints.waiting_pods is not None:
        endpoints.waiting_pods.add_to(app.router)
    app.router.add_get("/", _json_handler({"paths": _paths(endpoints)}))
    app.on_response_prepare.append(_set_headers)
    return app


def _paths(endpoints: Endpoints) -> list[str]:
    healths = (endpoints.livez, endpoints.readyz, endpoints.healthz)
    single = [f"/{health.name}/{check}" for health in healths for check in health.all_checks()]
    listed = [*(f"/{health.name}" for health in healths), *single, "/configz", "/metrics", "/version"]
    is_open = endpoints.waiting_pods is not None and endpoints.waiting_pods.token is not None
    return sorted([*listed, WAITING_PODS] if is_open else listed)


def _health_handler(health: Health, access: Access) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        excluded = frozenset(request.query.getall("exclude", []))
        verbose = "verbose" in request.query
        passes, text = health.report(excluded=excluded, verbose=verbose, informs=verbose and access.admits(request))
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


def _configz_handler(component_config: Callable[[], bytes], access: Access) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        if not access.admits(request):
            return access.refusal()
        body = msgspec.json.encode({"componentconfig": msgspec.Raw(component_config())})
        return web.Response(body=body, content_type=_JSON)

    return handle


def _json_handler(value: object) -> Handler:
    body = msgspec.json.encode(value)

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=_JSON)

    return handle


def _guarded(places: ConnectionPlaces) -> Middleware:
    """Tell the connection's guard when a request begins and when its answer has been taken; refuse large bodies."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = places.of(request.transport)
        if connection is None:
            return web.Response(status=503)  # to nobody: the client has gone
        connection.request_begins()
        try:
            response = await _answer(request, handler, places.limits.body_bytes)
            with suppress(ConnectionError):  # the client has gone, or was too slow; aiohttp notices by itself
                await response.prepare(request)
                await response.write_eof()  # here, not after us in aiohttp: the time to take the answer counts
            return response
        finally:
            connection.request_ends()

    return guard


async def _answer(request: web.Request, handler: Handler, body_bytes: int) -> web.StreamResponse:
    if (request.content_length or 0) > body_bytes:
        response: web.StreamResponse = web.Response(text="413: Request Entity Too Large", status=413)
    else:
        response = await handler(request)
    if request.can_read_body:
        response.force_close()  # nobody has read the body: the rest of it must not become the next request
    return response


@web.middleware
async def _boundary(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn aiohttp's exceptions into answers, and a bug into a log line and a 500 that tells nothing."""
    try:
        return await handler(request)
    except web.HTTPException as answer:
        allow = answer.headers.get(hdrs.ALLOW)
        headers = {} if allow is None else {hdrs.ALLOW: allow}
        return web.Response(text=answer.text, status=answer.status, headers=headers)
    except Exception:  # noqa: BLE001  # the HTTP handler is one of the five boundaries
        count_caught(Boundary.HTTP)
        _log.exception("http_handler_failed", method=request.method, path=request.path)
        return web.Response(text="500: Internal Server Error", status=500)


async def _set_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SERVED_BY)
