"""Asks the API server for a review, bounded in time and number.

kube-scheduler's rules: answers that promise to get better (429, 5xx, no connection) are asked for again, five times in
all with growing pauses; after ten seconds there is no answer. The client has four connections of its own, so that
reviews never take one from a Binding.
"""

import asyncio
import time
from typing import Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.outage_cause import advice_about_failure
from kscheduler.client.rest import APIClient
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import RecurringTrouble, Throttle
from kscheduler.telemetry.series import Counter, Histograms

_log = get_logger("server")

CONNECTIONS: Final = 4
ANSWER_SECONDS: Final = 10.0
_ATTEMPTS: Final = 5
_FIRST_PAUSE: Final = 0.5
_PAUSE_FACTOR: Final = 1.5
_LINE_SECONDS: Final = 60.0
# An API server that has just started refuses reviews with 403 until it has read the roles, for a second or two.
_QUIET_SECONDS: Final = 5.0
_FORBIDDEN: Final = "bind the ClusterRole system:auth-delegator to the scheduler's account: the chart does"
_OTHER_CREDENTIALS: Final = "these are those of --authentication-kubeconfig or --authorization-kubeconfig, if given"
_MEANWHILE: Final = "until the API server answers, requests other than health checks are refused"


class ReviewError(Exception):
    """There is no answer; the text is for the client and the log."""


class Reviews:
    """Creates reviews of one kind."""

    def __init__(
        self, client: APIClient, path: str, total: Counter, seconds: Histograms, clock: Clock = REAL_CLOCK
    ) -> None:
        """`total` and `seconds` are counted by status."""
        self._client = client
        self._path = path
        self._total = total
        self._seconds = seconds
        self._clock = clock
        self._lines = Throttle(_LINE_SECONDS)
        self._forbidden = RecurringTrouble(0.0, _QUIET_SECONDS)

    async def create(self, review: object) -> bytes:
        """The API server's answer. Raises `ReviewError`."""
        body = msgspec.json.encode(review)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._with_retries(body)
        except TimeoutError:
            raise self._failed(f"{self._path}: no answer within {ANSWER_SECONDS:g} s") from None
        except ClientError as error:
            raise self._failed(str(error), error) from error

    async def _with_retries(self, body: bytes) -> bytes:
        pause = _FIRST_PAUSE
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._once(body)
            except ClientError as error:
                if not _may_get_better(error):
                    raise
            await self._clock.sleep(pause)
            pause *= _PAUSE_FACTOR
        return await self._once(body)

    async def _once(self, body: bytes) -> bytes:
        began, code = time.perf_counter(), "<error>"
        try:
            answer = await self._client.post(self._path, body, retries=0, timeout_seconds=ANSWER_SECONDS)
            code = "201"
            if self._forbidden.is_there:
                self._forbidden.ends()
        except APIError as error:
            code = str(error.code)
            raise
        finally:
            self._total[code,] += 1
            self._seconds[code,].observe(time.perf_counter() - began)
        return answer

    def _failed(self, reason: str, error: ClientError | None = None) -> ReviewError:
        now = self._clock.monotonic()
        is_forbidden = isinstance(error, APIError) and error.is_forbidden
        if is_forbidden and not self._forbidden.is_due(now):
            return ReviewError(reason)
        if self._lines.admits(now):
            count = 1 + self._lines.take_left_out()
            advice = _FORBIDDEN if is_forbidden else _advice(error)
            _log.warning("login_review_failed", path=self._path, err=reason, count=count, advice=advice)
        return ReviewError(reason)


def _advice(error: ClientError | None) -> str:
    about_request = advice_about_failure(error) if error is not None else None
    if about_request is None:
        return _MEANWHILE
    is_refused = isinstance(error, APIError) and error.is_unauthorized
    return f"{about_request}; {_OTHER_CREDENTIALS if is_refused else _MEANWHILE}"


def _may_get_better(error: ClientError) -> bool:
    if isinstance(error, APIError):
        return error.is_too_many_requests or error.is_server_error
    return True
