"""One GET from an HTTP server outside of the cluster's API, for policies that fetch data beside the cycle.

What such a server may do to us is bounded: an answer has a largest size and a deadline, redirects are an error (they
would lead where nobody has allowed a request to go), proxies of the environment are not used, compressed answers are
not asked for, and no request goes to a link-local address, where clouds hand out a machine's credentials.

A connection per request: there is one in some seconds, and nothing stays open that somebody must close.
"""

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kscheduler.api.addresses import why_never_called
from kscheduler.client.access.credential_files import check_regular
from kscheduler.config.plugin_args import HTTPSource
from kscheduler.framework.plugin import RefreshError

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

MOST_BYTES: Final = 8 * 2**20
"""Of an answer: a hundred bytes for each of 80,000 nodes."""
LARGE_BYTES: Final = 64 * 2**10
"""Below that, parsing takes less than ten milliseconds."""
_LONGEST_TOKEN: Final = 64 * 2**10
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750."""
OWN_CREDENTIALS: Final = (Path("/var/run/secrets/kubernetes.io"), Path("/run/secrets/kubernetes.io"))
"""Where Kubernetes mounts a pod's token for the API server."""


async def fetched(source: HTTPSource, path: str = "", params: Mapping[str, str] | None = None) -> bytes:
    """The body of the source's URL with `path` appended. Raises `RefreshError` for anything but a 200."""
    import aiohttp  # costs a tenth of a second, and only these policies need it

    url = source.url.rstrip("/") + path if path else source.url
    timeout = aiohttp.ClientTimeout(total=source.timeout.seconds)
    authorization, tls = await _FILES.read(source)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", **authorization}
    connector = aiohttp.TCPConnector(ssl=tls, socket_factory=_socket, limit=1)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session,
            session.get(url, params=params, headers=headers, allow_redirects=False) as response,
        ):
            return await _body(response)
    except TimeoutError:
        raise RefreshError(f"{source.url}: no answer within {source.timeout}") from None
    except (aiohttp.ClientError, OSError, ValueError) as failure:
        raise RefreshError(f"{source.url}: {failure}" if str(failure) else f"{source.url}: {failure!r}") from None


class _CredentialFiles:
    """Reads tokens and authorities in a thread: a mount that does not answer must not stop the loop.

    A source has one reading at a time. While that hangs the source is out, and no further thread hangs with it.
    """

    def __init__(self) -> None:
        self._reading: dict[tuple[str, str], asyncio.Future[tuple[dict[str, str], ssl.SSLContext | bool]]] = {}

    async def read(self, source: HTTPSource) -> tuple[dict[str, str], ssl.SSLContext | bool]:
        """The header, and whom to trust. Raises `RefreshError`."""
        files = source.bearer_token_file, source.ca_file
        if not any(files):
            return {}, True
        hanging = self._reading.get(files)
        if hanging is not None and not hanging.done():
            raise RefreshError(f"{' and '.join(filter(None, files))} is still being read: does its mount answer?")
        reading = asyncio.get_running_loop().run_in_executor(None, _credentials, source)
        self._reading[files] = reading
        reading.add_done_callback(_heard)
        done, _ = await asyncio.wait({reading}, timeout=source.timeout.seconds)
        if not done:
            raise RefreshError(f"{' and '.join(filter(None, files))} could not be read within {source.timeout}")
        del self._reading[files]
        return reading.result()


_FILES: Final = _CredentialFiles()


def _heard(reading: "asyncio.Future[Any]") -> None:
    """What fails after nobody waits any more is no news."""
    if not reading.cancelled():
        reading.exception()


def _credentials(source: HTTPSource) -> tuple[dict[str, str], ssl.SSLContext | bool]:
    return _authorization(source), _tls(source)


async def in_thread_if_large(parse: Callable[[bytes], T], body: bytes) -> T:
    """Parse an answer; a large one in a thread, because eight MiB take most of a second."""
    return await asyncio.to_thread(parse, body) if len(body) > LARGE_BYTES else parse(body)


async def _body(response: "aiohttp.ClientResponse") -> bytes:
    if response.status != 200:
        moved = " (redirects are not followed)" if 300 <= response.status < 400 else ""
        raise RefreshError(f"{response.url}: {response.status} {response.reason or ''}".rstrip() + moved)
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise RefreshError(f"{response.url}: the answer is compressed, which was not asked for")
    body = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > MOST_BYTES:
            raise RefreshError(f"{response.url}: the answer has more than {MOST_BYTES // 2**20} MiB")
        await asyncio.sleep(0)  # a fast sender must not keep the loop for itself
    return bytes(body)


def _authorization(source: HTTPSource) -> dict[str, str]:
    """The header for the token in the file, which is read each time: such files are rotated.

    Who may edit a configuration must not thereby get at credentials: neither at the scheduler's own token, nor, a line
    of text at a time, at other files.
    """
    if not source.bearer_token_file:
        return {}
    path = Path(source.bearer_token_file)
    name = f"bearerTokenFile {path}"
    try:
        if any(path.resolve().is_relative_to(own) for own in OWN_CREDENTIALS):
            raise RefreshError(f"{name}: the API server's own token is sent to nobody else; mount one for this server")
        check_regular(path)
        with path.open("rb") as file:
            token = file.read(_LONGEST_TOKEN).strip()
    except OSError as failure:
        raise RefreshError(f"{name}: {failure.strerror}") from None
    if not _TOKEN.fullmatch(token):
        raise RefreshError(f"{name}: there is no bearer token in it")
    return {"Authorization": f"Bearer {token.decode()}"}


def _tls(source: HTTPSource) -> ssl.SSLContext | bool:
    if not source.ca_file:
        return True
    try:
        check_regular(source.ca_file)
        return ssl.create_default_context(cafile=source.ca_file)
    except (OSError, ssl.SSLError) as failure:
        raise RefreshError(f"caFile {source.ca_file}: {failure.strerror or failure}") from None


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket for an entry of `getaddrinfo`. Raises `OSError` for one that is never called."""
    family, kind, protocol, _, place = address
    why = why_never_called(str(place[0]))
    if why:
        raise PermissionError(errno.EACCES, f"{place[0]} {why}: nothing is fetched there")
    return socket.socket(family, kind, protocol)
