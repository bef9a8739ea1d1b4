"""Preemption in the large: every preemptor gets its node, and no pod goes that could have stayed.

100 nodes by default; with `KSCHEDULER_LONG=1` it is 1,000 nodes and 500 preemptors.
"""

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.process import Process
from tests.e2e.scenario import Scenario
from tests.e2e.storm.cluster import PreemptionStorm, Size
from tests.e2e.write_proxy import Hook, Write

SIZE = Size(nodes=1_000, preemptors=500) if os.environ.get("KSCHEDULER_LONG") == "1" else Size(100, 50)
SECONDS = 60.0 + SIZE.preemptors


@pytest.fixture
def storm(scenario: Scenario) -> Iterator[PreemptionStorm]:
    made = PreemptionStorm(scenario, scenario.server, SIZE)
    made.prepare()
    yield made
    made.end()


def complain(faults: list[str]) -> None:
    assert not faults, f"{len(faults)} faults, among them:\n" + "\n".join(faults[:20])


def test_a_storm_takes_no_pod_without_need(storm: PreemptionStorm) -> None:
    storm.scenario.start_scheduler()
    with storm.watch() as history:
        storm.break_out()
        storm.wait_over(SECONDS)
        complain(storm.faults(history))


# So many writes of the kind are answered or applied before the end: the storm is well under way by then.
LAST_OF_ITS_KIND = 3


def kill_at(kind: str, process: Process) -> Hook:
    """A hook that ends the process with this write of its kind."""
    seen = itertools.count(1)

    def hook(write: Write) -> None:
        if write.kind == kind and next(seen) == LAST_OF_ITS_KIND:
            process.send(signal.SIGKILL)

    return hook


def test_a_storm_outlives_a_scheduler_that_is_killed_after_each_kind_of_write(
    storm: PreemptionStorm, tmp_path: Path
) -> None:
    """Killed right after a nomination, a victim's condition, a victim's deletion and a binding have been applied, while
    it waits for the answer; each run takes over from the one before, and the last one finishes.
    """
    storm.break_out()
    with storm.proxy() as proxy, storm.watch() as history:
        for kind in ("nomination", "condition", "deletion", "binding"):
            process = storm.scheduler(tmp_path / kind, proxy)
            proxy.after = kill_at(kind, process)
            assert storm.run_until_killed(process, SECONDS) == -signal.SIGKILL, process.tail()
        storm.scenario.start_scheduler()
        storm.wait_over(SECONDS)
        complain(storm.faults(history))
