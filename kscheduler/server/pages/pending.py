"""`/pending`: the pods that wait, by reason, as JSON; with `?suggestions=true` the change that helps most of each."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from kscheduler.server.handlers import WORDS, Handler, unknown_parameter
from kscheduler.server.login.user import status_answer

# Reasons for which a change is looked for, those of most pods first.
MAX_HELPED: Final = 12
_REJECTED: Final = ("unschedulable", "gated", "backoff")

Tree = dict[str, Any]
# Of reasons, each its pods (`namespace/name`), the change of each by its first pod; or why there is no answer now.
Changes = Callable[[web.Request, Sequence[Sequence[str]]], Awaitable[dict[str, Tree] | web.Response]]


def pending_page(tree: Callable[[str], Awaitable[Tree]], changes: Changes | None = None) -> Handler:
    """The tree, of `?namespace=` if that is given, made again for each request.

    One at a time, so that many askers cost as much as one. `changes`: who looks for changes, if anybody does.
    """
    is_busy = False
    parameters = ("namespace",) if changes is None else ("namespace", "suggestions")

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal is_busy
        unknown = unknown_parameter(request, parameters)
        if unknown is not None:
            return unknown
        with_suggestions = WORDS.get(request.query.get("suggestions", "false"))
        if with_suggestions is None:
            return status_answer(request, 400, "suggestions: true or false was expected")
        if is_busy:
            raise web.HTTPTooManyRequests(text="429: the answer to another request is being made")
        is_busy = True
        try:
            found = await tree(request.query.get("namespace", ""))
        finally:
            is_busy = False
        if with_suggestions and changes is not None:
            refusal = await _add_changes(found, changes, request)
            if refusal is not None:
                return refusal
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    return handle


async def _add_changes(tree: Tree, changes: Changes, request: web.Request) -> web.Response | None:
    """Give each reason its `suggestion`; the refusal, if nobody can look for them now."""
    explained = [
        (reason, [f"{pod['namespace']}/{pod['name']}" for pod in reason["pods"]])
        for reason in tree["reasons"]
        if reason["queue"] in _REJECTED and reason["pods"] and not reason["podGroup"]  # asked about as a whole
    ][:MAX_HELPED]
    for reason in tree["reasons"]:
        reason["suggestion"] = reason["leftOff"] = None
    if not explained:
        return None
    helping = await changes(request, [keys for _, keys in explained])
    if isinstance(helping, web.Response):
        return helping
    for reason, keys in explained:
        found = helping.get(keys[0], {})
        reason["leftOff"] = found.pop("leftOff", None)
        if found:
            reason["suggestion"] = {"pod": keys[0], **found}
    return None
