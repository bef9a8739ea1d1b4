"""What `python -m benchmarks.sweeps` compares: engines with workers killed, and rows that are not equal."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.sweeps import by_dask_workers, by_local_workers, differing
from kscheduler.sweep.running import empty_row, run
from tests.sweep.sweeps import TINY, spec


def test_rows_differ_by_what_was_decided_and_not_by_time() -> None:
    row = empty_row(spec())
    later, other = (msgspec.structs.replace(row, **values) for values in ({"run_seconds": 3.0}, {"placed": 1}))
    assert differing([row, row], [later, row]) == []
    assert differing([row], [other]) == [row.key]
    failed = empty_row(spec(), "broken")
    assert differing([failed], [failed]) == [row.key]


@pytest.mark.slow("starts worker processes and a Dask cluster, and kills some of them")
def test_killed_interrupted_resumed_and_by_dask_the_rows_are_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = msgspec.structs.replace(TINY, scale=0.008)
    specs = [spec(workload=workload, seed=seed) for seed in range(6)]
    local, dask = by_local_workers(specs, tmp_path / "local"), by_dask_workers(specs, tmp_path / "dask")
    output = capsys.readouterr().out
    assert output.count("is killed") == 2
    assert "interrupted with" in output
    assert differing(local, dask) == []
    assert differing(local, [run(each) for each in specs]) == []
