"""Devices that stand for an extended resource: kube-scheduler and kscheduler fill the nodes in the same order by them.

Each has the cluster for itself, one after the other. The pods come one by one, and no two nodes ever have equal points.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import kscheduler_process, kube_scheduler
from tests.controlplane.process import Process
from tests.controlplane.releases import pinned
from tests.e2e.devices import DevicesRoom
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME, RealServer, Server

VERSION = pinned.followed_version(pinned.chosen())
DEVICES = {"node-0": 2, "node-1": 3, "node-2": 5, "node-3": 7}
RATIO = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 60, "score": 10}, {"utilization": 100, "score": 2}]}
BALANCED = "NodeResourcesBalancedAllocation"
STRATEGIES: dict[str, dict[str, Any]] = {
    "MostAllocated": {},
    "LeastAllocated": {},
    "RequestedToCapacityRatio": {"requestedToCapacityRatio": RATIO},
}

pytestmark = [pytest.mark.real, pytest.mark.followed_kubernetes("kube-scheduler is of its own release")]


@pytest.fixture(autouse=True)
def _on_the_real_one(server: Server) -> None:
    if not isinstance(server, RealServer):
        pytest.skip("kube-scheduler is compared on the real API server")


def settings(strategy: str, resource: str) -> dict[str, Any]:
    """One plugin scores, by devices above all."""
    resources = [{"name": resource, "weight": 10}, {"name": "cpu", "weight": 1}]
    plugin = "NodeResourcesFit"
    args: dict[str, Any] = {"scoringStrategy": {"resources": resources, **STRATEGIES.get(strategy, {})}}
    if strategy == BALANCED:
        plugin, args = strategy, {"resources": [{**each, "weight": 1} for each in resources]}
    else:
        args["scoringStrategy"]["type"] = strategy
    score = {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}
    config = [{"name": plugin, "args": args}]
    return {"profiles": [{"schedulerName": NAME, "plugins": {"score": score}, "pluginConfig": config}]}


def process_of(program: str, server: RealServer, folder: Path, changed: dict[str, Any]) -> Process:
    if program == "kube-scheduler":
        plane = server.plane
        return kube_scheduler.process(plane.binaries, plane.kube_scheduler_kubeconfig, folder, NAME, settings=changed)
    folder.mkdir(parents=True)
    kubeconfig, config = server.kscheduler_kubeconfig(), folder / "kscheduler.json"
    config.write_text(json.dumps(kube_scheduler.configuration(kubeconfig, NAME, "application/json") | changed))
    options = "--config", str(config), f"--emulated-version={VERSION}"
    return kscheduler_process.process(kubeconfig, folder, *options)


def nodes_of_pods(scenario: Scenario, devices: DevicesRoom, process: Process) -> list[str]:
    """Where the pods go, each after the one before it is bound."""
    process.start()
    scenario.processes.append(process)
    found = []
    requests = {devices.resource: "1", "cpu": "10m"}
    container = {"name": "main", "image": "registry.example/app:1"}
    whole = {**container, "resources": {"requests": requests, "limits": {devices.resource: "1"}}}
    for number in range(sum(DEVICES.values()) - len(DEVICES)):  # then each node has one left, and all are equal
        scenario.add_pod(f"pod-{number}", containers=[whole])
        scenario.wait_bound(f"pod-{number}")
        found.append(scenario.node_of(f"pod-{number}"))
    process.stop()
    for pod in scenario.pods():
        scenario.api.delete(f"{scenario.pods_path}/{pod['metadata']['name']}", grace_seconds=0, missing_ok=True)
    claims = devices.claims_path
    scenario.wait("the claims are gone", lambda: not scenario.api.items(claims))
    return found


@pytest.mark.usefixtures("only_kscheduler")
@pytest.mark.parametrize("strategy", [*STRATEGIES, BALANCED])
def test_nodes_are_filled_in_the_same_order(
    strategy: str, scenario: Scenario, devices: DevicesRoom, server: RealServer, tmp_path: Path
) -> None:
    for node, count in DEVICES.items():
        devices.publish(node, *(f"gpu-{number}" for number in range(count)))
    changed = settings(strategy, devices.resource)
    found = {
        program: nodes_of_pods(scenario, devices, process_of(program, server, tmp_path / program, changed))
        for program in ("kube-scheduler", "kscheduler")
    }
    assert found["kscheduler"] == found["kube-scheduler"]
