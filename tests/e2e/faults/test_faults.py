"""After each fault every pod that can be bound is bound within a minute, exactly once, and nobody else was touched.

The faults are data (`catalogue.py`), played by a proxy between kscheduler and the API server (`proxy.py`). Most of a
fault's time is waiting, so they are played side by side, in lanes with a scheduler each (`lane.py`); a test asks what
its fault has done. A file in the run's temporary folder grows by a line for each.

pytest tests/e2e/faults --server embedded -k watches       a family
KSCHEDULER_FAULTS=all pytest tests/e2e/faults               all of them, on the real API server too
KSCHEDULER_LONG=1 pytest tests/e2e/faults                   those, too, that take minutes
"""

import os
import queue
import random
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Self, cast

import pytest

from tests.controlplane.hollow_kubelets import HollowKubelets
from tests.e2e.faults.catalogue import FAULTS, ON_THE_REAL_ONE
from tests.e2e.faults.fault import Fault
from tests.e2e.faults.lane import Lane, Outcome, prepare
from tests.e2e.recorder import Recorder
from tests.e2e.servers import RealServer, Server

LANES = 5
LONGEST_SECONDS = 600.0

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def why_not(fault: Fault, server: Server) -> str:
    """Why the fault is left out here; empty if it is not."""
    if fault.is_long and os.environ.get("KSCHEDULER_LONG") != "1":
        return "takes minutes: KSCHEDULER_LONG=1"
    if fault.id in ON_THE_REAL_ONE or os.environ.get("KSCHEDULER_FAULTS") == "all":
        return ""
    if isinstance(server, RealServer):
        return "played on the embedded API server: KSCHEDULER_FAULTS=all"
    return "others say nearly as much: KSCHEDULER_FAULTS=all" if fault.is_rare else ""


class Played:
    """The outcomes of faults that lanes play side by side."""

    def __init__(self, server: Server, recorder: Recorder, faults: list[Fault], folder: Path) -> None:
        self.outcomes: dict[str, Future[Outcome]] = {fault.id: Future() for fault in faults}
        self._server = server
        self._recorder = recorder
        self._folder = folder
        self._lock = threading.Lock()
        # One lane plays all that elect: the manifest's Role allows one Lease. The long ones begin first. The others are
        # mixed: what has just made watches back off would make the next of its kind slower.
        mixed = random.Random(0).sample(faults, len(faults))
        ordered = sorted(mixed, key=lambda fault: (-fault.hurt_pods, -fault.heals_within, -fault.seconds))
        self._of_leader, self._of_others = queue.Queue[Fault](), queue.Queue[Fault]()
        for fault in ordered:
            (self._of_leader if fault.elects else self._of_others).put(fault)
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"lane {number}") for number in range(LANES)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for waiting in (self._of_leader, self._of_others):
            with waiting.mutex:
                waiting.queue.clear()  # of a run that is interrupted
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        with Lane(self._server, self._recorder, number, self._folder) as lane:
            waiting = [self._of_leader, self._of_others] if number == 0 else [self._of_others]
            for one in waiting:
                while True:
                    try:
                        fault = one.get_nowait()
                    except queue.Empty:
                        break
                    try:
                        outcome = lane.play(fault)
                        self._note(fault, outcome)
                        self.outcomes[fault.id].set_result(outcome)
                    except BaseException as error:  # noqa: BLE001 - raised again by the test that asks
                        self.outcomes[fault.id].set_exception(error)

    def _note(self, fault: Fault, outcome: Outcome) -> None:
        """A line for anyone who wants to see how long each took to heal."""
        state = f"{len(outcome.complaints)} complaints" if outcome.complaints else "well"
        with self._lock, (self._folder / "outcomes.txt").open("a") as file:
            file.write(f"{fault.id}: {state}, met {outcome.met}, healed in {outcome.healed_seconds:.1f} s\n")
            if outcome.complaints:
                file.write(textwrap.indent(outcome.text(), "    ") + "\n")


@pytest.fixture(scope="module")
def played(
    server: Server, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    """What the selected faults have done on this server."""
    chosen = [
        cast("Fault", item.callspec.params["fault"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and "fault" in item.fixturenames
    ]
    faults = [fault for fault in dict.fromkeys(chosen) if not why_not(fault, server)]
    prepare(server.api)
    folder = tmp_path_factory.mktemp("faults")
    with (
        HollowKubelets(server.api),
        Recorder(server.api) as recorder,
        Played(server, recorder, faults, folder) as played,
    ):
        yield played


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_after_a_fault_every_pod_is_bound_exactly_once(fault: Fault, server: Server, played: Played) -> None:
    if reason := why_not(fault, server):
        pytest.skip(reason)
    outcome = played.outcomes[fault.id].result(LONGEST_SECONDS)
    summary = f"met {outcome.met}, healed in {outcome.healed_seconds:.1f} s"
    if outcome.complaints:
        pytest.fail(f"{summary}\n{outcome.text()}", pytrace=False)
