"""kscheduler on a real API server, followed by two shadows: `python -m benchmarks.real.shadow`.

Pods of five kinds arrive open-loop, are bound by `kscheduler run`, and the oldest are deleted, so that the cluster
keeps its size while bindings are in flight and watches are late. One shadow has the same configuration: it must show no
difference (exit code 1 otherwise). The other, the control, has another policy (MostAllocated): nearly all that it calls
`order` is chance, so its share says how much the evidence of the first is worth.

Both shadows are processes of their own, with the rights of `deploy/kustomize/shadow`.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.real.clock import Clock, percentile
from benchmarks.real.run import (
    NAMESPACES_PATH,
    NODES_PATH,
    PODS_PATH,
    control_plane,
    create,
    create_all,
    keep_log,
    kscheduler,
    session,
)
from benchmarks.real.watch import follow
from benchmarks.real.workloads import NAMESPACE, SCHEDULER_NAME, WORKLOADS, node
from tests.controlplane import binaries
from tests.controlplane.controlplane import ControlPlane
from tests.controlplane.process import Process
from tests.e2e.shadow.shadow_process import is_following, own_json, shadow_kubeconfig, shadow_process

MIXED: Final = WORKLOADS["mixed"]
PACKING: Final[dict[str, Any]] = {
    "profiles": [
        {
            "schedulerName": SCHEDULER_NAME,
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ],
        }
    ],
}
ALIKE: Final[dict[str, Any]] = {"profiles": [{"schedulerName": SCHEDULER_NAME}]}
# Without a comparison a shadow is given up.
PATIENCE_SECONDS: Final = 300.0
# Requests of this client at a time.
IN_FLIGHT: Final = 24


class Crowd:
    """Pods that come, and go when there are too many."""

    def __init__(self, http: aiohttp.ClientSession, clock: Clock, live: int) -> None:
        self._http = http
        self._clock = clock
        self._live = live
        self._there: list[str] = []
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def come(self, count: int, rate: float) -> None:
        """So many, at this rate, and never more than a thousand that wait for a node."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                if number >= 1000:
                    await self._clock.wait_for_binds(number - 1000, PATIENCE_SECONDS)
                pod = MIXED.pod(number)
                name = pod["metadata"]["name"]
                self._there.append(name)
                await self._slots.acquire()
                self._clock.sent[name] = time.monotonic()
                group.create_task(self._create(pod))
                if len(self._there) > self._live:
                    await self._slots.acquire()
                    group.create_task(self._delete(self._there.pop(0)))
                if number % 5000 == 4999:
                    print(f"  {number + 1:,} pods made", file=sys.stderr, flush=True)

    async def _create(self, pod: dict[str, Any]) -> None:
        try:
            await create(self._http, PODS_PATH, json.dumps(pod))
        finally:
            self._slots.release()

    async def _delete(self, name: str) -> None:
        """At once, as nobody runs it. One that has no node yet is a choice that nobody would see: it stays."""
        try:
            if name not in self._clock.bound:
                return
            async with self._http.delete(f"{PODS_PATH}/{name}", params={"gracePeriodSeconds": "0"}) as answer:
                await answer.read()
        finally:
            self._slots.release()


async def play(
    plane: ControlPlane, scheduler: Process, shadows: dict[str, Process], options: argparse.Namespace
) -> Clock:
    """Everything until both shadows have compared all pods. Returns when each was sent and bound."""
    clock = Clock()
    async with session(plane.api) as http:
        await create_all(http, NAMESPACES_PATH, [{"metadata": {"name": NAMESPACE}}])
        await create_all(http, NODES_PATH, (node(number) for number in range(options.nodes)))
        scheduler.start()
        for shadow in shadows.values():
            shadow.start()
        for name, shadow in shadows.items():
            shadow.wait_until(f"the shadow of {name} follows", partial(is_following, shadow), PATIENCE_SECONDS)
        version = plane.api.get(PODS_PATH, limit="1")["metadata"]["resourceVersion"]
        watch = asyncio.create_task(follow(http, PODS_PATH, version, clock.see), name="watch")
        try:
            await Crowd(http, clock, options.live).come(options.pods, options.rate)
            await clock.wait_for_binds(options.pods, PATIENCE_SECONDS)
        finally:
            watch.cancel()
            await asyncio.wait({watch})
    for shadow in shadows.values():
        await catch_up(shadow, options.pods)
    return clock


async def catch_up(shadow: Process, pods: int) -> None:
    """Until it has compared them all, or compares no more."""
    compared, moved_at = -1, time.monotonic()
    while compared < pods and time.monotonic() < moved_at + PATIENCE_SECONDS:
        report = own_json(shadow)
        if report["compared"] != compared:
            compared, moved_at = report["compared"], time.monotonic()
        await asyncio.sleep(1.0)


def lines(name: str, shadow: Process, report: dict[str, Any]) -> Iterator[str]:
    """What one shadow says."""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in report["kinds"].items() if count)
    orders = report["kinds"]["order"]
    tries = f", {report['orderTries'] / orders:.1f} views tried per order" if orders else ""
    yield f"{name}: {report['compared']:,} compared, {report['differences']:,} differences"
    yield f"    {kinds}{tries}"
    unlike = report["compared"] - report["kinds"]["same"]
    if unlike:
        yield f"    of what is not the same, {orders / unlike:.2%} is explained by an order"
    yield f"    {report['withoutSearch']:,} differences whose order was not looked for to the end"
    cpu = shadow.cpu_seconds() * 1_000 / max(1, report["compared"])
    yield f"    {cpu:.2f} ms of CPU per comparison, {shadow.peak_mebibytes():.0f} MiB at most"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real.shadow", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--pods", type=int, default=100_000, help="that are bound and compared")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--live", type=int, default=8_000, help="pods that are there at a time")
    parser.add_argument("--rate", type=float, default=400.0, help="pods a second at most")
    parser.add_argument("--settle", default="5s", help="of the shadows: longer than a binding is ever in flight")
    parser.add_argument("--no-control", action="store_true", help="without the shadow of another policy")
    parser.add_argument("--logs", type=Path, default=None, help="a folder for the logs")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Play, print, and say whether the shadow of the same configuration differs."""
    options = parse(arguments)
    with control_plane(binaries.find()) as plane, ExitStack() as ends:
        identity, folder = shadow_kubeconfig(plane), plane.folder / "logs"
        wanted = {"same configuration": ALIKE} | ({} if options.no_control else {"another policy": PACKING})
        shadows = {
            name: shadow_process(
                identity,
                folder,
                "--followed",
                "kscheduler",
                "--settle",
                options.settle,
                config=config,
                name=name.replace(" ", "-"),
            )
            for name, config in wanted.items()
        }
        scheduler = kscheduler(plane)
        for process in (scheduler, *shadows.values()):
            ends.callback(process.stop)
        began = time.monotonic()
        clock = asyncio.run(play(plane, scheduler, shadows, options))
        print(f"{options.pods:,} pods on {options.nodes:,} nodes in {time.monotonic() - began:.0f} s")
        took = clock.latencies(clock.sent)
        print(f"from creation to binding {percentile(took, 50):.0f} ms, p99 {percentile(took, 99):,.0f} ms")
        reports = {name: own_json(shadow) for name, shadow in shadows.items()}
        for name, report in reports.items():
            print("\n".join(lines(name, shadows[name], report)))
            keep_log(shadows[name], options.logs, f"shadow-{name.replace(' ', '-')}.log")
        report = reports["same configuration"]
        unexplained = [
            each for kind, found in report["examples"].items() if kind not in ("same", "order") for each in found
        ]
        for each in unexplained:
            print(f"    {each['kind']}: {each['pod']} went to {each['theirs']}, ours {each['ours']}: {each['reason']}")
    return 0 if report["differences"] == 0 and report["compared"] == options.pods else 1


if __name__ == "__main__":
    sys.exit(main())
