"""Feature gates: the table of those that touch a scheduler in Kubernetes 1.36, and `--feature-gates`.

Setting a gate that nobody knows, or one that is locked, is an error that names it. A gate that is known but changes
nothing here yet is a warning: silence would look like obedience.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kscheduler.config.errors import ConfigError, Problem


class Stage(Enum):
    """How mature a feature is."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"


@dataclass(frozen=True, slots=True)
class Gate:
    """A feature gate as 1.36 has it."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()
    """Gates without which this one must be off."""


_CLAIMS = ("DynamicResourceAllocation",)

_TABLE = (
    Gate("ClearingNominatedNodeNameAfterBinding", Stage.BETA, default=True),
    Gate("ComponentFlagz", Stage.BETA, default=True),
    Gate("ComponentStatusz", Stage.BETA, default=True),
    Gate("CoordinatedLeaderElection", Stage.BETA, default=False),
    Gate("DRAAdminAccess", Stage.GA, default=True, locked=True, needs=_CLAIMS),
    Gate("DRAConsumableCapacity", Stage.BETA, default=True, needs=_CLAIMS),
    Gate("DRADeviceBindingConditions", Stage.BETA, default=True, needs=(*_CLAIMS, "DRAResourceClaimDeviceStatus")),
    Gate("DRADeviceTaintRules", Stage.BETA, default=False, needs=("DRADeviceTaints",)),
    Gate("DRADeviceTaints", Stage.BETA, default=True, needs=_CLAIMS),
    Gate("DRAExtendedResource", Stage.BETA, default=True, needs=_CLAIMS),
    Gate("DRAListTypeAttributes", Stage.ALPHA, default=False, needs=_CLAIMS),
    Gate("DRANodeAllocatableResources", Stage.ALPHA, default=False, needs=_CLAIMS),
    Gate("DRAPartitionableDevices", Stage.BETA, default=True, needs=_CLAIMS),
    Gate("DRAPrioritizedList", Stage.GA, default=True, needs=_CLAIMS),
    Gate("DRAResourceClaimDeviceStatus", Stage.BETA, default=True),
    Gate(
        "DRAResourceClaimGranularStatusAuthorization",
        Stage.BETA,
        default=True,
        needs=(*_CLAIMS, "DRAResourceClaimDeviceStatus"),
    ),
    Gate("DRASchedulerFilterTimeout", Stage.BETA, default=True, needs=_CLAIMS),
    Gate("DRAWorkloadResourceClaims", Stage.ALPHA, default=False, needs=(*_CLAIMS, "GenericWorkload")),
    Gate("DynamicResourceAllocation", Stage.GA, default=True, locked=True),
    Gate("GangScheduling", Stage.ALPHA, default=False, needs=("GenericWorkload",)),
    Gate("GenericWorkload", Stage.ALPHA, default=False),
    Gate("ImageVolume", Stage.GA, default=True, locked=True),
    Gate(
        "InPlacePodLevelResourcesVerticalScaling",
        Stage.BETA,
        default=True,
        needs=("InPlacePodVerticalScaling", "PodLevelResources", "NodeDeclaredFeatures"),
    ),
    Gate("InPlacePodVerticalScaling", Stage.GA, default=True, locked=True),
    Gate("MatchLabelKeysInPodAffinity", Stage.GA, default=True, locked=True),
    Gate("MatchLabelKeysInPodTopologySpread", Stage.BETA, default=True),
    Gate(
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        Stage.BETA,
        default=True,
        needs=("MatchLabelKeysInPodTopologySpread",),
    ),
    Gate("MutableCSINodeAllocatableCount", Stage.GA, default=True, locked=True),
    Gate("NodeDeclaredFeatures", Stage.BETA, default=True),
    Gate("NodeInclusionPolicyInPodTopologySpread", Stage.GA, default=True, locked=True),
    Gate("NominatedNodeNameForExpectation", Stage.BETA, default=True),
    Gate("OpportunisticBatching", Stage.BETA, default=True),
    Gate("PodLevelResources", Stage.BETA, default=True),
    Gate("PodObservedGenerationTracking", Stage.GA, default=True, locked=True),
    Gate("PodSchedulingReadiness", Stage.GA, default=True, locked=True),
    Gate("PodTopologyLabelsAdmission", Stage.BETA, default=True),
    Gate("SELinuxMount", Stage.BETA, default=False),
    Gate("SELinuxMountReadWriteOncePod", Stage.GA, default=True, locked=True),
    Gate("SchedulerAsyncAPICalls", Stage.BETA, default=False),
    Gate("SchedulerAsyncPreemption", Stage.BETA, default=True),
    Gate("SchedulerPopFromBackoffQ", Stage.BETA, default=True),
    Gate("SchedulerQueueingHints", Stage.GA, default=True, locked=True),
    Gate("SidecarContainers", Stage.GA, default=True, locked=True),
    Gate("StorageCapacityScoring", Stage.ALPHA, default=False),
    Gate("TaintTolerationComparisonOperators", Stage.ALPHA, default=False),
    Gate("TopologyAwareWorkloadScheduling", Stage.ALPHA, default=False, needs=("GenericWorkload",)),
    Gate("VolumeAttributesClass", Stage.GA, default=True, locked=True),
    Gate("VolumeLimitScaling", Stage.ALPHA, default=False),
    Gate("WorkloadAwarePreemption", Stage.ALPHA, default=False, needs=("GangScheduling",)),
    Gate("WorkloadWithJob", Stage.ALPHA, default=False, needs=("GenericWorkload",)),
)
GATES: Mapping[str, Gate] = {gate.name: gate for gate in _TABLE}

ALL_OF_A_STAGE: Mapping[str, Stage] = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}

HONOURED: frozenset[str] = frozenset({"NodeDeclaredFeatures", "NominatedNodeNameForExpectation"})
"""Gates whose *other* value changes what this service does. Whoever builds a gated rule adds its gate."""

_WHY_NOT: Mapping[str, str] = {
    "SchedulerAsyncPreemption": "victims are always taken away beside the decisions, never within one",
}
"""Gates that will never be honoured."""

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which features are on. Without arguments: the defaults."""

    chosen: Mapping[str, bool] = field(default_factory=dict)
    """Gates that were set, by name; all others have their defaults."""
    warnings: tuple[str, ...] = ()
    """One sentence for each gate that was set and has no effect here."""

    def enabled(self, name: str) -> bool:
        """Whether the feature is on. Raises `KeyError` for a gate that is not in the table: that is a bug."""
        return self.chosen.get(name, GATES[name].default)

    def as_dict(self) -> dict[str, bool]:
        """Every gate of the table."""
        return {name: self.enabled(name) for name in GATES}


DEFAULT_GATES = FeatureGates()


def parse_feature_gates(text: str, where: str = "--feature-gates") -> FeatureGates:
    """Read `A=true,B=false`. Raises `ConfigError` with every unknown, locked or unsatisfied gate."""
    settings, problems = _settings(text)
    problems += [problem for name, value in settings.items() for problem in _refusals(name, value=value)]
    if problems:
        raise ConfigError(problems, where)
    gates = FeatureGates(_chosen(settings))
    unmet = _unmet_needs(gates)
    if unmet:
        raise ConfigError(unmet, where)
    return FeatureGates(gates.chosen, _without_effect(settings))


def _settings(text: str) -> tuple[dict[str, bool], list[Problem]]:
    settings: dict[str, bool] = {}
    problems: list[Problem] = []
    for part in (piece.strip() for piece in text.split(",") if piece.strip()):
        name, equals, word = (piece.strip() for piece in part.partition("="))
        if not equals:
            problems.append(Problem("", f"missing bool value for {name}: write {name}=true or {name}=false"))
        elif word not in _TRUE | _FALSE:
            problems.append(Problem("", f"invalid value of {name}={word}: write true or false"))
        else:
            settings[name] = word in _TRUE
    return settings, problems


def _refusals(name: str, *, value: bool) -> list[Problem]:
    if name in ALL_OF_A_STAGE:
        return []
    gate = GATES.get(name)
    if gate is None:
        return [Problem("", f"unrecognized feature gate: {name}")]
    if gate.locked and value != gate.default:
        fixed = str(gate.default).lower()
        message = f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {fixed}"
        return [Problem("", message)]
    return []


def _chosen(settings: Mapping[str, bool]) -> dict[str, bool]:
    """`AllAlpha` and `AllBeta` first, so that a gate's own setting wins wherever it stands."""
    chosen: dict[str, bool] = {}
    for word, stage in ALL_OF_A_STAGE.items():
        if word in settings:
            chosen.update({gate.name: settings[word] for gate in _TABLE if gate.stage is stage})
    chosen.update({name: value for name, value in settings.items() if name in GATES})
    return chosen


def _unmet_needs(gates: FeatureGates) -> list[Problem]:
    problems = []
    for gate in _TABLE:
        missing = [need for need in gate.needs if not gates.enabled(need)]
        if missing and gates.enabled(gate.name):
            listed = " ".join(missing)
            problems.append(
                Problem("", f"{gate.name} is enabled, but depends on features that are disabled: [{listed}]")
            )
    return problems


def _without_effect(settings: Mapping[str, bool]) -> tuple[str, ...]:
    warnings = []
    for name, value in settings.items():
        if name in ALL_OF_A_STAGE:
            warnings.append(f"feature gate {name} has no effect beyond the configuration's defaults")
        elif value != GATES[name].default and name not in HONOURED:
            why = _WHY_NOT.get(name)
            effect = f"has no effect: {why}" if why else "is known but has no effect yet"
            warnings.append(f"feature gate {name}={str(value).lower()} {effect}")
    return tuple(warnings)
