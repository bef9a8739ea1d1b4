"""Permit by hand: who waits for it, and letting a pod go or turning it down, over HTTP.

    GET  /waiting-pods                            all of them, with the plugins they wait for and their deadlines
    POST /waiting-pods/<uid>/allow                {"plugin": "Gang"}
    POST /waiting-pods/<namespace>/<name>/reject  {"plugin": "Gang", "message": "no quota left"}

Whoever may write here decides what runs, so nobody may by default: the paths answer 403 until a file with a token is
named (`--permit-token-file`), and then want it as `Authorization: Bearer`. The file is read at each request, so a token
that is changed there counts at once. Only `application/json` is taken, which no web page can send elsewhere unasked.
Limits: the server speaks plain HTTP, so the token is as secret as the way to it: bind to loopback, or fence the port.
"""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.logs import get_logger
from kscheduler.state.waiting_pods import HeldPod, WaitingPodTable

_log = get_logger("server")

PATH: Final = "/waiting-pods"
SHORTEST_TOKEN: Final = 16
"""Characters: what is shorter can be guessed."""
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

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _PermitVerdict(msgspec.Struct, forbid_unknown_fields=True):
    plugin: str
    message: str = ""


class _Refusal(Exception):  # noqa: N818  an answer, not a failure
    """What the client is told instead."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class PermitTokenFile:
    """A file whose content, without the white space around it, opens the door."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def read(self) -> bytes:
        """The token. Raises `OSError`, and `ValueError` where it is too short to be one."""
        token = self._path.read_bytes().strip()
        if len(token) < SHORTEST_TOKEN:
            message = f"{self._path}: a token needs at least {SHORTEST_TOKEN} characters"
            raise ValueError(message)
        return token

    def admits(self, authorization: str) -> bool:
        """Whether the header carries it, compared in constant time. Raises as `read`."""
        scheme, _, given = authorization.partition(" ")
        given_token = given.strip().encode(errors="surrogateescape")
        return hmac.compare_digest(given_token, self.read()) and scheme.lower() == "bearer"


@dataclass(frozen=True, slots=True)
class WaitingPodsEndpoint:
    """What the paths work on."""

    waiting: WaitingPodTable
    token: PermitTokenFile | None = None
    """`None` keeps them shut."""
    clock: Clock = REAL_CLOCK

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the paths."""
        router.add_get(PATH, self._open_to_token(self._list))
        for pod in ("{uid}", "{namespace}/{name}"):
            router.add_post(f"{PATH}/{pod}/allow", self._open_to_token(self._allow))
            router.add_post(f"{PATH}/{pod}/reject", self._open_to_token(self._reject))

    def _open_to_token(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                self._check_token(request)
                return await handler(request)
            except _Refusal as refusal:
                return _refused(refusal)

        return handle

    def _check_token(self, request: web.Request) -> None:
        if self.token is None:
            raise _Refusal(403, "shut by default: name a file with a token by --permit-token-file")
        try:
            admitted = self.token.admits(request.headers.get(hdrs.AUTHORIZATION, ""))
        except (OSError, ValueError) as failure:
            _log.error("permit_token_unreadable", err=str(failure))
            raise _Refusal(503, "the token cannot be read; the log tells why") from failure
        if not admitted:
            raise _Refusal(401, "the token of --permit-token-file is wanted, as Authorization: Bearer")

    async def _list(self, _request: web.Request) -> web.Response:
        return _answer({"items": [self._shown(held) for held in self.waiting.all()]})

    async def _allow(self, request: web.Request) -> web.Response:
        held, verdict = await self._asked(request)
        held.allow(verdict.plugin)
        _log.info("waiting_pod_allowed", pod=held.pod.key, plugin=verdict.plugin, peer=request.remote)
        return _answer({**_named(held), "pending": sorted(held.pending_plugins)})

    async def _reject(self, request: web.Request) -> web.Response:
        held, verdict = await self._asked(request)
        held.reject(verdict.plugin, verdict.message or f"rejected by hand at plugin {verdict.plugin}")
        _log.info("waiting_pod_rejected", pod=held.pod.key, plugin=verdict.plugin, peer=request.remote)
        return _answer({**_named(held), "pending": []})

    async def _asked(self, request: web.Request) -> tuple[HeldPod, _PermitVerdict]:
        """The pod and what is to become of it; only where the plugin is one that it still waits for."""
        verdict = _decoded(request, await request.read())
        where = request.match_info
        key = f"{where.get('namespace', '')}/{where.get('name', '')}"
        held = self.waiting.get(where["uid"]) if "uid" in where else self.waiting.find(key)
        if held is None:
            raise _Refusal(404, f"no pod {where.get('uid', key)} waits for Permit")
        if held.verdict is not None or verdict.plugin not in held.pending_plugins:
            raise _Refusal(409, f"pod {held.pod.key} does not wait for plugin {verdict.plugin}")
        return held, verdict

    def _shown(self, held: HeldPod) -> dict[str, Any]:
        wall = self.clock.time() - self.clock.monotonic()
        pending = [
            {"plugin": plugin, "deadline": _rfc3339(wall + deadline)}
            for plugin, deadline in sorted(held.deadlines.items())
        ]
        return {**_named(held), "node": held.node_name, "pending": pending}


def _decoded(request: web.Request, body: bytes) -> _PermitVerdict:
    if request.content_type != "application/json":
        raise _Refusal(415, "the body must be application/json")
    try:
        verdict = msgspec.json.decode(body, type=_PermitVerdict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise _Refusal(400, f"the body must name a plugin, and may give a message: {failure}") from failure
    if len(verdict.message) > LONGEST_MESSAGE:
        raise _Refusal(400, f"the message is longer than {LONGEST_MESSAGE} characters")
    return verdict


def _named(held: HeldPod) -> dict[str, Any]:
    return {"namespace": held.pod.namespace, "name": held.pod.name, "uid": held.pod.uid}


def _rfc3339(wall_seconds: float) -> str:
    return datetime.fromtimestamp(wall_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _answer(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _refused(refusal: _Refusal) -> web.Response:
    told = {"code": refusal.code, "reason": _REASONS[refusal.code], "message": str(refusal)}
    response = _answer(told, refusal.code)
    if refusal.code == 401:
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return response
