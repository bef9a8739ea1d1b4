"""The run is on the API server that it was meant for, and kscheduler finds there all that it reads."""

import os

import pytest

from tests.controlplane.kscheduler_process import log_lines
from tests.controlplane.process import Process
from tests.controlplane.releases import pinned
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
    told = {line["server_version"] for line in log_lines(process) if line["msg"] == "scheduling"}
    assert told <= {version, "unknown yet"}  # nothing waits for the answer
    assert not worries(process), "it logs nothing but what every start logs"


def worries(process: Process) -> list[dict[str, object]]:
    """Warnings and errors, but those about settings that have no effect on any server."""
    lines = (line for line in log_lines(process) if line["level"] in {"warning", "error"})
    return [line for line in lines if line["msg"] != "setting_not_honoured"]
