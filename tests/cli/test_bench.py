"""`kscheduler bench`: what is asked for is played, each scenario in a process of its own."""

import json
from pathlib import Path

import pytest

from kscheduler.cli import main

PROCESSES = pytest.mark.slow("starts kscheduler as a process, and plays a scenario")

Captured = pytest.CaptureFixture[str]


def test_scenarios_are_listed_with_size_goal_and_source(capsys: Captured) -> None:
    assert main(["bench", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (basic,) = [line.split() for line in lines if line.startswith("SchedulingBasic ")]
    assert basic == ["SchedulingBasic", "5,000", "10,000", "10,000", "misc/SchedulingBasic", "5000Nodes_10000Pods"]


@PROCESSES
def test_what_is_queried_for_comes_out_as_json(capsys: Captured) -> None:
    flags = ["--scenario", "SchedulingBasic", "--scenario", "IndexedJobs", "--nodes", "10", "--pods", "20", "--json"]
    assert main(["bench", *flags]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(one["scenario"], one["nodes"], one["bound"]) for one in result] == [
        ("SchedulingBasic", 10, 20),
        ("IndexedJobs", 10, 20),
    ]


@PROCESSES
def test_without_json_it_is_a_table(capsys: Captured) -> None:
    assert main(["bench", "--scenario", "PreemptionBasic", "--nodes", "5", "--pods", "5"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split()[:5] == ["scenario", "nodes", "pods", "bound", "rejected"]
    assert line.split()[:5] == ["PreemptionBasic", "5", "5", "5", "5"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--scenario", "Basic"], "did you mean SchedulingBasic?", id="unknown scenario"),
        pytest.param(["--nodes", "0"], "at least one node and one pod", id="no nodes"),
        pytest.param(["--pods", "-1"], "at least one node and one pod", id="fewer than no pods"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_line(flags: list[str], message: str, capsys: Captured) -> None:
    assert main(["bench", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


NEEDS = """
import msgspec
from kscheduler.framework.per_node import plugin
class Most(msgspec.Struct):
    most: int
@plugin("Mine", sign=lambda pod: None)
def score(pod, node, args: Most):
    return args.most
"""


def test_a_plugin_that_needs_arguments_is_refused_with_a_way_to_play_it(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.py"
    file.write_text(NEEDS)
    flags = ["bench", "--scenario", "SchedulingBasic", "--nodes", "3", "--pods", "3", "--plugin", str(file)]
    assert main(flags) == 2
    said = capsys.readouterr().err
    assert "Object missing required field `most`" in said
    assert "give the fields of its arguments defaults" in said
    file.write_text(NEEDS.replace("most: int", "most: int = 3"))
    assert main(flags) == 0


@PROCESSES
def test_calls_are_counted_and_compared_with_an_earlier_count(tmp_path: Path, capsys: Captured) -> None:
    flags = ["bench", "--calls", "--scenario", "SchedulingBasic", "--nodes", "10", "--pods", "60"]
    assert main([*flags, "--json"]) == 0
    (found,) = json.loads(text := capsys.readouterr().out)
    assert found["by_function"]["builtin:len"] > 1
    assert found["python_calls_per_pod"] > found["builtin_calls_per_pod"] > 50
    file = tmp_path / "calls.json"
    file.write_text(text)
    assert main([*flags, "--beside", str(file)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Calls that one more pod costs")
    assert "no function is called more or less" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--beside", "x.json"], "give --calls, too", id="without --calls"),
        pytest.param(["--calls", "--beside", "x.json", "--json"], "either --beside or --json", id="as JSON"),
        pytest.param(["--calls", "--beside", "nowhere.json"], "nowhere.json: No such file", id="no file"),
        pytest.param(["--calls", "--beside", __file__], "is not from `kscheduler bench --calls --json`", id="no JSON"),
        pytest.param(["--calls", "--nodes", "0"], "at least one node and one pod", id="no nodes"),
    ],
)
def test_an_earlier_count_that_cannot_be_used_is_refused(flags: list[str], message: str, capsys: Captured) -> None:
    assert main(["bench", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
