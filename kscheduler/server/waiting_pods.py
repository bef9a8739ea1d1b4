"""Pods that wait for Permit: list, allow and reject them over HTTP.

    GET  /waiting-pods                            all waiting pods, with the plugins they wait for and the deadlines
    POST /waiting-pods/<uid>/allow                {"plugin": "Gang"}
    POST /waiting-pods/<namespace>/<name>/reject  {"plugin": "Gang", "message": "no quota left"}

Writing here decides what runs. Over HTTPS the API server says who may (`access`: get and post of these paths), or the
client has the token of `--permit-token-file`, as `Authorization: Bearer`. On the plain port of this machine only the
token opens the paths; without such a file they answer 403. The file is read at each request, so a changed token takes
effect at once. Only `application/json` is accepted, which web pages cannot send to other sites.
"""

import hmac
from pathlib import Path
from typing import Annotated, Final

import msgspec
from aiohttp import hdrs, web
from msgspec import Meta

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.answers import Answer, Names
from kscheduler.api.meta import rfc3339
from kscheduler.client.access.credentials import check_regular
from kscheduler.server.handlers import Handler
from kscheduler.state.waiting_pods import PodAtPermit, WaitingPodTable
from kscheduler.telemetry.logs import get_logger

_log = get_logger("server")

WAITING_PODS: Final = "/waiting-pods"
# Characters; a shorter token can be guessed.
SHORTEST_TOKEN: Final = 16
LONGEST_MESSAGE: Final = 1024
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    415: "UnsupportedMediaType",
    503: "ServiceUnavailable",
}


class PermitVerdict(msgspec.Struct, forbid_unknown_fields=True):
    """For which plugin a pod is allowed or rejected, and why."""

    plugin: str
    message: Annotated[str, Meta(extra_json_schema={"maxLength": LONGEST_MESSAGE})] = ""


class AwaitedPlugin(Answer, frozen=True):
    """A plugin that a pod waits for."""

    plugin: str
    deadline: Annotated[str, Meta(description="When the pod is rejected.")]


class WaitingPodAnswer(Answer, frozen=True):
    """A pod that waits for Permit."""

    namespace: str
    name: str
    uid: str
    node: str
    pending: tuple[AwaitedPlugin, ...]


class WaitingPodList(Answer, frozen=True):
    """Pods that wait for Permit, each with its node, the plugins that it waits for and their deadlines."""

    items: tuple[WaitingPodAnswer, ...]


class PermitAnswer(Answer, frozen=True):
    """The pod, and the plugins that it still waits for."""

    namespace: str
    name: str
    uid: str
    pending: Names


class PermitRefusal(Answer, frozen=True):
    """Why nothing was done."""

    code: int
    reason: str
    message: str


class _Refusal(Exception):  # noqa: N818  an answer, not a failure
    """An error answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class PermitTokenFile:
    """A file with the token; surrounding white space is ignored."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def read(self) -> bytes:
        """The token. Raises `OSError`, and `ValueError` if it is too short."""
        check_regular(self._path)
        token = self._path.read_bytes().strip()
        if len(token) < SHORTEST_TOKEN:
            message = f"{self._path}: a token needs at least {SHORTEST_TOKEN} characters"
            raise ValueError(message)
        return token

    def admits(self, authorization: str) -> bool:
        """Whether the header has the token, compared in constant time. Raises as `read`."""
        scheme, _, credentials = authorization.partition(" ")
        given_token = credentials.strip().encode(errors="surrogateescape")
        return hmac.compare_digest(given_token, self.read()) and scheme.lower() == "bearer"


class WaitingPodsEndpoint(msgspec.Struct, frozen=True):
    """The handlers of the paths, and what they work on."""

    waiting: WaitingPodTable
    token: PermitTokenFile | None = None
    """`None` disables the paths where nothing but the token protects them."""
    clock: Clock = REAL_CLOCK

    def add_to(self, router: web.UrlDispatcher, *, has_login: bool) -> None:
        """Add the paths. `has_login`: requests that get here are authorized already."""
        router.add_get(WAITING_PODS, self._guarded(self._list, has_login))
        for pod in ("{uid}", "{namespace}/{name}"):
            router.add_post(f"{WAITING_PODS}/{pod}/allow", self._guarded(self._allow, has_login))
            router.add_post(f"{WAITING_PODS}/{pod}/reject", self._guarded(self._reject, has_login))

    def _guarded(self, handler: Handler, has_login: bool) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                if not has_login:
                    self._check_token(request)
                return await handler(request)
            except _Refusal as refusal:
                return _refused(refusal)

        return handle

    def _check_token(self, request: web.Request) -> None:
        if self.token is None:
            raise _Refusal(403, "disabled by default: name a file with a token by --permit-token-file")
        try:
            admitted = self.token.admits(request.headers.get(hdrs.AUTHORIZATION, ""))
        except (OSError, ValueError) as failure:
            _log.error("permit_token_unreadable", err=str(failure))
            raise _Refusal(503, "the token cannot be read; the log says why") from failure
        if not admitted:
            raise _Refusal(401, "the token of --permit-token-file is required, as Authorization: Bearer")

    async def _list(self, _request: web.Request) -> web.Response:
        return _response(WaitingPodList(tuple(self._shown(waiting_pod) for waiting_pod in self.waiting.all())))

    async def _allow(self, request: web.Request) -> web.Response:
        waiting_pod, verdict = await self._requested(request)
        waiting_pod.allow(verdict.plugin)
        _log.info("waiting_pod_allowed", pod=waiting_pod.pod.key, plugin=verdict.plugin, peer=request.remote)
        return _response(PermitAnswer(*_named(waiting_pod), tuple(sorted(waiting_pod.pending_plugins))))

    async def _reject(self, request: web.Request) -> web.Response:
        waiting_pod, verdict = await self._requested(request)
        waiting_pod.reject(verdict.plugin, verdict.message or f"rejected by hand at plugin {verdict.plugin}")
        _log.info("waiting_pod_rejected", pod=waiting_pod.pod.key, plugin=verdict.plugin, peer=request.remote)
        return _response(PermitAnswer(*_named(waiting_pod), ()))

    async def _requested(self, request: web.Request) -> tuple[PodAtPermit, PermitVerdict]:
        """The pod and the verdict on it. Raises `_Refusal` unless the pod still waits for the verdict's plugin."""
        verdict = _decoded(request, await request.read())
        parts = request.match_info
        key = f"{parts.get('namespace', '')}/{parts.get('name', '')}"
        waiting_pod = self.waiting.get(parts["uid"]) if "uid" in parts else self.waiting.find(key)
        if waiting_pod is None:
            raise _Refusal(404, f"no pod {parts.get('uid', key)} waits for Permit")
        if waiting_pod.verdict is not None or verdict.plugin not in waiting_pod.pending_plugins:
            raise _Refusal(409, f"pod {waiting_pod.pod.key} does not wait for plugin {verdict.plugin}")
        return waiting_pod, verdict

    def _shown(self, waiting_pod: PodAtPermit) -> WaitingPodAnswer:
        wall = self.clock.time() - self.clock.monotonic()
        pending = (
            AwaitedPlugin(plugin, rfc3339(wall + deadline))
            for plugin, deadline in sorted(waiting_pod.deadlines.items())
        )
        return WaitingPodAnswer(*_named(waiting_pod), waiting_pod.node_name, tuple(pending))


def _decoded(request: web.Request, body: bytes) -> PermitVerdict:
    if request.content_type != "application/json":
        raise _Refusal(415, "the body must be application/json")
    try:
        verdict = msgspec.json.decode(body, type=PermitVerdict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise _Refusal(400, f"the body must name a plugin, and may give a message: {failure}") from failure
    if len(verdict.message) > LONGEST_MESSAGE:
        raise _Refusal(400, f"the message is longer than {LONGEST_MESSAGE} characters")
    return verdict


def _named(waiting_pod: PodAtPermit) -> tuple[str, str, str]:
    return waiting_pod.pod.namespace, waiting_pod.pod.name, waiting_pod.pod.uid


def _response(value: Answer, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _refused(refusal: _Refusal) -> web.Response:
    response = _response(PermitRefusal(refusal.code, _REASONS[refusal.code], str(refusal)), refusal.code)
    if refusal.code == 401:
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return response
