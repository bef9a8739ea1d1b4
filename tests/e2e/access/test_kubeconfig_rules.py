"""The table of client-go's rules for kubeconfigs is client-go's: the real kubectl is asked each row."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.client.kubeconfig_cases import CASES, CERTIFICATES, Case, lay_out, write_kubeconfig
from tests.controlplane import binaries

SECONDS = 60.0


class Requests(ThreadingHTTPServer):
    """Takes every request, and keeps what was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.seen: list[list[tuple[str, str]]] = []


class Answering(BaseHTTPRequestHandler):
    server: Requests

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.items())
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the overridden parameter
        """Nothing."""


@contextmanager
def serving() -> Iterator[Requests]:
    server = Requests()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "first.crt", CERTIFICATES / "first.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="https server of a test", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES if not case.not_queried])
def test_kubectl_reads_each_row_as_the_table_says(case: Case, tmp_path: Path) -> None:
    lay_out(tmp_path)
    with serving() as server:
        path = write_kubeconfig(case, tmp_path, f"https://127.0.0.1:{server.server_port}")
        command = [str(binaries.find().kubectl), "--kubeconfig", str(path), "get", "--raw", "/version"]
        environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        ended = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    assert (ended.returncode == 0) is (not case.refused), ended.stderr
    if case.refused:
        return
    headers = server.seen[-1]
    assert next((value for name, value in headers if name == "Authorization"), "") == case.sends
    sent = [(name.lower(), value) for name, value in headers if name.startswith("Impersonate-")]
    assert sorted(sent) == sorted((name.lower(), value) for name, value in case.impersonates)
