"""The embedded cluster as one program: API server, nodes, hollow kubelets, and the lines that say how to reach it."""

import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import yaml

from kscheduler.api.machinery.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEVICE_CLASSES,
    NODES,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    served_kinds,
)
from kscheduler.api.releases import VERSION
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.embedded.apiserver.server import EmbeddedAPIServer
from kscheduler.embedded.controllers import catalogue
from kscheduler.embedded.controllers.devices.driver import DRIVER, HollowDeviceDriver, device_class
from kscheduler.embedded.controllers.engine.loop import running_controllers
from kscheduler.embedded.controllers.upkeep.node_lifecycle import NodeLifecycleController
from kscheduler.embedded.demo import workload
from kscheduler.embedded.demo.processes import StopSignals, command_of, first_cause, scheduler_process
from kscheduler.embedded.demo.reloads import telling_reloads
from kscheduler.embedded.demo.report import telling_unserved
from kscheduler.embedded.demo.workload import group_definitions
from kscheduler.embedded.hollow.heartbeats import HeartbeatRates
from kscheduler.embedded.hollow.kubelets import hollow_kubelets

# The default class, as local clusters have one.
_STANDARD_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "simulation.kscheduler.io/hollow",
    "volumeBindingMode": "WaitForFirstConsumer",
}
# The schedulerName of pods of `kubectl create deployment`, and kscheduler's default name.
BOTH_NAMES = (DEFAULT_SCHEDULER_NAME, OWN_SCHEDULER_NAME)

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of `kscheduler cluster`."""

    nodes: int = 100
    host: str = "127.0.0.1"
    port: int = 8001
    """0 means any free port."""
    accept_hosts: tuple[str, ...] = ()
    """Names by which clients may call the API server, besides addresses and localhost."""
    seed: int = 0
    kubelets: bool = True
    gpus: int = 0
    """Devices of each node, by the hollow driver; 0 means that there is no driver."""
    version: str = VERSION
    """The release that the API server is like: `1.37` serves its further kinds."""
    gates: FeatureGates = field(default_factory=lambda: parse_feature_gates(""))
    """The feature gates of that release: some kinds need one."""
    heartbeats: bool = False
    controllers: str = catalogue.ALL
    """The controllers to run, as in kube-controller-manager's `--controllers`; empty means none."""
    faults: bool = False
    """Whether POST /_faults is served."""
    kubeconfig: str = ""
    """Where to write the kubeconfig; empty means a temporary folder that is removed with the cluster."""
    schedule: bool = False
    """Whether to run a scheduler too, as a process that ends with the cluster."""
    scheduler_names: tuple[str, ...] = BOTH_NAMES
    """The scheduler names that it serves, also those of its configuration file."""
    scheduler_config: str = ""
    """The scheduler's configuration file; empty means a profile per name."""
    unused_kubeconfig: str = ""
    """That of another cluster, which the scheduler's configuration file names: it is not read."""
    scheduler_flags: tuple[str, ...] = ()
    """More flags of the scheduler, and of commands that ask: those of rules and plugins."""
    service_flags: tuple[str, ...] = ()
    """Flags of the scheduler alone: those of its log and its flight recorder, which commands that ask do not take."""
    schedules_on_terminal: bool = False
    """Whether the scheduler has this process's standard input and output, for a debugger's prompt."""


async def serve_cluster(options: ClusterOptions, out: TextIO) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises OSError if the port or the kubeconfig's place is not available, and DemoFailedError if the scheduler does not
    start, or ends.
    """
    with StopSignals() as signals, tempfile.TemporaryDirectory(prefix="kscheduler-") as name:
        path = _kubeconfig_path(options, name)
        try:
            async with embedded_cluster(options) as server:
                write_kubeconfig(path, server)
                await _serve_in_background(options, server, path, signals, out)
        except ExceptionGroup as group:
            raise first_cause(group) from None


async def _serve_in_background(
    options: ClusterOptions, server: EmbeddedAPIServer, kubeconfig: Path, signals: StopSignals, out: TextIO
) -> None:
    """Print how to reach the cluster, start the scheduler if there is one, and wait for a signal."""
    with tempfile.TemporaryDirectory(prefix="kscheduler-scheduler-") as folder:
        log = Path(folder, "scheduler.log")
        async with _scheduler(options, reachable_url(server), log, kubeconfig) as who_schedules:
            out.write(_greeting(options, server, kubeconfig))
            out.write(who_schedules or _how_to_schedule(kubeconfig))
            out.flush()
            with telling_unserved(server.registry.store, options.scheduler_names if options.schedule else (), out):
                async with telling_reloads(log, out) if options.schedule else nullcontext():
                    await signals.wait()


@asynccontextmanager
async def _scheduler(options: ClusterOptions, url: str, log: Path, kubeconfig: Path) -> AsyncIterator[str]:
    """Run the scheduler while the body runs; yields a text about it, empty without a scheduler."""
    if not options.schedule:
        yield ""
        return
    config = options.scheduler_config or write_configuration(log.parent, options.scheduler_names)
    flags = ["--config", config, *options.scheduler_flags, *options.service_flags]
    if options.unused_kubeconfig:
        flags.append("--no-kubeconfig")
    async with scheduler_process(url, log, flags, on_terminal=options.schedules_on_terminal) as own_url:
        *others, last = options.scheduler_names
        names = f"{', '.join(others)} and {last}" if others else last
        rows = (
            ("status page", f"{own_url}/ui/"),
            ("metrics", f"{own_url}/metrics"),
            ("its log", str(log)),
            *query_commands(options, config, kubeconfig),
        )
        if options.unused_kubeconfig:
            unused = f"clientConnection.kubeconfig of {config} ({options.unused_kubeconfig}): this cluster is scheduled"
            rows = (("not read", f"{unused}, without credentials"), *rows)
        lines = (f"  {name}: {text}\n" for name, text in rows)
        yield f"kscheduler schedules the pods for {names}\n{''.join(lines)}"


def query_commands(options: ClusterOptions, config: str, kubeconfig: Path) -> Iterator[tuple[str, str]]:
    """Commands that ask about the cluster, each with what it is for."""
    flags = shlex.join(["--config", config, *options.scheduler_flags])
    program, cluster = command_of("kscheduler"), f"--kubeconfig {shlex.quote(str(kubeconfig))}"
    yield "why pending", f"{program} pending {cluster} {flags}"
    yield "why a pod", f"{program} explain NAMESPACE/POD {cluster} {flags}"
    yield "its screen", f"{command_of('kubectl-kscheduler')} top {cluster}"


def _kubeconfig_path(options: ClusterOptions, folder: str) -> Path:
    return Path(options.kubeconfig).absolute() if options.kubeconfig else Path(folder, "kubeconfig")


def write_configuration(folder: str | Path, names: tuple[str, ...]) -> str:
    """A configuration file for one scheduler that serves all of these names; returns its path."""
    path = Path(folder, "config.yaml")
    path.write_text(yaml.safe_dump(_configuration(names)))
    return str(path)


def _configuration(names: tuple[str, ...]) -> dict[str, Any]:
    """A configuration with a profile per name, all served by one scheduler."""
    group_version = "kubescheduler.config.k8s.io/v1"
    return {
        "apiVersion": group_version,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name} for name in names],
    }


@asynccontextmanager
async def embedded_cluster(options: ClusterOptions) -> AsyncIterator[EmbeddedAPIServer]:
    """A running cluster with its nodes and, unless turned off, their kubelets."""
    kinds = served_kinds(options.version, options.gates.enabled)
    server = EmbeddedAPIServer(seed=options.seed, admin=options.faults, kinds=kinds, accept_hosts=options.accept_hosts)
    for priority_class in workload.priority_classes():
        server.registry.create(PRIORITY_CLASSES, "", priority_class)
    for definition in group_definitions():
        server.registry.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
    for node in workload.nodes(options.nodes, seed=options.seed, release=kinds.release):
        server.registry.create(NODES, "", node)
    # The nodes above have been ready for long; those that come from now on begin with a taint.
    server.registry.taints_new_nodes = NodeLifecycleController.name in catalogue.chosen(options.controllers)
    controllers = catalogue.make(options.controllers)
    if controllers:
        server.registry.create(STORAGE_CLASSES, "", _STANDARD_CLASS)
    if options.gpus:
        server.registry.create(DEVICE_CLASSES, "", device_class())
        controllers.append(HollowDeviceDriver(options.gpus))
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


def write_kubeconfig(path: Path, server: EmbeddedAPIServer) -> None:
    """Write the kubeconfig atomically: programs that wait for the file read it as soon as it exists."""
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
        f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}",
        f"  kubectl --server {url} get nodes",
    ]
    if options.gpus:
        lines.append(f"  {options.gpus} devices on each node, of DeviceClass {DRIVER}: kubectl get resourceslices")
    if options.faults:
        lines.append(f"""  curl -X POST {url}/_faults -d '{{"do": "drop_watches"}}'""")
    return "\n".join(lines) + "\n"


def _how_to_schedule(kubeconfig: Path) -> str:
    """How to start a scheduler; without one pods would stay Pending."""
    run = f"{command_of('kscheduler')} run --kubeconfig {shlex.quote(str(kubeconfig))}"
    return (
        "no scheduler runs here yet: pods stay Pending. In another terminal, or by `kscheduler cluster --schedule`:\n"
        f"  {run} --scheduler-name {DEFAULT_SCHEDULER_NAME}\n"
        f"  {run}    # only pods with schedulerName: kscheduler\n"
    )
