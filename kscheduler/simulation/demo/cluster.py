"""The embedded cluster as one program: API server, nodes, hollow kubelets, and the lines that say how to reach it."""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import yaml

from kscheduler.simulation.apiserver.server import EmbeddedAPIServer
from kscheduler.simulation.controllers import catalogue
from kscheduler.simulation.controllers.engine.loop import running_controllers
from kscheduler.simulation.demo import workload
from kscheduler.simulation.demo.signals import StopSignals
from kscheduler.simulation.hollow.heartbeats import HeartbeatRates
from kscheduler.simulation.hollow.kubelets import hollow_kubelets
from kscheduler.simulation.objects.resources import NODES, PRIORITY_CLASSES, STORAGE_CLASSES

_STANDARD_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "simulation.kscheduler.io/hollow",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""The default class, as local clusters have one."""
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What `kscheduler cluster` serves."""

    nodes: int = 100
    host: str = "127.0.0.1"
    port: int = 8001
    """0 takes a free one."""
    seed: int = 0
    kubelets: bool = True
    heartbeats: bool = False
    controllers: str = catalogue.ALL
    """Which controllers run, as `--controllers` of kube-controller-manager says it; empty: none."""
    faults: bool = False
    """Whether POST /_faults is served."""
    kubeconfig: str = ""
    """Where to write it; empty: into a temporary folder that goes with the cluster."""


async def serve_cluster(options: ClusterOptions, out: TextIO) -> None:
    """Serve until SIGINT or SIGTERM. Raises OSError when the port or the kubeconfig's place cannot be had."""
    with StopSignals() as signals:
        async with embedded_cluster(options) as server, _kubeconfig_file(options, server) as path:
            out.write(_greeting(options, server, path))
            out.flush()
            await signals.wait()


@asynccontextmanager
async def embedded_cluster(options: ClusterOptions) -> AsyncIterator[EmbeddedAPIServer]:
    """A served cluster with its nodes and, unless turned off, their kubelets."""
    server = EmbeddedAPIServer(seed=options.seed, admin=options.faults)
    for priority_class in workload.priority_classes():
        server.registry.create(PRIORITY_CLASSES, "", priority_class)
    for node in workload.nodes(options.nodes, seed=options.seed):
        server.registry.create(NODES, "", node)
    controllers = catalogue.make(options.controllers)
    if controllers:
        server.registry.create(STORAGE_CLASSES, "", _STANDARD_CLASS)
    async with AsyncExitStack() as stack:
        await server.start(options.host, options.port)
        await stack.enter_async_context(server)
        await stack.enter_async_context(running_controllers(server.registry, controllers))
        if options.kubelets:
            rates = HeartbeatRates() if options.heartbeats else None
            await stack.enter_async_context(hollow_kubelets(reachable_url(server), seed=options.seed, heartbeats=rates))
        yield server


def reachable_url(server: EmbeddedAPIServer) -> str:
    """The URL for clients on this machine: a server on all addresses is reached on the loopback."""
    scheme, _, rest = server.url.partition("://")
    host, _, port = rest.rpartition(":")
    return f"{scheme}://{_EVERYWHERE.get(host.strip('[]'), host)}:{port}"


@asynccontextmanager
async def _kubeconfig_file(options: ClusterOptions, server: EmbeddedAPIServer) -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kscheduler-") as folder:
        path = Path(options.kubeconfig) if options.kubeconfig else Path(folder) / "kubeconfig"
        write_kubeconfig(path, server)
        yield path


def write_kubeconfig(path: Path, server: EmbeddedAPIServer) -> None:
    """Write it whole or not at all: whoever waits for the file may read it as soon as it is there."""
    config = server.kubeconfig()
    config["clusters"][0]["cluster"]["server"] = reachable_url(server)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(yaml.safe_dump(config, sort_keys=False))
    unfinished.replace(path)


def _greeting(options: ClusterOptions, server: EmbeddedAPIServer, kubeconfig: Path) -> str:
    url = reachable_url(server)
    kubelets = "hollow kubelets run their pods" if options.kubelets else "no kubelets: bound pods stay Pending"
    lines = [
        f"embedded cluster with {options.nodes} nodes on {url} ({kubelets}); Ctrl-C ends it",
        f"  export KUBECONFIG={kubeconfig}",
        f"  kubectl --server {url} get nodes",
        f"  kscheduler run --master {url}",
    ]
    if options.faults:
        lines.append(f"""  curl -X POST {url}/_faults -d '{{"do": "drop_watches"}}'""")
    return "\n".join(lines) + "\n"
