"""A sweep goes on where it was ended: a run that is there is not made again, and no row is lost or there twice."""

from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from kscheduler.sweep.results import Results, read_rows
from kscheduler.sweep.row import COLUMNS, SweepRow
from kscheduler.sweep.running import unrun
from kscheduler.sweep.sweeping import sweep
from tests.sweep.sweeps import SHOP, TINY, HereEngine, spec, told

SPECS = [spec(workload=workload, seed=seed) for workload in (TINY, SHOP) for seed in (1, 2)]


def rows_of(results: Results, engine: HereEngine) -> list[SweepRow]:
    _, tell = told()
    outcome = sweep(SPECS, engine, results, lambda *_: None, tell)
    return [row.without_measured() for row in outcome.rows]


def test_a_sweep_that_was_ended_goes_on_and_has_the_rows_of_one_that_was_not(tmp_path: Path) -> None:
    whole = rows_of(Results(tmp_path / "whole"), HereEngine())
    ended, rest = HereEngine(most=3), HereEngine()
    with pytest.raises(KeyboardInterrupt):
        rows_of(Results(tmp_path / "parts"), ended)
    assert rows_of(Results(tmp_path / "parts"), rest) == whole
    assert ended.made + rest.made == [each.key for each in SPECS]
    assert [row.key for row in whole] == [each.key for each in SPECS]


def test_nothing_is_made_again_and_progress_is_told_of_all(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    _, tell = told()
    results = Results(tmp_path)
    sweep(SPECS[:2], HereEngine(), results, lambda *_: None, tell)
    outcome = sweep(SPECS, HereEngine(), results, lambda done, total, _: seen.append((done, total)), tell)
    assert seen == [(3, 4), (4, 4)]
    assert outcome.made == 2
    again = HereEngine()
    assert sweep(SPECS, again, results, lambda *_: None, tell).made == 0
    assert again.made == []


def test_a_run_that_failed_is_told_and_made_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    wrong = msgspec.structs.replace(SPECS[0], version="other")
    _, tell = told()
    for _ in range(2):
        outcome = sweep([wrong, SPECS[1]], HereEngine(), results, lambda *_: None, tell)
        assert [row.key for row in outcome.failed] == [wrong.key]
    assert outcome.made == 1
    assert results.done() == {SPECS[1].key}


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            results.put(unrun(SPECS[0]))
    assert results.done() == set()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    results = Results(tmp_path)
    path = tmp_path / "runs" / f"{SPECS[0].key}.parquet"
    path.write_bytes(b"")
    with pytest.raises(OSError, match="without it the run is made again") as raised:
        rows_of(results, HereEngine())
    assert raised.value.filename == str(path)


def test_rows_are_parquet_with_types_and_meanings(tmp_path: Path) -> None:
    results = Results(tmp_path)
    row = unrun(SPECS[0])
    row = msgspec.structs.replace(row, pods=3, price=1.5, worker="here:1")
    results.put(row)
    assert results.get(row.key) == row
    path = results.write_together([row, row])
    assert read_rows(path) == [row, row]
    found = parquet.read_schema(path)
    assert found.names == list(COLUMNS)
    assert {name: found.field(name).metadata[b"description"].decode() for name in found.names} == dict(COLUMNS)
    assert {str(kind) for kind in found.types} == {"string", "int64", "double"}
    assert not found.field("key").nullable
    assert found.field("price").nullable
