"""What `kscheduler simulate` says of a live cluster is what the scheduler then does, and it writes nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.devices import DevicesRoom
from tests.e2e.scenario import SECONDS, Scenario

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def simulated(scenario: Scenario, *flags: str) -> Any:
    command = [sys.executable, "-m", "kscheduler", "simulate", "-o", "json", *flags]
    command += ["--kubeconfig", str(scenario.server.admin_kubeconfig)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    return json.loads(finished.stdout)


def test_the_same_bindings(scenario: Scenario) -> None:
    """Forty pods of several sizes and priorities, too many for five nodes, while nobody schedules."""
    for number in range(5):
        scenario.add_node(f"node-{number}", labels={"zone": f"zone-{number % 2}"})
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**spread, "labelSelector": {"matchLabels": {"app": "even"}}}]
    for number in range(20):
        scenario.add_pod(f"even-{number}", cpu="300m", topologySpreadConstraints=constraints)
        scenario.add_pod(f"large-{number}", cpu="1200m", nodeSelector={"zone": f"zone-{number % 2}"})
    before = {pod["metadata"]["name"]: pod["metadata"]["resourceVersion"] for pod in scenario.pods()}
    answer = simulated(scenario)
    after = {pod["metadata"]["name"]: pod["metadata"]["resourceVersion"] for pod in scenario.pods()}
    assert after == before
    expected = {each["pod"].partition("/")[2]: each["node"] for each in answer["placed"]}
    pending = {each["pod"].partition("/")[2] for each in answer["pending"]}
    assert len(expected) > 20
    assert pending
    scenario.start_scheduler()
    scenario.wait("all are bound that would be", lambda: set(scenario.pending()) == pending)
    assert {name: scenario.node_of(name) for name in expected} == expected


def test_the_same_bindings_of_pods_with_claims_to_devices(devices: DevicesRoom, tmp_path: Path) -> None:
    """Four pods share a claim, eight have their own, for six devices: asked before they exist and when they wait."""
    scenario = devices.scenario
    for number, count in enumerate((3, 1, 2)):
        devices.publish(f"node-{number}", *(f"gpu-{number}" for number in range(count)))
    devices.add_template("one")
    devices.add_claim("shared")
    pods = [_pod(f"all-{number}", "resourceClaimName", "shared") for number in range(4)]
    pods += [_pod(f"own-{number}", "resourceClaimTemplateName", "one") for number in range(8)]
    new = tmp_path / "new.json"
    new.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    of_new = simulated(scenario, "-f", str(new), "-n", scenario.namespace)
    for pod in pods:
        scenario.api.create(scenario.pods_path, pod)
    scenario.wait("the claims are made", lambda: all(map(_has_claims, scenario.pods())))
    answer = simulated(scenario)
    scenario.start_scheduler()
    pending = {each["pod"].partition("/")[2] for each in answer["pending"]}
    scenario.wait("all are bound that would be", lambda: set(scenario.pending()) == pending)
    expected = {each["pod"].partition("/")[2]: each["node"] for each in answer["placed"]}
    assert {name: scenario.node_of(name) for name in expected} == expected
    assert len(expected) == 5 + 4
    assert (len(of_new["placed"]), len(of_new["pending"])) == (len(expected), len(pending))
    assert {each["node"] for each in of_new["placed"]} == set(expected.values())


def _pod(name: str, field: str, claim: str) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "kscheduler",
            "containers": [{"name": "main", "image": "app"}],
            "resourceClaims": [{"name": "gpu", field: claim}],
        },
    }


def _has_claims(pod: Any) -> bool:
    (entry,) = pod["spec"]["resourceClaims"]
    return "resourceClaimName" in entry or bool(pod.get("status", {}).get("resourceClaimStatuses"))
