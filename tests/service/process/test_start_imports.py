"""What a start may not import: the modules that made up most of its CPU, and what the image does not hold."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer

SECONDS = 60.0

NOT_AT_THE_START = {
    "kubernetes_asyncio": "a thousand modules of models: for exec plugins and OIDC only",
    "urllib3": "kubernetes_asyncio's",
    "six": "kubernetes_asyncio's",
    "dateutil": "kubernetes_asyncio's",
    "certifi": "kubernetes_asyncio's",
    "kscheduler.embedded": "the embedded cluster",
    "kscheduler.explain": "questions about decisions: `kscheduler explain`",
    "kscheduler.scenario": "likewise",
    "jsonpatch": "the embedded cluster's",
    "rich": "the demo's; structlog takes it where it finds it, 50 ms of console that nobody looks at in a pod",
    "matplotlib": "pictures of measurements",
    "numpy.testing": "tests",
    "numpy.f2py": "Fortran",
    "numpy.random": "`random` is enough for jitter",
    "multiprocessing": "one process is all there is",
    "unittest": "tests",
    "pydoc": "a terminal's",
}

PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({list(NOT_AT_THE_START)!r}))  # whoever imports one of them gets an ImportError
from kscheduler.__main__ import main
sys.exit(main())
"""


@asynccontextmanager
async def service(kubeconfig: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    flags = [
        "run",
        "--kubeconfig",
        str(kubeconfig),
        "--secure-port",
        "0",
        "--insecure-port",
        "0",
        "--log-format",
        "json",
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        *flags,
        "--leader-elect=false",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process: asyncio.subprocess.Process, message: str) -> dict[str, object]:
    """The log line with this message, once it is written; fails with all lines before it if the process ends."""
    assert process.stdout is not None
    seen = []
    async for raw in process.stdout:
        seen.append(raw.decode())
        if raw.startswith(b"{") and json.loads(raw)["msg"] == message:
            line: dict[str, object] = json.loads(raw)
            return line
    pytest.fail("".join(seen))


async def test_a_start_needs_none_of_the_heavy_modules(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with EmbeddedAPIServer() as server, asyncio.timeout(SECONDS):
        tree = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {"token": "a-token"}}],
        }
        kubeconfig.write_text(json.dumps(tree))
        async with service(kubeconfig) as process, aiohttp.ClientSession() as session:
            port = (await line_with(process, "http_server_listening"))["port"]
            async with session.get(f"http://127.0.0.1:{port}/livez") as answer:
                assert answer.status == 200
            await line_with(process, "scheduling")
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGTERM)
            await line_with(process, "stopped")
            assert await process.wait() == 0
