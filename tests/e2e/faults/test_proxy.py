"""The proxy does on the wire what a fault says, and nothing where it says nothing: seen by a bare socket."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.controlplane import kubeconfig
from tests.e2e.faults.catalogue import lost, twice
from tests.e2e.faults.fault import (
    Action,
    Applied,
    CutAnswer,
    EachEvent,
    EndStream,
    Explanation,
    Fault,
    Injected,
    Request,
    Requests,
    Reset,
    Swapped,
    TwiceAnswered,
    parse,
)
from tests.e2e.faults.proxy import FaultProxy

BODY = json.dumps({"kind": "Status", "status": "Success"}).encode()
EVENTS = [b'{"type":"ADDED","object":{"number":%d}}\n' % number for number in range(2)]
BINDING = "/api/v1/namespaces/shop/pods/web-1/binding"


class Upstream(BaseHTTPRequestHandler):
    """Answers every POST with a Status and every GET with a stream of two events; counts writes."""

    protocol_version = "HTTP/1.1"
    posts = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Upstream.posts += 1
        self.send_response(201)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in EVENTS:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing is logged."""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[FaultProxy]:
    Upstream.posts = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with FaultProxy(kubeconfig.write(tmp_path / "c.json", server=f"http://127.0.0.1:{server.server_port}")) as it:
            yield it
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sent(proxy: FaultProxy, method: str, target: str) -> bytes:
    """All bytes that come until the connection ends; `RESET` at the end of those that end so."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
        client.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        data = b""
        client.settimeout(1)
        try:
            while part := client.recv(65536):
                data += part
        except ConnectionResetError:
            return data + b"RESET"
        except TimeoutError:
            return data
        return data + b"END"


def play(proxy: FaultProxy, does: Action, method: str, target: str) -> bytes:
    proxy.play(Fault("it", Requests(), does))
    found = sent(proxy, method, target)
    assert proxy.met["it"]
    proxy.rest()
    return found


@pytest.mark.parametrize(
    ("does", "ends_with", "posts"),
    [
        pytest.param(Explanation(500, b"no"), b"\r\n\r\nno", 0, id="answered"),
        pytest.param(Reset(), b"RESET", 0, id="reset"),
        pytest.param(Applied(Reset()), b"RESET", 1, id="applied, then reset"),
        pytest.param(Applied(Explanation(500, b"no")), b"\r\n\r\nno", 1, id="applied, then refused"),
        pytest.param(CutAnswer(), BODY[: len(BODY) // 2] + b"END", 1, id="cut"),
        pytest.param(CutAnswer("chunk"), b"%x\r\n%s" % (len(BODY), BODY[: -(len(BODY) // 2)]) + b"END", 1, id="chunk"),
        pytest.param(TwiceAnswered(), BODY, 1, id="twice"),
    ],
)
def test_a_write_meets_what_its_fault_says(proxy: FaultProxy, does: Action, ends_with: bytes, posts: int) -> None:
    assert play(proxy, does, "POST", BINDING).endswith(ends_with)
    assert Upstream.posts == posts
    assert proxy.applied["shop/web-1"] == posts
    assert sent(proxy, "POST", BINDING).endswith(b"\r\n\r\n" + BODY), "the fault is over"


@pytest.mark.parametrize(
    ("does", "lines"),
    [
        pytest.param(Swapped(), [EVENTS[1], EVENTS[0]], id="swapped"),
        pytest.param(EachEvent(lost), [], id="lost"),
        pytest.param(EachEvent(twice), [EVENTS[0], EVENTS[0], EVENTS[1], EVENTS[1]], id="twice"),
        pytest.param(Injected(b"<p>\n"), [b"<p>\n", *EVENTS], id="injected"),
        pytest.param(EndStream("line"), [EVENTS[0][: len(EVENTS[0]) // 2]], id="cut within a line"),
    ],
)
def test_a_stream_meets_what_its_fault_says(proxy: FaultProxy, does: Action, lines: list[bytes]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines)
    found = play(proxy, does, "GET", "/api/v1/pods?watch=1")
    assert found.partition(b"\r\n\r\n")[2] == body + b"0\r\n\r\nEND"


@pytest.mark.parametrize(
    ("method", "target", "request_"),
    [
        ("POST", BINDING, Request("create", "pods/binding", "shop", "web-1")),
        ("GET", "/api/v1/pods?limit=500", Request("list", "pods", "", "")),
        ("GET", "/api/v1/nodes?watch=true", Request("watch", "nodes", "", "")),
        ("GET", "/api/v1/pods?watch=1&sendInitialEvents=true", Request("watchlist", "pods", "", "")),
        ("PATCH", "/api/v1/namespaces/shop/pods/a/status", Request("patch", "pods/status", "shop", "a")),
        ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", Request("create", "events", "shop", "")),
        ("GET", "/api/v1/namespaces/shop", Request("get", "namespaces", "", "shop")),
        ("GET", "/version", Request("get", "/version", "", "")),
    ],
)
def test_a_request_is_named_as_in_the_audit_log(method: str, target: str, request_: Request) -> None:
    assert parse(method, target) == request_
