"""The figures of `make bench-upstream`: kept, not measured again, and shown with what a reader has to know."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.runs import Machine
from benchmarks.upstream import table
from benchmarks.upstream.__main__ import Session, main, parse
from benchmarks.upstream.requests import Script
from benchmarks.upstream.table import Figures, Run
from benchmarks.upstream.workloads import Limits, Sized, read_all, sized
from tests.controlplane.binaries import Binaries

MACHINE = Machine(cpu="c", cores=2, memory_gib=4, python="3", numpy="2", load=0.0, reference_us=1.0)


def figures(**changes: Any) -> Figures:
    made = Figures(
        workload="Case/One",
        folder="misc",
        scheduler="kscheduler",
        round=0,
        nodes=100,
        pods=1_000,
        scale=1.0,
        measured=900,
        pods_per_second=300.0,
        fed_per_second=900.0,
        latency_p99_milliseconds=1_234.0,
        cpu_milliseconds=0.5,
        peak_mebibytes=90.0,
    )
    return msgspec.structs.replace(made, **changes)


def test_a_run_that_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "build" / "run.json"
    run = Run(MACHINE, "v1.37.2", (figures(), figures(scheduler="floor", refused="why")))
    table.write(file, run)
    assert table.read(file) == run
    assert [path.name for path in file.parent.iterdir()] == ["run.json"]


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"run\.json"):
        table.read(tmp_path / "run.json")


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        pytest.param({}, "", id="nothing to say"),
        pytest.param({"pods_per_second": 870.0}, "keeps up", id="as fast as they come"),
        pytest.param({"stuck": "no bind", "scale": 0.25}, "stuck, scaled to 0.25", id="stuck and smaller"),
        pytest.param({"faults": ("a", "b"), "pods_per_second": 900.0}, "2 faults", id="faults come first"),
        pytest.param({"measured": 12}, "few pods", id="too few to say anything"),
        pytest.param({"refused": "why"}, "not played: why", id="not played"),
    ],
)
def test_a_line_says_what_a_reader_must_know(changes: dict[str, Any], verdict: str) -> None:
    assert figures(**changes).verdict == verdict
    assert table.line(figures(**changes)).endswith(verdict)


def test_the_table_has_a_line_for_each_workload_with_all_three_beside_each_other() -> None:
    lines = list(
        table.table(
            [
                figures(),
                figures(scheduler="kube-scheduler", pods_per_second=100.0, stuck="no bind"),
                figures(scheduler="floor", refused="why"),
                figures(workload="Case/Two", scale=0.5),
            ]
        )
    )
    assert len(lines) == 3
    assert " ".join(lines[1].split()) == "Case/One 100 1,000 1.00 300 100* - 1,234 1,234 - 0.50 0.50 - 90 90 -"
    assert lines[2].split()[:8] == ["Case/Two", "100", "1,000", "0.50", "300", "-", "-", "1,234"]


def test_rounds_become_medians_and_keep_what_was_wrong_in_any() -> None:
    speeds = (100.0, 500.0, 200.0)
    rounds = [figures(round=number, pods_per_second=speed) for number, speed in enumerate(speeds)]
    (row,) = table.rows([*rounds[:2], msgspec.structs.replace(rounds[2], faults=("full",))])
    assert row.by_scheduler["kscheduler"].pods_per_second == 200.0
    assert row.by_scheduler["kscheduler"].faults == ("full",)


def test_the_table_of_a_page_has_the_same_figures() -> None:
    lines = list(table.markdown([figures(scale=0.5), figures(scheduler="kube-scheduler", pods_per_second=100.0)]))
    assert lines[2] == (
        "| Case/One (scaled to 0.50) | 100 | 1,000 | 300 / 100 / - | 1,234 / 1,234 / - ms | 0.50 / 0.50 / - ms |"
        " 90 / 90 / - MiB |"
    )


def test_a_file_is_shown_without_measuring_and_says_whether_all_is_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    table.write(file, Run(MACHINE, "v1.37.2", (figures(),)))
    assert main(["--result", str(file), "--markdown"]) == 0
    assert "| Case/One |" in capsys.readouterr().out
    table.write(file, Run(MACHINE, "v1.37.2", (figures(stuck="no bind for 60 s\nend of log"),)))
    assert main(["--result", str(file)]) == 1
    assert "Case/One, kscheduler: no bind for 60 s\n" in capsys.readouterr().out


# --- a run that goes on -----------------------------------------------------------------------------------------------

CONFIGURATION = """
- name: Case
  workloadTemplate:
  - {opcode: createNodes, count: 1}
  - {opcode: createPods, count: 2, collectMetrics: true}
  workloads: [{name: One}, {name: Two}]
"""


class RecordingSession(Session):
    """Measures nothing: writes down who would be."""

    measured: list[tuple[str, str]]

    def __init__(self, *arguments: str) -> None:
        nowhere = Path("nowhere")
        super().__init__(Binaries(nowhere, nowhere, nowhere, nowhere, nowhere), parse(list(arguments)))
        self.measured = []

    @contextmanager
    def cluster(self, script: Script) -> Iterator[Path]:
        yield Path(script.workload.name)

    def measure(self, name: str, one: Sized, script: Script, data: Path) -> Figures:
        assert str(data) == one.name == script.workload.name
        self.measured.append((one.name, name))
        if one.name == "Case/Two" and name == "floor":
            raise RuntimeError("the API server has gone")
        return figures(workload=one.name, scheduler=name, nodes=1, pods=2)


@pytest.fixture
def workloads(tmp_path: Path) -> list[Sized]:
    (tmp_path / "performance-config.yaml").write_text(CONFIGURATION)
    return [sized(workload, Limits(5_000, 5_000)) for workload in read_all(tmp_path)]


def test_who_comes_first_changes_with_each_workload(workloads: list[Sized], capsys: pytest.CaptureFixture[str]) -> None:
    session = RecordingSession()
    session.play(workloads)
    assert [name for _, name in session.measured][:4] == ["kscheduler", "kube-scheduler", "floor", "kube-scheduler"]
    assert "Case/Two, floor: the API server has gone" in capsys.readouterr().err


def test_what_is_done_is_not_measured_again_and_what_failed_is(workloads: list[Sized], tmp_path: Path) -> None:
    file = str(tmp_path / "run.json")
    RecordingSession("--json", file).play(workloads)
    second = RecordingSession("--json", file)
    second.play(workloads)
    assert second.measured == [("Case/Two", "floor")]
    assert (tmp_path / "run.txt").read_text().splitlines() == list(table.table(second.run.figures))


def test_a_further_round_measures_all_again(workloads: list[Sized], tmp_path: Path) -> None:
    file = str(tmp_path / "run.json")
    RecordingSession("--json", file, "--schedulers", "kscheduler").play(workloads)
    second = RecordingSession("--json", file, "--schedulers", "kscheduler", "--rounds", "2")
    second.play(workloads)
    assert second.measured == [("Case/One", "kscheduler"), ("Case/Two", "kscheduler")]
    assert [one.round for one in second.run.figures] == [0, 0, 1, 1]
