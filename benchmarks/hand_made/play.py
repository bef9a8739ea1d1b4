"""One scheduler's run: pods, a failed Binding now and then, an end, more pods while it is away, and a new start."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from aiohttp import web

from benchmarks.hand_made import world
from benchmarks.hand_made.world import Audit, CountingServer
from kscheduler.embedded.apiserver.faults import InjectedFault

ROOT: Final = Path(__file__).parents[2]
SHIPPED: Final = ROOT / "deploy" / "examples" / "policies" / "config.yaml"
# Bindings that the API server answers with 503 before it takes them.
REFUSED_BINDINGS: Final = 3
# With pods left, and none placed for so long: nothing more will come of them.
QUIET_SECONDS: Final = 4.0
MAX_SECONDS: Final = 60.0
# For the first fetch of a policy's own data; the scripts ask when they need it.
START_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Run:
    """What a scheduler did, and what it cost."""

    policy: str
    is_hand_made: bool
    audit: Audit
    lost: int
    """Pods without a node when it ended the first time, with nothing more to come of them."""
    start_cpu_seconds: float
    """Of its two processes, before there were pods."""
    cpu_seconds: float
    """Of its two processes, after that."""
    requests: int
    """That the API server got."""


async def play(policy: str, *, is_hand_made: bool, folder: Path) -> Run:
    """The same story for each."""
    async with CountingServer() as server, source() as source_url:
        world.fill(server)
        command = _script(policy, server, source_url) if is_hand_made else _service(policy, server, source_url, folder)
        server.faults.add(InjectedFault("answer", method="POST", path="*/binding", code=503, count=REFUSED_BINDINGS))
        start_cpu = cpu = 0.0
        lost = 0
        for pods in (range(world.BEFORE), range(world.BEFORE, world.BEFORE + world.WHILE_AWAY)):
            if pods.start:
                world.add_pods(server, policy, pods)
            process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=asyncio.subprocess.DEVNULL)
            try:
                await asyncio.sleep(START_SECONDS)
                started = _cpu_of(process.pid)
                if not pods.start:
                    world.add_pods(server, policy, pods)
                await _settled(server)
                lost = lost if pods.start else world.unplaced(server)
                start_cpu += started
                cpu += _cpu_of(process.pid) - started
            finally:
                process.terminate()
                await process.wait()
        return Run(policy, is_hand_made, world.audit(server), lost, start_cpu, cpu, server.requests)


def _cpu_of(pid: int) -> float:
    """Seconds so far: the clock id is the complemented pid, and 2 for "all that ran", as in libc."""
    return time.clock_gettime((~pid << 3) | 2)


async def _settled(server: CountingServer) -> None:
    began = moved = time.monotonic()
    left = world.unplaced(server)
    while left and time.monotonic() - moved < QUIET_SECONDS and time.monotonic() - began < MAX_SECONDS:
        await asyncio.sleep(0.1)
        now = world.unplaced(server)
        if now != left:
            left, moved = now, time.monotonic()


def _script(policy: str, server: CountingServer, source_url: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.hand_made.scripts", policy, server.url, source_url]


def _service(policy: str, server: CountingServer, source_url: str, folder: Path) -> list[str]:
    """`kscheduler run` with the shipped profile of the policy; only addresses are others."""
    tree = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    tree["profiles"] = [profile for profile in tree["profiles"] if profile["schedulerName"] == policy]
    own_args: dict[str, Any] = {
        "load-aware": {"prometheus": {"url": source_url, "cpuQuery": "cpu", "memoryQuery": "memory"}},
        "external": {"url": f"{source_url}/scores"},
    }
    if policy in own_args:
        name = {"load-aware": "LoadAware", "external": "ExternalScore"}[policy]
        tree["profiles"][0]["pluginConfig"] = [{"name": name, "args": own_args[policy]}]
    config = folder / f"{policy}.yaml"
    config.write_text(yaml.safe_dump(tree), encoding="utf-8")
    ports = ["--secure-port", "0", "--insecure-port", "0"]
    return [sys.executable, "-m", "kscheduler", "run", "--master", server.url, "--config", str(config), *ports]


@asynccontextmanager
async def source() -> AsyncIterator[str]:
    """Prometheus, whose measurement does not change during the run, and a server of numbers; yields the URL."""

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/scores":
            return _json(world.NUMBERS)
        result = [{"metric": {"node": name}, "value": [time.time(), str(used)]} for name, used in world.USED.items()]
        return _json({"status": "success", "data": {"resultType": "vector", "result": result}})

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _json(tree: Any) -> web.Response:
    return web.Response(body=json.dumps(tree).encode(), content_type="application/json")
