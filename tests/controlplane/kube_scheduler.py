"""kube-scheduler beside the control plane, of the version that is followed: oracle of the end-to-end suite, rival in
benchmarks.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.controlplane.binaries import Binaries
from tests.controlplane.process import Process

QUERIES_PER_SECOND = 5_000
PROTOBUF = "application/vnd.kubernetes.protobuf"


def configuration(kubeconfig: Path, scheduler_name: str, content_type: str) -> dict[str, object]:
    """KubeSchedulerConfiguration with one default profile and the client limits that benchmarks use for both sides."""
    limits = {"qps": QUERIES_PER_SECOND, "burst": QUERIES_PER_SECOND}
    connection = {"kubeconfig": str(kubeconfig), "contentType": content_type} | limits
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": scheduler_name}],
    }


def process(
    binaries: Binaries,
    kubeconfig: Path,
    folder: Path,
    scheduler_name: str = "default-scheduler",
    content_type: str = PROTOBUF,
    *,
    port: int = 0,
    settings: Mapping[str, object] | None = None,
) -> Process:
    """kube-scheduler, not yet started, that schedules the pods which name `scheduler_name`.

    Its own default is to write protobuf; an API server that reads only JSON needs `application/json`. On `port`, if it
    is given, it serves `/metrics` over TLS to everybody; `settings` are further fields of its configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / f"kube-scheduler-{scheduler_name}.json"
    whole = configuration(kubeconfig, scheduler_name, content_type) | dict(settings or {})
    config.write_text(json.dumps(whole, indent=1))
    command: list[str | Path] = [binaries.kube_scheduler, f"--config={config}", *serving_options(port)]
    return Process("kube-scheduler", command, folder / "kube-scheduler.log")


def serving_options(port: int) -> list[str]:
    """Without these it would ask the API server who may read its metrics, which its role here does not allow."""
    if not port:
        return ["--secure-port=0"]
    open_to_all = ["--authentication-skip-lookup=true", "--authorization-always-allow-paths=/metrics,/healthz"]
    return [f"--secure-port={port}", "--bind-address=127.0.0.1", *open_to_all]
