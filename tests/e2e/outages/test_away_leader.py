"""An API server that is away for longer than a leader's right to write: the process goes on, its watches resume."""

import time

import pytest

from tests.controlplane.kscheduler_process import log_lines, own_page
from tests.controlplane.process import Process
from tests.e2e.outages.test_api_server_away import readiness, wait_for_controllers
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer

AWAY_SECONDS = 25.0
# For everything after the server is back: a real one takes some of it to start.
SOON_SECONDS = 30.0


def said(process: Process, message: str) -> int:
    return sum(line.get("msg") == message for line in log_lines(process))


def lists(process: Process) -> set[str]:
    """Why there were lists in this term."""
    lines = own_page(process, "/metrics")[1].splitlines()
    return {
        line.partition('reason="')[2].partition('"')[0]
        for line in lines
        if line.startswith("kscheduler_relists_total{") and not line.endswith(" 0.0")
    }


@pytest.mark.usefixtures("only_kscheduler")
def test_a_leader_whose_api_server_was_away_binds_again_in_the_same_process(scenario: Scenario) -> None:
    scenario.add_node("node-0")
    # Where the manifests' Role allows it; the embedded API server allows everything, and has no such namespace.
    namespace = "kscheduler-system" if isinstance(scenario.server, RealServer) else "kube-system"
    process = scenario.start_scheduler("--leader-elect=true", f"--leader-elect-resource-namespace={namespace}")
    scenario.add_pod("before")
    scenario.wait_bound("before")
    assert "this process leads" in readiness(process)[1]
    scenario.server.stop_serving()
    try:
        scenario.wait("it follows again", lambda: said(process, "following_again") == 1, AWAY_SECONDS)
        time.sleep(AWAY_SECONDS - 10)
        assert process.running
    finally:
        scenario.server.serve_again()
    scenario.add_pod("after")
    scenario.wait_bound("after", seconds=SOON_SECONDS)
    assert process.running
    assert said(process, "lease_acquired") == 2
    assert said(process, "starting") == 1
    reasons = lists(process)
    assert "start" not in reasons
    if not isinstance(scenario.server, RealServer):
        # A real one that has been started again refuses at first (403), and knows no old versions (410).
        assert reasons <= {"new leader"}
    wait_for_controllers(scenario)
