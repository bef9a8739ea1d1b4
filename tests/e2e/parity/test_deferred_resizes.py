"""A running pod whose resize waits for room: kube-scheduler and kscheduler let the same pods go for it.

Each has the cluster for itself, one after the other, with the feature gate. The API server needs none: what a kubelet
would write is written by the test.
"""

from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.feature_gates import RESIZE_PREEMPTION, gates_of
from tests.controlplane.process import Process
from tests.controlplane.releases import pinned
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME, RealServer, Server

VERSION = pinned.followed_version(pinned.chosen())
OPTIONS = {
    "kube-scheduler": (f"--feature-gates={RESIZE_PREEMPTION}=true",),
    "kscheduler": (f"--feature-gates={RESIZE_PREEMPTION}=true", f"--emulated-version={VERSION}"),
}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room"}

pytestmark = [pytest.mark.real, pytest.mark.followed_kubernetes("kube-scheduler is of its own release")]


@pytest.fixture(autouse=True)
def _on_the_real_one(server: Server) -> None:
    if not isinstance(server, RealServer):
        pytest.skip("kube-scheduler is compared on the real API server")
    if RESIZE_PREEMPTION not in gates_of(VERSION):
        pytest.skip(f"Kubernetes {VERSION} has no gate {RESIZE_PREEMPTION}")


@pytest.fixture(name="classes")
def classes_(server: Server) -> Any:
    """Priorities."""
    for name, value in (("resize-low", 0), ("resize-high", 100)):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        server.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body | {"value": value})
    yield
    for name in ("resize-low", "resize-high"):
        server.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}", missing_ok=True)


def defer(scenario: Scenario, name: str, has: str) -> None:
    """What the kubelet writes of a pod that has so much cpu and cannot have what its spec asks for now."""
    amounts = {"cpu": has, "memory": "64Mi"}
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "allocatedResources": amounts,
        "resources": {"requests": amounts},
    }
    status = {"conditions": [DEFERRED], "containerStatuses": [container]}
    scenario.api.patch(
        f"{scenario.pods_path}/{name}/status", {"status": status}, "application/strategic-merge-patch+json"
    )


def outcome(scenario: Scenario, process: Process) -> dict[str, Any]:
    """A node with room for three cpu that has four, and another one: who is left, and what the pod says."""
    for node in ("full", "other"):
        scenario.add_node(node, cpu="3")
        for number in range(2):
            low: dict[str, Any] = {"priorityClassName": "resize-low", "nodeName": node, "schedulerName": NAME}
            scenario.add_pod(f"low-{node}-{number}", cpu="1", **low)
    scenario.add_pod("growing", cpu="2", priorityClassName="resize-high", nodeName="full")
    defer(scenario, "growing", "1")
    process.start()
    scenario.processes.append(process)

    def left() -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in scenario.pods())

    scenario.wait("a lower pod goes", lambda: len(left()) == 4)
    scenario.add_pod("sign", cpu="500m")  # judged after all that
    scenario.wait_bound("sign")
    growing = scenario.pod("growing")
    scheduled = [one for one in growing["status"]["conditions"] if one["type"] == "PodScheduled"]
    found = {
        "left": sorted(name.rpartition("-")[0] or name for name in left()),
        "nominated": growing["status"].get("nominatedNodeName", ""),
        "scheduled": [(one["status"], one.get("reason", "")) for one in scheduled],
        "failed": len(scenario.events("growing", "FailedScheduling")),
    }
    process.stop()
    for name in left():
        scenario.api.delete(f"{scenario.pods_path}/{name}", grace_seconds=0, missing_ok=True)
    for node in ("full", "other"):
        scenario.remove_node(node)
    return found


@pytest.mark.usefixtures("only_kscheduler", "classes")
def test_the_same_pods_go_for_a_resize(scenario: Scenario, tmp_path: Path) -> None:
    found = {}
    for program, options in OPTIONS.items():
        process = scenario.server.scheduler(program, tmp_path / program)
        process.command += options
        found[program] = outcome(scenario, process)
    assert found["kscheduler"] == found["kube-scheduler"]
    assert found["kscheduler"]["left"] == ["growing", "low-full", "low-other", "low-other", "sign"]
    assert found["kscheduler"]["nominated"] == ""
