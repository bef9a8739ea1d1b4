"""The commands of `kscheduler explain` free the pod: each is run as it is printed, by a shell with the real kubectl."""

import json
import os
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

from tests.e2e.devices import DevicesRoom
from tests.e2e.scenario import SECONDS, Scenario

Tree = dict[str, Any]
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APART = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "keeper"}}}]

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def suggestions(scenario: Scenario, pod: str) -> dict[str, Tree]:
    """By kind."""
    command = [sys.executable, "-m", "kscheduler", "explain", pod, "-n", scenario.namespace, "-o", "json"]
    command += ["--kubeconfig", str(scenario.server.admin_kubeconfig)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    return {each["kind"]: each for each in json.loads(finished.stdout)["suggestions"]}


def run(scenario: Scenario, command: str) -> None:
    """As a user would, whose kubectl would find another cluster by itself."""
    assert command
    path = f"{scenario.server.kubectl.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": "/not/there"}
    shell = ["bash", "-euo", "pipefail", "-c", command]
    finished = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert finished.returncode == 0, f"{command}\n{finished.stdout}{finished.stderr}"


def free(scenario: Scenario, pod: str, kind: str) -> None:
    """The pod waits; the command of this kind gives it a node."""
    scenario.wait(f"{pod} is rejected", lambda: scenario.events(pod, "FailedScheduling") or is_gated(scenario, pod))
    run(scenario, suggestions(scenario, pod)[kind]["command"])
    scenario.wait_bound(pod)


def is_gated(scenario: Scenario, pod: str) -> bool:
    return bool(scenario.pod(pod)["spec"].get("schedulingGates"))


def has_its_claim(scenario: Scenario, pod: str) -> bool:
    return bool(scenario.pod(pod)["status"].get("resourceClaimStatuses"))


def test_what_a_pod_asks_for_is_changed(scenario: Scenario) -> None:
    """A node for all, and one that takes team pods only."""
    scenario.add_node("node-0", cpu="2")
    scenario.start_scheduler()
    scenario.add_pod("large", cpu="3")
    free(scenario, "large", "request")
    assert scenario.pod("large")["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    scenario.delete_pod("large")
    scenario.add_pod("picky", nodeSelector={"disk": "ssd"})
    free(scenario, "picky", "nodeSelector")
    scenario.add_pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    free(scenario, "gated", "schedulingGate")
    scenario.add_pod("keeper-0", affinity={"podAntiAffinity": {REQUIRED: APART}})
    scenario.wait_bound("keeper-0")
    scenario.add_pod("keeper-1", affinity={"podAntiAffinity": {REQUIRED: APART}})
    free(scenario, "keeper-1", "deletePods")


def test_a_node_is_changed(scenario: Scenario) -> None:
    scenario.add_node("node-0", cpu="2", taints=[TAINT])
    scenario.start_scheduler()
    scenario.add_pod("intolerant")
    free(scenario, "intolerant", "toleration")
    scenario.add_pod("patient")
    free(scenario, "patient", "taint")
    scenario.add_pod("picky", nodeSelector={"disk": "ssd"})
    free(scenario, "picky", "nodeLabel")
    scenario.kubectl("cordon", "node-0")
    scenario.add_pod("last")
    free(scenario, "last", "uncordon")


def test_a_claim_of_a_template_is_made_again_with_its_pod(scenario: Scenario, devices: DevicesRoom) -> None:
    """By the whole command; and by a second one, where only the template was changed."""
    devices.publish("node-1", "gpu-0")
    devices.publish("node-2", "gpu-0")
    scenario.start_scheduler()
    for name in ("whole", "half"):
        devices.add_template(f"of-{name}", 3)
        devices.add_pod(name, template=f"of-{name}")
        scenario.wait("it has its claim", partial(has_its_claim, scenario, name))
    free(scenario, "whole", "deviceCount")
    scenario.wait("it waits", lambda: scenario.events("half", "FailedScheduling"))
    of_the_template, _ = suggestions(scenario, "half")["deviceCount"]["command"].split(" && ")
    run(scenario, of_the_template)
    assert "deviceCount" not in suggestions(scenario, "half")
    free(scenario, "half", "newClaim")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_template_is_changed(scenario: Scenario, kind: str) -> None:
    """Its controller makes the pod again. First less of a request, then one more toleration."""
    scenario.add_node("node-0", cpu="2", taints=[TAINT])
    scenario.start_scheduler()
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "3"}}}
    spec = {"schedulerName": "kscheduler", "containers": [container]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    workload = {"selector": {"matchLabels": {"app": "web"}}, "replicas": 1, "template": template}
    plural = f"{kind.lower()}s"
    tree = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": workload}
    scenario.api.create(f"/apis/apps/v1/namespaces/{scenario.namespace}/{plural}", tree)
    scenario.wait("its pod waits", scenario.pending)
    (waiting,) = scenario.pending()
    scenario.wait("it is rejected", lambda: scenario.events(waiting, "FailedScheduling"))
    command = suggestions(scenario, waiting)["request+toleration"]["command"]
    kubectl = f"kubectl --kubeconfig={scenario.server.admin_kubeconfig}"
    web = f"{kind.lower()} web -n {scenario.namespace}"
    of_resources, of_the_rest, *_ = command.split(" && ")
    assert of_resources.startswith(f"{kubectl} set resources {web} ")
    assert of_the_rest.startswith(f"{kubectl} patch {web} --type=json -p ")
    run(scenario, command)
    scenario.wait("a pod of the new template is bound", lambda: not scenario.pending() and len(scenario.pods()) == 1)
    scenario.api.delete(f"/apis/apps/v1/namespaces/{scenario.namespace}/{plural}/web")
    scenario.wait("its pods are gone", lambda: not scenario.pods())
