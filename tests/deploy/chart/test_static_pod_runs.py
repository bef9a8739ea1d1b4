"""docs/migration.md's static pod on a real API server: made of kubeadm's manifest by `kscheduler config convert`, with
scheduler.conf as kubeadm writes it, and its rights alone.

kube-scheduler runs first, as kubeadm starts it. Its manifest leaves the folder and ours comes, and the other way round;
here a process takes each one's part. The tests of this file follow each other.
"""

import base64
import copy
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kscheduler.cli.ignored_kube_scheduler_flags import without_meaning
from kscheduler.config.conversion.converting import convert
from tests.cli.test_manifest_convert import KUBEADM, container_of
from tests.controlplane import binaries, certificates, kscheduler_process
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.hollow_kubelets import HollowKubelets
from tests.controlplane.process import Process, free_port, wait_until
from tests.deploy.chart import audited
from tests.deploy.chart.schedulers_work import SchedulersWork, node
from tests.deploy.test_static_pod import KUBECONFIG

CONVERTED: Final[dict[str, Any]] = yaml.safe_load(
    convert(KUBEADM.encode(), "kube-scheduler.yaml", lambda _: None, without_meaning).text
)
USER: Final = "system:kube-scheduler"
SECONDS: Final = 60.0
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@dataclass
class ControlPlaneNode:
    """A control plane, and the two programs that may be started on its node, on one port."""

    plane: ControlPlane
    ours: Process
    theirs: Process
    audit: Path

    @property
    def work(self) -> SchedulersWork:
        """Pods that name nobody."""
        return SchedulersWork(self.plane.api, "default-scheduler", SECONDS)

    def holder(self) -> str:
        """Of the Lease."""
        return str(self.plane.api.get(LEASE)["spec"].get("holderIdentity") or "")

    def schedulers(self) -> set[str]:
        """Who has placed pods, by the names of the programs in their requests."""
        bindings = (
            one
            for one in audited.requests(self.audit)
            if one["verb"] == "create" and one["objectRef"].get("subresource") == "binding"
        )
        return {one["userAgent"].partition("/")[0] for one in bindings}


def scheduler_conf(plane: ControlPlane, path: Path) -> Path:
    """As kubeadm writes it: a client certificate whose name is the user, all inline, readable by root alone."""
    certificate, key = certificates.create_client(plane.folder / "pki", USER, "")

    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {"server": plane.url, "certificate-authority-data": inline(plane.certificates.authority)}
    user = {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}
    context = {"cluster": "kubernetes", "user": USER}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": cluster}],
        "users": [{"name": USER, "user": user}],
        "contexts": [{"name": f"{USER}@kubernetes", "context": context}],
        "current-context": f"{USER}@kubernetes",
    }
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlaneNode]:
    folder = tmp_path_factory.mktemp("static-pod")
    programs = binaries.find()
    with ExitStack() as stack:
        settings = Settings(apiserver_options=audited.options(folder, USER))
        plane = stack.enter_context(ControlPlane(programs, settings))
        stack.enter_context(HollowKubelets(plane.api))
        for number in range(3):
            plane.api.create("/api/v1/nodes", node(f"node-{number}"))
        conf, port = scheduler_conf(plane, folder / "scheduler.conf"), str(free_port())
        given = [
            word.replace(KUBECONFIG, str(conf)).replace("=10259", f"={port}")
            for word in container_of(CONVERTED)["args"]
        ]
        environment = os.environ | {"PYTHONPATH": str(kscheduler_process.REPOSITORY)}
        ours = Process(
            "kscheduler", [sys.executable, "-m", "kscheduler", *given], folder / "kscheduler.log", environment
        )
        flags = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        command: list[str | Path] = [programs.kube_scheduler, *(f"--{flag}={conf}" for flag in flags)]
        command += ["--bind-address=127.0.0.1", "--leader-elect=true", f"--secure-port={port}"]
        theirs = Process("kube-scheduler", command, folder / "kube-scheduler.log")
        stack.callback(ours.kill)
        stack.callback(theirs.kill)
        yield ControlPlaneNode(plane, ours, theirs, folder)


def test_a_real_api_server_takes_the_manifest(machine: ControlPlaneNode, tmp_path: Path) -> None:
    """Also as the mirror of it, which a kubelet makes: without a node it would be anybody's pod."""
    file = tmp_path / "kscheduler.yaml"
    file.write_text(yaml.safe_dump(CONVERTED))
    said = machine.plane.kubectl("apply", "--dry-run=server", "--filename", str(file))
    assert "pod/kscheduler created (server dry run)" in said
    assert "Warning" not in said
    mirror = copy.deepcopy(CONVERTED)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123"}
    mirror["spec"]["nodeName"] = "node-0"
    made = machine.plane.api.create("/api/v1/namespaces/kube-system/pods?dryRun=All", mirror)
    assert made["spec"]["priority"] == mirror["spec"]["priority"]


def test_two_on_one_node_are_reported_apart_by_the_port(machine: ControlPlaneNode) -> None:
    machine.theirs.start()
    wait_until("kube-scheduler leads", lambda: machine.plane.api.answers(LEASE) and machine.holder(), SECONDS)
    machine.work.schedule("first")
    machine.ours.start()
    assert machine.ours.wait(SECONDS) != 0
    (reported,) = (line for line in machine.ours.text().splitlines() if "http_server_cannot_listen" in line)
    assert "another program listens there (a kube-scheduler" in reported
    assert machine.schedulers() == {"kube-scheduler"}


def test_it_decides_when_kube_schedulers_file_is_gone(machine: ControlPlaneNode) -> None:
    before = machine.holder()
    machine.theirs.send(signal.SIGTERM)
    assert machine.theirs.wait(SECONDS) == 0
    machine.ours.start()
    wait_until("it holds the Lease", lambda: machine.holder() not in {"", before}, SECONDS)
    machine.ours.wait_until("ready", lambda: kscheduler_process.own_page(machine.ours, "/readyz")[0] == 200, SECONDS)
    assert kscheduler_process.own_page(machine.ours, "/livez")[0] == 200
    assert kscheduler_process.own_page(machine.ours, "/metrics")[0] in {401, 403}, "a login is asked for"
    machine.work.schedule("second")
    wait_until("the log tells", lambda: machine.schedulers() == {"kube-scheduler", "kscheduler"}, SECONDS)


def test_kube_schedulers_rights_are_all_that_it_needs(machine: ControlPlaneNode) -> None:
    machine.work.use_rights()
    machine.work.count_an_event_up()
    queried = {(one.resource, one.verb) for one in audited.used(machine.audit)}
    wanted = {
        ("pods/binding", "create"),
        ("pods/status", "patch"),
        ("pods", "delete"),
        ("persistentvolumeclaims", "patch"),
        ("resourceclaims/status", "update"),
        ("resourceclaims", "create"),
        ("events", "create"),
        ("leases", "update"),
    }
    assert wanted <= queried
    assert audited.refused(machine.audit) == set()
    lines = [*kscheduler_process.log_lines(machine.ours)]
    began = max(number for number, line in enumerate(lines) if line["msg"] == "starting")
    assert [line for line in lines[began:] if line["level"] == "error"] == []


def test_the_way_back_is_the_other_file(machine: ControlPlaneNode) -> None:
    before = machine.holder()
    machine.ours.send(signal.SIGTERM)
    assert machine.ours.wait(SECONDS) == 0
    machine.theirs.start()
    wait_until("kube-scheduler leads", lambda: machine.holder() not in {"", before}, SECONDS)
    machine.work.schedule("third")
