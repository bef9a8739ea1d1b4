"""Which of scheduler_perf's workloads are played, and how large: scaled to what a machine holds.

A workload with more nodes or pods than the limits is played smaller: nodes, pods, claims and what belongs to them times
one factor, so that nodes are as full as before. What is there once, such as classes and namespaces, stays; gangs stay
as large, there are fewer of them. Where a template counts nodes or pods by itself the workload is played whole or not
at all.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream import operations as upstream
from kscheduler.bench.upstream.configuration import UpstreamWorkload, read_configuration
from kscheduler.bench.upstream.operations import UpstreamOperation
from tests.controlplane.releases.pinned import Release

T = TypeVar("T", bound=UpstreamOperation)

SCHEDULER_PERF: Final = Path("test", "integration", "scheduler_perf")
CONFIGURATION: Final = "performance-config.yaml"
# Parameters of templates that count what scaling changes, and one that says how many pods a group has.
_COUNTS: Final = frozenset({"nodesCount", "podsCount", "PodGroupCount", "minCount"})
_GROUP_SIZE: Final = "podsPerGroup"
# Kinds of which a workload has as many as it has nodes or pods.
_SCALED_KINDS: Final = re.compile(r"resourceslice|resourceclaim(?!template)|podgroup")

_TINY: Final = 1e-9

README: Final = (
    "SchedulingBasic/5000Nodes",
    "SchedulingNodeAffinity/5000Nodes",
    "SchedulingPodAffinity/5000Nodes",
    "SchedulingPreferredPodAntiAffinity/5000Nodes",
    "TopologySpreading/5000Nodes",
    "PreemptionBasic/1000Nodes",
    "SchedulingCSIPVs/500Nodes",
    "SchedulingWithMixedChurn/1000Nodes",
    "SchedulingWithResourceClaimTemplate/2000pods_200nodes",
    "GangScheduling/5000Nodes_1000Gangs_3000Pods",
)
"""One of each kind, of a size that takes two minutes for three schedulers."""
SELECTIONS: Final = ("all", "performance", "short", "integration-test", "unlabelled", "readme")


class Limits(msgspec.Struct, frozen=True):
    """How large a workload may be."""

    nodes: int
    pods: int
    """Created by operations, without those of churn and of steady states."""
    scale: float = 1.0
    """A factor that all get."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A workload as it is played."""

    workload: UpstreamWorkload
    scale: float
    problem: str = ""
    """Why it is left out."""

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.workload.name


def module_folder(release: Release) -> Path:
    """Where Go's module cache has scheduler_perf of this release."""
    home = Path(os.environ.get("GOPATH") or Path.home() / "go")
    cache = Path(os.environ.get("GOMODCACHE") or home / "pkg" / "mod")
    return cache / f"k8s.io/kubernetes@{release.tag}" / SCHEDULER_PERF


def read_all(folder: Path) -> list[UpstreamWorkload]:
    """The workloads of all configuration files below the folder. Raises `TemplateError` if there is none."""
    files = sorted(folder.rglob(CONFIGURATION))
    if not files:
        raise TemplateError(f"{folder}: has no {CONFIGURATION}")
    return [workload for path in files for workload in read_configuration(path)]


def chosen(
    workloads: Iterable[UpstreamWorkload], selection: str, patterns: Sequence[str], nodes_at_most: int
) -> list[UpstreamWorkload]:
    """Those of the selection, or those whose names have one of the patterns (regular expressions) in them."""
    found = []
    for workload in workloads:
        if patterns:
            is_chosen = any(re.search(pattern, workload.name) for pattern in patterns)
        else:
            is_chosen = _is_selected(workload, selection) and nodes_of(workload) <= nodes_at_most
        if is_chosen:
            found.append(workload)
    return found


def _is_selected(workload: UpstreamWorkload, selection: str) -> bool:
    match selection:
        case "all":
            return True
        case "readme":
            return workload.name in README
        case "unlabelled":
            return not workload.labels
        case _:
            return selection in workload.labels


def by_gates(workloads: Iterable[Sized]) -> list[Sized]:
    """Workloads whose API servers have the same gates follow each other; the order stays as it is else."""
    groups: dict[tuple[tuple[str, bool], ...], list[Sized]] = {}
    for each in workloads:
        groups.setdefault(tuple(sorted(each.workload.gates.items())), []).append(each)
    return [each for group in groups.values() for each in group]


# --- size -------------------------------------------------------------------------------------------------------------


def nodes_of(workload: UpstreamWorkload) -> int:
    """All nodes that it creates."""
    return sum(one.count or 0 for one in workload.operations if isinstance(one, upstream.CreateNodesOp))


def pods_of(workload: UpstreamWorkload) -> int:
    """All pods that it creates, without those of churn and of steady states."""
    return sum(_pods(operation) for operation in workload.operations)


def _pods(operation: UpstreamOperation) -> int:
    if isinstance(operation, upstream.CreatePodSetsOp):
        return (operation.count or 0) * _pods(operation.create_pods_op)
    if isinstance(operation, upstream.CreatePodsOp) and not operation.steady_state:
        return operation.count or 0
    return 0


def sized(workload: UpstreamWorkload, limits: Limits) -> Sized:
    """The workload within the limits."""
    nodes, pods = nodes_of(workload), pods_of(workload)
    factor = min(1.0, limits.scale, limits.nodes / max(nodes, 1), limits.pods / max(pods, 1))
    if factor == 1.0:
        return Sized(workload, 1.0)
    counts = sorted(_counts(workload))
    if counts:
        is_small = nodes <= limits.nodes and pods <= limits.pods
        problem = "" if is_small else f"{nodes:,} nodes, {pods:,} pods: its templates have {', '.join(counts)}"
        return Sized(workload, 1.0, problem)
    operations = tuple(_scaled(operation, factor) for operation in workload.operations)
    return Sized(replace(workload, operations=operations), factor)


def smallest(workload: UpstreamWorkload) -> UpstreamWorkload:
    """The workload with one object where it has many: large enough to see what it sends, too small to be played."""
    return replace(workload, operations=tuple(_scaled(operation, _TINY) for operation in workload.operations))


def _counts(workload: UpstreamWorkload) -> set[str]:
    """Parameters of templates that scaling would have to change."""
    params: Iterable[dict[str, Any]] = (getattr(one, "template_params", {}) for one in workload.operations)
    found = {name for each in params for name in each if name in _COUNTS}
    trees = (one for one in workload.operations if isinstance(one, upstream.CreateCompositePodGroupsOp))
    return found | {"parents by number" for _ in trees}


def _scaled(operation: UpstreamOperation, factor: float) -> UpstreamOperation:
    match operation:
        case upstream.CreatePodSetsOp(create_pods_op=inner):
            return msgspec.structs.replace(operation, create_pods_op=_with_count(inner, factor))
        case upstream.CreatePodsOp(steady_state=True):
            return operation
        case upstream.CreateAnyOp(template_path=path):
            is_many = _SCALED_KINDS.match(Path(path).name) is not None
            return _with_count(operation, factor) if is_many else operation
        case (
            upstream.CreateNodesOp()
            | upstream.CreatePodsOp()
            | upstream.CreatePodGroupsOp()
            | upstream.CreateResourceClaimsOp()
            | upstream.UpdateAnyOp()
        ):
            return _with_count(operation, factor)
        case _:
            return operation


def _with_count(operation: T, factor: float) -> T:
    """None stay none, and some stay one at least; whole groups stay whole."""
    declared: int = getattr(operation, "count", None) or 0
    if not declared:
        return operation
    size = operation.template_params.get(_GROUP_SIZE, 1) if isinstance(operation, upstream.CreatePodsOp) else 1
    count = max(1, round(declared / size * factor)) * size
    return msgspec.structs.replace(operation, count=min(count, declared))
