"""Workers of Dask make the same rows, also where one dies."""

from pathlib import Path

import pytest

from kscheduler.cli import main
from kscheduler.sweep.engines.dask_cluster import LOCAL, DaskEngine
from kscheduler.sweep.engines.engine import EngineError
from kscheduler.sweep.running import run
from tests.sweep.sweeps import SHOP, reported, spec, write
from tests.sweep.test_local_engine import killing

pytestmark = pytest.mark.slow("starts a Dask cluster")


def test_rows_are_as_in_this_process_although_workers_are_killed(tmp_path: Path) -> None:
    """Also by a run that kills each of its workers: it is a row with an error, and the rest goes on."""
    lines, report = reported()
    once, always = tmp_path / "once", tmp_path / "always"
    once.mkdir()
    always.mkdir()
    bad = killing(always, always=True)
    specs = [spec(seed=1), killing(once, always=False), bad, spec(workload=SHOP), spec(seed=2)]
    rows = list(DaskEngine(LOCAL, 2).rows(specs, report))
    found = {row.key: row.without_measured() for row in rows}
    assert found.pop(bad.key).error == "its workers died, 3 times"
    assert found == {each.key: run(each).without_measured() for each in specs if each is not bad}
    assert len(rows) == len(specs)
    assert lines[0].endswith(", 2 workers")


def test_a_missing_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.sweep.engines.dask_cluster._CONNECT_SECONDS", 0.1)
    _, report = reported()
    with pytest.raises(EngineError, match="Timed out trying to connect to tcp"):
        list(DaskEngine("tcp://127.0.0.1:1", 1).rows([spec()], report))


def test_the_command_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "workloads: [{name: tiny, synthetic: {scale: 0.004}}]\npolicies: [{name: default}]\n"
    path = write(tmp_path / "s.yaml", text)
    assert main(["sweep", str(path), "--dask", "local", "--workers", "1"]) == 0
    assert "1 runs, of which 0 were done before" in capsys.readouterr().err
    assert main(["sweep", str(path), "--dask", "tcp://127.0.0.1:1", "--workers", "1"]) == 2
