"""The real kubectl finds the plugin, runs its verbs, and asks it what may follow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.scenario import Scenario

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def kubectl(scenario: Scenario, *words: str) -> str:
    """What it prints, with this environment's programs and kubectl itself on the PATH."""
    folders = [str(Path(sys.executable).parent), str(scenario.server.kubectl.parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": ":".join(folders), "KUBECONFIG": str(scenario.server.admin_kubeconfig)}
    finished = subprocess.run(
        [scenario.server.kubectl, *words], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_kubectl_runs_the_plugin(scenario: Scenario) -> None:
    scenario.add_node("node-0", cpu="2")
    scenario.add_pod("large", cpu="3")
    assert "kubectl-kscheduler" in kubectl(scenario, "plugin", "list")
    why = kubectl(scenario, "kscheduler", "why", "large", "-n", scenario.namespace)
    assert "changes that would make it fit" in why
    assert "1. request 2 of cpu instead of 3 (1 node)" in why
    pending = kubectl(scenario, "kscheduler", "pending", "-n", scenario.namespace)
    assert "1 pod is pending" in pending
    whatif = kubectl(scenario, "kscheduler", "whatif", "--add-nodes", "2:node-0")
    assert "1 pod would stay pending" in whatif


def test_kubectl_completes_its_verbs(scenario: Scenario) -> None:
    found = kubectl(scenario, "__complete", "kscheduler", "wh")
    assert "why\t" in found
    assert "whatif\t" in found
