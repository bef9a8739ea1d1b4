"""The running service on a real API server: asked through its proxy by the real kubectl, and nothing is written.

The judge is the API server's audit log: while questions are answered, kscheduler's account makes no request that the
API server would store, and who asks makes none but reads, the questions and a token.

The API server's proxy sends nobody to an address that it knows from an Endpoints object alone: the address must be the
one of a pod in the Service's namespace, and neither loopback nor link-local. So a pod stands for the process: its
status has an address of this machine, and the real controllers put it behind the Service of the manifests.
"""

import http.client
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

from tests.controlplane import binaries, kscheduler_process
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.kscheduler_process import http_port
from tests.controlplane.process import NotReadyError, Process, wait_until

Tree = dict[str, Any]

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
NAMESPACE = "kscheduler-system"
SCHEDULER = f"system:serviceaccount:{NAMESPACE}:kscheduler"
ON_CALL = "on-call"
READER = "system:serviceaccount:default:reader"
SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services"
PROXY = f"{SERVICE}/https:kscheduler:10259/proxy"
PODS = "/api/v1/namespaces/default/pods"
SECONDS = 60.0
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
    """A real API server with its audit log, kscheduler behind the Service of its manifests, and who may ask it."""

    plane: ControlPlane
    log: Path
    scheduler: Process
    kubeconfig: Path
    on_call: Path

    def requests(self) -> list[Tree]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line]

    def kubectl(self, *words: str, as_on_call: bool = False) -> subprocess.CompletedProcess[str]:
        folders = [str(Path(sys.executable).parent), str(self.plane.binaries.kubectl.parent), os.environ["PATH"]]
        environment = {
            **os.environ,
            "PATH": ":".join(folders),
            "KUBECONFIG": str(self.on_call if as_on_call else self.kubeconfig),
        }
        command: list[str | Path] = [self.plane.binaries.kubectl, *words]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished


def own_address() -> str:
    """An address of this machine that is not loopback. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback, and the API server's proxy refuses that one")
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
        scheduler = kscheduler_process.process(plane.kscheduler_kubeconfig(), folder, ports=ports)
        scheduler.start()
        try:
            _let_ask(plane)
            token = plane.service_account_token("default", "reader")
            scheduler.wait_until("its HTTP server", lambda: http_port(scheduler) is not None, SECONDS)
            _put_behind_the_service(plane, address, http_port(scheduler) or 0)
            on_call = plane.write_kubeconfig("on-call", plane.service_account_token(ON_CALL, "reader"))
            yield Site(plane, log, scheduler, plane.write_kubeconfig("reader", token), on_call)
        finally:
            scheduler.stop()


def _let_ask(plane: ControlPlane) -> None:
    """Whom the examples let ask, and look inside: each names a group, and service accounts of a namespace are one."""
    plane.kubectl("create", "namespace", ON_CALL)
    for name, group, namespace in (
        ("askers", "scheduling-readers", "default"),
        ("operators", "scheduling-operators", ON_CALL),
    ):
        text = (EXAMPLES / f"{name}.yaml").read_text()
        assert f"name: {group}" in text
        example = plane.folder / f"{name}.yaml"
        example.write_text(text.replace(f"name: {group}", f"name: system:serviceaccounts:{namespace}"))
        plane.kubectl("apply", "-f", str(example))
        plane.kubectl("-n", namespace, "create", "serviceaccount", "reader")


def _put_behind_the_service(plane: ControlPlane, address: str, port: int) -> None:
    """A pod stands for the process. No kubelet: its status is written here; its node takes no other pod."""
    api = plane.api
    machine = _node("machine")
    api.create("/api/v1/nodes", {**machine, "spec": {"unschedulable": True}})
    (service,) = [each for each in api.items(SERVICE) if each["metadata"]["name"] == "kscheduler"]
    (port_name,) = [each["targetPort"] for each in service["spec"]["ports"]]
    container = {
        "name": "kscheduler",
        "image": "app",
        "ports": [{"name": port_name, "containerPort": port}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    allowed_here = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}  # the namespace is restricted
    spec = {"nodeName": "machine", "securityContext": allowed_here, "containers": [container]}
    metadata = {"name": "kscheduler-0", "namespace": NAMESPACE, "labels": service["spec"]["selector"]}
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
    api.patch(f"{pods}/kscheduler-0/status", {"status": status})
    seen = ""

    def answers() -> bool:
        nonlocal seen
        code, answer = api.exchange("GET", f"{PROXY}/nowhere", None)
        seen = f"{code} {answer}"
        return code == 403 and "cannot get path" in seen  # it is kscheduler that refuses

    try:
        wait_until("kscheduler behind the API server's proxy", answers, SECONDS)
    except NotReadyError as problem:
        raise NotReadyError(f"{problem}: {seen}") from None


def _node(name: str) -> Tree:
    gives = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    condition = {"type": "Ready", "status": "True"}
    status = {"allocatable": gives, "capacity": gives, "conditions": [condition]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _pod(name: str, cpu: str) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "kscheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_queries_are_answered_through_the_proxy_and_write_nothing(site: Site, tmp_path: Path) -> None:
    """By whom the example lets ask. The API server's audit log is the judge."""
    api = site.plane.api
    for name in ("node-0", "node-1"):
        api.create("/api/v1/nodes", _node(name))
    for name, cpu in (("web-0", "1"), ("web-1", "1"), ("big", "9")):
        api.create(PODS, _pod(name, cpu))
    site.scheduler.wait_until("all is decided and told", lambda: _is_reported(site), SECONDS)
    manifest = tmp_path / "new.json"
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
    queried = site.requests()[before:]
    through = [each["requestURI"].removeprefix(PROXY).partition("?")[0] for each in queried if _is_query(each)]
    assert {*through} == {"/explain", "/simulate", "/pending", "/nodes", "/metrics"}
    written = [_reported(each) for each in queried if each["verb"] not in READS and not _stores_nothing(each)]
    assert [reported for reported in written if SCHEDULER in reported] == []
    assert [reported for reported in written if READER in reported] == []


def _is_reported(site: Site) -> bool:
    """Two pods are bound, and the third has its condition and its Event: the scheduler has nothing left to write."""
    pods = {pod["metadata"]["name"]: pod for pod in site.plane.api.items(PODS)}
    events = site.plane.api.items("/apis/events.k8s.io/v1/namespaces/default/events")
    reported = {(each["regarding"]["name"], each["reason"]) for each in events}
    return (
        all(pods[name]["spec"].get("nodeName") for name in ("web-0", "web-1"))
        and bool(pods["big"]["status"].get("conditions"))
        and reported >= {("web-0", "Scheduled"), ("web-1", "Scheduled"), ("big", "FailedScheduling")}
    )


def _is_query(request: Tree) -> bool:
    return bool(request["user"]["username"] == READER and request["requestURI"].startswith(PROXY))


def _stores_nothing(request: Tree) -> bool:
    """A token of the asker, a question through the proxy, a review of who asks."""
    resource = request.get("objectRef", {})
    parts = resource.get("resource", ""), resource.get("subresource", "")
    return parts in (("serviceaccounts", "token"), ("services", "proxy")) or parts[0].endswith("reviews")


def _reported(request: Tree) -> str:
    return f"{request['user']['username']}: {request['verb']} {request['requestURI']}"


def test_whoever_is_on_call_sees_what_the_runbook_shows(site: Site) -> None:
    """The runbook's commands, by whom `operators.yaml` names; who may ask sees less, and nobody may write."""
    tried = [
        line
        for line in (EXAMPLES.parents[1] / "docs" / "runbook.md").read_text().splitlines()
        if "create token" in line
    ]
    (account,) = {word.rstrip(')"') for line in tried for word in line.split() if word.startswith("kscheduler-")}
    token = site.kubectl("-n", NAMESPACE, "create", "token", account, as_on_call=True).stdout.strip()
    site.kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide", as_on_call=True)
    site.kubectl("-n", NAMESPACE, "get", "lease", "kscheduler", "--ignore-not-found", as_on_call=True)
    for path in (
        "/configz",
        "/debug/queue",
        "/debug/cache",
        "/debug/stacks",
        "/metrics",
        "/flagz",
        "/statusz",
        "/pending",
    ):
        assert _page(site, path, token)[0] == 200, path
    notes = _page(site, "/readyz?verbose", token)
    assert (notes[0], "withheld" in notes[1]) == (200, False)
    queried = site.kubectl("kscheduler", "pending", "--asker", account, as_on_call=True)
    assert f"answered by the service {NAMESPACE}/kscheduler:10259" in queried.stderr
    of_asker = site.kubectl("-n", NAMESPACE, "create", "token", "kscheduler-asker").stdout.strip()
    assert [_page(site, path, of_asker)[0] for path in ("/pending", "/configz", "/debug/queue")] == [200, 403, 403]
    may = ("auth", "can-i", "create", "pods/binding", f"--as=system:serviceaccount:{NAMESPACE}:{account}")
    assert site.plane.kubectl(*may, accept_failure=True).splitlines()[-1] == "no"


def _page(site: Site, path: str, token: str) -> tuple[int, str]:
    connection = http.client.HTTPSConnection(
        own_address(), http_port(site.scheduler) or 0, timeout=30, context=kscheduler_process.any_certificate()
    )
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
