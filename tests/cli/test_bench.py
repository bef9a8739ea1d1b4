"""`kscheduler bench`: what is asked for is played, each scenario in a process of its own."""

import json

import pytest

from kscheduler.cli import main

Captured = pytest.CaptureFixture[str]


def test_scenarios_are_listed_with_size_goal_and_source(capsys: Captured) -> None:
    assert main(["bench", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (basic,) = [line.split() for line in lines if line.startswith("SchedulingBasic ")]
    assert basic == ["SchedulingBasic", "5,000", "10,000", "10,000", "misc/SchedulingBasic", "5000Nodes_10000Pods"]


def test_what_is_asked_for_comes_out_as_json(capsys: Captured) -> None:
    flags = ["--scenario", "SchedulingBasic", "--scenario", "IndexedJobs", "--nodes", "10", "--pods", "20", "--json"]
    assert main(["bench", *flags]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(one["scenario"], one["nodes"], one["bound"]) for one in result] == [
        ("SchedulingBasic", 10, 20),
        ("IndexedJobs", 10, 20),
    ]


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
