"""Which of scheduler_perf's workloads are played against a real API server, how large, and in what order."""

from pathlib import Path

import pytest

from benchmarks.upstream.__main__ import main, parse
from benchmarks.upstream.requests import script_of
from benchmarks.upstream.servers import FLOOR, OURS, RIVAL, apiserver_options, refusal, scheduler_settings
from benchmarks.upstream.workloads import README, Limits, by_gates, chosen, nodes_of, pods_of, read_all, sized
from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream import operations as upstream
from kscheduler.bench.upstream.configuration import UpstreamWorkload

CONFIGURATION = """
- name: Plain
  labels: [performance]
  schedulerConfigPath: scheduler.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createAny, countParam: $nodes, templatePath: templates/resourceslice.yaml}
  - {opcode: createAny, count: 25, templatePath: templates/deviceclass.yaml}
  - {opcode: createPods, count: 10, steadyState: true, duration: 5s, namespace: ns}
  - {opcode: createPods, countParam: $pods, namespace: ns, collectMetrics: true}
  workloads:
  - {name: small, labels: [short], params: {nodes: 100, pods: 400}}
  - {name: large, params: {nodes: 8000, pods: 16000}}
- name: Gangs
  featureGates: {GenericWorkload: true}
  workloadTemplate:
  - {opcode: createNodes, count: 50}
  - {opcode: createPodGroups, countParam: $gangs, namespace: ns, templatePath: podgroup.yaml}
  - opcode: createPods
    countParam: $gangs
    countMultiplierParam: $podsPerGroup
    namespace: ns
    collectMetrics: true
    templateParams: {podsPerGroup: $podsPerGroup}
  workloads:
  - {name: threes, params: {gangs: 100, podsPerGroup: 3}}
- name: Counted
  workloadTemplate:
  - {opcode: createNodes, count: 50}
  - {opcode: createPods, count: 500, collectMetrics: true, templateParams: {podsCount: 500}}
  workloads: [{name: one}]
- name: Later
  featureGates: {GenericWorkload: true}
  workloadTemplate:
  - {opcode: createPods, count: 1, collectMetrics: true}
  - {opcode: createNodes, count: 1}
  workloads: [{name: one}]
"""


@pytest.fixture
def workloads(tmp_path: Path) -> dict[str, UpstreamWorkload]:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "performance-config.yaml").write_text(CONFIGURATION)
    (folder / "scheduler.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: a}]\n"
    )
    return {workload.name: workload for workload in read_all(tmp_path)}


def test_a_folder_without_configurations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"has no performance-config\.yaml"):
        read_all(tmp_path)


@pytest.mark.parametrize(
    ("selection", "patterns", "expected"),
    [
        pytest.param("all", (), ["Plain/small", "Gangs/threes", "Counted/one", "Later/one"], id="all"),
        pytest.param("short", (), ["Plain/small"], id="short"),
        pytest.param("unlabelled", (), ["Gangs/threes", "Counted/one", "Later/one"], id="unlabelled"),
        pytest.param("all", ("la.*e$", "^Gangs"), ["Plain/large", "Gangs/threes"], id="patterns"),
    ],
)
def test_labels_sizes_and_patterns_choose(
    selection: str, patterns: tuple[str, ...], expected: list[str], workloads: dict[str, UpstreamWorkload]
) -> None:
    found = chosen(workloads.values(), selection, patterns, 5_000)
    assert [workload.name for workload in found] == expected


def test_a_workload_beyond_a_limit_shrinks_with_all_that_belongs_to_it(
    workloads: dict[str, UpstreamWorkload],
) -> None:
    smaller = sized(workloads["Plain/large"], Limits(4_000, 4_000))
    nodes, slices, classes, steady, pods = smaller.workload.operations
    assert smaller.scale == pytest.approx(0.25)
    assert (nodes_of(smaller.workload), pods_of(smaller.workload)) == (2_000, 4_000)
    counts = [one.count for one in (nodes, slices, classes, steady, pods) if isinstance(one, upstream._CountedOp)]
    assert counts == [2_000, 2_000, 25, 10, 4_000]


def test_a_workload_within_the_limits_stays_as_it_is(workloads: dict[str, UpstreamWorkload]) -> None:
    same = sized(workloads["Plain/small"], Limits(100, 400))
    assert same.workload is workloads["Plain/small"]
    assert same.scale == 1


def test_gangs_stay_whole(workloads: dict[str, UpstreamWorkload]) -> None:
    _, groups, pods = sized(workloads["Gangs/threes"], Limits(5_000, 100)).workload.operations
    assert isinstance(groups, upstream.CreatePodGroupsOp)
    assert isinstance(pods, upstream.CreatePodsOp)
    assert (groups.count, pods.count) == (33, 99)


def test_a_workload_whose_templates_count_is_played_whole_or_not_at_all(
    workloads: dict[str, UpstreamWorkload],
) -> None:
    counted = workloads["Counted/one"]
    assert sized(counted, Limits(5_000, 500, scale=0.1)).problem == ""
    assert sized(counted, Limits(5_000, 500, scale=0.1)).workload is counted
    assert "its templates have podsCount" in sized(counted, Limits(5_000, 499)).problem


def test_workloads_with_the_same_gates_follow_each_other(workloads: dict[str, UpstreamWorkload]) -> None:
    order = by_gates(sized(workload, Limits(5_000, 5_000)) for workload in workloads.values())
    assert [one.name for one in order] == ["Plain/small", "Plain/large", "Counted/one", "Gangs/threes", "Later/one"]


# --- servers ----------------------------------------------------------------------------------------------------------


def test_the_api_server_has_the_gates_and_the_versions_of_the_workload(workloads: dict[str, UpstreamWorkload]) -> None:
    assert apiserver_options(workloads["Gangs/threes"]) == (
        "--disable-admission-plugins=Priority",
        "--feature-gates=GenericWorkload=true",
        "--runtime-config=scheduling.k8s.io/v1beta1=true",
    )
    assert apiserver_options(workloads["Plain/small"]) == ("--disable-admission-plugins=Priority",)


def test_kube_scheduler_gets_the_profiles_of_the_workload(workloads: dict[str, UpstreamWorkload]) -> None:
    assert scheduler_settings(workloads["Plain/small"]) == {"profiles": [{"schedulerName": "a"}]}
    assert scheduler_settings(workloads["Gangs/threes"]) == {}


def test_who_cannot_play_says_why(workloads: dict[str, UpstreamWorkload]) -> None:
    later = script_of(workloads["Later/one"])
    assert refusal(FLOOR, later, "1.37") == "nodes come or change later, and it reads them once"
    assert refusal(OURS, later, "1.37") == refusal(RIVAL, later, "1.37") == ""


def test_a_gate_that_kscheduler_does_not_have_is_no_hindrance_to_kube_scheduler(tmp_path: Path) -> None:
    config = CONFIGURATION.replace("GenericWorkload: true", "DRAWorkloadResourceClaims: true")
    (tmp_path / "performance-config.yaml").write_text(config)
    script = script_of({one.name: one for one in read_all(tmp_path)}["Later/one"])
    assert "DRAWorkloadResourceClaims" in refusal(OURS, script, "1.37")
    assert refusal(RIVAL, script, "1.37") == ""


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_list_says_of_each_workload_who_plays_it(
    workloads: dict[str, UpstreamWorkload], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain" / "templates").mkdir()
    assert workloads
    assert main(["--list", "--folder", str(tmp_path), "--only", "Later", "Gangs"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["workload", "nodes", "pods", "scale", "can", "be", "played"]
    assert lines[0].split()[:4] == ["Gangs/threes", "50", "300", "1.00"]
    assert "no: op 1 (createPodGroups): " in lines[0]
    assert lines[1].endswith("not by floor: nodes come or change later, and it reads them once")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no performance-config\.yaml"):
        main(["--list", "--folder", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--scale", "0"], "0 is not above 0 and at most 1", id="nothing"),
        pytest.param(["--scale", "2"], "2 is not above 0 and at most 1", id="larger"),
        pytest.param(["--only", "("], "argument --only: (", id="pattern"),
    ],
)
def test_options_without_a_meaning_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert message in capsys.readouterr().err


def test_the_workloads_for_a_readme_are_smaller_and_different() -> None:
    assert parse(["--selection", "readme"]).max_pods < parse([]).max_pods
    assert len({name.partition("/")[0] for name in README}) == len(README)
