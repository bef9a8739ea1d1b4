"""Scenarios: lists of scheduler_perf's operations, typed.

    CreateNodes, CreateNamespaces, CreateObjects, AllocateClaims, UpdateObjects
                                complete before the next operation begins
    CreatePods                  arrive together, and are scheduled before the next operation begins, or at a Barrier
    Churn, DeletePods           go on while pods are measured
    StartMeasuring, StopMeasuring       what is measured, where it is more than one operation of pods

scheduler_perf paces churn by the clock. At a few thousand decisions per second a whole run would see only a handful of
such events, so time is converted to pods: `pace` is the throughput expected of kube-scheduler in that workload, and an
interval of 0.2 s at a pace of 170 becomes 34 measured pods. Where nothing can be scheduled, time is skipped up to the
next such event.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.releases import VERSION
from kscheduler.bench.template import ObjectTemplate, TemplateError

DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class CreateNodes:
    """Creates nodes, each with the label `kubernetes.io/hostname`, as kubelets do."""

    count: int
    template: ObjectTemplate
    zones: tuple[str, ...] = ()
    """Values of `topology.kubernetes.io/zone`, in turn."""
    companions: tuple[ObjectTemplate, ...] = ()
    """Created after each node with its name as `$node`: its CSINode, its devices."""
    is_fixed: bool = False
    """Whether the count stays the same when the scenario is resized."""


@dataclass(frozen=True, slots=True)
class CreateNamespaces:
    """Creates namespaces `PREFIX-0`, `PREFIX-1` ..."""

    prefix: str
    count: int
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateObjects:
    """Creates other objects."""

    template: ObjectTemplate
    count: int = 1
    namespace: str = DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Pods."""

    count: int
    template: ObjectTemplate
    namespace: str = ""
    """May contain `$set`; empty means the operation's own namespace, as in scheduler_perf."""
    measured: bool = False
    sets: int = 1
    """The number of groups; pods are assigned to them in turn."""
    per_set: int = 0
    """Pods of a group follow each other instead, so many of each; 0 means that they take turns."""
    of_set: tuple[ObjectTemplate, ...] = ()
    """Created before the first pod of such a group, such as its PodGroup; `$member` is the number of its pods."""
    one_per_node: bool = False
    """Each group has a pod for every node (`$node`), and the groups follow each other."""
    companions: tuple[ObjectTemplate, ...] = ()
    """Created before each pod with the same values, such as its claim and volume."""
    at_once: int = 0
    """A pod arrives when fewer than this many are without a node; 0 means that all arrive together."""
    arrival: Literal["pending", "parked", "running"] = "pending"
    """`parked`: they need not be bound. `running`: they start on the nodes, in turn."""
    waits: bool = True
    """Whether the next operation begins when they are bound; else a `Barrier` waits for them."""
    leaves: bool = False
    """A pod is deleted as soon as it is bound, with the claims that it owns."""


@dataclass(frozen=True, slots=True)
class Churn:
    """Creates objects (and, with `recreate`, deletes them again) while pods are measured."""

    templates: tuple[ObjectTemplate, ...]
    interval_seconds: float
    mode: Literal["create", "recreate"] = "create"
    number: int = 0
    """Objects of each template that are created at most (0: no limit), or are there when the first one is deleted."""
    namespace: str = ""
    """Empty means the operation's own namespace."""


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Deletes the pods of a namespace one by one while others are measured."""

    namespace: str
    per_second: float
    keeps_objects: bool = False
    """Whether a finalizer keeps them terminating."""
    labels: tuple[tuple[str, str], ...] = ()
    """Only pods with these labels."""
    waits: bool = False
    """Whether the next operation begins when all are deleted; there are attempts between two of them."""


@dataclass(frozen=True, slots=True)
class UpdateObjects:
    """Replaces objects with others of the same names; there are attempts between two of them."""

    template: ObjectTemplate
    count: int = 1
    namespace: str = DEFAULT_NAMESPACE
    per_second: float = 0.0
    """0: all are replaced before the next attempt."""


@dataclass(frozen=True, slots=True)
class AllocateClaims:
    """Gives each claim of a namespace (all, if it is empty) devices on a node that is chosen at random."""

    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits for pods that were not waited for."""

    namespaces: tuple[str, ...] = ()
    """Empty means all."""
    labels: tuple[tuple[str, str], ...] = ()
    until: Literal["bound", "attempted"] = "bound"


@dataclass(frozen=True, slots=True)
class Sleep:
    """Schedules for a time, whether or not there is anything to do."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StartMeasuring:
    """From here on all operations count, with all pods that are to be measured."""


@dataclass(frozen=True, slots=True)
class StopMeasuring:
    """Up to here."""


Operation: TypeAlias = (
    AllocateClaims
    | Barrier
    | Churn
    | CreateNamespaces
    | CreateNodes
    | CreateObjects
    | CreatePods
    | DeletePods
    | Sleep
    | StartMeasuring
    | StopMeasuring
    | UpdateObjects
)


@dataclass(frozen=True, slots=True)
class BenchmarkScenario:
    """A benchmark."""

    name: str
    source: str
    """The workload of scheduler_perf with this name and size, or the purpose of our own scenario."""
    operations: tuple[Operation, ...]
    goal: int = 0
    """The goal in decisions per second at the declared size, or what upstream's CI must reach; 0 means none."""
    pace: float = 250.0
    """Measured pods per second, by which intervals are converted."""
    most_per_node: float = 25.0
    """How many measured pods have room on each node, on average."""
    gates: tuple[str, ...] = ()
    """Feature gates that it switches on, or `NAME=false` for one that it switches off."""
    configuration: str = ""
    """A KubeSchedulerConfiguration; empty: the default one."""
    version: str = VERSION
    """The version of Kubernetes that is followed."""

    def __post_init__(self) -> None:
        """Raise `TemplateError` for invalid operations."""
        for problem in (_problem(operation) for operation in self.operations):
            if problem:
                raise TemplateError(f"{self.name}: {problem}")
        measured = [
            operation for operation in self.operations if isinstance(operation, CreatePods) and operation.measured
        ]
        has_window = StartMeasuring() in self.operations
        if not self.nodes or not measured or (len(measured) > 1 and not has_window):
            raise TemplateError(f"{self.name}: needs nodes, and one operation of measured pods")
        if self.pods > self.most_pods:
            raise TemplateError(f"{self.name}: {self.pods} pods have no room on {self.nodes} nodes")
        if self.pace <= 0:
            raise TemplateError(f"{self.name}: pace must be above 0")

    @property
    def nodes(self) -> int:
        """The number of nodes that the scenario creates."""
        return sum(operation.count for operation in self.operations if isinstance(operation, CreateNodes))

    @property
    def pods(self) -> int:
        """The number of measured pods."""
        return sum(
            operation.count for operation in self.operations if isinstance(operation, CreatePods) and operation.measured
        )

    @property
    def most_pods(self) -> int:
        """The number of measured pods that have room."""
        return int(self.most_per_node * self.nodes)

    def resized(self, nodes: int | None = None, pods: int | None = None) -> "BenchmarkScenario":
        """The same scenario with `nodes` nodes, earlier pods in proportion, and `pods` measured pods.

        Measured pods are limited to those that have room. If all nodes are fixed, all pods scale with the measured
        ones. Raises `TemplateError` for less than one node or pod.
        """
        if min(nodes or 1, pods or 1) < 1 or 0 in (nodes, pods):
            raise TemplateError(f"{self.name}: at least one node and one pod are needed")
        fixed, free = self._nodes(is_fixed=True), self._nodes(is_fixed=False)
        by_nodes = (nodes / free if nodes else 1.0) if free else (pods or self.pods) / self.pods
        kept = tuple(_resized(operation, by_nodes) for operation in self.operations)
        measured = pods or max(1, round(self.pods * by_nodes))
        room = max(1, int(self.most_per_node * (fixed + (nodes or free if free else 0))))
        goal = self.goal if nodes in (None, self.nodes) and pods in (None, self.pods) else 0
        operations = tuple(_measuring(operation, min(measured, room) / self.pods) for operation in kept)
        return replace(self, operations=operations, goal=goal)

    def settled(self) -> "BenchmarkScenario":
        """The same scenario with the earlier pods running on the nodes in turn, without being scheduled first.

        Scheduling a pod for each of 100,000 nodes would take longer than the measurement.
        """
        return replace(self, operations=tuple(map(_settled, self.operations)))

    def _nodes(self, *, is_fixed: bool) -> int:
        return sum(
            operation.count
            for operation in self.operations
            if isinstance(operation, CreateNodes) and operation.is_fixed is is_fixed
        )


def _problem(operation: Operation) -> str:
    count = getattr(operation, "count", 1)
    if count < 1:
        return f"{type(operation).__name__}.count must be at least 1, not {count}"
    if isinstance(operation, CreateNodes) and operation.template.kind != NODES:
        return f"CreateNodes needs a template of nodes, not of {operation.template.kind.plural}"
    if isinstance(operation, CreatePods):
        return _problem_of_pods(operation)
    if isinstance(operation, Churn) and (operation.interval_seconds <= 0 or not operation.templates):
        return "Churn needs templates and an interval above 0"
    if isinstance(operation, DeletePods) and operation.per_second <= 0 and not operation.waits:
        return "DeletePods.per_second must be above 0"
    return ""


def _problem_of_pods(operation: CreatePods) -> str:
    if operation.template.kind != PODS:
        return f"CreatePods needs a template of pods, not of {operation.template.kind.plural}"
    if (
        operation.per_set < 0
        or operation.count % (operation.per_set or 1)
        or (operation.of_set and not operation.per_set)
    ):
        return "CreatePods.count must be a multiple of per_set, and of_set needs per_set"
    if operation.sets < 1 or (operation.sets > 1 and operation.one_per_node):
        return "CreatePods.sets must be at least 1, and does not go with one_per_node"
    if operation.at_once < 0 or (operation.at_once and operation.arrival != "pending"):
        return "CreatePods.at_once must be at least 0, and is for pods that will be bound"
    if operation.leaves and (not operation.at_once or not operation.waits):
        return "CreatePods.leaves needs at_once, and goes with waits"
    if operation.measured and operation.arrival != "pending":
        return f"pods that are {operation.arrival} cannot be measured"
    return ""


def _resized(operation: Operation, factor: float) -> Operation:
    if isinstance(operation, CreateNodes) and not operation.is_fixed:
        return replace(operation, count=max(1, round(operation.count * factor)))
    if isinstance(operation, CreatePods) and not operation.measured:
        return _with_count(operation, factor)
    return operation


def _measuring(operation: Operation, factor: float) -> Operation:
    if isinstance(operation, CreatePods) and operation.measured:
        return _with_count(operation, factor)
    return operation


def _with_count(operation: CreatePods, factor: float) -> CreatePods:
    """So many pods; groups that follow each other stay whole, and a single one that is too large shrinks."""
    count = max(1, round(operation.count * factor))
    if not operation.per_set:
        return replace(operation, count=count)
    size = min(operation.per_set, count)
    return replace(operation, count=count // size * size, per_set=size)


def _settled(operation: Operation) -> Operation:
    if isinstance(operation, CreatePods) and not operation.measured and operation.arrival == "pending":
        return replace(operation, arrival="running", at_once=0)
    return operation
