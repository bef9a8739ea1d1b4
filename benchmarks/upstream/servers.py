"""The servers of a workload with its feature gates, the controllers that upstream runs beside them, and the schedulers.

Gates go to the API server, the controllers and the scheduler alike. kscheduler has the rights of its manifests, and
those for pod groups that the chart grants where its values name Kubernetes' own. Upstream switches the admission
plugin Priority off, since its pods name priorities without a class.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks.real.gangs import RULES
from benchmarks.upstream.requests import Script
from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream.configuration import UpstreamWorkload
from kscheduler.bench.upstream.manifests import read_text
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.reading.yaml_tree import parse_yaml
from tests.controlplane import kscheduler_process, kube_scheduler
from tests.controlplane.controlplane import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.releases.pinned import followed_version, parse

SCHEDULER_NAME: Final = "default-scheduler"
OURS, RIVAL, FLOOR = "kscheduler", "kube-scheduler", "floor"
SCHEDULERS: Final = (OURS, RIVAL, FLOOR)
PRIORITY_OFF: Final = "--disable-admission-plugins=Priority"
DEVICES_GATE, GROUPS_GATE, TREES_GATE = "DynamicResourceAllocation", "GenericWorkload", "CompositePodGroup"
TREE_RULES: Final[tuple[dict[str, object], ...]] = (
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["compositepodgroups"], "verbs": ["list", "watch"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["compositepodgroups/status"], "verbs": ["patch"]},
)
# By gate, the API versions that upstream switches on.
_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        DEVICES_GATE: ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"),
        GROUPS_GATE: ("scheduling.k8s.io/v1beta1",),
    }
)
CONTROLLERS: Final = "resourceclaim-controller,garbage-collector-controller"


def gate_flags(workload: UpstreamWorkload) -> tuple[str, ...]:
    named = ",".join(f"{name}={str(is_on).lower()}" for name, is_on in sorted(workload.gates.items()))
    return (f"--feature-gates={named}",) if named else ()


def apiserver_options(workload: UpstreamWorkload) -> tuple[str, ...]:
    """Flags of an API server that serves what the workload needs."""
    served = [one for gate, versions in _VERSIONS.items() if workload.gates.get(gate) for one in versions]
    versions = (f"--runtime-config={','.join(f'{one}=true' for one in served)}",) if served else ()
    return (PRIORITY_OFF, *gate_flags(workload), *versions)


def controllers(plane: ControlPlane, script: Script) -> Process | None:
    """The controllers of claims, for workloads whose pods have claims made from templates; else None."""
    if not script.uses_claim_templates:
        return None
    command: list[str | Path] = [
        plane.binaries.kube_controller_manager,
        f"--kubeconfig={plane.admin_kubeconfig}",
        "--leader-elect=false",
        f"--controllers={CONTROLLERS}",
        "--secure-port=0",
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
        *gate_flags(script.workload),
    ]
    return plane.process("kube-controller-manager", command)


def prepare(plane: ControlPlane, workload: UpstreamWorkload) -> None:
    """Gives kscheduler its account and rights, which then are in etcd."""
    plane.kscheduler_kubeconfig()
    if workload.gates.get(GROUPS_GATE):
        plane.grant("kscheduler-pod-groups", RULES)
    if workload.gates.get(TREES_GATE):
        plane.grant("kscheduler-composite-pod-groups", TREE_RULES)


def refusal(name: str, script: Script, version: str) -> str:
    """Why this scheduler, of this version of Kubernetes, cannot play the workload; empty if it can."""
    workload = script.workload
    named = ",".join(f"{gate}={str(is_on).lower()}" for gate, is_on in workload.gates.items())
    try:
        parse_feature_gates(named, version=version)
    except ConfigError as error:
        if name == OURS or "is locked to" in str(error):  # as the API server would say, too
            return str(error)
    return "nodes come or change later, and it reads them once" if name == FLOOR and script.adds_nodes_later else ""


# --- schedulers -------------------------------------------------------------------------------------------------------


def _kscheduler(plane: ControlPlane, workload: UpstreamWorkload) -> Process:
    token = plane.service_account_token("kscheduler-system", "kscheduler")
    kubeconfig = plane.write_kubeconfig("kscheduler", token)
    # A gate may have it watch other kinds from its start on than the version would that it finds out later.
    followed = followed_version(parse(plane.api.get("/version")["gitVersion"]))
    options = [*gate_flags(workload), "--emulated-version", followed]
    if workload.scheduler_config:
        options += ["--config", str(workload.path.parent / workload.scheduler_config)]
    folder = plane.folder / "logs"
    return kscheduler_process.process(kubeconfig, folder, *options, scheduler_name=SCHEDULER_NAME)


def _kube_scheduler(plane: ControlPlane, workload: UpstreamWorkload) -> Process:
    kubeconfig, folder = plane.kube_scheduler_kubeconfig, plane.folder / "logs"
    settings = scheduler_settings(workload)
    process = kube_scheduler.process(plane.binaries, kubeconfig, folder, SCHEDULER_NAME, settings=settings)
    process.command += gate_flags(workload)
    return process


def scheduler_settings(workload: UpstreamWorkload) -> dict[str, Any]:
    """The fields of the workload's own KubeSchedulerConfiguration. Raises `TemplateError`."""
    if not workload.scheduler_config:
        return {}
    path = workload.path.parent / workload.scheduler_config
    tree = parse_yaml(read_text(path).encode(), str(path))
    if not isinstance(tree, dict):
        raise TemplateError(f"{path}: is no KubeSchedulerConfiguration")
    return {key: value for key, value in tree.items() if key not in ("apiVersion", "kind", "clientConnection")}


def _floor(plane: ControlPlane, workload: UpstreamWorkload) -> Process:
    del workload
    kubeconfig, log = str(plane.kube_scheduler_kubeconfig), plane.folder / "logs" / "floor.log"
    command = [sys.executable, "-m", "benchmarks.real.floor", "--kubeconfig", kubeconfig]
    return Process(FLOOR, [*command, "--scheduler-name", SCHEDULER_NAME], log)


START: Final[Mapping[str, Callable[[ControlPlane, UpstreamWorkload], Process]]] = MappingProxyType(
    {OURS: _kscheduler, RIVAL: _kube_scheduler, FLOOR: _floor}
)
