"""`kscheduler sweep` as it is typed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kscheduler.cli import main
from kscheduler.cli.commands import sweep
from kscheduler.recorder.segments import segments_in
from kscheduler.sweep.results import Results, read_rows
from kscheduler.sweep.running import empty_row, run
from kscheduler.sweep.sweep_file import read_sweep
from tests.controlplane.process import wait_until
from tests.recorder.recorded import record
from tests.sweep.sweeps import InProcessEngine, write

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


def test_the_list_says_which_row_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "s.yaml", SWEEP)
    results = Results(tmp_path / "s.results")
    first, second, *_ = read_sweep(str(path)).runs()
    for spec in (first, second):
        results.put(empty_row(spec))
    row = tmp_path / "s.results" / "runs" / f"{first.key}.parquet"
    row.write_bytes(row.read_bytes().replace(b"default", b"defautl"))  # the checksum is wrong, the rest is readable
    assert main(["sweep", str(path), "--list"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()[1:3]] == ["damaged", "done"]
    assert str(row) in err
    assert err.endswith("; the next sweep repeats the run\n")


def test_what_a_recording_lacks_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 50, seed=11, nodes=2)
    (segment,) = segments_in(tmp_path)
    segment.path.write_bytes(segment.path.read_bytes()[:-7])
    monkeypatch.setattr(sweep, "_engine", lambda *_: InProcessEngine())
    policies = "policies: [{name: as-it-was, recorded: true}, {name: default}]"
    recording = f"recording: {{path: {segment.path.name}}}"
    path = write(tmp_path / "s.yaml", f"workloads: [{{name: week, {recording}}}]\n{policies}\n")
    for _ in range(2):  # what was done before has it, too
        assert main(["sweep", str(path)]) == 0
        said = [line for line in capsys.readouterr().err.splitlines() if segment.path.name in line]
        assert len(said) == 1
        assert said[0].startswith(f"kscheduler: week: {segment.path.name}: it was cut within block ")


# The long runs keep both workers busy until the signal: the last tiny ones are always missing then.
LONG_SWEEP = """
workloads:
- {name: tiny, synthetic: {scale: 0.004}}
- {name: long, synthetic: {scale: 1}}
- {name: tiny-later, synthetic: {scale: 0.005}}
policies: [{name: default}]
seeds: [1, 2]
"""


@pytest.mark.slow("starts the command with its workers, and ends it by signals")
@pytest.mark.parametrize(
    ("number", "code", "engine"),
    [(signal.SIGINT, 130, ()), (signal.SIGTERM, 143, ()), (signal.SIGINT, 130, ("--dask", "local"))],
    ids=["ctrl-c", "kill", "ctrl-c-with-dask"],
)
def test_a_signal_ends_it_with_what_is_done_and_the_same_command_goes_on(
    number: signal.Signals, code: int, engine: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "s.yaml", LONG_SWEEP)
    arguments = ["sweep", str(path), "--workers", "2"]
    begun = [sys.executable, "-m", "kscheduler", *arguments, *engine]
    ended = subprocess.Popen(begun, stderr=subprocess.PIPE, text=True, start_new_session=True)
    results = tmp_path / "s.results"
    wait_until("the first run", lambda: list(results.rglob("*.parquet")) or ended.poll() is not None, 120)
    assert ended.poll() is None
    os.killpg(ended.pid, number) if number == signal.SIGINT else ended.send_signal(number)
    _, err = ended.communicate(timeout=60)
    assert ended.returncode == code
    assert "of 6 runs are done; the same command goes on" in err
    assert "Traceback" not in err
    kept = Results(results).done()
    assert 0 < len(kept) < 4
    assert main([*arguments, "--only", "tiny"]) == 0
    assert f"4 runs, of which {len(kept)} were done before" in capsys.readouterr().err
    tiny = [spec for spec in read_sweep(str(path)).runs() if spec.workload.name != "long"]
    rows = read_rows(results / "results.parquet")
    assert [row.without_measured() for row in rows] == [run(spec).without_measured() for spec in tiny]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workers", "0"], "--workers: at least one is needed"),
        (["--on-cluster"], "--on-cluster: --image IMAGE is needed"),
        (["--on-cluster", "--image", "i", "--dask", "local"], "--on-cluster goes without --dask"),
        (["--on-cluster", "--image", "i", "--pods", "0"], "--pods: at least one is needed"),
        (["--image", "i"], "--image goes with --on-cluster"),
        (["--data-claim", "c"], "--data-claim goes with --on-cluster"),
        (["--pods", "0"], "--pods goes with --on-cluster"),
        (["-n", "sweeps", "--dask", "local"], "--namespace goes with --on-cluster"),
        (["--context", "lab"], "--context goes with --on-cluster"),
        (["--search"], "search: Required value: --search needs policy, goal and weights"),
        (["--search", "--list"], "--search chooses the runs itself"),
        (["--shard", "{file}"], "--shard is for the pods of --on-cluster"),
        (["--only", "nobody"], "--only nobody: no run has this"),
        (["--results", "{file}"], "s.yaml/runs: Not a directory"),
    ],
)
def test_invalid_flags_are_refused(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "s.yaml", SWEEP)
    assert main(["sweep", str(path), *(flag.format(file=path) for flag in flags)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_with_mistakes_is_refused_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "s.yaml", SWEEP + "sedes: 1\n")
    assert main(["sweep", str(path)]) == 2
    assert capsys.readouterr().err == f"kscheduler: {path}:5: sedes: unknown field: did you mean seeds?\n"


def test_a_missing_package_is_named_with_how_to_install_it(
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
