"""The operations of scheduler_perf's workloads, as its configuration has them.

Fields that end in `_param` name a parameter of the workload (`$initNodes`); `resolved` puts the values in their place.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from kscheduler.api.manifest_yaml import plain_scalar
from kscheduler.config.durations import DurationError, parse_duration

T = TypeVar("T")

# What a barrier waits for.
SCHEDULED: Final = "Scheduled"
ATTEMPTED: Final = "Attempted"


class FieldError(ValueError):
    """A field of an operation has a value that cannot be used. The text begins with the field's name."""


class UpstreamOperation(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, tag_field="opcode"
):
    """What all operations have in common: the field `opcode`."""

    def problem(self) -> str:
        """What is wrong with the values, beginning with the field; empty if nothing is."""
        return ""


class _CountedOp(UpstreamOperation, frozen=True, kw_only=True):
    count: int | None = None
    count_param: str = ""

    def problem(self) -> str:
        return f"count: must not be below 0, not {self.count}" if (self.count or 0) < 0 else ""


class CreateAnyOp(_CountedOp, frozen=True, tag="createAny"):
    """Objects of any kind from a template."""

    template_path: str
    namespace: str = ""
    template_params: dict[str, Any] = {}


class NodeAllocatable(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What nodes have besides, and the volumes that their CSI drivers attach."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, dict[str, int]] = {}
    migrated_plugins: list[str] = []


class NodeLabels(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A label of nodes, with these values in turn."""

    label_key: str
    label_values: list[str]


class UniqueLabel(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A label of nodes that has another value on each."""

    label_key: str


class CreateNodesOp(_CountedOp, frozen=True, tag="createNodes"):
    """Nodes."""

    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: NodeLabels | None = None
    unique_node_label_strategy: UniqueLabel | None = None
    template_params: dict[str, Any] = {}


class CreateNamespacesOp(_CountedOp, frozen=True, tag="createNamespaces"):
    """Namespaces `PREFIX-0`, `PREFIX-1` ..."""

    prefix: str
    namespace_template_path: str = ""


class CreatePodsOp(_CountedOp, frozen=True, tag="createPods"):
    """Pods, at once or with a steady number of them that wait."""

    count_multiplier_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str | None = None
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    template_params: dict[str, Any] = {}
    signature_batch_size: int = 0
    signature_batch_size_param: str = ""

    def problem(self) -> str:
        if self.signature_batch_size < 0:
            return f"signatureBatchSize: must not be below 0, not {self.signature_batch_size}"
        for is_on, name in ((self.collect_metrics, "collectMetrics"), (self.steady_state, "steadyState")):
            if self.skip_wait_to_completion and is_on:
                return f"skipWaitToCompletion: does not go with {name}"
        if self.steady_state and seconds_of(self.duration) <= 0:
            return "duration: must be above 0 with steadyState"
        return super().problem()


class CreatePodSetsOp(_CountedOp, frozen=True, tag="createPodSets"):
    """The same pods in each of several namespaces."""

    namespace_prefix: str
    create_pods_op: CreatePodsOp


class CreatePodGroupsOp(_CountedOp, frozen=True, tag="createPodGroups"):
    """Pod groups from a template."""

    namespace: str
    template_path: str
    template_params: dict[str, Any] = {}

    def problem(self) -> str:
        return super().problem() or ("" if self.count else "count: must be at least 1")


class CreateCompositePodGroupsOp(UpstreamOperation, frozen=True, kw_only=True, tag="createCompositePodGroups"):
    """Trees of composite pod groups, level by level; their leaves are pod groups, which another operation creates.

    What follows may count these (`$podGroupsCount`) and name the level above them (`$parentLevel`).
    """

    namespace: str
    template_path: str
    template_params: dict[str, Any] = {}
    root_count: int = 0
    root_count_param: str = ""
    depth: int
    """Levels of a tree, that of the pod groups included."""
    children_composite_pod_groups_per_cpg: int = msgspec.field(default=0, name="childrenCompositePodGroupsPerCPG")
    children_composite_pod_groups_per_cpg_param: str = msgspec.field(
        default="", name="childrenCompositePodGroupsPerCPGParam"
    )
    children_pod_groups_per_cpg: int = msgspec.field(default=0, name="childrenPodGroupsPerCPG")
    children_pod_groups_per_cpg_param: str = msgspec.field(default="", name="childrenPodGroupsPerCPGParam")

    @property
    def level_counts(self) -> tuple[int, ...]:
        """How many composite pod groups each level has, the roots first."""
        children = self.children_composite_pod_groups_per_cpg
        return tuple(self.root_count * children**level for level in range(self.depth - 1))

    @property
    def pod_groups(self) -> int:
        """How many leaves all trees have."""
        return self.level_counts[-1] * self.children_pod_groups_per_cpg

    def problem(self) -> str:
        if not 2 <= self.depth <= 4:
            return f"depth: must be 2 to 4, not {self.depth}"
        if self.root_count < 1:
            return f"rootCount: must be at least 1, not {self.root_count}"
        if self.children_pod_groups_per_cpg < 1:
            return f"childrenPodGroupsPerCPG: must be at least 1, not {self.children_pod_groups_per_cpg}"
        if (self.children_composite_pod_groups_per_cpg > 0) is (self.depth == 2):
            return "childrenCompositePodGroupsPerCPG: must be set if depth is above 2, and only then"
        return ""


class CreateResourceClaimsOp(_CountedOp, frozen=True, tag="createResourceClaims"):
    """Claims to devices."""

    namespace: str
    template_path: str


class AllocateResourceClaimsOp(UpstreamOperation, frozen=True, tag="allocResourceClaims"):
    """All claims of a namespace get devices on nodes at random."""

    namespace: str = ""


class DeletePodsOp(UpstreamOperation, frozen=True, tag="deletePods"):
    """Pods that were created before go."""

    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0

    def problem(self) -> str:
        rate = self.delete_pods_per_second
        return f"deletePodsPerSecond: must not be below 0, not {rate}" if rate < 0 else ""


class ChurnOp(UpstreamOperation, frozen=True, tag="churn"):
    """Objects that come (and go) beside what follows."""

    mode: str
    template_paths: list[str]
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str | None = None

    def problem(self) -> str:
        if self.mode not in ("create", "recreate"):
            return f"mode: must be create or recreate, not {self.mode!r}"
        if self.number < (self.mode == "recreate"):
            return f"number: must not be below {int(self.mode == 'recreate')} in the mode {self.mode}"
        if self.interval_milliseconds <= 0:
            return f"intervalMilliseconds: must be above 0, not {self.interval_milliseconds}"
        return "" if self.template_paths else "templatePaths: must have at least one"


class UpdateAnyOp(_CountedOp, frozen=True, tag="updateAny"):
    """Objects are replaced with others of the same names."""

    template_path: str
    namespace: str = ""
    update_per_second: int = 0
    subresources: list[str] = []

    def problem(self) -> str:
        rate = self.update_per_second
        return super().problem() or (f"updatePerSecond: must not be below 0, not {rate}" if rate < 0 else "")


class BarrierOp(UpstreamOperation, frozen=True, tag="barrier"):
    """Pods that were not waited for are, now."""

    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: str = SCHEDULED

    def problem(self) -> str:
        stage = self.stage_requirement
        known = stage in (SCHEDULED, ATTEMPTED)
        return "" if known else f"stageRequirement: must be {SCHEDULED} or {ATTEMPTED}, not {stage!r}"


class SleepOp(UpstreamOperation, frozen=True, tag="sleep"):
    """Time passes."""

    duration: str = ""
    duration_param: str = ""

    def problem(self) -> str:
        seconds_of(self.duration)
        return ""


class StartCollectingMetricsOp(UpstreamOperation, frozen=True, tag="startCollectingMetrics"):
    """From here on pods of these namespaces are measured."""

    namespaces: list[str]
    name: str = ""
    label_selector: dict[str, str] = {}

    def problem(self) -> str:
        return "" if self.namespaces else "namespaces: must have at least one"


class StopCollectingMetricsOp(UpstreamOperation, frozen=True, tag="stopCollectingMetrics"):
    """Up to here."""


class StartCollectingProfileOp(UpstreamOperation, frozen=True, tag="startCollectingProfile"):
    """A CPU profile of kube-scheduler begins."""

    type: str
    file_path: str


class StopCollectingProfileOp(UpstreamOperation, frozen=True, tag="stopCollectingProfile"):
    """A CPU profile of kube-scheduler ends."""

    type: str


_ALL: Final[tuple[type[UpstreamOperation], ...]] = (
    AllocateResourceClaimsOp,
    BarrierOp,
    ChurnOp,
    CreateAnyOp,
    CreateCompositePodGroupsOp,
    CreateNamespacesOp,
    CreateNodesOp,
    CreatePodGroupsOp,
    CreatePodSetsOp,
    CreatePodsOp,
    CreateResourceClaimsOp,
    DeletePodsOp,
    SleepOp,
    StartCollectingMetricsOp,
    StartCollectingProfileOp,
    StopCollectingMetricsOp,
    StopCollectingProfileOp,
    UpdateAnyOp,
)
OPERATIONS: Final[Mapping[str, type[UpstreamOperation]]] = MappingProxyType(
    {str(operation.__struct_config__.tag): operation for operation in _ALL}
)


def read_operation(tree: Any) -> UpstreamOperation:
    """Raises `FieldError`."""
    opcode = tree.get("opcode") if isinstance(tree, dict) else None
    if not isinstance(opcode, str) or opcode not in OPERATIONS:
        raise FieldError(f"opcode: {opcode!r} is not known" if opcode else "opcode: is missing")
    try:
        return msgspec.convert(tree, OPERATIONS[opcode])
    except msgspec.ValidationError as error:
        raise FieldError(_with_field_first(str(error))) from None


def _with_field_first(text: str) -> str:
    """`Expected int, got str - at `$.count`` as `count: Expected int, got str`."""
    message, separator, path = text.rpartition(" - at `$.")
    return f"{path.rstrip('`')}: {message}" if separator else text


# --- parameters -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Parameters:
    """The parameters of a workload, and which of them were asked for."""

    values: Mapping[str, Any]
    used: set[str] = field(default_factory=set)

    @property
    def unused(self) -> AbstractSet[str]:
        """The names of those that no operation has asked for."""
        return self.values.keys() - self.used

    def get(self, where: str, reference: str, kind: type[T]) -> T:
        """The value that a field refers to. Raises `FieldError`."""
        name = self._name(where, reference)
        if name not in self.values:
            raise FieldError(f"{where}: the workload has no parameter {name!r}")
        value = self.values[name]
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            raise FieldError(f"{where}: the parameter {name!r} is {value!r}, not of the type {kind.__name__}")
        return value

    def resolve(self, where: str, value: Any) -> Any:
        """A parameter of a template: `$name` or `$name|default`; other values stay. Raises `FieldError`."""
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        reference, separator, default = value.partition("|")
        name = self._name(where, reference)
        if name in self.values:
            return self.values[name]
        if not separator:
            raise FieldError(f"{where}: the workload has no parameter {name!r}")
        return plain_scalar(default)

    def derive(self, values: Mapping[str, Any]) -> None:
        """Sets parameters that an operation has found, for those that follow; none has to use them."""
        self.values = {**self.values, **values}
        self.used |= values.keys()

    def _name(self, where: str, reference: str) -> str:
        if not reference.startswith("$"):
            raise FieldError(f"{where}: {reference!r} is not the name of a parameter: it must begin with $")
        self.used.add(reference[1:])
        return reference[1:]


def resolved(operation: UpstreamOperation, parameters: Parameters) -> UpstreamOperation:
    """The operation with the workload's values. Raises `FieldError`."""
    changes: dict[str, Any] = {}
    if isinstance(operation, _CountedOp):
        changes["count"] = _count(operation, parameters)
    params: Mapping[str, Any] = getattr(operation, "template_params", {})
    if params:
        changes["template_params"] = {
            name: parameters.resolve(f"templateParams.{name}", value) for name, value in params.items()
        }
    if isinstance(operation, CreatePodsOp):
        changes |= _of_pods(operation, changes["count"], parameters)
    if isinstance(operation, SleepOp) and operation.duration_param:
        changes["duration"] = parameters.get("durationParam", operation.duration_param, str)
    if isinstance(operation, BarrierOp):
        changes["stage_requirement"] = parameters.resolve("stageRequirement", operation.stage_requirement)
    if isinstance(operation, CreatePodSetsOp):
        changes["create_pods_op"] = resolved(operation.create_pods_op, parameters)
    if isinstance(operation, CreateCompositePodGroupsOp):
        changes |= _of_trees(operation, parameters)
    made = replace(operation, **changes)
    if problem := made.problem():
        raise FieldError(problem)
    if isinstance(made, CreateCompositePodGroupsOp):
        parameters.derive({"podGroupsCount": made.pod_groups, "parentLevel": made.depth - 1})
    return made


def _count(operation: _CountedOp, parameters: Parameters) -> int:
    if operation.count_param:
        return parameters.get("countParam", operation.count_param, int)
    if operation.count is None:
        return 1 if isinstance(operation, CreateAnyOp | UpdateAnyOp) else 0
    return operation.count


def _of_pods(operation: CreatePodsOp, count: int, parameters: Parameters) -> dict[str, Any]:
    changes: dict[str, Any] = {"count": count}
    if operation.count_multiplier_param:
        changes["count"] *= parameters.get("countMultiplierParam", operation.count_multiplier_param, int)
    if operation.signature_batch_size_param:
        given = parameters.get("signatureBatchSizeParam", operation.signature_batch_size_param, int)
        changes["signature_batch_size"] = given
    if operation.duration_param:
        changes["duration"] = parameters.get("durationParam", operation.duration_param, str)
    if operation.steady_state_param:
        changes["steady_state"] = parameters.get("steadyStateParam", operation.steady_state_param, bool)
    return changes


def _of_trees(operation: CreateCompositePodGroupsOp, parameters: Parameters) -> dict[str, Any]:
    fields = ("root_count", "children_composite_pod_groups_per_cpg", "children_pod_groups_per_cpg")
    references = {name: getattr(operation, f"{name}_param") for name in fields}
    return {name: parameters.get(f"{name}Param", text, int) for name, text in references.items() if text}


def seconds_of(duration: str) -> float:
    """A duration as Go writes it. Raises `FieldError`."""
    try:
        return parse_duration(duration).seconds
    except DurationError as error:
        raise FieldError(f"duration: {error}") from None
