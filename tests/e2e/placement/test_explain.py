"""`kscheduler explain` beside a running service, on both API servers: what a stranger reads of a pod.

The dry run of `-f` is the API server's own work: only here is it tried on a real one.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenario import Scenario

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def explained(scenario: Scenario, *arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kscheduler", "explain", "-o", "json", "-n", scenario.namespace, *arguments]
    done = subprocess.run(
        [*command, "--kubeconfig", str(scenario.server.admin_kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def manifest(folder: Path, body: Any) -> str:
    path = folder / "manifest.json"
    path.write_text(json.dumps(body))
    return str(path)


def test_pending_bound_and_foreign_pods(scenario: Scenario) -> None:
    scenario.add_node("node-0", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    scenario.add_node("node-1", cpu="2")
    scenario.start_scheduler()
    scenario.add_pod("fits")
    scenario.wait_bound("fits")
    scenario.add_pod("large", cpu="3")
    scenario.wait_rejected("large", "Insufficient cpu")
    scenario.add_pod("foreign", schedulerName="somebody-else")
    (fits,), (large,), (foreign,) = (explained(scenario, name) for name in ("fits", "large", "foreign"))
    assert (fits["outcome"], fits["situation"]["nodeName"]) == ("Bound", "node-1")
    assert large["outcome"] == "Unschedulable"
    assert large["situation"]["podScheduled"]["message"] == large["message"]
    taint, cpu = (one["details"][0] for one in large["rejections"])
    assert taint["text"] == "gpu=yes:NoSchedule is not tolerated"
    assert cpu["facts"]["closest"][0] | {"free": 0, "short": 0} == {
        "node": "node-1",
        "free": 0,
        "short": 0,
        "allocatable": 2000,
        "couldIfEmpty": False,
    }
    assert (foreign["outcome"], foreign["cycleOutcome"], foreign["profile"]) == ("Placed", "Placed", "somebody-else")


def test_a_pod_that_does_not_exist_gets_the_servers_defaults_and_nothing_is_written(
    scenario: Scenario, tmp_path: Path
) -> None:
    scenario.add_node("node-0", cpu="1")
    scenario.add_node("node-1", cpu="4")
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"limits": {"cpu": "2"}}}
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "schedulerName": "kscheduler",
                    "priorityClassName": "system-node-critical",
                    "containers": [container],
                },
            },
        },
    }
    (tree,) = explained(scenario, "-f", manifest(tmp_path, deployment))
    assert (tree["outcome"], tree["node"], tree["notes"]) == ("Placed", "node-1", [])
    assert tree["rejections"][0]["details"][0]["facts"]["requested"] == 2000
    assert scenario.pods() == []


def test_a_new_pod_under_the_name_of_one_that_exists(scenario: Scenario, tmp_path: Path) -> None:
    scenario.add_node("node-0", cpu="4")
    scenario.start_scheduler()
    scenario.add_pod("web", cpu="3")
    scenario.wait_bound("web")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "schedulerName": "kscheduler",
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
        },
    }
    (tree,) = explained(scenario, "-f", manifest(tmp_path, pod))
    assert (tree["outcome"], tree["pod"]["name"]) == ("Placed", "web")
    assert any("exists already" in note for note in tree["notes"])
