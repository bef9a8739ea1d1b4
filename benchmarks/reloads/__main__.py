"""A thousand reloads while pods flow.

    python -m benchmarks.reloads [--reloads 1000] [--rate 500]

`kscheduler run` is a process of its own, on an embedded API server in this process. Pods come at a steady rate through
the API server; meanwhile the file with two filters (`pair.py`) is replaced by its other version, SIGHUP asks for it,
and the next one follows as soon as the log says that it is in force. At the end every pod must have a node, and one
that a whole version leaves.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.reloads.pair import CONFIG, FILE, NODES, SCHEDULER, WHOLE, version
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer

PATIENCE_SECONDS: Final = 60.0
ROOT: Final = Path(__file__).parents[2]


@dataclass
class Figures:
    """What was seen."""

    taken_over: int = 0
    refused: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """From SIGHUP until the log says that the version is in force."""
    held: list[float] = field(default_factory=list)
    """For which the event loop was held by the exchange, as the log says."""
    pods: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    """How many pods each node has; empty: none."""

    @property
    def is_right(self) -> bool:
        """Nothing was refused, no pod is lost, and none was decided by half of a configuration."""
        return not self.refused and self.nodes.keys() <= WHOLE and self.nodes.total() == self.pods


async def put_nodes(client: APIClient) -> None:
    gives = {"cpu": "10000", "memory": "10000Gi", "pods": "1000000"}
    for name in NODES:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": gives, "capacity": gives},
        }
        await client.post("/api/v1/nodes", json.dumps(node).encode())


async def flow(client: APIClient, rate: float, figures: Figures, stop: asyncio.Event) -> None:
    """Create pods evenly until `stop`."""
    began = time.perf_counter()
    while not stop.is_set():
        # On a machine that cannot keep up with the rate this loop would never be done.
        while not stop.is_set() and figures.pods < (time.perf_counter() - began) * rate:
            container = {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "1m"}}}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{figures.pods}", "namespace": "default"},
                "spec": {"schedulerName": SCHEDULER, "containers": [container]},
            }
            await client.post("/api/v1/namespaces/default/pods", json.dumps(pod).encode())
            figures.pods += 1
        await asyncio.sleep(0.5 / rate)


async def next_line(lines: asyncio.StreamReader, *messages: str) -> dict[str, Any]:
    """The next line of the log with one of these messages. Raises `SystemExit` where the process ends before it."""
    while raw := await lines.readline():
        try:
            line: dict[str, Any] = json.loads(raw)
        except ValueError:
            continue
        if line.get("msg") in messages:
            return line
    raise SystemExit("kscheduler has ended")


async def play(reloads: int, rate: float) -> Figures:
    """The whole story."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / FILE).write_text(version(0))
        (folder / "config.yaml").write_text(CONFIG.replace(FILE, str(folder / FILE)))
        async with EmbeddedAPIServer() as server, APIClient(plain_connection(server.url)) as client:
            await put_nodes(client)
            config = ["--config", str(folder / "config.yaml"), "--plugin-directory", str(folder)]
            plain = ["--secure-port", "0", "--insecure-port", "0", "--log-format", "json", "--config-reload", "signal"]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "kscheduler", "run", "--master", server.url, *config, *plain),
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stderr is not None
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await next_line(process.stderr, "scheduling")
                stop = asyncio.Event()
                flowing = asyncio.create_task(flow(client, rate, figures, stop))
                await reload_all(process, folder / FILE, reloads, figures)
                stop.set()
                await flowing
                figures.nodes = await placed(server, figures.pods)
            finally:
                process.send_signal(signal.SIGTERM)
                await process.communicate()
    return figures


async def reload_all(process: asyncio.subprocess.Process, file: Path, reloads: int, figures: Figures) -> None:
    """One version after the other, each when the one before is in force."""
    assert process.stderr is not None
    for number in range(1, reloads + 1):
        beside = file.with_suffix(".new")
        beside.write_text(version(number))
        beside.rename(file)
        began = time.perf_counter()
        process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await next_line(process.stderr, "config_taken_over", "config_refused", "config_unchanged")
        figures.seconds.append(time.perf_counter() - began)
        if line["msg"] == "config_taken_over":
            figures.taken_over += 1
            figures.held.append(line["seconds"])
        else:
            figures.refused.append(json.dumps(line))


async def placed(server: EmbeddedAPIServer, pods: int) -> Counter[str]:
    """How many pods each node has, once all have one or patience is at its end."""
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while True:
        records = server.store.collection("pods").records.values()
        nodes = Counter(record.value["spec"].get("nodeName") or "" for record in records)
        if (nodes.total() == pods and not nodes[""]) or time.perf_counter() > deadline:
            return +nodes
        await asyncio.sleep(0.1)


def report(figures: Figures) -> str:
    """The figures in words."""
    milliseconds = sorted(1000 * seconds for seconds in figures.seconds)
    percentile = statistics.quantiles(milliseconds, n=100) if len(milliseconds) > 1 else milliseconds * 99
    lost = figures.pods - sum(figures.nodes[node] for node in NODES)
    half = sum(figures.nodes[node] for node in NODES if node not in WHOLE)
    held = figures.held or [0.0]
    lines = [f"reloads         {figures.taken_over} taken over, {len(figures.refused)} not"]
    lines += [f"until in force  median {statistics.median(milliseconds):.0f} ms, p99 {percentile[98]:.0f} ms"]
    lines += [f"loop held       median {1000 * statistics.median(held):.1f} ms, longest {1000 * max(held):.0f} ms"]
    lines += [f"pods            {figures.pods}: {lost} lost, {half} decided by half of a configuration"]
    lines += [f"by node         {dict(sorted(figures.nodes.items()))}"]
    return "\n".join((*lines, *figures.refused[:5]))


def main() -> int:
    """Play it and print the figures; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reloads", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=500.0, help="pods a second")
    options = parser.parse_args()
    began = time.perf_counter()
    figures = asyncio.run(play(options.reloads, options.rate))
    print(f"{report(figures)}\nall in          {time.perf_counter() - began:.0f} s")
    return 0 if figures.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
