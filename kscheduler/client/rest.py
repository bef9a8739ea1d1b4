"""REST verbs on the API server, with client-go's rules for retries.

429 and 5xx with Retry-After are retried up to ten times after exactly the time the server asks for: such an answer
means that nothing was applied. Reads are retried when the connection breaks; writes never are, because their outcome
is unknown (`UnknownOutcomeError`). 401 renews the credentials once. Watches have connections of their own, so that they
never take one from a bind. A 2xx counts as success only if it is what the verb answers (`response_checks`). Requests go
over our own connections (`http.pool`), perhaps several in one write (`http.pipelining`), and so do watches
(`http.watch_pool`); everything that needs a proxy goes over aiohttp, which is imported for it. Limits: HTTP/1.1;
`errors` bounds how long is waited.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import ExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, Self
from urllib.parse import urlencode

import msgspec
from yarl import URL

from kscheduler.aio import REAL_CLOCK, Clock, TokenBucket
from kscheduler.aio.shared_slots import FixedCapacity, SharedSlots
from kscheduler.client.access.connection import Connection
from kscheduler.client.errors import (
    APIError,
    ClientError,
    CredentialsError,
    FencedError,
    ForeignResponseError,
    NetworkError,
    NotSentError,
    StalledError,
    status_of,
)
from kscheduler.client.failure_text import network_error
from kscheduler.client.http.http1 import LARGEST_ANSWER, HttpRequest, MalformedResponseError, check_encoding
from kscheduler.client.http.lines import LineStream
from kscheduler.client.http.pipelining import BUSY, PAUSE_SECONDS, Pipelining
from kscheduler.client.http.pool import HTTPPool
from kscheduler.client.http.resolver import Addresses
from kscheduler.client.http.transport import Transport, WatchAnswer, WatchOpener, accepts_connections
from kscheduler.client.http.watch_pool import WatchPool
from kscheduler.client.reachability import APIServerReachability
from kscheduler.client.resource_path import owner_of_request
from kscheduler.client.response_checks import PAGES, response_problem, unexpected_response
from kscheduler.client.rest_statistics import RESTCounters, RESTStatistics
from kscheduler.client.retry_after import retry_after_of
from kscheduler.client.write_failures import WriteFailures
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.clean import short_line

JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

RETRIES = 10
# For the answer to `/version`; nothing else waits for it.
VERSION_SECONDS: Final = 5.0
UNKNOWN_VERSION: Final = "unknown"
_READS: Final = frozenset(("GET", "HEAD"))
_RECONNECT_SECONDS = 1.0
# What a transport raises when there is no answer.
_FAILURES = (NotSentError, OSError, TimeoutError, MalformedResponseError)


class WriteFence(Protocol):
    """Who says whether writes may leave this process: `election.Fence`."""

    def is_open(self) -> bool:
        """Whether a write may leave now. Called before each write, without an await until it has left."""
        ...

    async def refused(self, write: str) -> NoReturn:
        """A write was not sent. Raises `FencedError`, perhaps after a long time."""
        ...


class APIClient:
    """A client of one API server with one identity. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        connection: Connection,
        *,
        max_connections: int = 64,
        bucket: TokenBucket | None = None,
        timeout_seconds: float = 30.0,
        clock: Clock = REAL_CLOCK,
        reachability: APIServerReachability | None = None,
        fence: WriteFence | None = None,
        headers: Mapping[str, str] | None = None,
        pipeline_depth: int = 1,
        busy: int = BUSY,
    ) -> None:
        """`max_connections` bounds reads and writes in flight that are on time, not watches: what hangs goes on beside
        them, bounded as well (`aio.shared_slots`). `bucket` `None` means no rate limit.

        Every outcome is reported to `reachability`; clients of one API server may share it.

        Without a `fence` every write may leave at any time. `headers`: sent with each request, besides those that
        authenticate.

        `pipeline_depth`: so many requests that may join each other leave together at most, while at least `busy` are
        under way; 1: each alone.

        A request's timeout starts when it has got a connection slot: a request that waits behind others has not been
        sent, and must not be taken for lost.
        """
        self.connection = connection
        self._bucket = bucket
        self._clock = clock
        self._reachability = reachability or APIServerReachability(connection.base_url, clock.monotonic())
        self._news = _News(self._reachability, clock)
        self._addresses = Addresses(self._news)
        self._fence = fence
        self._headers = dict(headers or {})
        self._pipelining = Pipelining(pipeline_depth, self._pipelines_given_up)
        self._busy = busy
        self._timeout = timeout_seconds
        self._room = FixedCapacity(max_connections)
        self.work_slots = SharedSlots(self._room, clock, owner_of_request)
        """Of requests in flight. Those of a namespace that hang take none from the others."""
        self.write_failures = WriteFailures()
        """What the server said last of writes that it could not do, for reports of those that hang."""
        self._counters = RESTCounters()
        self._transport: Transport | None = None
        self._watches: WatchOpener | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests in flight and later requests fail."""
        self._is_closed = True
        self._addresses.close()
        transport, watches = self._transport, self._watches
        self._transport = self._watches = None
        if transport is not None:
            await transport.close()
        if watches is not None:
            await watches.close()

    def allow(self, max_connections: int) -> None:
        """Bound requests in flight by another number."""
        self._room.work_slots = max_connections
        self.work_slots.capacity_grew()

    def statistics(self) -> RESTStatistics:
        """Counts of requests and answers since the start."""
        return self._counters.statistics()

    async def is_reachable(self) -> bool:
        """Whether the server accepts TCP connections; always false behind a proxy, which hides it."""
        url = URL(self.connection.base_url)
        if self.connection.proxy is not None or url.host is None or url.port is None:
            return False
        return await accepts_connections(url.host, url.port)

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        retries: int = RETRIES,
        timeout_seconds: float | None = None,
        accept: str = JSON,
        silence_seconds: float = 0.0,
        largest_bytes: int = LARGEST_ANSWER,
        is_fresh: bool = False,
    ) -> Coroutine[Any, Any, bytes]:
        """The body of `path` (already quoted). Raises `APIError`, `NetworkError`.

        `silence_seconds`: the answer is given up after this long without a byte of it; 0: with the timeout only. An
        answer of more than `largest_bytes` is given up, too. `is_fresh`: over a new connection (not behind a proxy).
        """
        if params:
            path = f"{path}?{urlencode(params)}"
        request = HttpRequest(
            "GET", path, accept=accept, silence_seconds=silence_seconds, largest_bytes=largest_bytes, is_fresh=is_fresh
        )
        return self._request(request, retries, timeout_seconds)

    def post(
        self,
        path: str,
        body: bytes,
        content_type: str = JSON,
        *,
        retries: int = RETRIES,
        timeout_seconds: float | None = None,
        accept: str = JSON,
        joins: str = "",
    ) -> Coroutine[Any, Any, bytes]:
        """Create. Raises `APIError`, `NotSentError`, `UnknownOutcomeError`; so do the other writes.

        `joins`: it may leave together with others that say the same, and wait for the answers to those before it.
        """
        request = HttpRequest("POST", path, body, content_type, accept=accept, joins=joins)
        return self._request(request, retries, timeout_seconds)

    def put(
        self, path: str, body: bytes, *, retries: int = RETRIES, timeout_seconds: float | None = None
    ) -> Coroutine[Any, Any, bytes]:
        """Replace; the body's resourceVersion is the precondition."""
        return self._request(HttpRequest("PUT", path, body, JSON), retries, timeout_seconds)

    def patch(
        self,
        path: str,
        body: bytes,
        content_type: str = STRATEGIC_MERGE,
        *,
        retries: int = RETRIES,
        timeout_seconds: float | None = None,
        tenant: str = "",
    ) -> Coroutine[Any, Any, bytes]:
        """Change in part. `tenant`: the namespace on whose behalf an object without one is changed."""
        request = HttpRequest("PATCH", path, body, content_type, tenant=tenant)
        return self._request(request, retries, timeout_seconds)

    def delete(
        self, path: str, body: bytes = b"", *, retries: int = RETRIES, timeout_seconds: float | None = None
    ) -> Coroutine[Any, Any, bytes]:
        """Delete; the body may be DeleteOptions."""
        return self._request(HttpRequest("DELETE", path, body, JSON), retries, timeout_seconds)

    async def _request(self, request: HttpRequest, retries: int, timeout_seconds: float | None) -> bytes:
        timeout = self._timeout if timeout_seconds is None else timeout_seconds
        while True:
            if not self.work_slots.begin_now(request):
                await self.work_slots.begin(request)
            try:
                identity = self.connection.current_headers() if self._bucket is None else None
                if identity is None:
                    identity = await self._admitted(request.method)
                try:
                    return await self._attempt(request, identity, timeout)
                except APIError as error:
                    if not error.is_unauthorized or not await self.connection.refresh(identity):
                        raise
                # Refused, and there are new credentials: once more.
                return await self._attempt(request, await self._admitted(request.method), timeout)
            except ClientError as error:
                if request.method != "GET" and (owner := owner_of_request(request)) is not None:
                    self.write_failures.note(owner, error, self._clock.monotonic())
                delay = _worth_waiting(request.method, error)
                if delay is None or not retries or self._is_closed:
                    raise
            finally:
                self.work_slots.end(request)
            retries -= 1
            self._counters.retries += 1
            await self._clock.sleep(delay)

    async def _admitted(self, method: str) -> Mapping[str, str]:
        """Wait for the rate limit; returns the headers that authenticate."""
        if self._bucket is not None:
            began = self._clock.monotonic()
            await self._bucket.take()
            self._counters.count_waited(method, self._clock.monotonic() - began)
        return await self._identity()

    async def _identity(self) -> Mapping[str, str]:
        try:
            return await self.connection.headers()
        except CredentialsError as error:
            self._reachability.failed(error, self._clock.monotonic())
            raise

    async def _attempt(self, request: HttpRequest, identity: Mapping[str, str], timeout_seconds: float) -> bytes:
        if self._is_closed:
            raise NotSentError(f"{request.method} {request.target}: the client is closed")
        transport = self._transport
        if transport is None:
            transport = self._transport = self._open_transport()
        began, sent_at = time.perf_counter(), self._clock.monotonic()
        code, received = 0, -1
        try:
            sent = {**identity, **self._headers} if self._headers else identity
            response = await transport.send(request, sent, timeout_seconds)
            code, received = response.status, len(response.body)
            if "content-encoding" in response.headers:
                check_encoding(code, response.headers)
        except _FAILURES as error:
            raise self._unanswered(error, request.method, request.target, sent_at) from error
        except asyncio.CancelledError:
            self._reachability.given_up(sent_at, self._clock.monotonic())
            raise
        except FencedError as error:
            if self._fence is None:
                raise
            await self._fence.refused(str(error))
        finally:
            self._counters.count(code, request.method, time.perf_counter() - began, len(request.body), received)
        if code < 300:
            wrong = response_problem(request, code, response.body)
            if wrong is not None:
                raise self._wrong_answer(wrong, request.method, request.target, sent_at)
            self._reachability.succeeded(self._clock.monotonic())
            return response.body
        raise self._refusal(code, response.headers, response.body, request.method, request.target, sent_at)

    def _unanswered(self, error: BaseException, method: str, target: str, sent_at: float) -> NetworkError:
        failure = network_error(error, method, target)
        if not self._is_closed:
            self._reachability.failed(error, self._clock.monotonic(), str(failure), sent_at)
        return failure

    def _broken(self, error: BaseException, method: str, target: str) -> NetworkError:
        """An open watch has ended with an error. It may have been quiet before: that is no silence."""
        return self._unanswered(error, method, target, self._clock.monotonic())

    def _wrong_answer(self, wrong: str, method: str, target: str, sent_at: float) -> ForeignResponseError:
        text = f"{method} {target.partition('?')[0]}: {wrong}"
        failure = ForeignResponseError(text)
        self._reachability.failed(failure, self._clock.monotonic(), text, sent_at)
        return failure

    def _refusal(
        self, code: int, headers: Mapping[str, str], body: bytes, method: str, target: str, sent_at: float
    ) -> APIError:
        status, retry_after = status_of(code, body), retry_after_of(headers)
        if 300 <= code < 400:
            status.message = f"a redirect to {_without_secrets(headers.get('location', 'nowhere'))}"
        refusal = APIError(status, method=method, path=target, retry_after_seconds=retry_after)
        self._reachability.refused(refusal, self._clock.monotonic(), sent_at)
        return refusal

    def _open_transport(self) -> Transport:
        may_write = self._fence.is_open if self._fence is not None else None
        if HTTPPool.can_serve(self.connection):
            return HTTPPool(
                self.connection,
                may_write=may_write,
                addresses=self._addresses,
                news=self._news,
                pipelining=self._pipelining,
                busy=self._busy,
            )
        from kscheduler.client.http.over_aiohttp import AiohttpTransport

        return AiohttpTransport(self.connection, may_write, self._addresses, self._news)

    def _pipelines_given_up(self, reason: str) -> None:
        # Not at the import: kubectl's plugin asks one question, and logs nothing.
        log = get_logger(__name__)
        log.warning("pipelines_given_up", server=self.connection.base_url, err=reason, seconds=PAUSE_SECONDS)

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, inactivity_seconds: float = 45.0
    ) -> AsyncIterator[LineStream]:
        """Open a watch. Raises `APIError` when it is refused, `NotSentError`, `NetworkError`; retries only after a 401.

        The stream raises `StalledError` after `inactivity_seconds` without a byte, which is no outage: it may be quiet.
        """
        target = f"{path}?{urlencode(params)}"
        answer = await self._open_watch(target, inactivity_seconds)
        self._counters.watches += 1
        try:
            yield LineStream(answer.next_bytes, path, self._heard, self._broken)
        finally:
            self._counters.watches -= 1
            answer.close()

    def _heard(self) -> None:
        self._reachability.heard(self._clock.monotonic())

    async def _open_watch(self, target: str, inactivity_seconds: float) -> WatchAnswer:
        identity = await self._identity()
        answer, sent_at = await self._try_to_watch(target, identity, inactivity_seconds)
        if answer.status == 401 and await self.connection.refresh(identity):
            answer.close()
            answer, sent_at = await self._try_to_watch(target, await self._identity(), inactivity_seconds)
        with ExitStack() as unless_it_is_a_watch:
            unless_it_is_a_watch.callback(answer.close)
            try:
                check_encoding(answer.status, answer.headers)
                if answer.status == 200 and answer.content_type not in PAGES:
                    unless_it_is_a_watch.pop_all()
                    self._reachability.succeeded(self._clock.monotonic())
                    return answer
                body = await answer.beginning()
            except _FAILURES as error:
                raise self._unanswered(error, "GET", target, sent_at) from error
        if answer.status == 200:
            raise self._wrong_answer(unexpected_response(200, body), "GET", target, sent_at)
        raise self._refusal(answer.status, answer.headers, body, "GET", target, sent_at)

    async def _try_to_watch(
        self, target: str, identity: Mapping[str, str], inactivity_seconds: float
    ) -> tuple[WatchAnswer, float]:
        """The answer, and when it was asked for."""
        began, sent_at = time.perf_counter(), self._clock.monotonic()
        code = 0
        try:
            answer = await self._watch_transport().open(target, identity, inactivity_seconds)
            code = answer.status
        except _FAILURES as error:
            raise self._unanswered(error, "GET", target, sent_at) from error
        except asyncio.CancelledError:
            self._reachability.given_up(sent_at, self._clock.monotonic())
            raise
        finally:
            self._counters.count(code, "GET", time.perf_counter() - began)
        return answer, sent_at

    def _watch_transport(self) -> WatchOpener:
        if self._watches is None:
            self._watches = self._open_watches()
        return self._watches

    def _open_watches(self) -> WatchOpener:
        if HTTPPool.can_serve(self.connection):
            return WatchPool(self.connection, addresses=self._addresses, news=self._news)
        from kscheduler.client.http.over_aiohttp import WatchTransport

        return WatchTransport(self.connection, self._addresses, self._news)


class _News:
    """Passes on to `reachability` what becomes of new connections."""

    def __init__(self, reachability: APIServerReachability, clock: Clock) -> None:
        self._reachability = reachability
        self._clock = clock

    def connected(self) -> None:
        self._reachability.connected(self._clock.monotonic())

    def resolved(self) -> None:
        self._reachability.resolved(self._clock.monotonic())

    def unresolved(self, failure: OSError) -> None:
        self._reachability.unresolved(failure, self._clock.monotonic())


def _worth_waiting(method: str, error: ClientError) -> float | None:
    """Seconds after which the request may be sent again; `None` if it must not be."""
    if isinstance(error, APIError):
        refused_for_now = error.is_too_many_requests or error.is_server_error
        return error.retry_after_seconds if refused_for_now else None
    repeatable = method == "GET" and isinstance(error, NetworkError) and not isinstance(error, StalledError)
    return _RECONNECT_SECONDS if repeatable else None


def _without_secrets(location: str) -> str:
    """A redirect's target without user, query and fragment, which may carry tokens."""
    try:
        return short_line(str(URL(location).with_user(None).with_query(None).with_fragment(None)), 200)
    except ValueError:
        return "an address that cannot be read"


class WriteRefusedError(ClientError):
    """A write that a reading client was asked for. It was not sent."""


class ReadingClient(APIClient):
    """Lists, gets and watches. Every other request raises `WriteRefusedError` before a connection is chosen."""

    async def _request(self, request: HttpRequest, retries: int, timeout_seconds: float | None) -> bytes:
        if request.method not in _READS:
            raise WriteRefusedError(f"{request.method} {request.target}: this process only reads; nothing was sent")
        return await super()._request(request, retries, timeout_seconds)


async def server_version_of(client: APIClient) -> str:
    """The API server's version, such as `v1.36.3`; `unknown` where there is no answer that can be read."""
    try:
        body = await client.get("/version", retries=0, timeout_seconds=VERSION_SECONDS)
        answer: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (ClientError, msgspec.DecodeError, msgspec.ValidationError):
        return UNKNOWN_VERSION
    return str(answer.get("gitVersion") or UNKNOWN_VERSION)
