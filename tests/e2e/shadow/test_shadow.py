"""A shadow beside the real kube-scheduler, with the rights of its manifest; the API server's audit log is the judge.

KSCHEDULER_LONG=1: thousands of pods, of which the oldest go.
"""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.releases import VERSION, followed
from tests.controlplane import binaries, kube_scheduler
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.process import wait_until
from tests.e2e.shadow.shadow_process import ACCOUNT, is_following, own_json, shadow_kubeconfig, shadow_process

# More than kube-scheduler looks at: it takes the first hundred that fit.
NODES = 130
IS_LONG = os.environ.get("KSCHEDULER_LONG") == "1"
PODS, KEPT = (6_000, 600) if IS_LONG else (260, 60)
SECONDS = 180.0
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["system:serviceaccount:kscheduler-system:kscheduler-shadow"]
  - level: None
"""


@dataclass(frozen=True)
class Stage:
    """A control plane that writes down what a shadow asks for."""

    plane: ControlPlane
    log: Path

    def requests(self) -> Iterator[tuple[str, str, int]]:
        """Verb, path and status of each request of the shadow."""
        for line in self.log.read_text().splitlines():
            event = json.loads(line)
            yield event["verb"], event["requestURI"], event.get("responseStatus", {}).get("code", 0)


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if request.config.getoption("--server") == "embedded":
        pytest.skip("the judge is the audit log of a real API server")
    if program != "kscheduler":
        pytest.skip("kube-scheduler casts no shadow")
    folder = tmp_path_factory.mktemp("shadow")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(POLICY)
    options = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with ControlPlane(binaries.find(), Settings(controllers=False, apiserver_options=options)) as plane:
        yield Stage(plane, log)


def node(number: int) -> dict[str, Any]:
    gives = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    labels = {"topology.kubernetes.io/zone": f"zone-{number % 3}", "kubernetes.io/hostname": f"node-{number:03}"}
    metadata = {"name": f"node-{number:03}", "labels": labels}
    return {"metadata": metadata, "status": {"allocatable": gives, "capacity": gives}}


def pod(number: int) -> dict[str, Any]:
    """Of three sizes; every other one wants its zone."""
    cpu = ("250m", "500m", "1")[number % 3]
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    spec: dict[str, Any] = {"containers": [container], "automountServiceAccountToken": False}
    if number % 2:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {"metadata": {"name": f"pod-{number:03}", "labels": {"app": f"app-{number % 4}"}}, "spec": spec}


def test_each_difference_from_kube_scheduler_is_chance_sample_or_order_and_nothing_is_written(
    stage: Stage, tmp_path: Path
) -> None:
    plane, api = stage.plane, stage.plane.api
    identity = shadow_kubeconfig(plane)
    for number in range(NODES):
        api.create("/api/v1/nodes", node(number))
    shadow = shadow_process(
        identity, tmp_path, "--follow-scheduler", "default-scheduler", "--emulated-version", followed_version(plane)
    )
    original = kube_scheduler.process(plane.binaries, plane.kube_scheduler_kubeconfig, tmp_path)
    try:
        for process in (shadow, original):
            process.start()
        shadow.wait_until("the shadow follows", lambda: is_following(shadow), SECONDS)
        for number in range(PODS):
            api.create("/api/v1/namespaces/default/pods", pod(number))
            if number >= KEPT and (IS_LONG or number % 3 == 0):  # pods go, too, while others are decided
                api.delete(f"/api/v1/namespaces/default/pods/pod-{number - KEPT:03}", grace_seconds=0)
        wait_until("all are compared", lambda: own_json(shadow)["compared"] == PODS, SECONDS)
        report = own_json(shadow)
        shadow.send(signal.SIGTERM)
        wait_until("the shadow ends", lambda: not shadow.running, SECONDS)
    finally:
        for process in (shadow, original):
            process.stop()
    kinds = {kind: count for kind, count in report["kinds"].items() if count}
    unexplained = {kind: found for kind, found in report["examples"].items() if kind not in EXCUSED}
    assert set(kinds) <= EXCUSED, unexplained
    assert report["differences"] == 0
    assert kinds.get("tie", 0) > PODS / 10, "kube-scheduler takes any of the best; a shadow that never says so is blind"
    requests = [*stage.requests()]
    assert {verb for verb, _, _ in requests} <= {"get", "list", "watch"}
    assert {path for _, path, code in requests if code == 403} == set()
    assert any(path.startswith("/api/v1/pods") for _, path, _ in requests)
    printed = shadow.text()
    assert '"agreement":1.0' in printed.replace(" ", ""), "the report is printed at the end"


EXCUSED = {"same", "tie", "sampled", "order"}


def followed_version(plane: ControlPlane) -> str:
    """Of the kube-scheduler that decides here."""
    return followed(plane.api.get("/version")["gitVersion"]) or VERSION


def test_the_manifest_grants_no_verb_that_writes(stage: Stage) -> None:
    shadow_kubeconfig(stage.plane)
    role = stage.plane.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ACCOUNT}")
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}
    bindings = stage.plane.api.items("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
    ours = [one for one in bindings if any(s.get("name") == ACCOUNT for s in one.get("subjects", ()))]
    assert [one["roleRef"]["name"] for one in ours] == [ACCOUNT]
    assert not stage.plane.api.items("/apis/rbac.authorization.k8s.io/v1/namespaces/kscheduler-system/rolebindings")
