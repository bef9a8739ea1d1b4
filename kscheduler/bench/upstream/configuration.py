"""Reading scheduler_perf's performance-config.yaml: test cases, their workloads, and what each workload does.

A file that is no list of test cases is refused. What is wrong within one is a problem of its workloads: each has the
operations that could be read, or the text that says what stands in the way.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream.operations import (
    FieldError,
    Parameters,
    UpstreamOperation,
    read_operation,
    resolved,
)
from kscheduler.config.errors import ConfigError
from kscheduler.config.reading.yaml_tree import parse_yaml

THROUGHPUT: Final = "SchedulingThroughput"
# Read by the code of upstream's test alone, which gives each node so many features `Feature1`, `Feature2` ...
DECLARED_FEATURES: Final = "numNodeDeclaredFeatures"
DECLARED_FEATURES_GATE: Final = "NodeDeclaredFeatures"


class ThresholdMetric(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a threshold is compared with."""

    name: str = THROUGHPUT
    labels: dict[str, str] = {}
    data_bucket: str = "Average"
    expect_lower: bool = False


class _Workload(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    """Or by the topic of a test, such as `dra`."""
    threshold_metric_selector: ThresholdMetric | None = None
    feature_gates: dict[str, bool] = {}


class _TestCase(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    workload_template: list[Any]
    workloads: list[_Workload]
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: dict[str, Any] = {}
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    labels: list[str] = []
    default_threshold_metric_selector: ThresholdMetric | None = None


@dataclass(frozen=True, slots=True)
class UpstreamWorkload:
    """A workload with its values in place."""

    path: Path
    """The file that it is from."""
    test_case: str
    workload: str
    operations: tuple[UpstreamOperation, ...] = ()
    gates: Mapping[str, bool] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    threshold: float = 0.0
    """Pods per second that upstream's CI must reach; 0: none is declared."""
    default_pod_template: str = ""
    scheduler_config: str = ""
    declared_features: tuple[str, ...] = ()
    """That all nodes declare, in order."""
    problem: str = ""
    """Why it cannot be played; empty: nothing is known yet."""

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"{self.test_case}/{self.workload}"


def read_configuration(path: Path) -> list[UpstreamWorkload]:
    """The workloads of a file, in its order. Raises `TemplateError` for a file that has none."""
    try:
        tree = parse_yaml(path.read_bytes(), str(path))
    except OSError as error:
        raise TemplateError(f"{path}: {error.strerror}") from None
    except ConfigError as error:
        raise TemplateError(str(error)) from None
    if not isinstance(tree, list) or not tree:
        raise TemplateError(f"{path}: is not a list of test cases, as scheduler_perf's performance-config.yaml is")
    cases = [_test_case(path, number, case) for number, case in enumerate(tree)]
    for name, count in Counter(case.name for case in cases).items():
        if count > 1:
            raise TemplateError(f"{path}: {name}: name: {count} test cases have this name")
    return [workload for case in cases for workload in _workloads(path, case)]


def _test_case(path: Path, number: int, tree: Any) -> _TestCase:
    name = tree.get("name", f"test case {number}") if isinstance(tree, dict) else f"test case {number}"
    try:
        case = msgspec.convert(tree, _TestCase)
    except msgspec.ValidationError as error:
        message, separator, where = str(error).rpartition(" - at `$.")
        text = f"{where.rstrip('`')}: {message}" if separator else str(error)
        raise TemplateError(f"{path}: {name}: {text}") from None
    for what, given in (("workloads", case.workloads), ("workloadTemplate", case.workload_template)):
        if not given:
            raise TemplateError(f"{path}: {name}: {what}: must have at least one entry")
    for workload, count in Counter(one.name for one in case.workloads).items():
        if count > 1:
            raise TemplateError(f"{path}: {name}/{workload}: name: {count} workloads have this name")
    return case


def _workloads(path: Path, case: _TestCase) -> Iterator[UpstreamWorkload]:
    operations, problems = _operations(case)
    for workload in case.workloads:
        made: tuple[UpstreamOperation, ...] = ()
        features: tuple[str, ...] = ()
        gates = {**case.feature_gates, **workload.feature_gates}
        problem = "; ".join(problems)
        if not problem:
            parameters = Parameters(workload.params)
            features = _declared_features(parameters, gates)
            made, problem = _resolved(operations, parameters)
        yield UpstreamWorkload(
            path=path,
            test_case=case.name,
            workload=workload.name,
            operations=made,
            gates=gates,
            labels=(*case.labels, *workload.labels),
            threshold=_threshold(case, workload),
            default_pod_template=case.default_pod_template_path,
            scheduler_config=case.scheduler_config_path,
            declared_features=features,
            problem=f"{path}: {case.name}/{workload.name}: {problem}" if problem else "",
        )


def _operations(case: _TestCase) -> tuple[list[UpstreamOperation], list[str]]:
    """The operations of a test case, and what is wrong with them."""
    operations: list[UpstreamOperation] = []
    problems: list[str] = []
    for number, tree in enumerate(case.workload_template):
        try:
            operations.append(read_operation(tree))
        except FieldError as error:
            opcode = tree.get("opcode") if isinstance(tree, dict) else None
            problems.append(f"op {number} ({opcode}): {error}" if opcode else f"op {number}: {error}")
    return operations, problems


def _resolved(
    operations: Sequence[UpstreamOperation], parameters: Parameters
) -> tuple[tuple[UpstreamOperation, ...], str]:
    """The operations with a workload's values, and what is wrong with those."""
    made, problems = [], []
    for number, operation in enumerate(operations):
        try:
            made.append(resolved(operation, parameters))
        except FieldError as error:
            problems.append(f"op {number} ({operation.__struct_config__.tag}): {error}")
    if not problems and parameters.unused:
        names = ", ".join(sorted(parameters.unused))
        problems.append(f"params: no operation uses {names}: only code of upstream's test can")
    return tuple(made), "; ".join(problems)


def _declared_features(parameters: Parameters, gates: Mapping[str, bool]) -> tuple[str, ...]:
    """In the order that the API server asks for: as text."""
    value = parameters.values.get(DECLARED_FEATURES)
    if not isinstance(value, int) or not gates.get(DECLARED_FEATURES_GATE, False):
        return ()
    parameters.used.add(DECLARED_FEATURES)
    return tuple(sorted(f"Feature{number}" for number in range(1, value + 1)))


def _threshold(case: _TestCase, workload: _Workload) -> float:
    metric = workload.threshold_metric_selector or case.default_threshold_metric_selector or ThresholdMetric()
    if metric.name != THROUGHPUT:
        return 0.0
    given = workload.threshold
    return max(given.values(), default=0.0) if isinstance(given, dict) else given
