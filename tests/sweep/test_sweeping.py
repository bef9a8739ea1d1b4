"""A sweep resumes where it was interrupted: a finished run is not repeated, and no row is lost or duplicated."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from kscheduler.sweep.results import DamagedRowError, Results, as_table, read_rows
from kscheduler.sweep.row import COLUMNS, SweepRow
from kscheduler.sweep.running import empty_row
from kscheduler.sweep.sweeping import sweep
from tests.sweep.sweeps import SHOP, TINY, InProcessEngine, reported, spec

SPECS = [spec(workload=workload, seed=seed) for workload in (TINY, SHOP) for seed in (1, 2)]


def rows_of(results: Results, engine: InProcessEngine) -> list[SweepRow]:
    _, report = reported()
    outcome = sweep(SPECS, engine, results, lambda *_: None, report)
    return [row.without_measured() for row in outcome.rows]


def test_a_resumed_sweep_has_the_rows_of_one_that_was_not_interrupted(tmp_path: Path) -> None:
    whole = rows_of(Results(tmp_path / "whole"), InProcessEngine())
    ended, rest = InProcessEngine(limit=3), InProcessEngine()
    with pytest.raises(KeyboardInterrupt):
        rows_of(Results(tmp_path / "parts"), ended)
    assert rows_of(Results(tmp_path / "parts"), rest) == whole
    assert ended.executed + rest.executed == [each.key for each in SPECS]
    assert [row.key for row in whole] == [each.key for each in SPECS]


def test_nothing_is_repeated_and_progress_counts_all(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    _, report = reported()
    results = Results(tmp_path)
    sweep(SPECS[:2], InProcessEngine(), results, lambda *_: None, report)
    outcome = sweep(SPECS, InProcessEngine(), results, lambda done, total, _: seen.append((done, total)), report)
    assert seen == [(3, 4), (4, 4)]
    assert outcome.executed == 2
    again = InProcessEngine()
    assert sweep(SPECS, again, results, lambda *_: None, report).executed == 0
    assert again.executed == []


def test_a_failed_run_is_reported_and_repeated(tmp_path: Path) -> None:
    results = Results(tmp_path)
    wrong = msgspec.structs.replace(SPECS[0], version="other")
    _, report = reported()
    for _ in range(2):
        outcome = sweep([wrong, SPECS[1]], InProcessEngine(), results, lambda *_: None, report)
        assert [row.key for row in outcome.failed] == [wrong.key]
    assert outcome.executed == 1
    assert results.done() == {SPECS[1].key}


def test_a_file_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            results.put(empty_row(SPECS[0]))
    assert results.done() == set()
    assert list((tmp_path / "runs").iterdir()) == []


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: whole[:0],
    "cut": lambda whole: whole[: len(whole) // 2],
    "turned": lambda whole: whole.replace(b"generated", b"genarated").replace(b"tiny", b"tony"),
    "other": lambda whole: b"no Parquet at all" + whole,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_file_is_named_and_only_its_run_is_repeated(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    results = Results(tmp_path)
    whole = rows_of(results, InProcessEngine())
    path = tmp_path / "runs" / f"{SPECS[0].key}.parquet"
    path.write_bytes(damage(path.read_bytes()))
    again, (lines, report) = InProcessEngine(), reported()
    outcome = sweep(SPECS, again, results, lambda *_: None, report)
    assert again.executed == [SPECS[0].key]
    assert [row.without_measured() for row in outcome.rows] == whole
    assert [(str(path) in line, line.endswith("; the run is repeated")) for line in lines] == [(True, True)]
    assert results.get(SPECS[0].key).without_measured() == whole[0]


def test_the_file_of_another_run_is_not_taken_for_the_row_of_this_one(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.put(empty_row(SPECS[1]))
    (tmp_path / "runs" / f"{SPECS[1].key}.parquet").rename(tmp_path / "runs" / f"{SPECS[0].key}.parquet")
    with pytest.raises(DamagedRowError, match="it does not have the one row of its run"):
        results.get(SPECS[0].key)


def test_a_row_without_a_column_of_today_is_readable(tmp_path: Path) -> None:
    row = msgspec.structs.replace(empty_row(SPECS[0]), pods=3, worker="here:1")
    parquet.write_table(as_table([row]).drop_columns(["worker", "price"]), tmp_path / "older.parquet")
    assert read_rows(tmp_path / "older.parquet") == [msgspec.structs.replace(row, worker="")]


def test_rows_are_parquet_with_types_and_meanings(tmp_path: Path) -> None:
    results = Results(tmp_path)
    row = empty_row(SPECS[0])
    row = msgspec.structs.replace(row, pods=3, price=1.5, worker="here:1")
    results.put(row)
    assert results.get(row.key) == row
    path = results.write_all([row, row])
    assert read_rows(path) == [row, row]
    found = parquet.read_schema(path)
    assert found.names == list(COLUMNS)
    assert {name: found.field(name).metadata[b"description"].decode() for name in found.names} == dict(COLUMNS)
    assert {str(kind) for kind in found.types} == {"string", "int64", "double"}
    assert not found.field("key").nullable
    assert found.field("price").nullable


def test_a_page_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    results = Results(tmp_path)
    page = results.write_page("whole")
    with pytest.raises(UnicodeEncodeError):
        results.write_page("half \ud800")
    assert page.read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [page.name]
