"""What was reported about a cluster (tests/reported/cases), played with kubectl and curl on both API servers."""

import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.controlplane.rest import Object
from tests.e2e.scenario import Scenario
from tests.e2e.servers import Server

CASES: Final = Path(__file__).parents[2] / "reported" / "cases"
MANIFESTS: Final = CASES / "manifests"
SECONDS: Final = 60.0
Kubectl = Callable[..., tuple[int, str]]


@pytest.fixture
def kubectl(server: Server, namespace: str) -> Kubectl:
    """Runs kubectl in a namespace of the test's own; the answer is exit code and all that it prints."""

    def run(*words: str) -> tuple[int, str]:
        command = [str(server.kubectl), "--kubeconfig", str(server.admin_kubeconfig), "--namespace", namespace, *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    return run


def manifest(name: str) -> str:
    return str(MANIFESTS / f"{name}.yaml")


def test_a_limit_is_lowered_because_a_template_keeps_only_what_was_written(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", manifest("limits-only-1")) == (0, "deployment.apps/lim created\n")
    assert kubectl("apply", "-f", manifest("limits-only-2")) == (0, "deployment.apps/lim configured\n")
    shown = kubectl("get", "deployment", "lim", "-o", "jsonpath={.spec.template.spec.containers[0].resources}")
    assert json.loads(shown[1]) == {"limits": {"cpu": "500m", "memory": "1Gi"}}


def test_init_containers_are_in_the_order_of_the_last_apply(kubectl: Kubectl) -> None:
    for name in ("ssa-seq-1", "ssa-seq-2"):
        code, text = kubectl("apply", "--server-side", "-f", manifest(name))
        assert code == 0, text
    names = kubectl("get", "deployment", "seq", "-o", "jsonpath={.spec.template.spec.initContainers[*].name}")
    assert names == (0, "proxy setup")


def test_a_node_port_is_given_once(kubectl: Kubectl) -> None:
    code, text = kubectl("apply", "-f", manifest("nodeport"))
    kubectl("delete", "service", "np1")
    assert code == 1
    assert "service/np1 created" in text
    assert (
        'The Service "np2" is invalid: spec.ports[0].nodePort: Invalid value: 30123: provided port is already' in text
    )


# What a dry run would create, and how many objects are of a kind that is not served.
VERDICTS: Final[dict[str, tuple[list[str], int]]] = {
    "gated": (["pod/gated"], 0),
    "kruise": (["pod/p"], 2),
    "oldapi": ([], 2),
    "vjob": ([], 1),
    "dra-v1beta1": (["pod/p"], 1),
    "ds": (["daemonset.apps/agent"], 0),
    "pvc-noclass": (["persistentvolumeclaim/c1", "pod/pc"], 0),
    "limits-only-1": (["deployment.apps/lim"], 0),
    "limits-only-2": (["deployment.apps/lim"], 0),
    "ssa-seq-1": (["deployment.apps/seq"], 0),
    "ssa-seq-2": (["deployment.apps/seq"], 0),
    "nodeport": (["service/np1", "service/np2"], 0),
}


def test_a_dry_run_of_every_manifest_has_the_same_verdict_on_both_servers(kubectl: Kubectl) -> None:
    assert {path.stem for path in MANIFESTS.iterdir()} == VERDICTS.keys()
    found = {}
    for name in VERDICTS:
        code, text = kubectl("apply", "--dry-run=server", "-f", manifest(name))
        unknown = text.count("no matches for kind")
        assert bool(code) is bool(unknown), text
        found[name] = (re.findall(r"^(\S+) created \(server dry run\)$", text, re.MULTILINE), unknown)
    assert found == VERDICTS


MIXED: Final = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.reported.example}
spec:
  group: reported.example
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: reported.example/v1
kind: Widget
metadata: {name: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: beside}
"""


def test_a_kind_and_its_objects_in_one_file_need_a_second_apply(kubectl: Kubectl, tmp_path: Path) -> None:
    """The kinds are looked up before anything is applied."""
    file = tmp_path / "mixed.yaml"
    file.write_text(MIXED)
    try:
        code, text = kubectl("apply", "-f", str(file))
        assert code == 1
        assert "configmap/beside created" in text
        assert 'no matches for kind "Widget" in version "reported.example/v1"' in text
        kubectl("wait", "--for=condition=Established", "crd/widgets.reported.example", "--timeout=30s")
        code, text = kubectl("apply", "-f", str(file))
        assert code == 0, text
        assert "widget.reported.example/first created" in text
    finally:
        kubectl("delete", "crd", "widgets.reported.example")


@pytest.fixture
def answers_of_bodies(server: Server, tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """Runs the reporter's script, with a `curl` that knows the server's authority and the administrator's token."""
    if (curl := shutil.which("curl")) is None:
        pytest.skip("curl is not on PATH: what is reported of bodies is UNTESTED")
    api, node = server.api, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-000"}}
    flags = f'--cacert "{api.authority}" -H "Authorization: Bearer {api.token}"' if api.authority else ""
    (tmp_path / "curl").write_text(f'#!/bin/sh\nexec {curl} {flags} "$@"\n')
    (tmp_path / "curl").chmod(0o700)
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run() -> list[str]:
        script = ["sh", str(CASES / "embedded-bodies.sh"), api.url]
        ended = subprocess.run(script, env=environ, capture_output=True, text=True, timeout=SECONDS, check=True)
        return [line.rpartition(": ")[2] for line in ended.stdout.splitlines()]

    api.create("/api/v1/nodes", node)
    try:
        yield run
    finally:
        for number in range(1, 7):
            api.delete(f"/api/v1/namespaces/default/pods/q{number}", grace_seconds=0, missing_ok=True)
        api.delete("/api/v1/nodes/node-000")


def test_bodies_that_belong_elsewhere_are_refused(answers_of_bodies: Callable[[], list[str]]) -> None:
    assert answers_of_bodies() == ["400", "400", "400", "400", "400", "415"]


def test_a_pod_of_a_long_name_has_an_event(scenario: Scenario) -> None:
    """The name of its Event would be too long, and is a UUID instead."""
    tree = yaml.safe_load((CASES / "long-name-pod.yaml").read_text())
    name = tree["metadata"]["name"]
    scenario.add_node("node-0")
    scenario.add_pod(name, labels={"app": "long"})
    scenario.start_scheduler()
    scenario.wait_bound(name)
    events: list[Object] = []

    def has_come() -> bool:
        listed = scenario.api.items(f"/api/v1/namespaces/{scenario.namespace}/events")
        events[:] = [event for event in listed if event["reason"] == "Scheduled"]
        return bool(events)

    scenario.wait("the Event", has_come)
    assert str(uuid.UUID(events[0]["metadata"]["name"])) == events[0]["metadata"]["name"]
