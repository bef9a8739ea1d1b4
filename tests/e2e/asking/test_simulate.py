"""What `kscheduler simulate` says of a live cluster is what the scheduler then does, and it writes nothing."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.scenario import SECONDS, Scenario

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def simulated(scenario: Scenario) -> Any:
    command = [sys.executable, "-m", "kscheduler", "simulate", "-o", "json"]
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
