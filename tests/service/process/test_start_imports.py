"""What a start may not import: the modules that made up most of its CPU, and what the image does not hold; and which
classes it may not make.
"""

import asyncio
import json
import signal
import subprocess
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
    "kscheduler.api.device_selectors": "the language of devices' selectors: imported in a quiet moment, or for a claim",
    "kscheduler.cel.environment": "likewise",
    "re2": "likewise",
    "kscheduler.recorder": "recordings: `--record`",
    "jinja2": "the status page's, at its first view",
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


FROZEN = """
import dataclasses, sys
import kscheduler.cli.commands.run, kscheduler.service
from kscheduler.assembly import configured
for name, module in sys.modules.items():
    for kind in vars(module).values() if name.startswith("kscheduler.") else ():
        if isinstance(kind, type) and kind.__module__ == name and dataclasses.is_dataclass(kind):
            has_plain_fields = all(field.init and field.repr and field.compare for field in dataclasses.fields(kind))
            if kind.__dataclass_params__.frozen and kind.__dataclass_params__.repr and has_plain_fields:
                print(name, kind.__name__)
"""


def test_frozen_values_are_structs() -> None:
    """A frozen dataclass takes 0.5 ms when its module is imported, a struct 0.01: there were three hundred of them. One
    that leaves fields out of its constructor, its text or comparisons has no such choice.
    """
    answer = subprocess.run([sys.executable, "-c", FROZEN], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == []
