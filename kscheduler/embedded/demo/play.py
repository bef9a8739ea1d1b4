"""The demo: a cluster, a scheduler, a thousand pods, and a verdict.

Three processes that communicate only over HTTP: `kscheduler cluster` (API server and hollow kubelets), `kscheduler run`
(the scheduler) and this process, which creates nodes and pods, watches them and checks the result itself. However it
ends, it ends the other two.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec
import yaml

from kscheduler.aio import BackgroundService, running
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, Kind
from kscheduler.api.machinery.api_errors import Object
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import ClientError
from kscheduler.client.lists import ListDecoder
from kscheduler.client.rest import APIClient
from kscheduler.embedded.demo import workload
from kscheduler.embedded.demo.cluster import BOTH_NAMES, write_configuration
from kscheduler.embedded.demo.processes import (
    START_SECONDS,
    ChildProcess,
    StopSignals,
    command_of,
    first_cause,
    scheduler_process,
)
from kscheduler.embedded.demo.progress import Display, Snapshot, display
from kscheduler.embedded.demo.report import DemoOutcome, could_ever_be_bound, judge, pending_reason, report
from kscheduler.informers import InformerFactory

# Pods, including those that have ended.
ALL_PODS = Kind("", "v1", "pods", "Pod", Pod, namespaced=True)

_TICK_SECONDS = 0.1
# After this long without a binding the demo ends, with the remaining pods pending.
_STALLED_SECONDS = 10.0
# Time for kubelets and conditions of hopeless pods after the last binding.
_FINAL_STATUS_SECONDS = 3.0
_CREATORS = 8


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the demo."""

    nodes: int = 100
    pods: int = 1000
    seed: int = 1
    port: int = 0
    """The API server's port; 0 means any free port."""
    keep: bool = False
    """Whether to keep everything running after the report, until a signal."""


async def play(options: DemoOptions, out: TextIO) -> int:
    """Play the demo; returns 0 if it passed, otherwise 1. Raises `DemoFailedError`; a signal cancels it."""
    with StopSignals() as signals, tempfile.TemporaryDirectory(prefix="kscheduler-demo-") as folder:
        try:
            return await _play(options, Path(folder), signals, out)
        except ExceptionGroup as group:
            raise first_cause(group) from None


async def _play(options: DemoOptions, folder: Path, signals: StopSignals, out: TextIO) -> int:
    _say(out, "starting the embedded cluster")
    async with _cluster(options, folder) as url:
        _say(out, f"starting the scheduler against {url}")
        config = write_configuration(folder, BOTH_NAMES)
        async with scheduler_process(url, folder / "scheduler.log", ["--config", config]) as own_url:
            async with APIClient(plain_connection(url)) as client:
                outcome = await _schedule(options, client, out)
            _say(out, report(outcome))
            if options.keep:
                _say(out, _addresses(url, own_url, folder, config))
                await signals.wait()
    return 0 if outcome.is_good else 1


def _say(out: TextIO, text: str) -> None:
    out.write(f"{text}\n")
    out.flush()


# --- the two other processes ------------------------------------------------------------------------------------------


@asynccontextmanager
async def _cluster(options: DemoOptions, folder: Path) -> AsyncIterator[str]:
    """Run the cluster; yields the API server's URL. The nodes are created by this process."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-P", "-m", "kscheduler", "cluster", "--nodes", "0", "--port", str(options.port)]
    command += ["--seed", str(options.seed), "--kubeconfig", str(kubeconfig)]
    child = ChildProcess("the embedded cluster", command, folder / "cluster.log")
    async with running(BackgroundService(child.name, child.run, child.stop)):
        yield await child.wait_for("its kubeconfig", lambda: _server_of(kubeconfig), START_SECONDS)


def _server_of(kubeconfig: Path) -> str | None:
    if not kubeconfig.exists():
        return None
    url: str = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    return url


# --- pods -------------------------------------------------------------------------------------------------------------


class _Observer:
    """Follows the pods on a watch, with times."""

    def __init__(self) -> None:
        self.sent_at: dict[str, float] = {}
        self.bound_at: dict[str, float] = {}
        self.taken: set[str] = set()
        """Keys of pods that a kubelet has started, finished or rejected."""
        self.unexplained: set[str] = set()
        """Keys of unbound pods without a PodScheduled condition."""

    def on_add(self, obj: Pod, initial: bool) -> None:
        """A new pod."""
        del initial
        self._see(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod that changed."""
        del old
        self._see(new)

    def on_delete(self, obj: Pod) -> None:
        """Ignored: the demo deletes no pods."""

    def _see(self, pod: Pod) -> None:
        key = pod.key
        if pod.spec.node_name and key not in self.bound_at:
            self.bound_at[key] = time.monotonic()
        if pod.spec.node_name or pending_reason(pod):
            self.unexplained.discard(key)
        else:
            self.unexplained.add(key)
        if pod.status.phase not in ("", "Pending"):
            self.taken.add(key)

    @property
    def latencies(self) -> dict[str, float]:
        """Seconds from sending the creation to seeing the binding, by key."""
        return {key: moment - self.sent_at[key] for key, moment in self.bound_at.items() if key in self.sent_at}

    @property
    def seconds(self) -> float:
        """Seconds from the first creation to the last binding."""
        if not self.sent_at or not self.bound_at:
            return 0.0
        return max(self.bound_at.values()) - min(self.sent_at.values())


async def _schedule(options: DemoOptions, client: APIClient, out: TextIO) -> DemoOutcome:
    """Create nodes and pods, watch them, check the result."""
    observer = _Observer()
    factory = InformerFactory(client, (ALL_PODS,))
    factory.informer(ALL_PODS).add_handler(observer)
    nodes = workload.nodes(options.nodes, seed=options.seed)
    pods = workload.pods(options.pods, seed=options.seed)
    try:
        async with running(BackgroundService("demo informer", factory.run)):
            await factory.informer(ALL_PODS).wait_until_synced()
            await _create(client, "/api/v1/nodes", nodes, {})
            _say(out, f"created {len(nodes):,} nodes; creating {len(pods):,} pods")
            expected = could_ever_be_bound(_typed(pods, Pod), _typed(nodes, Node))
            await _create_and_follow(client, pods, expected, observer, out)
        return await _judged(client, observer)
    except ClientError:
        # If a request fails because a process has died, the death is the better message: let it come first.
        await asyncio.sleep(1.0)
        raise


def _typed(trees: Iterable[Object], kind: type[Any]) -> list[Any]:
    return [msgspec.convert(tree, kind) for tree in trees]


async def _create_and_follow(
    client: APIClient, pods: list[Object], expected: set[str], observer: _Observer, out: TextIO
) -> None:
    with display(out) as shown:
        async with asyncio.TaskGroup() as group:
            creation = group.create_task(_create(client, "/api/v1/namespaces/default/pods", pods, observer.sent_at))
            await _follow(len(pods), expected, observer, shown, creation)


async def _create(client: APIClient, path: str, objects: list[Object], sent_at: dict[str, float]) -> None:
    """Create the objects, several at a time, in order, and note the time by key."""
    left = iter(objects)

    async def create_next() -> None:
        for tree in left:
            metadata = tree["metadata"]
            sent_at[f"{metadata.get('namespace', '')}/{metadata['name']}"] = time.monotonic()
            await client.post(path, msgspec.json.encode(tree))

    async with asyncio.TaskGroup() as group:
        for _ in range(_CREATORS):
            group.create_task(create_next())


async def _follow(
    total: int, expected: set[str], observer: _Observer, shown: Display, creation: "asyncio.Task[None]"
) -> None:
    """Wait until all pods that can be bound are bound and have a final status, or until nothing changes any more."""
    began = moved = time.monotonic()
    bound = 0
    ended = False
    while not ended:
        await asyncio.sleep(_TICK_SECONDS)
        now = time.monotonic()
        if len(observer.bound_at) != bound or not creation.done():
            bound, moved = len(observer.bound_at), now
        all_bound = creation.done() and expected <= observer.bound_at.keys()
        all_said = all_bound and observer.taken >= observer.bound_at.keys() and not observer.unexplained
        ended = all_said or now - moved > (_FINAL_STATUS_SECONDS if all_bound else _STALLED_SECONDS)
        shown.show(_snapshot(total, observer, now - began), last=ended)


def _snapshot(total: int, observer: _Observer, seconds: float) -> Snapshot:
    return Snapshot(seconds, total, len(observer.sent_at), len(observer.bound_at), len(observer.taken))


async def _judged(client: APIClient, observer: _Observer) -> DemoOutcome:
    """Check the API server's current objects rather than what a watch has shown."""
    pods: ListDecoder[Pod] = ListDecoder(ALL_PODS)
    nodes: ListDecoder[Node] = ListDecoder(NODES)
    all_pods = pods.decode(await client.get(ALL_PODS.path)).items
    all_nodes = nodes.decode(await client.get(NODES.path)).items
    return judge(all_nodes, all_pods, observer.latencies, observer.seconds)


def _addresses(url: str, own_url: str, folder: Path, config: str) -> str:
    kubeconfig = f"--kubeconfig {folder / 'kubeconfig'}"
    rows = (
        ("API server", url),
        ("kubectl", f"kubectl --server {url} get pods -o wide"),
        ("more pods", f"kubectl --server {url} create deployment app --image=app --replicas=3"),
        ("kubeconfig", f"export KUBECONFIG={folder / 'kubeconfig'}"),
        ("why pending", f"{command_of('kscheduler')} pending {kubeconfig} --config {config}"),
        ("its screen", f"{command_of('kubectl-kscheduler')} top {kubeconfig}"),
        ("status page", f"{own_url}/ui/"),
        ("metrics", f"{own_url}/metrics"),
        ("readiness", f"{own_url}/readyz?verbose"),
        ("logs", f"{folder / 'scheduler.log'}"),
    )
    lines = [f"  {name:12}{text}" for name, text in rows]
    names = " and ".join(BOTH_NAMES)
    return "\n".join(
        [f"everything keeps running, and pods of schedulerName {names} are scheduled; Ctrl-C ends it", *lines]
    )
