"""A session with workloads reads the same on the embedded server's controllers and on kube-controller-manager.

`controllers.txt` was recorded on the real ones (`--record-transcript --server real`).
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import clean, create_namespace
from tests.e2e.scenario import Scenario
from tests.e2e.servers import Server
from tests.e2e.transcripts.controllers import ACTS, manifests, mask_names
from tests.e2e.transcripts.transcript import Transcript

RECORDED = Path(__file__).with_name("controllers.txt")
NAMESPACE = "depot"

pytestmark = pytest.mark.kubernetes_1_36("its session was recorded with the kubectl and controllers of 1.36")

# kubectl's line while the controller has not looked yet: how often it comes is a matter of milliseconds.
_OBSERVING = "Waiting for deployment spec update to be observed..."


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    create_namespace(server, NAMESPACE)
    yield NAMESPACE
    clean(server, NAMESPACE)


def test_a_session_with_workloads_reads_as_recorded(
    scenario: Scenario, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    transcript = Transcript(scenario.server.kubectl, scenario.server.admin_kubeconfig, NAMESPACE, tmp_path)
    for name, content in manifests().items():
        transcript.write(name, content)
    scenario.add_node("node-a", cpu="4", memory="8Gi")
    scenario.add_node("node-b", cpu="4", memory="8Gi")
    scenario.start_scheduler()
    for act in ACTS:
        act(transcript, scenario)
    text = mask_names(transcript.text)
    if request.config.getoption("--record-transcript"):
        RECORDED.write_text(text)
    lines = RECORDED.read_text().splitlines()
    difference = list(
        difflib.unified_diff(
            lines, [line for line in text.splitlines() if line != _OBSERVING], "recorded", "now", lineterm="", n=2
        )
    )
    assert not difference, "\n" + "\n".join(difference)
