"""`/pending`: the pods that wait, by reason, as JSON."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from kscheduler.server.handlers import Handler
from kscheduler.server.pages.parameters import unknown_parameter


def pending_page(tree: Callable[[str], Awaitable[dict[str, Any]]]) -> Handler:
    """The tree, of `?namespace=` if that is given, made anew for each request.

    One at a time, so that many askers cost as much as one.
    """
    is_busy = False

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal is_busy
        unknown = unknown_parameter(request, ("namespace",))
        if unknown is not None:
            return unknown
        if is_busy:
            raise web.HTTPTooManyRequests(text="429: the answer to another request is being made")
        is_busy = True
        try:
            body = msgspec.json.encode(await tree(request.query.get("namespace", "")))
        finally:
            is_busy = False
        return web.Response(body=body, content_type="application/json")

    return handle
