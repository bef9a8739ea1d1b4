"""What every answer of the page says to a browser."""

from typing import Final

from aiohttp import hdrs, web

# Nothing from elsewhere, nothing inline: a name that were not escaped would still run nothing and load nothing.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    hdrs.CACHE_CONTROL: "no-store",  # pages name pods: no cache on the way or on a disk may keep them
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
HTML: Final = "text/html"


def html_page(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=HTML, charset="utf-8", headers=HEADERS)


def see_other(path: str) -> web.Response:
    """Go there with GET. `path`: of ours."""
    return web.Response(status=303, headers={**HEADERS, hdrs.LOCATION: path})
