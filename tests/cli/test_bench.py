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


UPSTREAM = """
- name: Plain
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - {name: small, threshold: 70, params: {nodes: 3, pods: 60}}
  - {name: large, params: {nodes: 6000, pods: 60}}
- name: Odd
  workloadTemplate:
  - {opcode: createClouds}
  workloads:
  - {name: small}
"""


@pytest.fixture
def upstream(tmp_path: Path) -> str:
    file = tmp_path / "performance-config.yaml"
    file.write_text(UPSTREAM)
    return str(file)


def test_upstream_s_workloads_are_listed_with_what_stands_in_the_way(upstream: str, capsys: Captured) -> None:
    assert main(["bench", "--upstream", upstream, "--list"]) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "workload nodes pods threshold can be played",
        "Plain/small 3 60 70 yes",
        "Plain/large 6,000 60 no: 6,000 nodes are more than --nodes-at-most 5000",
        "Odd/small 0 - no: op 0 (createClouds): opcode: 'createClouds' is not known",
    ]


@PROCESSES
def test_upstream_s_workloads_are_played_beside_their_thresholds(upstream: str, capsys: Captured) -> None:
    assert main(["bench", "--upstream", upstream]) == 0
    said = capsys.readouterr()
    header, line = said.out.splitlines()
    assert " ".join(header.split()) == "workload nodes pods threshold pods/s CPU us/pod"
    assert line.split()[:4] == ["Plain/small", "3", "60", "70"]
    large, odd = said.err.splitlines()
    assert large.startswith("kscheduler bench: Plain/large is left out: 6,000 nodes are more than")
    assert odd.startswith("kscheduler bench: Odd/small is left out: ")


@PROCESSES
def test_calls_are_counted_in_upstream_s_workloads(upstream: str, capsys: Captured) -> None:
    assert main(["bench", "--upstream", upstream, "--scenario", "Plain/small", "--calls", "--json"]) == 0
    (counted,) = json.loads(capsys.readouterr().out)
    assert (counted["scenario"], counted["nodes"], counted["pods"], counted["fewer_pods"]) == ("Plain/small", 3, 60, 12)


@PROCESSES
def test_a_workload_that_fails_does_not_end_the_others(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "performance-config.yaml"
    pods = "{opcode: createPods, count: 200, collectMetrics: true}"
    before = "{opcode: createPods, count: 200}"
    text = UPSTREAM.replace("- name: Odd", "- name: Full").replace("  - {opcode: createClouds}", "")
    file.write_text(
        text.replace(
            "  workloads:\n  - {name: small}",
            f"""\
  - {{opcode: createNodes, count: 1}}
  - {before}
  - {pods}
  workloads:
  - {{name: small}}""",
        )
    )
    assert main(["bench", "--upstream", str(file), "--scenario", "Full", "--scenario", "Plain/small"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[0] == "Plain/small"
    assert "Full/small has failed: Full/small: 160 pods found no node" in said.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--nodes-at-most", "5"], "give --upstream, too", id="no file"),
        pytest.param(["--upstream", "x", "--nodes-at-most", "0"], "must be at least 1", id="no nodes"),
        pytest.param(["--upstream", "x", "--nodes", "5"], "give --nodes-at-most", id="nodes"),
        pytest.param(["--upstream", "none.yaml"], "none.yaml: No such file", id="file"),
    ],
)
def test_flags_that_do_not_go_with_upstream_s_files(flags: list[str], message: str, capsys: Captured) -> None:
    assert main(["bench", *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_workload_that_is_asked_for_and_cannot_be_played_is_refused(upstream: str, capsys: Captured) -> None:
    assert main(["bench", "--upstream", upstream, "--scenario", "Odd/small"]) == 2
    assert f"{upstream}: Odd/small: op 0 (createClouds): opcode: 'createClouds' is not known" in capsys.readouterr().err
