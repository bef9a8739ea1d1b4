"""What is done to a cluster, in order: scheduler_perf's operations, typed.

    CreateNodes, CreateNamespaces, CreateObjects    are there when the next operation begins
    CreatePods                                      come together, and are scheduled before the next operation begins
    Churn, DeletePods                               go on beside the measured pods

scheduler_perf lets churn go by the clock. At a few thousand decisions a second a whole run would see a handful of such
events, so the clock is told in pods: `pace` is the throughput that kube-scheduler is held to in that workload, and an
interval of 0.2 s at a pace of 170 is every 34 measured pods.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from kscheduler.api.kinds import NODES, PODS
from kscheduler.simulation.benchmarks.template import Template, TemplateError

DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class CreateNodes:
    """Nodes, each with `kubernetes.io/hostname` as kubelets set it."""

    count: int
    template: Template
    zones: tuple[str, ...] = ()
    """Values of `topology.kubernetes.io/zone`, in turn."""
    csi_node: Template | None = None
    """What the kubelet says of each node's CSI drivers."""
    is_fixed: bool = False
    """The count stays as it is when the scenario is made smaller or larger."""


@dataclass(frozen=True, slots=True)
class CreateNamespaces:
    """Namespaces `PREFIX-0`, `PREFIX-1` ..."""

    prefix: str
    count: int
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateObjects:
    """Anything else."""

    template: Template
    count: int = 1
    namespace: str = DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Pods."""

    count: int
    template: Template
    namespace: str = ""
    """May hold `$set`; empty: one of the operation's own, as in scheduler_perf."""
    measured: bool = False
    sets: int = 1
    """Groups, in turn: pod by pod the next one."""
    one_per_node: bool = False
    """Each group has a pod for every node (`$node`), and the groups come one after the other."""
    companions: tuple[Template, ...] = ()
    """Made before each pod with the same values: its claim, its volume."""
    at_once: int = 0
    """The next pod comes when fewer than so many have no node; 0: they come all together."""
    arrival: Literal["pending", "parked", "running"] = "pending"
    """`parked`: nobody expects them to be bound. `running`: they are on their nodes already, one after the other."""


@dataclass(frozen=True, slots=True)
class Churn:
    """Objects that come (and, with `recreate`, go again) while others are measured."""

    templates: tuple[Template, ...]
    interval_seconds: float
    mode: Literal["create", "recreate"] = "create"


@dataclass(frozen=True, slots=True)
class DeletePods:
    """The pods of a namespace are deleted one by one while others are measured."""

    namespace: str
    per_second: float
    keeps_objects: bool = False
    """A finalizer holds them: they terminate, and stay."""


Operation: TypeAlias = CreateNodes | CreateNamespaces | CreateObjects | CreatePods | Churn | DeletePods


@dataclass(frozen=True, slots=True)
class BenchmarkScenario:
    """A benchmark."""

    name: str
    source: str
    """The workload of scheduler_perf with this name and size, or what of ours it stands for."""
    operations: tuple[Operation, ...]
    goal: int = 0
    """Decisions per second that are promised at the size declared here; 0 is no promise."""
    pace: float = 250.0
    """Measured pods per second that intervals are told by."""
    most_per_node: float = 25.0
    """How many measured pods have room for each node of the cluster."""

    def __post_init__(self) -> None:
        """Raise `TemplateError` for what can be seen to be wrong."""
        for problem in (_problem(one) for one in self.operations):
            if problem:
                raise TemplateError(f"{self.name}: {problem}")
        measured = [one for one in self.operations if isinstance(one, CreatePods) and one.measured]
        if not self.nodes or len(measured) != 1:
            raise TemplateError(f"{self.name}: needs nodes, and one operation of measured pods")
        if self.pods > self.most_pods:
            raise TemplateError(f"{self.name}: {self.pods} pods have no room on {self.nodes} nodes")
        if self.pace <= 0:
            raise TemplateError(f"{self.name}: pace must be above 0")

    @property
    def nodes(self) -> int:
        """How many nodes the scenario creates."""
        return sum(one.count for one in self.operations if isinstance(one, CreateNodes))

    @property
    def pods(self) -> int:
        """How many pods are measured."""
        return sum(one.count for one in self.operations if isinstance(one, CreatePods) and one.measured)

    @property
    def most_pods(self) -> int:
        """How many measured pods have room."""
        return int(self.most_per_node * self.nodes)

    def resized(self, nodes: int | None = None, pods: int | None = None) -> "BenchmarkScenario":
        """The same with so many nodes, and pods that are there before in proportion; with `pods` measured ones.

        Where so many have no room, as many as have. Where all nodes are fixed, all pods follow the measured ones.
        Raises `TemplateError` below one.
        """
        if min(nodes or 1, pods or 1) < 1 or 0 in (nodes, pods):
            raise TemplateError(f"{self.name}: at least one node and one pod are needed")
        fixed, free = self._nodes(is_fixed=True), self._nodes(is_fixed=False)
        by_nodes = (nodes / free if nodes else 1.0) if free else (pods or self.pods) / self.pods
        kept = tuple(_resized(one, by_nodes) for one in self.operations)
        wanted = pods or max(1, round(self.pods * by_nodes))
        room = max(1, int(self.most_per_node * (fixed + (nodes or free if free else 0))))
        goal = self.goal if nodes in (None, self.nodes) and pods in (None, self.pods) else 0
        operations = tuple(_measuring(one, min(wanted, room) / self.pods) for one in kept)
        return replace(self, operations=operations, goal=goal)

    def settled(self) -> "BenchmarkScenario":
        """The same where the pods that are there before run on the nodes in turn, and need not be scheduled first.

        To schedule a pod for each of 100,000 nodes takes longer than all that is measured then.
        """
        return replace(self, operations=tuple(map(_settled, self.operations)))

    def _nodes(self, *, is_fixed: bool) -> int:
        return sum(one.count for one in self.operations if isinstance(one, CreateNodes) and one.is_fixed is is_fixed)


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
    if isinstance(operation, DeletePods) and operation.per_second <= 0:
        return "DeletePods.per_second must be above 0"
    return ""


def _problem_of_pods(operation: CreatePods) -> str:
    if operation.template.kind != PODS:
        return f"CreatePods needs a template of pods, not of {operation.template.kind.plural}"
    if operation.sets < 1 or (operation.sets > 1 and operation.one_per_node):
        return "CreatePods.sets must be at least 1, and is not told with one_per_node"
    if operation.at_once < 0 or (operation.at_once and operation.arrival != "pending"):
        return "CreatePods.at_once must be at least 0, and is for pods that are to be bound"
    if operation.measured and operation.arrival != "pending":
        return f"pods that are {operation.arrival} cannot be measured"
    return ""


def _resized(operation: Operation, factor: float) -> Operation:
    if isinstance(operation, CreateNodes) and not operation.is_fixed:
        return replace(operation, count=max(1, round(operation.count * factor)))
    if isinstance(operation, CreatePods) and not operation.measured:
        return replace(operation, count=max(1, round(operation.count * factor)))
    return operation


def _measuring(operation: Operation, factor: float) -> Operation:
    if isinstance(operation, CreatePods) and operation.measured:
        return replace(operation, count=max(1, round(operation.count * factor)))
    return operation


def _settled(operation: Operation) -> Operation:
    if isinstance(operation, CreatePods) and not operation.measured and operation.arrival == "pending":
        return replace(operation, arrival="running", at_once=0)
    return operation
