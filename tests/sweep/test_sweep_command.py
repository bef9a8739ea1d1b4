"""`kscheduler sweep` as it is typed."""

from pathlib import Path

import pytest

from kscheduler.cli import main
from tests.sweep.sweeps import write

SWEEP = """
workloads: [{name: tiny, synthetic: {scale: 0.004}}]
policies: [{name: default}, {name: FGD, openb: FGD}]
seeds: [1, 2]
"""


def test_it_prints_a_table_keeps_rows_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "s.yaml", SWEEP)
    assert main(["sweep", str(path), "--workers", "1", "--only", "FGD"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "tiny"
    assert out.splitlines()[1].split()[:4] == ["policy", "runs", "placed", "waiting"]
    assert "FGD" in out
    assert "default" not in out
    assert "2 runs, of which 0 were done before" in err
    assert main(["sweep", str(path), "--list"]) == 0
    out, _ = capsys.readouterr()
    assert [line.endswith("done") for line in out.splitlines()[1:]] == [False, False, True, True]
    assert (tmp_path / "s.results" / "results.parquet").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workers", "0"], "--workers: at least one is needed"),
        (["--only", "nobody"], "--only nobody: no run has this"),
        (["--results", "{file}"], "s.yaml/runs: Not a directory"),
    ],
)
def test_what_cannot_be_done_is_told(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "s.yaml", SWEEP)
    assert main(["sweep", str(path), *(flag.format(file=path) for flag in flags)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_with_mistakes_is_refused_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "s.yaml", SWEEP + "sedes: 1\n")
    assert main(["sweep", str(path)]) == 2
    assert capsys.readouterr().err == f"kscheduler: {path}:5: sedes: unknown field: did you mean seeds?\n"


def test_what_is_not_installed_is_told_with_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "s.yaml", SWEEP)
    from kscheduler.sweep import results

    def missing() -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr(results, "schema", missing)
    assert main(["sweep", str(path)]) == 2
    assert (
        "`kscheduler sweep` needs the package pyarrow, which is not installed: in a checkout pip install '.[sweep]'"
        in (capsys.readouterr().err)
    )
