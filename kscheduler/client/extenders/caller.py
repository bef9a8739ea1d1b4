"""Calling one extender: a POST of JSON, with bounds on time, size, and calls at a time.

    call --> wait for a turn --> POST urlPrefix/verb --> status 200? --> the body, up to its bound
                                      '--> anything else: `ExtenderError`, one line that names verb and address

The problem: an extender is a program of somebody else's. It may be slow, answer without end, send half an answer, or
send us elsewhere. So a call has one deadline for all of it, as in kube-scheduler; redirects are not followed; what is
read is bounded. Nothing of the API server's credentials is sent: the session is
the extender's own. A name and password in the extender's URL and its client certificate are its own settings, and are
used; messages do not show them.

A user who may write an extender's address (or answer for it: a redirect, a name that is resolved again) makes the
scheduler send a request from its own network. No extender lives where clouds hand out credentials of the machine
(`api.addresses` knows these places). They are refused where a socket is opened, so it does not matter whether the
address was written, looked up or spelled as a number; and at the lookup, where the text is clearer.

Kept from kube-scheduler: what TLS checks (`ExtenderAddress.tls`), which status counts, the URL.
Limit: a call that waits for its turn is not yet timed, so N calls may take N / `MAX_CALLS` deadlines.
"""

import asyncio
import os
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from kscheduler.api.addresses import why_never_called
from kscheduler.client.access.proxies import proxy_variable
from kscheduler.client.access.tls import TLSContexts
from kscheduler.client.errors import ConfigurationError, NotSentError
from kscheduler.client.extenders import DEFAULT_SECONDS, ExtenderAddress
from kscheduler.client.failure_text import failure_text
from kscheduler.client.http.over_aiohttp import our_error
from kscheduler.client.http.transport import CONNECT_SECONDS, USER_AGENT, open_socket

# Calls of one verb to one extender at a time; kube-scheduler has one per pod under way, which is one.
#
# Each verb has its own, so that a bind does not wait behind filters.
MAX_CALLS: Final = 16
_VERBS: Final = 4
# Bytes: 5,000 whole nodes of 20 kB each are 100 MB.
LARGEST_REQUEST: Final = 128 * 1024 * 1024
LARGEST_ANSWER: Final = 32 * 1024 * 1024
# Shorter than the time after which common servers close (5 s), so that a call meets no connection being closed.
_IDLE_SECONDS: Final = 4.0
_CHUNK: Final = 64 * 1024
_LONGEST_LOCATION: Final = 200


class ExtenderError(Exception):
    """An extender gave no usable answer."""


class ExtenderTimeoutError(ExtenderError):
    """It took too long."""


class ExtenderStatusError(ExtenderError):
    """It has answered with a status other than 200."""


class ExtenderNotReachedError(ExtenderError):
    """The call certainly did not reach it: the connection was refused, its name is unknown, TLS failed."""


class CallGivenUpError(ExtenderError):
    """This process has not made the call, or has ended it, for a reason of its own: the extender is not to blame."""


class ForbiddenTargetError(OSError):
    """An extender's address is one that is never called."""


def check_address(address: str, host: str = "") -> None:
    """Raises `ForbiddenTargetError` for an address that is never called. `host` is the name that led there."""
    why = why_never_called(address)
    if why:
        looked_up = f"{host} has the address {address}, which" if host and host != address else address
        message = f"{looked_up} {why}: extenders are not called there"
        raise ForbiddenTargetError(message)


def open_checked_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket for an address from `getaddrinfo`. Raises `ForbiddenTargetError`."""
    check_address(str(address[4][0]))
    return open_socket(address)


class CheckingResolver(AbstractResolver):
    """Looks hosts up, and refuses a host of which any address is never called."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        """Must be created inside a running loop, unless a resolver is given."""
        self._resolver = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises `ForbiddenTargetError`, and `OSError` as the lookup does."""
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            check_address(each["host"], host)
        return found

    async def close(self) -> None:
        """Release the resolver below."""
        await self._resolver.close()


class ExtenderCaller:
    """Calls one extender. Opens nothing before the first call."""

    def __init__(self, address: ExtenderAddress, *, largest_answer: int = LARGEST_ANSWER) -> None:
        self.address = address
        self._largest_answer = largest_answer
        seconds = address.timeout_seconds if address.timeout_seconds > 0 else DEFAULT_SECONDS
        self._timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_SECONDS))
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MAX_CALLS))
        """By verb, as the configuration names it."""
        self._contexts: TLSContexts | None = None
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    def unused_proxy(self, environ: Mapping[str, str] = os.environ) -> str:
        """The environment variable with a proxy that is not used for this extender, or empty.

        An extender is a neighbour, and what is sent to it names all pods and nodes.
        """
        return proxy_variable(self.address.url_prefix, environ)

    async def call(self, verb: str, body: bytes, may_send: Callable[[], bool] | None = None) -> bytes:
        """The body of the answer. Raises `ExtenderError`. `may_send`: asked once the call has its turn."""
        if len(body) > LARGEST_REQUEST:
            why = f"the request has {len(body)} bytes; at most {LARGEST_REQUEST} are sent"
            raise ExtenderNotReachedError(self._text(verb, why))
        async with self._turns[verb]:
            if may_send is not None and not may_send():
                raise CallGivenUpError(self._text(verb, "not sent: this process does not lead"))
            try:
                async with asyncio.timeout(self._timeout.total):  # reading certificates counts, too
                    return await self._call(verb, body)
            except TimeoutError:
                raise ExtenderTimeoutError(self._text(verb, f"no answer within {self._timeout.total:g} s")) from None
            except ConfigurationError as error:
                raise ExtenderNotReachedError(self._text(verb, str(error))) from None
            except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):  # its text has the whole URL, and so a password
                raise ExtenderNotReachedError(self._text(verb, "its urlPrefix is no http or https URL")) from None
            except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:
                failure = our_error(error) if isinstance(error, aiohttp.ClientError) else error
                kind: type[ExtenderError] = ExtenderError
                if self._is_closed:
                    kind = CallGivenUpError
                elif isinstance(failure, NotSentError | ForbiddenTargetError):
                    kind = ExtenderNotReachedError
                raise kind(self._text(verb, failure_text(failure))) from error

    async def close(self) -> None:
        """Close all connections; calls under way fail."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def _call(self, verb: str, body: bytes) -> bytes:
        url = f"{self.address.url_prefix.rstrip('/')}/{verb}"
        context = await self._tls_context() if url.lower().startswith("https:") else None
        async with self._open_session().post(
            url,
            data=body,
            headers={"Content-Type": "application/json", "Accept": "application/json", "User-Agent": USER_AGENT},
            timeout=self._timeout,
            allow_redirects=False,
            ssl=True if context is None else context,
            server_hostname=None if context is None else self.address.tls.server_name or None,
        ) as response:
            if response.status != 200:
                location = response.headers.get("Location", "").partition("?")[0][:_LONGEST_LOCATION]
                sent_on = f": it sends us to {location}, and redirects are not followed" if location else ""
                shown = f"{self.address.shown.rstrip('/')}/{verb}"  # the words are kube-scheduler's
                message = f"failed {verb} with extender at URL {shown}, code {response.status}{sent_on}"
                raise ExtenderStatusError(message)
            return await self._body(verb, response)

    async def _body(self, verb: str, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_chunked(_CHUNK):
            size += len(part)
            if size > self._largest_answer:
                response.close()
                raise ExtenderError(self._text(verb, f"the answer has more than {self._largest_answer} bytes"))
            parts.append(part)
        return b"".join(parts)

    async def _tls_context(self) -> ssl.SSLContext:
        """In a thread: a mount that does not answer holds no decision."""
        if self._contexts is None:
            self._contexts = await asyncio.to_thread(TLSContexts, self.address.tls, places=self.address.places)
        return await asyncio.to_thread(self._contexts.context)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            message = "the extender is no longer configured"
            raise RuntimeError(message)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=_VERBS * MAX_CALLS,
                    keepalive_timeout=_IDLE_SECONDS,
                    ttl_dns_cache=30,
                    resolver=CheckingResolver(),
                    socket_factory=open_checked_socket,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept-Encoding",),
                auto_decompress=False,
                trust_env=False,
            )
            self._session._retry_connection = False  # as in `http.over_aiohttp`: aiohttp must not repeat a bind
        return self._session

    def _text(self, verb: str, why: str) -> str:
        return f"failed {verb} with extender at URL {self.address.shown}: {why}"
