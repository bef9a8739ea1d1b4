"""A proxy between a scheduler and an API server, that knows of each write before and after it is applied.

It is how a test gets to a moment that nobody hits by chance: between the decision and the write (somebody else changes
the object then, and the API server answers 409), or right after a write was applied, before its answer arrives (the
process is killed then). Plain HTTP/1.1 towards the scheduler, the given kubeconfig's server and token towards the API
server; a thread for each connection; what a watch sends is passed on as it comes.
"""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.controlplane.rest import Api

VOLUME_KINDS = {"persistentvolumes": "volume", "persistentvolumeclaims": "claim", "binding": "binding"}
CHUNK_BYTES = 65_536
SECONDS = 30.0


@dataclass(frozen=True)
class Write:
    """A request that changes something, of a kind that the test asked to hear of."""

    kind: str
    path: str

    @property
    def name(self) -> str:
        """The volume's, claim's or pod's name."""
        parts = self.path.split("/")
        return parts[-2] if self.kind == "binding" else parts[-1]


Hook = Callable[[Write], None]
# Method, path and body of a write to its kind; the empty string for those that nobody needs to hear of.
Kind = Callable[[str, str, bytes], str]


def volume_writes(method: str, path: str, body: bytes) -> str:
    """`volume`, `claim` and `binding`, whatever is done to them."""
    del method, body
    return next((VOLUME_KINDS[part] for part in path.strip("/").split("/")[-2:] if part in VOLUME_KINDS), "")


def nothing(write: Write) -> None:
    """Lets a write pass."""
    del write


def once(act: Callable[[Write], object], kind: str) -> Hook:
    """Acts on the first write of a kind only."""
    is_free = threading.Semaphore(1)

    def hook(write: Write) -> None:
        if write.kind == kind and is_free.acquire(blocking=False):
            act(write)

    return hook


class WriteProxy:
    """Serves while it is entered. `before` and `after` are called in the thread of the write, which waits for them."""

    def __init__(self, kubeconfig: Path, kind: Kind = volume_writes) -> None:
        document = json.loads(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        authority = cluster.get("certificate-authority")
        self.api = Api(cluster["server"], user.get("token", ""), Path(authority) if authority else None)
        self.kind = kind
        self.before: Hook = nothing
        """Called when a write has come in, before the API server sees it; after a `ConnectionError` it never does."""
        self.after: Hook = nothing
        """Called when the API server has applied a write, before the scheduler hears of it."""
        self._applied: list[Write] = []
        self._refused: list[tuple[Write, int]] = []
        self._under_way = 0
        self._settled = threading.Condition()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="write-proxy", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=30)

    @property
    def applied(self) -> list[Write]:
        """Writes that the API server applied; waits for answers under way, as others see what a write did before."""
        self._wait_settled()
        return self._applied

    @property
    def refused(self) -> list[tuple[Write, int]]:
        """Writes that the API server refused, with its status code; waits as `applied`."""
        self._wait_settled()
        return self._refused

    def _wait_settled(self) -> None:
        with self._settled:
            if not self._settled.wait_for(lambda: not self._under_way, SECONDS):
                raise TimeoutError(f"{self._under_way} writes have no answer after {SECONDS:.0f} s")

    @contextmanager
    def passing(self) -> Iterator[None]:
        """While a write is passed on and its answer awaited."""
        with self._settled:
            self._under_way += 1
        try:
            yield
        finally:
            with self._settled:
                self._under_way -= 1
                self._settled.notify_all()

    def settle(self, write: Write, code: int) -> None:
        """The API server has answered a write."""
        if code >= 400:
            self._refused.append((write, code))
        else:
            self._applied.append(write)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # connections that are open still, watches most of all, end with it

    def __init__(self, proxy: WriteProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke: the scheduler was killed, or it gave a watch up."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._upstream = self.server.proxy.api.connect(timeout_seconds=None)

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_PATCH(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing is logged."""

    def _write(self, body: bytes) -> Write | None:
        path = urlsplit(self.path).path
        kind = "" if self.command == "GET" else self.server.proxy.kind(self.command, path, body)
        return Write(kind, path) if kind else None

    def _pass_on(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        write = self._write(body)
        if write is not None:
            proxy.before(write)
        headers = {
            name: self.headers[name] for name in ("Content-Type", "Accept", "User-Agent") if name in self.headers
        }
        headers["Authorization"] = f"Bearer {proxy.api.token}"
        with proxy.passing() if write is not None else nullcontext():
            self._upstream.request(self.command, self.path, body or None, headers)
            response = self._upstream.getresponse()
            if write is not None:
                proxy.settle(write, response.status)
        if write is not None and response.status < 400:
            proxy.after(write)
        if parse_qs(urlsplit(self.path).query).get("watch", ["0"])[0] in ("1", "true"):
            self._stream(response)
            return
        answer = response.read()
        self._head(response, {"Content-Length": str(len(answer))})
        self.wfile.write(answer)

    def _stream(self, response: http.client.HTTPResponse) -> None:
        self._head(response, {"Transfer-Encoding": "chunked"})
        while chunk := response.read1(CHUNK_BYTES):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, response: http.client.HTTPResponse, more: dict[str, str]) -> None:
        self.send_response(response.status)
        for name in ("Content-Type", "Retry-After"):
            if name in response.headers:
                self.send_header(name, response.headers[name])
        for name, text in more.items():
            self.send_header(name, text)
        self.end_headers()
