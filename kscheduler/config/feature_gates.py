"""Feature gates: all that kube-scheduler knows, and `--feature-gates`.

kube-scheduler accepts every gate of Kubernetes, because it is built from the same libraries as all other components.
The table (`config/feature_gates_1_36.json`) has all gates, with stage, default, lock and needs; another version of
Kubernetes is another file.

Setting an unknown or a locked gate is an error that names the gate, in kube-scheduler's words; so is switching on one
that changes decisions and is not built. Setting a gate that a scheduler reads, but that changes nothing here, gives a
warning, because silence would suggest that it works. All other gates (a kubelet's, a controller's) are accepted
silently, so that every component of a cluster can get the same list. `AllAlpha` leaves out what is not built.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours, had_by
from kscheduler.config.errors import ConfigError, Problem


class Stage(Enum):
    """The maturity of a feature, as the metric `kubernetes_feature_enabled` names it."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""
    DEPRECATED = "DEPRECATED"


class Gate(msgspec.Struct, frozen=True):
    """A feature gate in one version of Kubernetes."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()
    """Gates that must be on for this gate to be on."""


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


@cache
def gates_of(version: str) -> Mapping[str, Gate]:
    """Every gate of a version of Kubernetes, by name. Raises `FileNotFoundError` for a version without a table."""
    path = Path(__file__).parent / f"feature_gates_{version.replace('.', '_')}.json"
    entries = msgspec.json.decode(path.read_bytes(), type=dict[str, _Entry])
    gates = (Gate(name, entry.stage, entry.default, entry.locked, entry.needs) for name, entry in entries.items())
    return MappingProxyType({gate.name: gate for gate in gates})


ALL_OF_A_STAGE: Final[Mapping[str, Stage]] = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}

# Lower pods are preempted for a running pod whose resize waits for room.
RESIZE_PREEMPTION: Final = "InPlacePodVerticalScalingSchedulerPreemption"

# Pod groups are placed into one part of the cluster.
PLACEMENTS: Final = "TopologyAwareWorkloadScheduling"

# Gates whose non-default value changes what this service does. A change that builds a gated rule adds its gate.
HONOURED: Final = frozenset(
    (
        "ComponentFlagz",
        "ComponentStatusz",
        "CompositePodGroup",
        "DRAAdminAccess",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceCompatibilityGroups",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAFractionalCapacityRange",
        "DRAListTypeAttributes",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "GenericWorkload",
        "LoggingAlphaOptions",
        "LoggingBetaOptions",
        "NodeDeclaredFeatures",
        "NominatedNodeNameForExpectation",
        "PodGroupPreemptionPolicy",
        "StorageCapacityScoring",
        "TaintTolerationComparisonOperators",
        "TopologyAwareWorkloadScheduling",
        "VolumeLimitScaling",
        RESIZE_PREEMPTION,
    )
)

# Gates that kube-scheduler reads (pkg/scheduler and cmd/kube-scheduler); all others belong to other components.
READ_BY_SCHEDULERS: Final = HONOURED | frozenset(
    (
        "CoordinatedLeaderElection",
        "DRADerivedAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevicesType",
        "DRAWorkloadResourceClaims",
        "DynamicResourceAllocation",
        "GangScheduling",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "InterPodAffinityHostnameFastPath",
        "ManagedFieldsOptOutClient",
        "MatchLabelKeysInPodTopologySpread",
        "NodeInclusionPolicyInPodTopologySpread",
        "OpportunisticBatching",
        "PodLevelResources",
        "SchedulerAsyncAPICalls",
        "SchedulerAsyncPreemption",
        "SchedulerPopFromBackoffQ",
        "SchedulerPreQueueingHints",
        "SchedulerQueueingHints",
        "SidecarContainers",
        "VolumeAttributesClass",
        "WorkloadAwarePreemption",
    )
)

# Gates that will never be honoured, with the reason: with and without them the same pods get the same nodes.
_WHY_NOT: Final[Mapping[str, str]] = {
    "CoordinatedLeaderElection": "replicas agree by a Lease, with and without it",
    "InterPodAffinityHostnameFastPath": "terms about the host name are counted by node, with and without it",
    "ManagedFieldsOptOutClient": "nothing reads managed fields, with and without it",
    "OpportunisticBatching": "pods that are alike share their verdicts, with and without it",
    "SchedulerAsyncAPICalls": "no decision waits for a condition to be written, with or without it",
    "SchedulerAsyncPreemption": "victims are always taken away beside the decisions, never within one",
    "SchedulerPreQueueingHints": "it saves calls of hints, and here pods that are alike share one call",
}

_NO_GROUPS: Final = "pod groups are built as 1.37 and 1.38 have them: add --emulated-version 1.37"
# Gates that may not be switched on, by version, with what would go wrong: kube-scheduler decides otherwise with them.
# `AllAlpha` does not count as asking for them.
NOT_BUILT: Final[Mapping[str, Mapping[str, str]]] = {
    "1.36": {
        "DRANodeAllocatableResources": "what devices take of a node's cpu and memory would not be counted",
        "GangScheduling": _NO_GROUPS,
        "GenericWorkload": _NO_GROUPS,
        "TopologyAwareWorkloadScheduling": _NO_GROUPS,
        "WorkloadAwarePreemption": _NO_GROUPS,
    },
    "1.37": {
        "DRADerivedAttributes": "device requests would be judged without the values that they derive",
        "DRANodeAllocatableResources": "what devices take of a node's cpu and memory would not be counted",
        "DRAOptionalNodeOperations": "devices would be allocated on nodes that cannot leave out their preparation",
        "DRAPartitionableDevicesType": "the type of a partition would not be seen",
        "DRAWorkloadResourceClaims": "claims that the pods of a group share would be taken for those of one pod",
    },
    "1.38": {
        "DRADerivedAttributes": "device requests would be judged without the values that they derive",
        "DRANodeAllocatableResources": "what devices take of a node's cpu and memory would not be counted",
        "DRAOptionalNodeOperations": "devices would be allocated on nodes that cannot leave out their preparation",
        "DRAPartitionableDevicesType": "the type of a partition would not be seen",
        "DRAWorkloadResourceClaims": "claims that the pods of a group share would be taken for those of one pod",
    },
}

_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
# The component of these gates, for settings that name a component: `kube:A=true`.
_COMPONENT: Final = "kube"


class GateState(msgspec.Struct, frozen=True):
    """The state of a gate: a sample of `kubernetes_feature_enabled`."""

    name: str
    stage: str
    """`ALPHA`, `BETA`, `DEPRECATED`, or empty for features that are generally available."""
    enabled: bool


class FeatureGates(msgspec.Struct, frozen=True):
    """Which features are on; without arguments, the defaults."""

    chosen: Mapping[str, bool] = {}
    """Gates that were set, by name; all others have their default values."""
    warnings: tuple[str, ...] = ()
    """A sentence for each gate that was set and has no effect here."""
    all_of_a_stage: Mapping[str, bool] = {}
    """`AllAlpha` and `AllBeta`, where they were set."""
    version: str = VERSION
    """The version of Kubernetes whose gates and behaviours these are: `1.36`."""

    @property
    def behaviours(self) -> Behaviours:
        """What kube-scheduler of this version does otherwise than that of another one."""
        return BEHAVIOURS[self.version]

    @property
    def known(self) -> Mapping[str, Gate]:
        """Every gate of the version."""
        return gates_of(self.version)

    def enabled(self, name: str) -> bool:
        """Whether the feature is on. Raises `KeyError` for a gate that is not in the table, which is a bug."""
        return self.chosen.get(name, self.known[name].default)

    def enabled_names(self) -> frozenset[str]:
        """The gates that are on."""
        return frozenset(name for name in self.known if self.enabled(name))

    def states(self) -> tuple[GateState, ...]:
        """Every gate with its stage, by name; `AllAlpha` and `AllBeta` are among them, as in kube-scheduler."""
        known = [GateState(gate.name, gate.stage.value, self.enabled(gate.name)) for gate in self.known.values()]
        stage_states = (
            GateState(name, stage.value, self.all_of_a_stage.get(name, False)) for name, stage in ALL_OF_A_STAGE.items()
        )
        return tuple(sorted((*known, *stage_states), key=lambda state: state.name))


DEFAULT_GATES: Final = FeatureGates()


def parse_feature_gates(text: str, where: str = "--feature-gates", version: str = VERSION) -> FeatureGates:
    """Read `A=true,B=false`. Raises `ConfigError` with every unknown, locked or unsatisfied gate of the version."""
    known = gates_of(version)
    settings, problems = _settings(text)
    problems += [problem for name, value in settings.items() for problem in _refusals(name, version, value=value)]
    if problems:
        raise ConfigError(problems, where)
    chosen = _chosen(settings, version)
    unmet = _unmet_needs(FeatureGates(chosen, version=version))
    if unmet:
        raise ConfigError(unmet, where)
    all_of_a_stage = {name: settings[name] for name in ALL_OF_A_STAGE if name in settings}
    return FeatureGates(chosen, tuple(_without_effect(settings, known)), all_of_a_stage, version)


def gate_refusals(text: str, version: str) -> list[str]:
    """What a version has against each gate of `A=true,B=false` by itself; whether they fit together is not asked."""
    settings, problems = _settings(text)
    problems += [problem for name, value in settings.items() for problem in _refusals(name, version, value=value)]
    return [problem.message for problem in problems]


def _settings(text: str) -> tuple[dict[str, bool], list[Problem]]:
    settings: dict[str, bool] = {}
    problems: list[Problem] = []
    components: set[str] = set()
    for part in (piece.strip() for piece in text.split(",") if piece.strip()):
        component, colon, setting = part.partition(":")
        components.add(component.strip() if colon else "")
        name, equals, word = (piece.strip() for piece in (setting if colon else part).partition("="))
        if not equals:
            problems.append(Problem("", f"missing bool value for {name}: write {name}=true or {name}=false"))
        elif word not in _TRUE | _FALSE:
            problems.append(Problem("", f"invalid value of {name}={word}: write true or false"))
        else:
            settings[name] = word in _TRUE
    return settings, [*_component_problems(components), *problems]


def _component_problems(components: set[str]) -> Iterator[Problem]:
    for component in sorted(components - {"", _COMPONENT}):
        yield Problem("", f"component not registered: {component}")
    if {"", _COMPONENT} <= components:
        mixed = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
        yield Problem("", mixed)


def _refusals(name: str, version: str, *, value: bool) -> list[Problem]:
    if name in ALL_OF_A_STAGE:
        return []
    gate = gates_of(version).get(name)
    if gate is None:
        others = [other for other in BEHAVIOURS if name in gates_of(other)]
        hint = f" ({had_by(others)})" if others else ""
        return [Problem("", f"unrecognized feature gate: {name}{hint}")]
    if gate.locked and value != gate.default:
        fixed = str(gate.default).lower()
        message = f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {fixed}"
        return [Problem("", message)]
    why = NOT_BUILT[version].get(name)
    if value and why is not None:
        return [Problem("", f"feature gate {name} cannot be switched on, it is not built: {why}")]
    return []


def _chosen(settings: Mapping[str, bool], version: str) -> dict[str, bool]:
    """The values by gate: `AllAlpha` and `AllBeta` first, so that a gate's own setting wins whatever the order."""
    chosen: dict[str, bool] = {}
    known, left_out = gates_of(version), _left_out(settings, version)
    for word, stage in ALL_OF_A_STAGE.items():
        if word in settings:
            of_stage = (gate.name for gate in known.values() if gate.stage is stage)
            chosen.update({name: settings[word] for name in of_stage if not (settings[word] and name in left_out)})
    chosen.update({name: value for name, value in settings.items() if name in known})
    return chosen


def _left_out(settings: Mapping[str, bool], version: str) -> set[str]:
    """What `AllAlpha` and `AllBeta` do not switch on: gates that are not built, and gates that need one of these."""
    left_out = {name for name in NOT_BUILT[version] if name not in settings}
    known = gates_of(version).values()
    while needing := {gate.name for gate in known if left_out & {*gate.needs}} - left_out:
        left_out |= needing
    return left_out


def _unmet_needs(gates: FeatureGates) -> list[Problem]:
    problems = []
    for gate in gates.known.values():
        missing = [need for need in gate.needs if not gates.enabled(need)]
        if missing and gates.enabled(gate.name):
            listed = " ".join(missing)
            problems.append(
                Problem("", f"{gate.name} is enabled, but depends on features that are disabled: [{listed}]")
            )
    return problems


def _without_effect(settings: Mapping[str, bool], known: Mapping[str, Gate]) -> Iterator[str]:
    for name, value in settings.items():
        if name in ALL_OF_A_STAGE:
            unbuilt = ", ".join(_unbuilt_of(ALL_OF_A_STAGE[name], known, value=value, but=settings))
            if unbuilt:
                yield f"feature gate {name}={str(value).lower()} has no effect yet on {unbuilt}"
        elif value != known[name].default and name in READ_BY_SCHEDULERS - HONOURED:
            why = _WHY_NOT.get(name)
            effect = f"has no effect: {why}" if why else "is known but has no effect yet"
            yield f"feature gate {name}={str(value).lower()} {effect}"


def _unbuilt_of(stage: Stage, known: Mapping[str, Gate], *, value: bool, but: Collection[str]) -> Iterator[str]:
    """Gates of the stage that get a non-default value, although it changes nothing here."""
    for gate in known.values():
        is_unbuilt = gate.name in READ_BY_SCHEDULERS - HONOURED
        if gate.stage is stage and gate.default != value and is_unbuilt and gate.name not in but:
            yield gate.name
