"""The running service on a real API server: asked through its proxy by the real kubectl, and nothing is written.

The judge is the API server's audit log: of each request that a question makes, none is a write but the token of the
account in whose name it is asked, which the API server makes and stores nowhere.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane import binaries, kscheduler_process
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.kscheduler_process import http_port
from tests.controlplane.process import Process, wait_until

Tree = dict[str, Any]

ASKERS = Path(__file__).parents[3] / "deploy" / "examples" / "askers.yaml"
NAMESPACE = "kscheduler-system"
SCHEDULER = f"system:serviceaccount:{NAMESPACE}:kscheduler"
SECONDS = 90.0
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
"""
READS = ("get", "list", "watch")


@dataclass
class Site:
    """A real API server with its audit log, and kscheduler behind a Service."""

    plane: ControlPlane
    log: Path
    scheduler: Process
    folder: Path

    def requests(self, user_agent: str = "") -> list[Tree]:
        found = [json.loads(line) for line in self.log.read_text().splitlines() if line]
        return [each for each in found if user_agent in each.get("userAgent", "")]

    def run(self, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        folders = [str(Path(sys.executable).parent), str(self.plane.binaries.kubectl.parent), os.environ["PATH"]]
        environment = {**os.environ, "PATH": ":".join(folders), "KUBECONFIG": str(self.plane.admin_kubeconfig)}
        finished = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert finished.returncode == code, finished.stdout + finished.stderr
        return finished

    def kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.plane.binaries.kubectl, *words)


def own_address() -> str:
    """An address of this machine that the API server's proxy may use: it refuses loopback. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address: str = probe.getsockname()[0]
        return address


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if request.config.getoption("--server") == "embedded":
        pytest.skip("the judge is the audit log of a real API server")
    folder = tmp_path_factory.mktemp("live")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(POLICY)
    options = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=100000")
    with ControlPlane(binaries.find(), Settings(apiserver_options=options)) as plane:
        address = own_address()
        ports = ("--bind-address", address, "--port", "0")
        scheduler = kscheduler_process.process(plane.kscheduler_kubeconfig(), folder / "scheduler", ports=ports)
        scheduler.start()
        try:
            scheduler.wait_until("its HTTP server", lambda: http_port(scheduler) is not None, SECONDS)
            _serve(plane, address, http_port(scheduler) or 0)
            yield Site(plane, log, scheduler, folder)
        finally:
            scheduler.stop()


def _serve(plane: ControlPlane, address: str, port: int) -> None:
    """The Service of the chart, with this process behind it, and who may ask."""
    api = plane.api
    if not api.answers(f"/api/v1/namespaces/{NAMESPACE}"):
        api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    named: Tree = {"apiVersion": "v1", "metadata": {"name": "kscheduler", "labels": {}}}
    services, endpoints = (f"/api/v1/namespaces/{NAMESPACE}/{plural}" for plural in ("services", "endpoints"))
    api.delete(f"{services}/kscheduler", missing_ok=True)
    api.create(
        services,
        {**named, "kind": "Service", "spec": {"ports": [{"name": "https", "port": 10259, "targetPort": port}]}},
    )
    place: Tree = {"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port}]}

    def answers() -> bool:
        """The endpoints of the chart's Service go with it, a little later than it does."""
        if not api.answers(f"{endpoints}/kscheduler"):
            api.create(endpoints, {**named, "kind": "Endpoints", "subsets": [place]})
        return api.answers(f"{services}/https:kscheduler:10259/proxy/livez")

    wait_until("the proxy to the service", answers, SECONDS)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    collections = {
        "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Role": f"{rbac}/roles",
        "RoleBinding": f"{rbac}/rolebindings",
    }
    for tree in yaml.safe_load_all(ASKERS.read_text()):
        api.create(collections[tree["kind"]], tree)


def _node(name: str) -> Tree:
    gives = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    condition = {"type": "Ready", "status": "True"}
    status = {"allocatable": gives, "capacity": gives, "conditions": [condition]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _pod(name: str, cpu: str) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "kscheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_questions_are_answered_through_the_proxy_and_write_nothing(site: Site) -> None:
    api = site.plane.api
    for name in ("node-0", "node-1"):
        api.create("/api/v1/nodes", _node(name))
    for name, cpu in (("web-0", "1"), ("web-1", "1"), ("big", "9")):
        api.create("/api/v1/namespaces/default/pods", _pod(name, cpu))
    site.scheduler.wait_until(
        "the big pod's condition",
        lambda: api.get("/api/v1/namespaces/default/pods/big").get("status", {}).get("conditions"),
        SECONDS,
    )
    manifest = site.folder / "new.json"
    manifest.write_text(json.dumps(_pod("new", "1")))
    before = len(site.requests())
    why = site.kubectl("kscheduler", "why", "big", "-n", "default")
    assert f"answered by the service {NAMESPACE}/kscheduler:10259" in why.stderr
    assert "parked since" in why.stdout
    assert "1. request 3 of cpu instead of 9" in why.stdout
    whatif = site.kubectl("kscheduler", "whatif", "-f", str(manifest), "--replicas", "3", "--drain", "node-0")
    assert "answered by the service" in whatif.stderr
    assert "3 pods would get a node" in whatif.stdout
    assert "1 pod is pending" in site.kubectl("kscheduler", "pending").stdout
    assert "NodeResourcesFit 1" in site.kubectl("kscheduler", "nodes").stdout
    assert "1 pod pending" in site.kubectl("kscheduler", "top", "--once").stdout
    direct = site.kubectl("kscheduler", "whatif", "--direct", "-f", str(manifest), "--replicas", "3")
    assert "3 pods would get a node" in direct.stdout
    assert "what would make it fit" in site.kubectl("kscheduler", "why", "big", "-n", "default", "--direct").stdout
    asked = [each for each in site.requests()[before:] if "kscheduler" in each.get("userAgent", "")]
    assert [each for each in asked if "/proxy/" in each["requestURI"]]
    writes = [each for each in asked if each["verb"] not in READS and not _only_asks(each)]
    assert [f"{each['verb']} {each['requestURI']}" for each in writes] == []
    ours = [each for each in asked if each["user"]["username"] != SCHEDULER]
    assert {each["verb"] for each in ours} <= {*READS, "create"}


def _only_asks(request: Tree) -> bool:
    """A token of the asker, a POST through the proxy, a review of who asks: nothing that the API server would store.

    The scheduler goes on as always, and may still tell of the pod that fits nowhere.
    """
    resource = request.get("objectRef", {})
    parts = resource.get("resource", ""), resource.get("subresource", "")
    if request["user"]["username"] == SCHEDULER and parts[0] in ("events", "leases"):
        return True
    return parts in (("serviceaccounts", "token"), ("services", "proxy")) or parts[0].endswith("reviews")
