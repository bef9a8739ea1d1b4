"""The run is on the API server it was meant for; kscheduler finds there all that it reads, and outlives an upgrade."""

import os
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.hollow_kubelets import HollowKubelets
from tests.controlplane.kscheduler_process import log_lines
from tests.controlplane.process import Process
from tests.controlplane.releases import pinned
from tests.e2e.conftest import create_namespace
from tests.e2e.recorder import Recorder
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer


@pytest.mark.usefixtures("only_kscheduler")
def test_the_server_is_of_the_release_that_was_chosen_and_has_every_resource(scenario: Scenario) -> None:
    version = scenario.api.get("/version")["gitVersion"]
    if isinstance(scenario.server, RealServer) and "KUBEBUILDER_ASSETS" not in os.environ:
        assert version == pinned.chosen().tag
    scenario.add_node("node-0")
    process = scenario.start_scheduler()
    scenario.add_pod("pod-0")
    scenario.wait_bound()
    reported = {line["server_version"] for line in log_lines(process) if line["msg"] == "scheduling"}
    assert reported <= {version, "unknown yet"}  # nothing waits for the answer
    assert not worries(process), "it logs nothing but what every start logs"


@pytest.mark.real
@pytest.mark.usefixtures("only_kscheduler")
def test_a_cluster_that_is_upgraded_while_pods_are_bound_loses_and_doubles_none(program: str, tmp_path: Path) -> None:
    before = pinned.upgraded_from()
    if before is None:
        pytest.skip(f"two releases are needed: make e2e-versions names the one before in {pinned.UPGRADED_FROM}")
    with RealServer(binaries.find_release(before)) as server:
        create_namespace(server, "upgrade")
        with Recorder(server.api) as recorder, HollowKubelets(server.api):
            play = Scenario(server, recorder, "upgrade", program, tmp_path)
            for number in range(4):
                play.add_node(f"node-{number}", cpu="50")
            play.add_pods(200, cpu="1")
            process = play.start_scheduler()
            try:
                recorder.wait_for_binds(30, 30)
                server.plane.upgrade(binaries.find())
                assert server.api.get("/version")["gitVersion"] == pinned.chosen().tag
                play.wait_bound(seconds=60)
                play.add_node("node-after", cpu="4")
                play.add_pod("after", nodeSelector={"kubernetes.io/hostname": "node-after"})
                play.wait_bound("after")
                play.audit()
                play.stop_schedulers()
            finally:
                process.kill()


def worries(process: Process) -> list[dict[str, object]]:
    """Warnings and errors, but those about settings that have no effect on any server."""
    lines = (line for line in log_lines(process) if line["level"] in {"warning", "error"})
    return [line for line in lines if line["msg"] != "setting_not_honoured"]
