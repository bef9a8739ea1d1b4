"""What nodes really use, as metrics-server or Prometheus has measured it."""

import asyncio
import errno
import math
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from kscheduler.api.addresses import why_never_called
from kscheduler.api.quantity import QuantityError, milli_value, value
from kscheduler.client.access.credentials import check_regular
from kscheduler.config.durations import DurationError, parse_duration
from kscheduler.config.plugin_args import HTTPSource, PrometheusUsage
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.nodes.node_table import CPU_INDEX, MEMORY_INDEX, NodeTable
from kscheduler.framework.plugin import RefreshError

if TYPE_CHECKING:
    import aiohttp


# One GET from an HTTP server outside of the cluster's API, for policies that fetch data in the background.
#
# What such a server may do to us is bounded: an answer has a largest size and a deadline, redirects are an error (they
# would lead where nobody has allowed a request to go), proxies of the environment are not used, compressed answers are
# not asked for, and no request goes to a link-local address, where clouds hand out a machine's credentials.
#
# A connection per request: there is one in some seconds, and nothing stays open that somebody must close.

T = TypeVar("T")

# Of an answer: a hundred bytes for each of 80,000 nodes.
MAX_BYTES: Final = 8 * 2**20
# Below that, parsing takes less than ten milliseconds.
LARGE_BYTES: Final = 64 * 2**10
_LONGEST_TOKEN: Final = 64 * 2**10
# RFC 6750.
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
# Where Kubernetes mounts a pod's token for the API server.
OWN_CREDENTIALS: Final = (Path("/var/run/secrets/kubernetes.io"), Path("/run/secrets/kubernetes.io"))


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
        if len(body) > MAX_BYTES:
            raise RefreshError(f"{response.url}: the answer has more than {MAX_BYTES // 2**20} MiB")
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
            raise RefreshError(
                f"{name}: the API server's token is never sent to another server; mount one for this server"
            )
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


# A Prometheus query with a number per node.

QUERY_PATH: Final = "/api/v1/query"


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[_Series] = []


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    error: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


class Samples(dict[str, float]):
    """Numbers by node name."""

    taken_at: float = math.inf
    """When the oldest of them was taken: seconds since 1970."""


async def query_samples(source: HTTPSource, query: str, node_label: str) -> Samples:
    """The query's series, each by the value of `node_label`. Raises `RefreshError`.

    A value such as `node-1:9100` stands for `node-1`. Series without a number (NaN, Inf) are left out.
    """
    body = await fetched(source, QUERY_PATH, {"query": query})
    return await in_thread_if_large(lambda answer: samples(answer, node_label), body)


def samples(body: bytes, node_label: str) -> Samples:
    """The numbers of an answer. Raises `RefreshError`."""
    found = Samples()
    series = _series(body)
    for one in series:
        name = _node_name(one.metric.get(node_label, ""))
        if not name or one.value is None:
            continue
        number = _number(one.value[1])
        if number is None:
            continue
        if name in found:
            advice = f"aggregate them, as in `max by ({node_label}) (...)`"
            raise RefreshError(f"two series have {node_label}={name}: {advice}")
        found[name] = number
        found.taken_at = min(found.taken_at, one.value[0])
    if not found:
        why = f"has {len(series)} series, none with a number and a label {node_label}" if series else "has no series"
        raise RefreshError(f"the query's result {why}")
    return found


def _series(body: bytes) -> list[_Series]:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        if answer.status != "success":
            raise RefreshError(f"Prometheus says: {answer.error or answer.status or 'nothing'}"[:300])
        kind = msgspec.json.decode(answer.data, type=_ResultType)
        if kind.result_type != "vector":
            raise RefreshError(f"the query's result is a {kind.result_type or 'nothing'}: ask for an instant vector")
        return msgspec.json.decode(answer.data, type=_Data).result
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as mistake:
        raise RefreshError(f"no answer of Prometheus: {mistake}") from None


class _ResultType(msgspec.Struct, rename="camel"):
    result_type: str = ""


def _node_name(value: str) -> str:
    """A node's name has no colon: what follows one is a port."""
    return value.partition(":")[0]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


NODE_METRICS_PATH: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
_NODES_AT_A_TIME: Final = 200


class Measurement(msgspec.Struct, frozen=True):
    """A node's usage over a span of time."""

    cpu: int
    """Thousandths of a CPU."""
    memory: int
    """Bytes."""
    begun_at: float
    """When the span began, in seconds since 1970. A pod that was started later is not wholly in the figures."""
    ended_at: float


# By node name.
Measurements = Mapping[str, Measurement]


class _Metadata(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    timestamp: str = ""
    window: str = "0s"
    usage: dict[str, str] = {}


class _NodeMetricsList(msgspec.Struct):
    items: list[_NodeMetrics] = []


async def from_metrics_server(client: ClusterClient) -> Measurements:
    """What the aggregated API of metrics-server says now. Raises `RefreshError` and what the client raises."""
    return await parsed_metrics(await client.get(NODE_METRICS_PATH))


async def parsed_metrics(body: bytes) -> Measurements:
    """A NodeMetricsList. A node whose figures cannot be read is left out. Raises `RefreshError`.

    Reading the quantities of 5,000 nodes takes a twentieth of a second, so others get a turn in between.
    """
    try:
        listed = msgspec.json.decode(body, type=_NodeMetricsList)
    except msgspec.MsgspecError as mistake:
        raise RefreshError(f"{NODE_METRICS_PATH}: no list of NodeMetrics: {mistake}") from None
    found: dict[str, Measurement] = {}
    for place, item in enumerate(listed.items):
        if place % _NODES_AT_A_TIME == _NODES_AT_A_TIME - 1:
            await asyncio.sleep(0)
        try:
            ended = datetime.fromisoformat(item.timestamp).timestamp()
            begun = ended - max(0.0, parse_duration(item.window).seconds)
            cpu, memory = milli_value(item.usage["cpu"]), value(item.usage["memory"])
        except (ValueError, KeyError, QuantityError, DurationError):
            continue
        found[item.metadata.name] = Measurement(max(0, cpu), max(0, memory), begun, ended)
    if listed.items and not found:
        raise RefreshError(f"{NODE_METRICS_PATH}: {len(listed.items)} items, and none with usage and timestamp")
    return found


async def from_prometheus(source: PrometheusUsage, nodes: NodeTable) -> Measurements:
    """Two queries, each a fraction of what the nodes have. A node that only one of them names is left out.

    Raises `RefreshError`.
    """
    cpu = await query_samples(source, source.cpu_query, source.node_label)
    memory = await query_samples(source, source.memory_query, source.node_label)
    ended = min(cpu.taken_at, memory.taken_at)
    begun = ended - source.window.seconds
    found: dict[str, Measurement] = {}
    for name in cpu.keys() & memory.keys():
        row = nodes.row_of(name)
        if row >= 0:
            has_cpu, has_memory = nodes.allocatable[CPU_INDEX, row].item(), nodes.allocatable[MEMORY_INDEX, row].item()
            used = round(_share(cpu[name]) * has_cpu), round(_share(memory[name]) * has_memory)
            found[name] = Measurement(*used, begun, ended)
    if not found and len(nodes):
        raise RefreshError(f"the queries name no node of the cluster in the label {source.node_label}")
    return found


def _share(fraction: float) -> float:
    """Not beyond twice of what is there: a query that gives percent or bytes must not overflow a column."""
    return min(max(fraction, 0.0), 2.0)
