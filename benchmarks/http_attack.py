"""What hostile clients of the HTTPS port do to scheduling, to memory and to probes.

    python -m benchmarks.http_attack --seconds 20 --rounds 3

A scheduler as a process of its own, on the embedded API server, binds pods that come at a steady rate. Beside it an
attacker (another process, ten addresses) holds 500 half-open connections, half of them in the middle of a TLS
handshake, sends 10,000 random requests over a round, and scrapes metrics (which it may) without ever reading. Time is
from the creation of a pod to its binding as a watch shows it.

On a machine with two cores the attacker itself takes a core away. So each round is played three times: without an
attack, with the attack on an idle copy of the scheduler (`elsewhere`), and on the scheduler (`here`). `here` against
`elsewhere` is what the scheduler's own port costs it; its CPU says so also on a machine that others use as well.
"""

import argparse
import asyncio
import json
import os
import random
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.aio import BackgroundService, running
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.embedded.demo.processes import START_SECONDS, ChildProcess

HALF_OPEN: Final = 500
RANDOM_REQUESTS: Final = 10_000
PODS_PER_SECOND: Final = 50.0
PROBE_SECONDS: Final = 0.1
ADDRESSES: Final = 10
PODS: Final = "/api/v1/namespaces/default/pods"
PHASES: Final = ("quiet", "elsewhere", "here")
GOALS: Final = "goals: p99 moves by less than 10 %, memory by less than 20 MiB, /livez within 1 s"


# --- the attacker, a process of its own -------------------------------------------------------------------------------


def careless() -> ssl.SSLContext:
    """A client that trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def attack(port: int, seconds: float) -> None:
    """All three attacks at once."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(
                *(half_open(port, number) for number in range(HALF_OPEN)),
                random_requests(port, RANDOM_REQUESTS / seconds),
                never_reads(port),
            )


async def half_open(port: int, number: int) -> None:
    """Hold a connection that is never finished; a new one when it is cut, after a second."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(_address(number), 0))
            try:
                writer.write(b"\x16\x03\x01\x02\x00\x01" if number % 2 else b"")
                await reader.read()
            finally:
                writer.transport.abort()
        await asyncio.sleep(1.0)


async def random_requests(port: int, per_second: float) -> None:
    """Requests at a steady rate, each on a connection of its own, whatever becomes of the ones before."""
    chance, number, began = random.Random(1), 0, time.monotonic()
    tasks: set[asyncio.Task[None]] = set()
    while True:
        number += 1
        await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
        task = asyncio.create_task(one_request(port, chance.getrandbits(32)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def one_request(port: int, seed: int) -> None:
    """Half of them valid, for whatever path; half of them noise. A tenth speaks no TLS."""
    chance = random.Random(seed)
    context = careless() if chance.random() < 0.9 else None
    path = chance.choice(("/metrics", "/livez", "/configz", "/debug/stacks", "/nowhere", "/livez?verbose"))
    valid = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {seed}\r\nConnection: close\r\n\r\n".encode()
    sent = valid if chance.random() < 0.5 else chance.randbytes(chance.randrange(1, 20_000))
    with suppress(OSError, TimeoutError, ssl.SSLError):
        async with asyncio.timeout(10.0):
            local = (_address(seed), 0)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=local)
            try:
                writer.write(sent)
                await reader.read()
            finally:
                writer.transport.abort()


async def never_reads(port: int) -> None:
    """Ask for metrics again and again, and take nothing."""
    while True:
        with suppress(OSError, ssl.SSLError):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=careless(), local_addr=(_address(0), 0))
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a StreamWriter's transport also reads
            for _ in range(100):
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                await asyncio.sleep(0.1)
            writer.transport.abort()


def _address(number: int) -> str:
    return f"127.0.0.{2 + number % ADDRESSES}"


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass
class Phase:
    """What happened in one phase of all rounds."""

    pod_seconds: list[float] = field(default_factory=list)
    probe_seconds: list[float] = field(default_factory=list)
    failed_probes: int = 0
    peak_mebibytes: float = 0.0
    cpu_seconds: float = 0.0
    seconds: float = 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """The value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def offer_pods(client: APIClient, phase: Phase, label: str, seconds: float) -> None:
    """Create pods at a steady rate and take the time to their binding, from a watch."""
    created: dict[str, float] = {}
    watching = asyncio.create_task(_watch(client, created, phase))
    count, began = int(seconds * PODS_PER_SECOND), time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / PODS_PER_SECOND - time.monotonic()))
        name = f"{label}-{number}"
        created[name] = time.monotonic()
        await client.post(PODS, _pod(name))
    while created and time.monotonic() < began + seconds + 10.0:  # noqa: ASYNC110  # a watch tells nobody
        await asyncio.sleep(0.05)
    watching.cancel()
    await asyncio.wait({watching})


async def _watch(client: APIClient, created: dict[str, float], phase: Phase) -> None:
    version = json.loads(await client.get(PODS, {"limit": "1"}))["metadata"]["resourceVersion"]
    async with client.stream(PODS, {"watch": "1", "resourceVersion": version}) as lines:
        async for batch in lines:
            now = time.monotonic()
            for line in batch:
                pod = msgspec.json.decode(line)["object"]
                if pod["spec"].get("nodeName") and (began := created.pop(pod["metadata"]["name"], None)) is not None:
                    phase.pod_seconds.append(now - began)


def _pod(name: str) -> bytes:
    containers = [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "10m"}}}]
    spec = {"schedulerName": "kscheduler", "containers": containers}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


async def probe(port: int, phase: Phase) -> None:
    """As the kubelet probes, ten times a second: a new connection from an address of its own."""
    context = careless()
    while True:
        began = time.monotonic()
        try:
            async with asyncio.timeout(5.0):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = await reader.read()
                writer.transport.abort()
            phase.failed_probes += b"200 OK" not in answer
        except (OSError, TimeoutError):
            phase.failed_probes += 1
        phase.probe_seconds.append(time.monotonic() - began)
        await asyncio.sleep(PROBE_SECONDS)


def resident_mebibytes(pid: int) -> float:
    """What a process holds in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def cpu_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch_memory(pid: int, phase: Phase) -> None:
    """The largest of ten looks a second."""
    while True:
        phase.peak_mebibytes = max(phase.peak_mebibytes, resident_mebibytes(pid))
        await asyncio.sleep(0.1)


# --- the processes ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def child(name: str, command: list[str], log: Path) -> AsyncIterator[ChildProcess]:
    """A process until the end of the block."""
    process = ChildProcess(name, command, log)
    async with running(BackgroundService(name, process.run, process.stop)):
        yield process


def _field(process: ChildProcess, event: str, key: str) -> Any:
    for line in process.lines():
        if f'"{event}"' in line:
            with suppress(ValueError, KeyError):
                return json.loads(line)[key]
    return None


async def scheduler(stack: AsyncExitStack, url: str, name: str, folder: Path) -> tuple[int, int]:
    """Start a scheduler; its HTTPS port and process id."""
    command = [sys.executable, "-m", "kscheduler", "run", "--master", url, "--leader-elect=false"]
    command += ["--bind-address", "127.0.0.1", "--port", "0", "--log-format", "json", "--scheduler-name", name]
    process = await stack.enter_async_context(child(name, command, folder / f"{name}.log"))
    port = await process.wait_for(
        "its HTTP server", lambda: _field(process, "http_server_listening", "port"), START_SECONDS
    )
    pid = await process.wait_for("its sync", lambda: _field(process, "scheduling", "nodes") is not None or None, 60.0)
    del pid
    return int(port), int(_field(process, "starting", "pid"))


async def let_everybody_scrape(client: APIClient) -> None:
    """The attacker may read metrics: the worst client is one that is allowed."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "everybody-scrapes"}}
    role = {**head, "kind": "ClusterRole", "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everybody-scrapes"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}
    binding = {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    await client.post(f"{group}/clusterroles", msgspec.json.encode(role))
    await client.post(f"{group}/clusterrolebindings", msgspec.json.encode(binding))


async def measure(seconds: float, rounds: int) -> dict[str, Phase]:
    """All phases of all rounds, in turn."""
    phases = {name: Phase() for name in PHASES}
    with tempfile.TemporaryDirectory(prefix="kscheduler-attack-") as folder_name:
        folder = Path(folder_name)
        async with AsyncExitStack() as stack:
            command = [sys.executable, "-m", "kscheduler", "cluster", "--nodes", "100", "--port", "0"]
            cluster = await stack.enter_async_context(child("the cluster", command, folder / "cluster.log"))
            url = await cluster.wait_for("its API server", lambda: _url_in(cluster.lines()), START_SECONDS)
            client = await stack.enter_async_context(APIClient(plain_connection(url)))
            await let_everybody_scrape(client)
            here, pid = await scheduler(stack, url, "kscheduler", folder)
            elsewhere, _ = await scheduler(stack, url, "idle", folder)
            await offer_pods(client, Phase(), "warm", 5.0)
            for number in range(rounds):
                for name, target in (("quiet", None), ("elsewhere", elsewhere), ("here", here)):
                    await _play(client, phases[name], f"{name}-{number}", seconds, (here, pid, target), folder)
    return phases


async def _play(
    client: APIClient, phase: Phase, label: str, seconds: float, ports: tuple[int, int, int | None], folder: Path
) -> None:
    here, pid, target = ports
    async with AsyncExitStack() as stack:
        if target is not None:
            command = [sys.executable, "-m", "benchmarks.http_attack", "--attack", str(target)]
            command += ["--seconds", str(seconds + 30.0)]
            await stack.enter_async_context(child("the attacker", command, folder / "attacker.log"))
            await asyncio.sleep(3.0)
        watchers = [asyncio.create_task(probe(here, phase)), asyncio.create_task(watch_memory(pid, phase))]
        used, began = cpu_seconds(pid), time.monotonic()
        await offer_pods(client, phase, label, seconds)
        phase.cpu_seconds += cpu_seconds(pid) - used
        phase.seconds += time.monotonic() - began
        for watcher in watchers:
            watcher.cancel()
        await asyncio.wait(watchers)
    await asyncio.sleep(2.0)


def _url_in(lines: Sequence[str]) -> str | None:
    for line in lines:
        for word in line.replace('"', " ").replace(",", " ").split():
            if word.startswith("http://127.0.0.1:"):
                return word.rstrip("/.;")
    return None


def table(phases: dict[str, Phase]) -> str:
    """A line per phase, and what the port itself costs."""
    heads = f"{'p50 ms':>8} {'p99 ms':>8} {'/livez worst ms':>16} {'failed':>7} {'peak MiB':>9} {'CPU %':>6}"
    lines = [f"{'attack':<10} {'pods':>6} {heads}"]
    for name, phase in phases.items():
        p50, p99 = (1000 * quantile(phase.pod_seconds, share) for share in (0.5, 0.99))
        worst = 1000 * max(phase.probe_seconds, default=float("nan"))
        lines.append(
            f"{name:<10} {len(phase.pod_seconds):>6} {p50:>8.1f} {p99:>8.1f} {worst:>16.0f} {phase.failed_probes:>7} "
            f"{phase.peak_mebibytes:>9.1f} {100 * phase.cpu_seconds / phase.seconds:>6.1f}"
        )
    here, elsewhere = phases["here"], phases["elsewhere"]
    moved = quantile(here.pod_seconds, 0.99) / quantile(elsewhere.pod_seconds, 0.99) - 1
    grown = here.peak_mebibytes - elsewhere.peak_mebibytes
    return "\n".join([*lines, f"here against elsewhere: p99 {moved:+.1%}, memory {grown:+.1f} MiB", GOALS])


def main() -> None:
    """Measure, or be the attacker."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--attack", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attack is not None:
        asyncio.run(attack(args.attack, args.seconds))
        return
    print(table(asyncio.run(measure(args.seconds, args.rounds))))


if __name__ == "__main__":
    main()
