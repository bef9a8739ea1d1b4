"""Malformed requests: refused with a short 400, counted, and logged once a minute.

The problem: for each of them aiohttp logs a traceback and answers with the versions of Python and itself, so any client
can fill a disk with a loop. The idea: a request handler with its own handling of errors.
"""

from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.logs.clean import short_line
from kscheduler.telemetry.logs.storms import Throttle

_log = get_logger("server")

LINE_SECONDS: Final = 60.0
_LONGEST_REASON: Final = 120

# Headers of every answer; without the first aiohttp shows its version.
SERVED_BY: Final = {
    hdrs.SERVER: "kscheduler",
    hdrs.CACHE_CONTROL: "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}


class MalformedRequests:
    """Counts malformed requests."""

    def __init__(self, clock: Clock = REAL_CLOCK) -> None:
        self.total = 0
        self._clock = clock
        self._lines = Throttle(LINE_SECONDS)

    def note(self, peer: str | None, reason: str) -> None:
        """Count a request; logs at most once a minute, with the number since the last line."""
        self.total += 1
        if not self._lines.admits(self._clock.monotonic()):
            return
        count = 1 + self._lines.take_left_out()
        _log.warning(
            "malformed_http_requests",
            count=count,
            last_peer=peer or "",
            last_reason=short_line(reason, _LONGEST_REASON),
        )


class FailedHandshakes:
    """Logs TLS handshakes that failed: at most once a minute, with the number since the last line."""

    def __init__(self, clock: Clock = REAL_CLOCK) -> None:
        self._clock = clock
        self._lines = Throttle(LINE_SECONDS)

    def note(self, peer: str, error: BaseException) -> None:
        """A client does not trust us, shows a certificate of an unknown authority, or speaks no TLS."""
        if self._lines.admits(self._clock.monotonic()):
            count = 1 + self._lines.take_left_out()
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
            _log.warning(
                "tls_handshakes_failed",
                count=count,
                last_peer=peer,
                last_reason=short_line(str(reason), _LONGEST_REASON),
            )


class RequestHandler(web.RequestHandler):
    """aiohttp's handler with our handling of errors."""

    __slots__ = ("_malformed",)

    def __init__(self, manager: web.Server, malformed: MalformedRequests, **settings: Any) -> None:
        """`settings` are passed on to aiohttp's handler."""
        super().__init__(manager, **settings)
        self._malformed = malformed

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that could not be read or answered, and close the connection."""
        if status < 500:
            reason = message if isinstance(exc, HttpProcessingError) and message else f"{type(exc).__name__}: {exc}"
            self._malformed.note(request.remote, reason)
        else:
            count_caught(Boundary.HTTP)
            _log.error("http_answer_failed", method=request.method, path=request.path, exc_info=exc)
        if request.writer.output_size > 0:
            message = "a part of the answer has already been sent"
            raise ConnectionError(message)
        response = web.Response(text=f"{status}: {HTTPStatus(status).phrase}\n", status=status, headers=SERVED_BY)
        response.force_close()
        return response
