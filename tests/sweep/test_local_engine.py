"""Worker processes of this machine: rows as in this process, whatever happens to a worker."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from kscheduler.sweep.engines.local import LocalEngine
from kscheduler.sweep.run_spec import PolicyPlugin, RunSpec, digest_of
from kscheduler.sweep.running import run
from tests.sweep.sweeps import DEFAULT, SHOP, TINY, reported, spec, write

KILLS = """
import os, signal
from pathlib import Path
from kscheduler import plugin

mark = Path({mark!r})
if {always} or not mark.exists():
    mark.write_text("")
    os.kill(os.getpid(), signal.SIGKILL)

@plugin("Kills")
def kills(pod, node):
    return 0
"""


def killing(folder: Path, *, always: bool) -> RunSpec:
    path = write(folder / "kills.py", KILLS.format(mark=str(folder / "mark"), always=always))
    source = PolicyPlugin(str(path), digest_of([path]), path.read_text())
    return spec(policy=msgspec.structs.replace(DEFAULT, name="kills", plugins=(source,), enables_plugins=True))


@pytest.mark.slow("starts worker processes, of which some are killed")
def test_a_killed_worker_is_reported_and_its_run_repeated_with_equal_rows(tmp_path: Path) -> None:
    lines, report = reported()
    specs = [spec(seed=1), killing(tmp_path, always=False), spec(workload=SHOP), spec(seed=2)]
    found = {row.key: row.without_measured() for row in LocalEngine(2).rows(specs, report)}
    assert found == {each.key: run(each).without_measured() for each in specs}
    assert len(lines) == 1
    assert "ended by signal 9 in kills on tiny, seed 1; the run is repeated" in lines[0]


@pytest.mark.slow("starts worker processes, of which some are killed")
def test_a_run_that_kills_each_worker_is_a_row_with_an_error_and_the_rest_goes_on(tmp_path: Path) -> None:
    lines, report = reported()
    specs = [killing(tmp_path, always=True), spec(workload=TINY)]
    found = {row.key: row for row in LocalEngine(1).rows(specs, report)}
    assert "ended by signal 9" in found[specs[0].key].error
    assert found[specs[0].key].error.endswith("3 times")
    assert found[specs[1].key].error == ""
    assert len(lines) == 3


def test_closing_the_iterator_ends_the_workers() -> None:
    lines, report = reported()
    rows = LocalEngine(2).rows([spec(seed=seed) for seed in range(20)], report)
    worker = next(rows).worker
    rows.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(worker.rpartition(":")[2]), signal.SIGCONT)
    assert lines == []
