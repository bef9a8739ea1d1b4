"""The API server is away for longer than a while: what probes and the log of the process say, on both servers."""

import pytest

from tests.controlplane.kscheduler_process import log_lines, own_page
from tests.controlplane.process import Process
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer

CONTROLLERS_SECONDS = 180.0
# 30 s after the last success, which may be a probe of ten seconds later than the last watch event.
UNREADY_SECONDS = 60.0


def readiness(process: Process) -> tuple[int, str]:
    try:
        return own_page(process, "/readyz?verbose")
    except OSError:
        return 0, ""


def said(process: Process) -> list[str]:
    """The messages about the API server, and whatever else is a warning or worse."""
    lines = [
        line for line in log_lines(process) if line["logger"] == "api-server" or line["level"] not in ("info", "debug")
    ]
    return [line["msg"] for line in lines]


@pytest.mark.usefixtures("only_kscheduler")
def test_readiness_and_log_report_that_the_api_server_is_away_and_back(scenario: Scenario) -> None:
    scenario.add_node("node-0")
    process = scenario.start_scheduler()
    scenario.add_pod("before")
    scenario.wait_bound("before")
    assert readiness(process)[0] == 200
    known = len(said(process))
    scenario.server.stop_serving()
    try:
        scenario.wait("the line", lambda: "api_server_unreachable" in said(process)[known:])
        scenario.wait("unready", lambda: readiness(process)[0] == 500, UNREADY_SECONDS)
        _, text = readiness(process)
        assert "[-]api-server failed: no request to 127.0.0.1:" in text
        assert own_page(process, "/livez") == (200, "ok")
        unreachable = "kscheduler_api_server_unreachable_seconds"
        (sample,) = [line for line in own_page(process, "/metrics")[1].splitlines() if line.startswith(unreachable)]
        assert float(sample.split()[-1]) > 10
    finally:
        scenario.server.serve_again()
    scenario.wait("ready again", lambda: readiness(process)[0] == 200)
    scenario.add_pod("after")
    scenario.wait_bound("after")
    scenario.wait("its line", lambda: "api_server_reachable_again" in said(process)[known:])
    reported = said(process)[known:]
    assert reported[0] == "api_server_unreachable"
    assert reported.count("api_server_unreachable") == 1
    assert reported.count("api_server_reachable_again") == 1
    assert len(reported) <= 4, reported
    wait_for_controllers(scenario)


def wait_for_controllers(scenario: Scenario) -> None:
    """The controller manager backs off for longer than the next scenario would wait for its ServiceAccount."""
    if not isinstance(scenario.server, RealServer):
        return
    name = f"{scenario.namespace}-after"
    namespace = f"/api/v1/namespaces/{name}"
    scenario.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = f"{namespace}/serviceaccounts/default"
    scenario.wait("the controllers are back", lambda: scenario.api.answers(account), CONTROLLERS_SECONDS)
    scenario.api.delete(namespace)
