"""Two replicas on a real API server: whatever happens to the leader, the other one goes on, and never both.

Three fail-overs of each kind with pods flowing, all kinds at the same time; what must not happen is computed from the
API server's audit log. How long a fail-over takes is measured by `make soak`, fifty of each kind beside kube-scheduler.
"""

from collections.abc import Iterator

import pytest

from tests.controlplane import binaries
from tests.e2e.election.replicas import FAULTS, Timing
from tests.e2e.election.rig import Rig, rig

ROUNDS = 3


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, program: str) -> Iterator[Rig]:
    if request.config.getoption("--server") == "embedded":
        pytest.skip("the judge is the audit log of a real API server")
    if program != "kscheduler":
        pytest.skip("kube-scheduler goes on writing after a SIGCONT: `make soak` counts that")
    with rig(binaries.find()) as found:
        yield found


def test_after_each_fault_the_other_replica_binds_and_never_both(running: Rig) -> None:
    outcomes = running.play(["kscheduler"], list(FAULTS), ROUNDS, Timing())
    assert {outcome.fault: outcome.faults for outcome in outcomes} == {kind: [] for kind in FAULTS}
    assert [len(outcome.seconds) for outcome in outcomes] == [ROUNDS] * len(FAULTS)


def test_a_rolling_update_under_load_loses_no_pod_and_binds_none_twice(running: Rig) -> None:
    update = running.roll("kscheduler")
    assert update.faults == []
    assert update.bindings > 50
