"""scheduler_perf's configuration: what is read, and what is said of each mistake."""

from pathlib import Path
from typing import Any

import pytest

from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream.configuration import UpstreamWorkload, read_configuration
from kscheduler.bench.upstream.operations import (
    OPERATIONS,
    BarrierOp,
    CreateAnyOp,
    CreateNodesOp,
    CreatePodSetsOp,
    CreatePodsOp,
    SleepOp,
)

CASE = """
- name: Plain
  featureGates: {A: true, B: true}
  labels: [all]
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - opcode: createPods
    countParam: $groups
    countMultiplierParam: $perGroup
    steadyStateParam: $steady
    durationParam: $duration
    signatureBatchSizeParam: $batch
    collectMetrics: true
    templateParams: {class: $class, cpu: "$cpu|100m", count: $count|3, plain: x}
  workloads:
  - name: 5Nodes
    labels: [short]
    featureGates: {B: false}
    threshold: 70
    params: {nodes: 5, groups: 2, perGroup: 3, steady: true, duration: 10s, batch: 4, class: gpu}
  - name: 9Nodes
    threshold: {dra: 56}
    params: {nodes: 9, groups: 2, perGroup: 3, steady: false, duration: 0s, batch: 4, class: gpu}
"""


def read(folder: Path, text: str) -> list[UpstreamWorkload]:
    file = folder / "config.yaml"
    file.write_text(text)
    return read_configuration(file)


def test_a_workload_has_its_values_in_the_places_of_its_parameters(tmp_path: Path) -> None:
    first, second = read(tmp_path, CASE)
    nodes, pods = first.operations
    assert nodes == CreateNodesOp(count=5, count_param="$nodes")
    assert isinstance(pods, CreatePodsOp)
    assert (pods.count, pods.steady_state, pods.duration, pods.signature_batch_size) == (6, True, "10s", 4)
    assert pods.template_params == {"class": "gpu", "cpu": "100m", "count": 3, "plain": "x"}
    assert (first.name, first.threshold, first.problem) == ("Plain/5Nodes", 70.0, "")
    assert (first.gates, first.labels) == ({"A": True, "B": False}, ("all", "short"))
    assert (first.default_pod_template, first.scheduler_config) == ("pod.yaml", "")
    assert (second.name, second.threshold, second.gates) == ("Plain/9Nodes", 56.0, {"A": True, "B": True})


def test_what_a_threshold_of_another_metric_says_is_no_throughput(tmp_path: Path) -> None:
    text = CASE.replace("    threshold: 70\n", "    threshold: 70\n    thresholdMetricSelector: {name: latency}\n")
    assert [one.threshold for one in read(tmp_path, text)] == [0.0, 56.0]


ONE_OPERATION = """
- name: One
  workloadTemplate:
  - {operation}
  workloads:
  - name: small
    params: {params}
"""


def of_operation(folder: Path, operation: str, params: str = "{}") -> UpstreamWorkload:
    (workload,) = read(folder, ONE_OPERATION.format(operation=operation, params=params))
    return workload


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param("{opcode: createAny, templatePath: a}", CreateAnyOp(template_path="a", count=1), id="any"),
        pytest.param("{opcode: barrier}", BarrierOp(), id="barrier"),
        pytest.param('{opcode: barrier, stageRequirement: "$none|Attempted"}', None, id="barrier with a parameter"),
        pytest.param("{opcode: sleep, duration: 1m30s}", SleepOp(duration="1m30s"), id="sleep"),
        pytest.param(
            "{opcode: createPodSets, count: 2, namespacePrefix: ns, createPodsOp: {opcode: createPods, count: 3}}",
            CreatePodSetsOp(count=2, namespace_prefix="ns", create_pods_op=CreatePodsOp(count=3)),
            id="sets of pods",
        ),
    ],
)
def test_an_operation_has_upstream_s_defaults(operation: str, expected: Any, tmp_path: Path) -> None:
    workload = of_operation(tmp_path, operation)
    assert workload.problem == ""
    assert workload.operations == ((expected or BarrierOp(stage_requirement="Attempted")),)


@pytest.mark.parametrize(
    ("operation", "params", "message"),
    [
        pytest.param(
            "{opcode: createClouds}", "{}", "op 0 (createClouds): opcode: 'createClouds' is not known", id="op"
        ),
        pytest.param("{count: 3}", "{}", "op 0: opcode: is missing", id="no opcode"),
        pytest.param("just text", "{}", "op 0: opcode: is missing", id="no operation"),
        pytest.param(
            "{opcode: createNodes, size: 3}", "{}", "(createNodes): Object contains unknown field `size`", id="f"
        ),
        pytest.param("{opcode: createNodes, count: x}", "{}", "count: Expected `int | null`, got `str`", id="type"),
        pytest.param("{opcode: createAny}", "{}", "missing required field `templatePath`", id="required"),
        pytest.param("{opcode: createNodes, count: -1}", "{}", "count: must not be below 0, not -1", id="count"),
        pytest.param(
            "{opcode: createNodes, countParam: size}", "{}", "'size' is not the name of a parameter", id="no $"
        ),
        pytest.param(
            "{opcode: createNodes, countParam: $size}", "{}", "countParam: the workload has no parameter 'size'", id="n"
        ),
        pytest.param(
            "{opcode: createNodes, countParam: $size}", "{size: x}", "'size' is 'x', not of the type int", id="kind"
        ),
        pytest.param(
            "{opcode: createNodes, countParam: $size}", "{size: true}", "'size' is True, not of the type int", id="bool"
        ),
        pytest.param(
            "{opcode: createNodes, count: 1}",
            "{nodes: 1, more: 2}",
            "params: no operation uses more, nodes",
            id="unused",
        ),
        pytest.param(
            "{opcode: createNodes, count: 1}",
            "{numNodeDeclaredFeatures: 5}",
            "params: no operation uses numNodeDeclaredFeatures",
            id="features without their gate",
        ),
        pytest.param(
            "{opcode: createPods, count: 1, templateParams: {a: $a}}",
            "{}",
            "templateParams.a: the workload",
            id="template",
        ),
        pytest.param(
            "{opcode: createPods, skipWaitToCompletion: true, collectMetrics: true}", "{}", "collectMetrics", id="skips"
        ),
        pytest.param(
            "{opcode: createPods, skipWaitToCompletion: true, steadyState: true}", "{}", "with steadyState", id="steady"
        ),
        pytest.param(
            "{opcode: createPods, steadyState: true, duration: 0s}", "{}", "duration: must be above 0", id="0s"
        ),
        pytest.param("{opcode: createPods, steadyState: true, duration: x}", "{}", "duration: invalid", id="duration"),
        pytest.param("{opcode: createPods, signatureBatchSize: -1}", "{}", "signatureBatchSize: must", id="batch"),
        pytest.param(
            "{opcode: createPodGroups, namespace: a, templatePath: b, count: 0}",
            "{}",
            "count: must be at least 1",
            id="0",
        ),
        pytest.param(
            "{opcode: createCompositePodGroups, namespace: a, templatePath: b, depth: 5, rootCount: 1}",
            "{}",
            "depth: must be 2 to 4, not 5",
            id="deep trees",
        ),
        pytest.param(
            "{opcode: createCompositePodGroups, namespace: a, templatePath: b, depth: 2, childrenPodGroupsPerCPG: 1}",
            "{}",
            "rootCount: must be at least 1",
            id="no trees",
        ),
        pytest.param(
            "{opcode: createCompositePodGroups, namespace: a, templatePath: b, depth: 2, rootCount: 1}",
            "{}",
            "childrenPodGroupsPerCPG: must be at least 1",
            id="no leaves",
        ),
        pytest.param(
            "{opcode: createCompositePodGroups, namespace: a, templatePath: b, depth: 3, rootCount: 1, "
            "childrenPodGroupsPerCPG: 1}",
            "{}",
            "childrenCompositePodGroupsPerCPG: must be set if depth is above 2",
            id="no levels",
        ),
        pytest.param("{opcode: churn, mode: x, templatePaths: [a]}", "{}", "mode: must be create or", id="mode"),
        pytest.param(
            "{opcode: churn, mode: recreate, templatePaths: [a]}", "{}", "number: must not be below 1", id="re"
        ),
        pytest.param(
            "{opcode: churn, mode: create, number: -1, templatePaths: [a]}", "{}", "number: must", id="number"
        ),
        pytest.param("{opcode: churn, mode: create, templatePaths: []}", "{}", "templatePaths: must have", id="paths"),
        pytest.param(
            "{opcode: churn, mode: create, templatePaths: [a], intervalMilliseconds: -1}",
            "{}",
            "above 0",
            id="interval",
        ),
        pytest.param("{opcode: deletePods, namespace: a, deletePodsPerSecond: -1}", "{}", "deletePodsPer", id="rate"),
        pytest.param(
            "{opcode: updateAny, templatePath: a, updatePerSecond: -1}", "{}", "updatePerSecond", id="updates"
        ),
        pytest.param("{opcode: barrier, stageRequirement: Bound}", "{}", "must be Scheduled or Attempted", id="stage"),
        pytest.param("{opcode: sleep, duration: long}", "{}", "duration: invalid duration 'long'", id="sleep"),
        pytest.param("{opcode: startCollectingMetrics, namespaces: []}", "{}", "namespaces: must have", id="metrics"),
    ],
)
def test_a_mistake_names_file_workload_operation_and_field(
    operation: str, params: str, message: str, tmp_path: Path
) -> None:
    workload = of_operation(tmp_path, operation, params)
    assert workload.problem.startswith(f"{tmp_path / 'config.yaml'}: One/small: ")
    assert message in workload.problem


def test_the_mistake_of_one_workload_is_not_that_of_the_others(tmp_path: Path) -> None:
    first, second = read(tmp_path, CASE.replace("nodes: 5,", "nodes: many,"))
    assert "Plain/5Nodes: op 0 (createNodes): countParam: the parameter 'nodes' is 'many'" in first.problem
    assert second.problem == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "config.yaml: line 2, column 1: not YAML", id="no YAML"),
        pytest.param("", "is not a list of test cases", id="empty"),
        pytest.param("name: x", "is not a list of test cases", id="no list"),
        pytest.param("- 3", "test case 0: Expected `object`, got `int`", id="no test case"),
        pytest.param(
            "- {name: A, workloads: []}", "A: Object missing required field `workloadTemplate`", id="no operations"
        ),
        pytest.param(
            "- {name: A, workloadTemplate: [], workloads: [{name: b}]}", "A: workloadTemplate: must have", id="0"
        ),
        pytest.param(
            "- {name: A, workloadTemplate: [{}], workloads: []}", "A: workloads: must have", id="no workloads"
        ),
        pytest.param(
            "- {name: A, workloadTemplate: [{}], workloads: [{name: b, parms: {}}]}",
            "A: workloads[0]: Object contains unknown field `parms`",
            id="unknown field",
        ),
        pytest.param(
            "- {name: A, workloadTemplate: [{}], workloads: [{name: b}, {name: b}]}",
            "A/b: name: 2 workloads",
            id="twice",
        ),
        pytest.param(
            "- {name: A, workloadTemplate: [{}], workloads: [{name: b}]}\n" * 2, "A: name: 2 test cases", id="cases"
        ),
    ],
)
def test_a_file_that_has_no_workloads_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError) as found:
        read(tmp_path, text)
    assert str(tmp_path / "config.yaml") in str(found.value)
    assert message in str(found.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"none\.yaml: No such file or directory"):
        read_configuration(tmp_path / "none.yaml")


def test_every_operation_of_1_37_and_1_38_is_known() -> None:
    assert set(OPERATIONS) == {
        "allocResourceClaims",
        "barrier",
        "churn",
        "createAny",
        "createCompositePodGroups",
        "createNamespaces",
        "createNodes",
        "createPodGroups",
        "createPodSets",
        "createPods",
        "createResourceClaims",
        "deletePods",
        "sleep",
        "startCollectingMetrics",
        "startCollectingProfile",
        "stopCollectingMetrics",
        "stopCollectingProfile",
        "updateAny",
    }
