"""`kscheduler shadow` as a process of its own, with the rights of its manifest and no others."""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.controlplane.controlplane import NAMESPACE, ControlPlane
from tests.controlplane.kscheduler_process import REPOSITORY, http_port
from tests.controlplane.process import Process

MANIFEST = REPOSITORY / "deploy" / "kustomize" / "shadow" / "kscheduler.yaml"
ACCOUNT = "kscheduler-shadow"
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def shadow_kubeconfig(plane: ControlPlane) -> Path:
    """Applies the manifest and returns a kubeconfig with exactly what it grants."""
    plane.kubectl("create", "namespace", NAMESPACE, "--save-config", accept_failure=True)
    plane.kubectl("apply", "-f", str(MANIFEST))
    # The tests start it themselves; the pod of the Deployment would only wait for a node here.
    plane.kubectl("delete", "deployment", ACCOUNT, "--namespace", NAMESPACE)
    return plane.write_kubeconfig(ACCOUNT, plane.service_account_token(NAMESPACE, ACCOUNT))


def shadow_process(
    kubeconfig: Path, folder: Path, *options: str, config: dict[str, Any] | None = None, name: str = "shadow"
) -> Process:
    """`kscheduler shadow`, not yet started; its JSON log lines go to `folder/NAME.log`."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments: list[str | Path] = [sys.executable, "-m", "kscheduler", "shadow", "--kubeconfig", kubeconfig]
    if config is not None:
        path = folder / f"{name}-config.json"
        path.write_text(json.dumps(HEAD | config))
        arguments += ["--config", path]
    arguments += ["--insecure-port", "0", "--log-format", "json", "-o", "json", *options]
    own = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return Process(name, arguments, folder / f"{name}.log", own | {"PYTHONPATH": str(REPOSITORY)})


def own_json(process: Process) -> dict[str, Any]:
    """The report that it serves. Raises `OSError` where it does not answer."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port(process)}/shadow.json", timeout=60) as answer:
        report: dict[str, Any] = json.load(answer)
        return report


def is_following(process: Process) -> bool:
    """Whether it compares bindings by now."""
    return "shadow_following" in process.text()
