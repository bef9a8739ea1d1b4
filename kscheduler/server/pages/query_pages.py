"""`/explain`, `GET /nodes` and `POST /simulate`: questions about the state as it is.

    GET  /explain?pod=shop/web-0                 JSON as `kscheduler explain -o json`; text for `Accept: text/plain`
    GET  /explain?pod=shop/web-0&against=node-7  why not that node
    GET  /explain?podGroup=shop/train            a pod group, by one of its members
    POST /explain                                pods that do not exist yet, from manifests; a list of such answers
    GET  /nodes                                  how full each node is, and which waiting pods it has rejected
    POST /simulate                               what would happen if; the answer is as `kscheduler simulate -o json`

All only read, whatever their method.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

import msgspec
from aiohttp import hdrs, web

from kscheduler.answers.suggestions import HelpingChange
from kscheduler.server.handlers import WORDS, Handler, unknown_parameter
from kscheduler.server.login.user import status_answer

# Of a request with manifests: some hundred of them.
BODY_BYTES: Final = 1 << 20
_PARAMETERS: Final = ("pod", "podGroup", "against", "suggestions")
_LONGEST_NAME: Final = 512
_EXAMPLES: Final = {"pod": "web-0", "podGroup": "train"}
# Between namespace and name of what is asked about: it is a pod group.
POD_GROUP: Final = "podgroup"


# Between two looks whether the client is still there.
_LOOK_SECONDS: Final = 0.25

# Of each reason its pods (`namespace/name`), the oldest first.
Reasons = Sequence[Sequence[str]]
Changes = dict[str, HelpingChange]


class QueryResponse(msgspec.Struct, frozen=True):
    """What came of a question: a status of HTTP, and the body, or with another status than 200 what is wrong."""

    status: int
    body: bytes
    retry_after_seconds: int = 0


# Nobody reads it.
_LEFT: Final = QueryResponse(503, b"the client has left")


class QueryService(Protocol):
    """Who answers."""

    async def explain(self, pod_key: str, against_node: str, *, as_text: bool, with_suggestions: bool) -> QueryResponse:
        """Where a pod (`namespace/name`) goes and why, or a pod group (`namespace/podgroup/name`)."""
        ...

    async def explain_new(self, body: bytes, *, as_text: bool) -> QueryResponse:
        """Where pods that do not exist yet would go, and why."""
        ...

    async def simulate(self, body: bytes) -> QueryResponse:
        """What would happen if."""
        ...

    async def nodes(self) -> QueryResponse:
        """How full each node is, and whom it has rejected."""
        ...

    async def helping_changes(self, reasons: Reasons) -> QueryResponse:
        """By the first of each reason's pods (`namespace/name`) the change that frees most of them."""
        ...


def explain_page(queries: QueryService) -> Handler:
    """GET."""

    async def handle(request: web.Request) -> web.StreamResponse:
        unknown = unknown_parameter(request, _PARAMETERS)
        if unknown is not None:
            return unknown
        parameter = "podGroup" if "podGroup" in request.query else "pod"
        key, against = request.query.get(parameter, ""), request.query.get("against", "")
        namespace, slash, name = key.partition("/")
        if not (slash and namespace and name) or "/" in name or len(key) > _LONGEST_NAME:
            example = f"/explain?{parameter}=default/{_EXAMPLES[parameter]}"
            return status_answer(request, 400, f"{parameter}: NAMESPACE/NAME was expected, as in {example}")
        if parameter == "podGroup" and "pod" in request.query:
            return status_answer(request, 400, "pod and podGroup are two questions: ask one of them")
        with_suggestions = WORDS.get(request.query.get("suggestions", "true"))
        if with_suggestions is None:
            return status_answer(request, 400, "suggestions: true or false was expected")
        as_text = _wants_text(request)
        subject = f"{namespace}/{POD_GROUP}/{name}" if parameter == "podGroup" else key
        response = queries.explain(subject, against, as_text=as_text, with_suggestions=with_suggestions)
        answer = await _while_connected(request, response)
        return _response(request, answer, "text/plain" if as_text else "application/json")

    return handle


def explain_new_page(queries: QueryService) -> Handler:
    """POST."""

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await _json_body(request)
        if isinstance(body, web.Response):
            return body
        as_text = _wants_text(request)
        response = queries.explain_new(body, as_text=as_text)
        return _response(
            request, await _while_connected(request, response), "text/plain" if as_text else "application/json"
        )

    return handle


def simulate_page(queries: QueryService) -> Handler:
    """POST."""

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await _json_body(request)
        if isinstance(body, web.Response):
            return body
        answer = await _while_connected(request, queries.simulate(body))
        return _response(request, answer, "application/json")

    return handle


async def _json_body(request: web.Request) -> bytes | web.Response:
    """The body of a question that has no parameters, or the refusal."""
    unknown = unknown_parameter(request)
    if unknown is not None:
        return unknown
    if request.content_type not in ("application/json", "application/octet-stream"):
        text = f"the body is JSON, not {request.content_type}: send Content-Type: application/json"
        return status_answer(request, 415, text)
    return await request.clone(client_max_size=BODY_BYTES).read()


def nodes_page(queries: QueryService) -> Handler:
    """GET."""

    async def handle(request: web.Request) -> web.StreamResponse:
        unknown = unknown_parameter(request)
        if unknown is not None:
            return unknown
        answer = await _while_connected(request, queries.nodes())
        return _response(request, answer, "application/json")

    return handle


def helping_changes(queries: QueryService) -> Callable[[web.Request, Reasons], Awaitable[Changes | web.Response]]:
    """What would help most of the pods of each reason, by its first pod; or the refusal, for `/pending`."""

    async def changes(request: web.Request, reasons: Reasons) -> Changes | web.Response:
        answer = await _while_connected(request, queries.helping_changes(reasons))
        if answer.status != web.HTTPOk.status_code:
            return _response(request, answer, "application/json")
        return msgspec.json.decode(answer.body, type=Changes)

    return changes


async def _while_connected(request: web.Request, response: Coroutine[Any, Any, QueryResponse]) -> QueryResponse:
    """The answer; a client that leaves takes its question along, and others get its place."""
    task = asyncio.ensure_future(response)
    try:
        while not (task.done() or _has_left(request)):
            await asyncio.wait({task}, timeout=_LOOK_SECONDS)
    finally:
        task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        if not _has_left(request):
            raise
        return _LEFT


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _wants_text(request: web.Request) -> bool:
    """Whether text comes before JSON among what is accepted; without a wish it is JSON."""
    for clause in ",".join(request.headers.getall(hdrs.ACCEPT, [])).split(","):
        media = clause.partition(";")[0].strip().lower()
        if media in ("text/plain", "text/*"):
            return True
        if media in ("application/json", "application/*", "*/*"):
            return False
    return False


def _response(request: web.Request, answer: QueryResponse, content_type: str) -> web.Response:
    if answer.status == 200:
        headers = {hdrs.CACHE_CONTROL: "no-store", hdrs.VARY: hdrs.ACCEPT, hdrs.AGE: "0"}
        return web.Response(body=answer.body, content_type=content_type, charset="utf-8", headers=headers)
    refusal = status_answer(request, answer.status, answer.body.decode(errors="replace"))
    if answer.retry_after_seconds:
        refusal.headers[hdrs.RETRY_AFTER] = str(answer.retry_after_seconds)
    return refusal
