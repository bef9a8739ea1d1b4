"""What answers a request: a page that a function makes, and the parameters that it knows.

A parameter that a page does not know is refused by its name, not ignored.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from aiohttp import web

from kscheduler.server.login.user import status_answer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# No script, no image, nothing from elsewhere: what users name stands on the page, escaped.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# Which clients of API servers add by themselves; without effect here.
_EVERYWHERE: Final = ("pretty", "timeout")
# Yes and no.
WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False, "1": True, "0": False}


def unknown_parameter(request: web.Request, known: Sequence[str] = ()) -> web.Response | None:
    """The refusal, if the request has a parameter that is not known, or one twice: only one of them would count."""
    names = Counter(name for name, _ in request.query.items())
    twice = next((name for name, times in names.items() if times > 1), None)
    if twice is not None:
        return status_answer(request, 400, f"{twice} is given {names[twice]} times: once is enough")
    unknown = next((name for name in request.query if name not in known and name not in _EVERYWHERE), None)
    if unknown is None:
        return None
    some = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}" if known else "there are none here"
    return status_answer(request, 400, f"unknown parameter {unknown}: {some}")


def made_page(make: Callable[[], str | bytes], content_type: str) -> Handler:
    """A page from what the service knows now, made again for each request, on the event loop: `make` is short."""

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
