"""docs/plugins.md, from nothing to a pod placed by an installed package: its commands, typed by bash in a folder."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.binaries import find_kubectl

ROOT: Final = Path(__file__).parents[2]
NEEDED: Final = ("kscheduler", "deploy/examples", "pyproject.toml", "README.md", "LICENSE")
MAX_COMMANDS: Final = 9
SECONDS: Final = 300
LOOK: Final = """\
kubectl get pod web -o json > pod.json
kubectl get nodes -l topology.kubernetes.io/zone=zone-b -o name > zone-b
"""


def commands() -> str:
    """The block of the page."""
    section = (ROOT / "docs" / "plugins.md").read_text().partition("\n## As a package\n")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a clean checkout holds of what the commands need."""
    for name in NEEDED:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return tmp_path


def test_the_commands_of_the_page_bring_the_pod_to_its_zone(checkout: Path) -> None:
    lines = [line for line in commands().splitlines() if line.strip()]
    assert len(lines) <= MAX_COMMANDS
    # any free port instead of 8001, which somebody may have; ready when the kubeconfig is written, not after 10 s
    script = commands().replace("cluster --schedule", "cluster --port 0 --schedule")
    script = script.replace("sleep 10;", "until [ -s acme/kubeconfig ]; do sleep 0.2; done;")
    kubectl = find_kubectl()
    environment = {**os.environ, "PATH": f"{kubectl.parent}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", f"{script}\n{LOOK}"]
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as shell:  # fmt: skip
        try:
            status = shell.wait(SECONDS)
        finally:
            os.killpg(shell.pid, signal.SIGINT)
        output = shell.stdout.read() if shell.stdout is not None else ""
    assert status == 0, output
    assert re.search(r"PreferZone +distribution acme-policies 1\.0\.0 +10", output), output
    node = json.loads((checkout / "pod.json").read_text())["spec"]["nodeName"]
    assert f"node/{node}" in (checkout / "zone-b").read_text().splitlines(), output
