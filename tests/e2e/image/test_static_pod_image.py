"""The image as docs/migration.md's static pod runs it: root without capabilities, with a file that root alone reads."""

import base64
import json
from pathlib import Path

import pytest

from tests.controlplane import kscheduler_process
from tests.controlplane.process import free_port
from tests.deploy.test_static_pod import CONTAINER, KUBECONFIG
from tests.e2e.image.conftest import Unpacked
from tests.e2e.image.container import Container
from tests.e2e.scenario import Scenario

START_SECONDS = 60.0


@pytest.mark.usefixtures("only_kscheduler")
def test_it_reads_scheduler_conf_and_schedules_with_no_capability(
    image: Unpacked, scenario: Scenario, tmp_path: Path
) -> None:
    tree = json.loads(scenario.server.identity("kube-scheduler").read_text())
    cluster = tree["clusters"][0]["cluster"]
    if authority := cluster.pop("certificate-authority", ""):  # kubeadm writes it into the file
        cluster["certificate-authority-data"] = base64.b64encode(Path(authority).read_bytes()).decode()
    conf = tmp_path / "scheduler.conf"
    conf.write_text(json.dumps(tree))
    conf.chmod(0o600)
    folder = tmp_path / "container"
    folder.mkdir()
    arguments = [word.replace("=10259", f"={free_port()}") for word in CONTAINER["args"]]
    like = CONTAINER | {"args": arguments}
    with Container(image.bundle, folder, {KUBECONFIG: conf}, {}, like=like) as container:
        process = container.process
        process.wait_until("the HTTP server", lambda: kscheduler_process.http_port(process), START_SECONDS)
        process.wait_until("ready", lambda: kscheduler_process.own_page(process, "/readyz")[0] == 200, START_SECONDS)
        scenario.add_node("node-0")
        scenario.add_pod("pod-0", schedulerName="default-scheduler")
        scenario.wait_bound()
        status = container.status()
        assert status["Uid"].split() == ["0"] * 4
        assert {int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert status["NoNewPrivs"] == "1"
        assert container.written_files() == []
