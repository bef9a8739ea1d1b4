"""What decoding and the first sync cost.

Prints two tables: microseconds per object for an 8 KB Pod (goal: at most 15 us), and the sync of 100,000 pods of 2 KB
and 5,000 nodes from a server in a process of its own (goal: at most 30 s and 1.5 GiB), by paged list and by WatchList.

    python benchmarks/decode.py [--pods 100000] [--nodes 5000]
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from aiohttp import web

from kscheduler.api.kinds import NODES, PODS
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.lists import ListDecoder
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import WatchDecoder
from kscheduler.informers import InformerFactory
from kscheduler.telemetry.logs.pipeline import configure


def pod(number: int, size: int) -> dict[str, Any]:
    """A pod as the API server sends it, of about `size` bytes."""
    labels = {"app": f"app-{number % 50}", "pod-template-hash": f"{number % 50:010x}", "tier": "backend"}
    container = {
        "name": "main",
        "image": f"registry.example/team/app-{number % 50}:1.2.3",
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    made: dict[str, Any] = {
        "metadata": {
            "name": f"app-{number % 50}-{number:06d}",
            "namespace": f"ns-{number % 100}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-11-21T12:00:00Z",
            "labels": labels,
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 5000}",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "containers": [container],
            "tolerations": [{**toleration, "key": f"node.kubernetes.io/{key}"} for key in ("not-ready", "unreachable")],
            "restartPolicy": "Always",
            "serviceAccountName": "default",
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable"},
    }
    if size > 4000:
        made["spec"]["affinity"] = _affinity(labels)
    _pad(made, size)
    return made


def _pad(made: dict[str, Any], size: int) -> None:
    """Fill up with what API servers really send and schedulers skip: managedFields and environment."""
    names = (".", "f:lastProbeTime", "f:lastTransitionTime", "f:status", "f:type")
    condition: dict[str, Any] = {name: {} for name in names}
    fields: list[dict[str, Any]] = []
    environment: list[dict[str, str]] = []
    made["metadata"]["managedFields"] = fields
    made["spec"]["containers"][0]["env"] = environment
    missing = size - len(json.dumps(made))
    while missing > 500:
        conditions = {f'k:{{"type":"{kind}"}}': condition for kind in ("Initialized", "Ready")}
        fields.append(
            {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:conditions": conditions}}}
        )
        environment.append({"name": f"SETTING_{len(environment)}", "value": f"value-{len(environment)}"})
        missing = size - len(json.dumps(made))
    made["status"]["message"] = "x" * max(0, missing - 15)


def _affinity(labels: dict[str, str]) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        },
    }


def node(number: int) -> dict[str, Any]:
    """A node with ten images."""
    images = [{"names": [f"registry.example/image-{one}:1.{number % 7}"], "sizeBytes": 10_000_000} for one in range(10)]
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "metadata": {
            "name": f"node-{number}",
            "uid": f"00000000-0000-4000-9000-{number:012d}",
            "resourceVersion": str(number + 1),
            "labels": {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % 3}"},
        },
        "status": {"allocatable": allocatable, "capacity": allocatable, "images": images},
    }


# --- the server's process ---------------------------------------------------------------------------------------------


def serve(pods: int, nodes: int) -> None:
    """Serve lists, pages, WatchLists and empty watches of generated objects; prints its port."""
    items = {
        "pods": [json.dumps(pod(number, 2048)).encode() for number in range(pods)],
        "nodes": [json.dumps(node(number)).encode() for number in range(nodes)],
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        mine = items[request.match_info["plural"]]
        if "watch" in request.query:
            return await _stream(request, mine if "sendInitialEvents" in request.query else [])
        begin, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", len(mine)))
        rest = str(begin + limit) if begin + limit < len(mine) else ""
        head = b'{"metadata":{"resourceVersion":"999999","continue":"%b"},"items":[' % rest.encode()
        return web.Response(body=head + b",".join(mine[begin : begin + limit]) + b"]}", content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/v1/{plural}", answer)
    asyncio.run(_serve_until_killed(app))


async def _stream(request: web.Request, initial: list[bytes]) -> web.StreamResponse:
    response = web.StreamResponse()
    with suppress(ConnectionResetError):  # a client that has measured enough goes away
        await _send(request, response, initial)
    return response


async def _send(request: web.Request, response: web.StreamResponse, initial: list[bytes]) -> None:
    await response.prepare(request)
    for begin in range(0, len(initial), 200):
        batch = initial[begin : begin + 200]
        await response.write(b"".join(b'{"type":"ADDED","object":%b}\n' % one for one in batch))
    end = {"resourceVersion": "999999", "annotations": {"k8s.io/initial-events-end": "true"}}
    await response.write(json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n")
    await asyncio.Event().wait()


async def _serve_until_killed(app: web.Application) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


# --- measuring --------------------------------------------------------------------------------------------------------


def microseconds(work: Any, argument: bytes, rounds: int = 2000) -> float:
    """The best of five runs, per call."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(rounds):
            work(argument)
        best = min(best, (time.perf_counter() - began) / rounds)
    return best * 1e6


def print_decoding() -> None:
    """The first table."""
    raw = json.dumps(pod(1, 8360)).encode()
    line = b'{"type":"MODIFIED","object":%b}' % raw
    body = b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % b",".join([raw] * 500)
    small = b'{"type":"ADDED","object":%b}' % json.dumps(pod(1, 2048)).encode()
    print(f"watch line, Pod of {len(raw):>5} bytes  {microseconds(WatchDecoder(PODS).feed, line):>6.1f} us   goal 15")
    print(f"watch line, Pod of {len(small):>5} bytes  {microseconds(WatchDecoder(PODS).feed, small):>6.1f} us")
    each = microseconds(ListDecoder(PODS).decode, body, 10) / 500
    print(f"list item,  Pod of {len(raw):>5} bytes  {each:>6.1f} us")


async def longest_lag(lags: list[float]) -> None:
    """How late a 10 ms timer fires, for as long as it runs."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.01)
        lags.append(time.perf_counter() - began - 0.01)


async def sync(url: str, *, watch_list: bool) -> None:
    """One line of the second table."""
    lags: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()
    async with APIClient(plain_connection(url)) as client, asyncio.TaskGroup() as group:
        factory = InformerFactory(client, (PODS, NODES), watch_list=watch_list)
        tasks = [group.create_task(factory.run()), group.create_task(longest_lag(lags))]
        missing = await factory.wait_for_sync(300)
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
        objects = sum(one.objects for one in factory.statistics())
        for task in tasks:
            task.cancel()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    name = "WatchList" if watch_list else "paged list"
    print(
        f"{name:<10} {objects:>7} objects {seconds:>6.1f} s (goal 30) {used:>6.1f} s CPU {peak:>6.0f} MiB (goal 1536)"
        f" longest lag {max(lags) * 1000:>4.0f} ms {' '.join(missing)}"
    )


async def server_of(arguments: list[str]) -> AsyncIterator[str]:
    """The URL of a server in its own process, for as long as it is used."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", *arguments, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.terminate()
        await process.wait()


async def print_sync(pods: int, nodes: int) -> None:
    """The second table; each line in a fresh process, so that peaks are its own."""
    async for url in server_of(["--pods", str(pods), "--nodes", str(nodes)]):
        for mode in ("--paged", "--watch-list"):
            child = await asyncio.create_subprocess_exec(sys.executable, __file__, mode, url)
            await child.wait()


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--paged", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--watch-list", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    configure(verbosity=0)
    if chosen.serve:
        serve(chosen.pods, chosen.nodes)
    elif chosen.paged or chosen.watch_list:
        asyncio.run(sync(chosen.paged or chosen.watch_list, watch_list=bool(chosen.watch_list)))
    else:
        print_decoding()
        asyncio.run(print_sync(chosen.pods, chosen.nodes))


if __name__ == "__main__":
    main()
