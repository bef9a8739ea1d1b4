"""kscheduler as a process of its own, started as a user would start it."""

import http.client
import json
import os
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.controlplane.process import Process

REPOSITORY = Path(__file__).parents[2]
LISTENING = "http_server_listening"
# Plain HTTP without a login on a free port of this machine: most tests ask for metrics and health.
PLAIN = ("--secure-port", "0", "--insecure-port", "0")
# As in a cluster, on a free port.
HTTPS = ("--bind-address", "127.0.0.1", "--port", "0")


def process(
    kubeconfig: Path,
    folder: Path,
    *options: str,
    scheduler_name: str = "kscheduler",
    environment: Mapping[str, str] | None = None,
    elects: bool = False,
    ports: Sequence[str] = PLAIN,
) -> Process:
    """`kscheduler run`, not yet started; its JSON log lines go to `folder/kscheduler.log`.

    `environment` is added to this process' own. Bytecode is kept, as an installed program's is: to compile all of it
    takes a fifth of a second of CPU, which is no scheduler's. Unless it `elects`, it schedules at once: a test that
    kills one and starts another need not wait for a lease. `ports`: `PLAIN` or `HTTPS`.
    """
    arguments: list[str | Path] = [sys.executable, "-m", "kscheduler", "run", "--kubeconfig", kubeconfig]
    arguments += ["--scheduler-name", scheduler_name, *ports]
    arguments += ["--log-format", "json", f"--leader-elect={str(elects).lower()}", *options]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    whole = own | {"PYTHONPATH": str(REPOSITORY)} | dict(environment or {})
    return Process("kscheduler", arguments, folder / "kscheduler.log", whole)


def log_lines(process: Process) -> Iterator[dict[str, Any]]:
    """The JSON lines of the log so far; lines that are something else are left out."""
    for line in process.text().splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def http_port(process: Process) -> int | None:
    """The port of its HTTP server, as its newest start logged it; None before that."""
    found = listening(process)
    return int(found["port"]) if found else None


def listening(process: Process) -> dict[str, Any] | None:
    """What its newest start logged of its HTTP server: scheme, host, port. None before that."""
    return next((line for line in reversed([*log_lines(process)]) if line.get("msg") == LISTENING), None)


def any_certificate() -> ssl.SSLContext:
    """A client that takes every certificate: schedulers sign their own."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def own_page(process: Process, path: str) -> tuple[int, str]:
    """What its own HTTP server answers, whatever its certificate: status and text.

    Raises `OSError` where it does not answer.
    """
    server = listening(process) or {"scheme": "http", "port": 0}
    if server["scheme"] == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            "127.0.0.1", server["port"], timeout=30, context=any_certificate()
        )
    else:
        connection = http.client.HTTPConnection("127.0.0.1", server["port"], timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
