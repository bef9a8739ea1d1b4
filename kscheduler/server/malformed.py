"""Requests that are none: refused with 400 in a few words, counted, and told in the log once a minute.

The problem: aiohttp writes a traceback for each, and an answer that names the versions of Python and itself; whoever
reaches the port can fill a disk with a loop. The idea: its request handler with another way to treat errors.
"""

from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught
from kscheduler.logs.throttle import Throttle

_log = get_logger("server")

LINE_SECONDS: Final = 60.0
_LONGEST_REASON: Final = 120

SERVED_BY: Final = {
    hdrs.SERVER: "kscheduler",
    hdrs.CACHE_CONTROL: "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer; without the first aiohttp tells which versions run."""


class MalformedRequests:
    """Counts them."""

    def __init__(self, clock: Clock = REAL_CLOCK) -> None:
        self.total = 0
        self._clock = clock
        self._lines = Throttle(LINE_SECONDS)

    def note(self, peer: str | None, reason: str) -> None:
        """One more; a line at most once a minute, which tells how many there were since the last."""
        self.total += 1
        if not self._lines.admits(self._clock.monotonic()):
            return
        count = 1 + self._lines.take_left_out()
        _log.warning("malformed_http_requests", count=count, last_peer=peer or "", last_reason=_one_line(reason))


class RequestHandler(web.RequestHandler):
    """aiohttp's, with errors treated as above."""

    __slots__ = ("_malformed",)

    def __init__(self, manager: web.Server, malformed: MalformedRequests, **settings: Any) -> None:
        """`settings` as aiohttp's own takes them."""
        super().__init__(manager, **settings)
        self._malformed = malformed

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what could not be read, or could not be answered; the connection ends with it."""
        if status < 500:
            told = message if isinstance(exc, HttpProcessingError) and message else f"{type(exc).__name__}: {exc}"
            self._malformed.note(request.remote, told)
        else:
            count_caught(Boundary.HTTP)
            _log.error("http_answer_failed", method=request.method, path=request.path, exc_info=exc)
        if request.writer.output_size > 0:
            message = "a part of the answer is sent already"
            raise ConnectionError(message)
        response = web.Response(text=f"{status}: {HTTPStatus(status).phrase}\n", status=status, headers=SERVED_BY)
        response.force_close()
        return response


def _one_line(text: str) -> str:
    """What a client sent may be in it."""
    return "".join(char if char.isprintable() else " " for char in text)[:_LONGEST_REASON]
