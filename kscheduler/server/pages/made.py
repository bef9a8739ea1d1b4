"""Pages that a function makes from what the service knows now."""

from collections.abc import Callable

from aiohttp import web

from kscheduler.server.handlers import Handler

# No script, no image, nothing from elsewhere: what users name stands on the page, escaped.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def made_page(make: Callable[[], str | bytes], content_type: str) -> Handler:
    """The page, made again for each request, on the event loop: `make` is short."""

    async def handle(_request: web.Request) -> web.StreamResponse:
        made = make()
        body = made.encode() if isinstance(made, str) else made
        headers = {"Content-Security-Policy": POLICY} if content_type == "text/html" else None
        return web.Response(
            body=body,
            content_type=content_type,
            charset="utf-8" if content_type.startswith("text/") else None,
            headers=headers,
        )

    return handle
