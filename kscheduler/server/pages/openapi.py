"""`/openapi.json`: what this server answers, as OpenAPI 3.1 describes it.

The description is a file beside this one. A test asks a server for all its paths and holds each answer against it.
"""

from importlib import resources
from typing import Any, Final

import msgspec
from aiohttp import web

from kscheduler import __version__
from kscheduler.server.handlers import Handler

_FILE: Final = "openapi.json"


def description() -> dict[str, Any]:
    """The description, with this version's number."""
    text = resources.files("kscheduler.server.pages").joinpath(_FILE).read_bytes()
    tree: dict[str, Any] = msgspec.json.decode(text)
    tree["info"]["version"] = __version__
    return tree


def openapi_page() -> Handler:
    """The description as JSON."""
    body = msgspec.json.encode(description())

    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    return handle
