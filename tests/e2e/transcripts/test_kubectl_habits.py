"""What clients do with kubectl day by day reads the same on both API servers: the acts of `habits`, to the letter.

The transcript in `habits.txt` was recorded on the real server (`--record-transcript`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import clean, create_namespace
from tests.e2e.servers import Server
from tests.e2e.transcripts.habits import ACTS, FILES
from tests.e2e.transcripts.test_kubectl_transcript import compare
from tests.e2e.transcripts.transcript import Transcript

RECORDED = Path(__file__).with_name("habits.txt")
NAMESPACE = "market"

pytestmark = pytest.mark.kubernetes_1_36("its session was recorded with the kubectl and API server of 1.36")


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    create_namespace(server, NAMESPACE)
    yield NAMESPACE
    clean(server, NAMESPACE)


def test_a_clients_habits_read_as_recorded(
    server: Server,
    namespace: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBE_EDITOR", "cat")
    monkeypatch.setenv("TMPDIR", "/tmp")  # `kubectl diff` names it
    transcript = Transcript(server.kubectl, server.admin_kubeconfig, namespace, tmp_path)
    for name, content in FILES.items():
        transcript.write(name, content)
    for title, lines in ACTS:
        transcript.title(title)
        for line in lines:
            transcript.run(line)
    compare(transcript.text, record=request.config.getoption("--record-transcript"), recorded=RECORDED)


def test_there_are_as_many_commands_as_promised() -> None:
    typed = [line for _, lines in ACTS for line in lines]
    assert len(typed) >= 150
    assert sum(line.startswith("$ kubectl ") for line in RECORDED.read_text().splitlines()) == len(typed)
