"""The image is run, as its user, on a root that cannot be written: it schedules, answers probes and ends in order."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import kscheduler_process
from tests.e2e.image.conftest import Unpacked
from tests.e2e.image.container import Container, service_account
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME, RealServer

START_SECONDS = 60.0
KUBECONFIG = "/etc/kscheduler/kubeconfig"


@pytest.fixture
def running(image: Unpacked, scenario: Scenario, tmp_path: Path, only_kscheduler: None) -> Iterator[Container]:
    """On the real server as in a pod, with a ServiceAccount; on the embedded one, plain HTTP, with a kubeconfig."""
    identity = scenario.server.identity(NAME)
    folder = tmp_path / "container"
    folder.mkdir()
    if isinstance(scenario.server, RealServer):
        mounts, environment = service_account(tmp_path, identity)
    else:
        readable = tmp_path / "kubeconfig"
        readable.write_text(identity.read_text())
        readable.chmod(0o644)
        mounts, environment = {KUBECONFIG: readable}, {"KUBECONFIG": KUBECONFIG}
    with Container(image.bundle, folder, mounts, environment) as container:
        container.process.wait_until(
            "the HTTP server", lambda: kscheduler_process.http_port(container.process), START_SECONDS
        )
        yield container


def test_it_schedules_answers_probes_and_ends_with_0(running: Container, scenario: Scenario) -> None:
    process = running.process
    process.wait_until("ready", lambda: kscheduler_process.own_page(process, "/readyz")[0] == 200, START_SECONDS)
    assert kscheduler_process.own_page(process, "/livez")[0] == 200
    scenario.add_node("node-0")
    scenario.add_pods(3)
    scenario.wait_bound()
    scenario.wait("its Events", lambda: scenario.events("pod-0", "Scheduled"))
    assert_confined(running)
    process.send(signal.SIGTERM)
    assert process.wait(START_SECONDS) == 0
    lines = list(kscheduler_process.log_lines(process))
    assert lines[-1]["msg"] == "stopped"
    assert len(lines) == len(process.text().splitlines()), "a line that is no JSON"
    assert not [line for line in lines if line["level"] == "error"]


def assert_confined(container: Container) -> None:
    """Its user, no capability nor a way to one, a root that cannot be written, and nothing written."""
    status = container.status()
    assert status["Uid"].split() == ["65532"] * 4
    assert status["Gid"].split() == ["65532"] * 4
    assert {int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    mounts = Path(f"/proc/{container.pid}/mountinfo").read_text().splitlines()
    (root,) = (line for line in mounts if line.split()[4] == "/")
    assert "ro" in root.split()[5].split(",")
    assert container.written_files() == []
