"""How a browser shows who it is: a token in a cookie that only the status page gets.

A browser sends no `Authorization: Bearer` by itself. Anyone who has no client certificate types a token into a form; it
is checked as any other (TokenReview, SubjectAccessReview), and the browser then returns it as a cookie: for `/ui`
alone, never to a script (HttpOnly), never over plain HTTP (Secure), never with a request that another site has caused
(SameSite=Strict), and only until the browser is closed. Nothing of it is kept here.
"""

import re
from typing import Final, Protocol

from aiohttp import hdrs, web
from multidict import CIMultiDict

UI: Final = "/ui"
LOGIN: Final = "/ui/login"
LOGOUT: Final = "/ui/logout"
ASSETS: Final = "/ui/assets/"
EVENTS: Final = "/ui/events"
COOKIE: Final = "__Secure-kscheduler-token"
# Characters; browsers keep cookies of up to 4,096 bytes with their names.
LONGEST_TOKEN: Final = 3_800

# RFC 6750: nothing that a cookie or a header could take for something else.
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)


class TokenAuthorizer(Protocol):
    """Who says what a token opens: `access.DelegatedAccess`."""

    async def refusal_of_token(self, token: str, path: str) -> str | None:
        """Why it does not open the path; `None`: it does."""
        ...


def is_of_page(path: str) -> bool:
    """Whether the path belongs to the status page."""
    return path == UI or path.startswith(f"{UI}/")


def is_open(path: str) -> bool:
    """Whether anybody may see it: the form, and style and script without a word about the cluster."""
    return path in (LOGIN, LOGOUT) or path.startswith(ASSETS)


def is_token(text: str) -> bool:
    """Whether it can be a bearer token that fits into a cookie."""
    return len(text) <= LONGEST_TOKEN and _TOKEN.fullmatch(text) is not None


def cookie_token(request: web.Request) -> str:
    """The token that a browser has sent for the page; empty where there is none, or a header says who asks."""
    if not is_of_page(request.path) or hdrs.AUTHORIZATION in request.headers:
        return ""
    token = request.cookies.get(COOKIE, "")
    return token if is_token(token) else ""


def with_cookie(request: web.Request) -> CIMultiDict[str]:
    """The request's headers, with the token of its cookie as if it were a header."""
    headers = CIMultiDict(request.headers)
    token = cookie_token(request)
    if token:
        headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
    return headers


def comes_from_here(request: web.Request) -> bool:
    """Whether a form was sent from a page of this server: no other site may log a browser in or out."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get(hdrs.ORIGIN)
    return origin is None or origin.partition("://")[2] == request.headers.get(hdrs.HOST, "")


def local_path(text: str) -> str:
    """A path of the page to go to after the login; its overview for anything else."""
    is_plain = text.isascii() and text.isprintable() and "\\" not in text and "//" not in text
    return text if is_plain and is_of_page(text.partition("?")[0]) and not is_open(text) else f"{UI}/"
