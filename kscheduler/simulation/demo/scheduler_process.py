"""The scheduler as a process, for an embedded cluster."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from kscheduler.aio import BackgroundService, running
from kscheduler.api.well_known import SCHEDULER_PORT
from kscheduler.client import APIClient, APIError, ClientError, plain_connection
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.simulation.demo.processes import START_SECONDS, ChildProcess, DemoFailedError

NAMESPACE: Final = "kscheduler-system"
_LISTENING = "http_server_listening"
_POLL_SECONDS = 0.05


@asynccontextmanager
async def scheduler_process(
    url: str, log: Path, flags: Sequence[str] = (), *, on_terminal: bool = False
) -> AsyncIterator[str]:
    """Run the scheduler; yields its URL once it is ready. Raises `DemoFailedError`.

    Args:
        url: the API server's URL.
        log: the file for its output.
        flags: further flags of `kscheduler run`.
        on_terminal: whether standard input and output stay this process's, so that only its log goes to the file.
    """
    # -P: a file of the working directory, such as a policy in random.py, hides no module.
    command = [sys.executable, "-P", "-m", "kscheduler", "run", "--master", url, *flags]
    command += ["--secure-port", "0", "--insecure-port", "0", "--log-format", "json"]
    seconds = PLUGIN_TIME.at_most(START_SECONDS)
    child = ChildProcess("the scheduler", command, log, on_terminal=on_terminal)
    async with running(BackgroundService(child.name, child.run, child.stop)):
        port = await child.wait_for("its HTTP server", lambda: _port_of(child.lines()), seconds)
        own_url = f"http://127.0.0.1:{port}"
        await _until_ready(own_url, child, seconds)
        await _behind_a_service(url, port)
        yield own_url


async def _behind_a_service(url: str, port: int) -> None:
    """The Service of the chart, with the process behind it: `kubectl kscheduler` asks it as in a real cluster."""
    https = {"name": "https"}
    named = {"apiVersion": "v1", "metadata": {"name": "kscheduler"}}
    place = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{**https, "port": port, "appProtocol": "http"}]}
    inside = f"/api/v1/namespaces/{NAMESPACE}"
    bodies = {
        "/api/v1/namespaces": {**named, "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        f"{inside}/services": {
            **named,
            "kind": "Service",
            "spec": {"ports": [{"name": "https", "port": SCHEDULER_PORT}]},
        },
        f"{inside}/endpoints": {**named, "kind": "Endpoints", "subsets": [place]},
    }
    async with APIClient(plain_connection(url)) as client:
        for path, body in bodies.items():
            await client.post(path, json.dumps(body).encode())


def _port_of(lines: Iterable[str]) -> int | None:
    """The port from the log line that has it."""
    for line in lines:
        if _LISTENING in line:
            try:
                return int(json.loads(line)["port"])
            except (ValueError, KeyError, TypeError):
                continue
    return None


async def _until_ready(url: str, child: ChildProcess, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    async with APIClient(plain_connection(url)) as client:
        while True:
            try:
                await client.get("/readyz", retries=0)
            except (APIError, ClientError) as error:
                if time.monotonic() > deadline:
                    message = f"{child.name} is not ready after {seconds:.0f} s: {error}; {child.tail()}"
                    raise DemoFailedError(message) from None
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return
