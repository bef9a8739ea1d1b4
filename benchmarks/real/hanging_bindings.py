"""Bindings of one namespace that hang, beside pods of others: `python -m benchmarks.real.hanging_bindings`.

On a real API server a validating webhook on `pods/binding` of one namespace waits for ten seconds and then fails
(`--way never`: it never answers, and the API server gives up after 30 s). Sound pods come open-loop, first alone, then
beside as many pods of that namespace as are asked for. What counts is the time from the creation of a sound pod to its
Binding, as a watch of this program sees it, for kscheduler and for kube-scheduler in the same run.

Limit: the webhook is this process, so what it costs is on the machine with all the rest.
"""

import argparse
import asyncio
import base64
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

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
    rival,
    session,
)
from benchmarks.real.watch import follow
from benchmarks.real.workloads import NAMESPACE, SCHEDULER_NAME, node
from tests.controlplane import binaries
from tests.controlplane.controlplane import ControlPlane
from tests.controlplane.process import Process, free_port

HOSTILE: Final = "hostile"
WEBHOOKS_PATH: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WAIT_SECONDS: Final = 10.0
# Sound pods that are not bound so long after the last one came count as never bound.
PATIENCE_SECONDS: Final = 120.0
SCHEDULERS: Final[dict[str, Callable[[ControlPlane], Process]]] = {"kscheduler": kscheduler, "kube-scheduler": rival}


def webhook_on(url: str, authority: Path) -> dict[str, Any]:
    """The configuration: bindings of the hostile namespace, and nothing passes if it fails."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hangs"},
        "webhooks": [
            {
                "name": "hangs.example.com",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.read_bytes()).decode()},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": HOSTILE}},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
                ],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 30,
            }
        ],
    }


@asynccontextmanager
async def hanging_webhook(plane: ControlPlane, seconds: float) -> AsyncIterator[str]:
    """A webhook that answers 500 after so long. Yields its URL."""

    async def answer(_request: web.Request) -> web.Response:
        await asyncio.sleep(seconds)
        return web.Response(status=500, text="this webhook is broken")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(plane.certificates.serving, plane.certificates.serving_key)
    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.0)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context, backlog=2048).start()
    try:
        yield f"https://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()


def pod(name: str, namespace: str) -> dict[str, Any]:
    """A small pod."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    spec = {"schedulerName": SCHEDULER_NAME, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def play(plane: ControlPlane, scheduler: Process, hostile: int, options: argparse.Namespace) -> Clock:
    """Everything. Returns when each sound pod was sent and bound."""
    clock = Clock()
    wait = WAIT_SECONDS if options.way == "refused" else 3600.0
    async with session(plane.api) as http, hanging_webhook(plane, wait) as url:
        await create_all(http, NAMESPACES_PATH, [{"metadata": {"name": name}} for name in (NAMESPACE, HOSTILE)])
        await create(http, WEBHOOKS_PATH, json.dumps(webhook_on(url, plane.certificates.authority)))
        await create_all(http, NODES_PATH, (node(number) for number in range(options.nodes)))
        scheduler.start()
        version = plane.api.get(PODS_PATH, limit="1")["metadata"]["resourceVersion"]
        watch = asyncio.create_task(follow(http, PODS_PATH, version, clock.see), name="watch")
        try:
            await come(http, clock, 20, options.rate, "warm")
            await clock.wait_for_binds(20, PATIENCE_SECONDS)
            clock.sent.clear()
            hostile_path = PODS_PATH.replace(NAMESPACE, HOSTILE)
            await create_all(http, hostile_path, (pod(f"hostile-{number}", HOSTILE) for number in range(hostile)))
            await come(http, clock, options.pods, options.rate, "sound")
            try:
                await clock.wait_for_binds(20 + options.pods, PATIENCE_SECONDS)
            except TimeoutError:
                print("  not all sound pods were bound", file=sys.stderr)
        finally:
            watch.cancel()
            await asyncio.wait({watch})
            scheduler.stop()
    return clock


async def come(http: aiohttp.ClientSession, clock: Clock, count: int, rate: float, name: str) -> None:
    """So many sound pods, at this rate."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            one = f"{name}-{number}"
            clock.sent[one] = time.monotonic()
            group.create_task(make(http, one))


async def make(http: aiohttp.ClientSession, name: str) -> None:
    """One sound pod. If the API server is too busy to take it, it is one that was never bound."""
    try:
        await create(http, PODS_PATH, json.dumps(pod(name, NAMESPACE)))
    except RuntimeError as refusal:
        print(f"  {name} was not created: {refusal}"[:160], file=sys.stderr, flush=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real.hanging_bindings", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--pods", type=int, default=600, help="sound ones")
    parser.add_argument("--rate", type=float, default=20.0, help="sound pods a second")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--hostile", type=int, nargs="+", default=[0, 100, 1000], help="how many beside them")
    parser.add_argument("--way", choices=("refused", "never"), default="refused", help="after 10 s, or never answered")
    parser.add_argument("--logs", type=Path, default=None, help="a folder for the logs")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Play and print."""
    options = parse(arguments)
    programs = binaries.find()
    for hostile in options.hostile:
        for name, scheduler_on in SCHEDULERS.items():
            with control_plane(programs) as plane:
                scheduler = scheduler_on(plane)
                try:
                    clock = asyncio.run(play(plane, scheduler, hostile, options))
                finally:
                    scheduler.stop()
                    keep_log(scheduler, options.logs, f"{name}-{hostile}")
            took = clock.latencies(clock.sent)
            p50, p99 = (f"{percentile(took, rank):,.0f}" if took else "never" for rank in (50, 99))
            print(
                f"{name}, beside {hostile:,} that hang: {len(took)} of {options.pods} sound pods bound, "
                f"p50 {p50} ms, p99 {p99} ms",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
