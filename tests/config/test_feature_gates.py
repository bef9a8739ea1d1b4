"""Feature gates: what is unknown, locked or unmet is an error that names it; what has no effect is a warning."""

import pytest

from kscheduler.api.releases import BEHAVIOURS, VERSION
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import (
    DEFAULT_GATES,
    HONOURED,
    READ_BY_SCHEDULERS,
    FeatureGates,
    GateState,
    Stage,
    gates_of,
    parse_feature_gates,
)


def test_without_settings_every_gate_has_its_default() -> None:
    assert DEFAULT_GATES.enabled_names() == {name for name, gate in gates_of(VERSION).items() if gate.default}
    assert DEFAULT_GATES.enabled("OpportunisticBatching")
    assert not DEFAULT_GATES.enabled("SchedulerAsyncAPICalls")


def test_the_defaults_satisfy_their_own_needs() -> None:
    assert parse_feature_gates("").chosen == {}


@pytest.mark.parametrize(
    ("spellings", "expected"), [("1 t T true TRUE True", True), ("0 f F false FALSE False", False)], ids=["on", "off"]
)
def test_a_value_is_written_as_go_parses_a_bool(spellings: str, expected: bool) -> None:
    for spelling in spellings.split():
        assert parse_feature_gates(f"OpportunisticBatching={spelling}").enabled("OpportunisticBatching") is expected


def test_gates_are_set_by_name() -> None:
    gates = parse_feature_gates("OpportunisticBatching=false, StorageCapacityScoring=T")
    assert not gates.enabled("OpportunisticBatching")
    assert gates.enabled("StorageCapacityScoring")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nonsense=true", "unrecognized feature gate: Nonsense"),
        ("OpportunisticBatching", "missing bool value for OpportunisticBatching"),
        ("OpportunisticBatching=maybe", "invalid value of OpportunisticBatching=maybe"),
        (
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
        ("GangScheduling=true", "feature gate GangScheduling cannot be switched on, it is not built: "),
        ("PodLevelResources=false", "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on"),
        ("wardle:A=true", "component not registered: wardle"),
        (
            "kube:OpportunisticBatching=false,PodLevelResources=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_an_error_that_names_the_gate(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(text)
    assert f"--feature-gates: {message}" in str(caught.value)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates("A=true,B=true,SidecarContainers=false,C")
    assert len(caught.value.problems) == 4


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    gates = parse_feature_gates("SchedulerQueueingHints=true")
    assert gates.enabled("SchedulerQueueingHints")
    assert gates.warnings == ()


def test_a_known_gate_without_effect_is_a_warning_that_names_it() -> None:
    gates = parse_feature_gates("SchedulerPopFromBackoffQ=false,OpportunisticBatching=true")
    assert gates.warnings == ("feature gate SchedulerPopFromBackoffQ=false is known but has no effect yet",)


def test_all_alpha_turns_on_alpha_gates_and_a_gate_of_its_own_wins() -> None:
    gates = parse_feature_gates("GangScheduling=false,WorkloadAwarePreemption=false,AllAlpha=true")
    alphas = {name for name, gate in gates.known.items() if gate.stage is Stage.ALPHA}
    not_built = {"DRANodeAllocatableResources"}
    of_groups = {"GenericWorkload", "TopologyAwareWorkloadScheduling", "DRAWorkloadResourceClaims", "WorkloadWithJob"}
    off = {"GangScheduling", "WorkloadAwarePreemption"} | not_built | of_groups
    assert {name for name in alphas if not gates.enabled(name)} == off
    assert all(name in gates.warnings[0] for name in not_built)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("DRADerivedAttributes", "1.37"),
        ("DRANodeAllocatableResources", "1.36"),
        ("DRANodeAllocatableResources", "1.37"),
        ("DRAOptionalNodeOperations", "1.37"),
        ("DRAPartitionableDevicesType", "1.37"),
        ("DRAWorkloadResourceClaims", "1.37"),
    ],
)
def test_a_gate_that_changes_decisions_and_is_not_built_cannot_be_switched_on(name: str, version: str) -> None:
    with pytest.raises(ConfigError, match=f"feature gate {name} cannot be switched on, it is not built: "):
        parse_feature_gates(f"GenericWorkload=true,{name}=true", version=version)
    assert not parse_feature_gates(f"{name}=false", version=version).enabled(name)


@pytest.mark.parametrize("name", ["SchedulerPreQueueingHints", "InterPodAffinityHostnameFastPath"])
def test_a_gate_that_changes_nothing_but_the_speed_of_kube_scheduler_is_accepted_and_says_so(name: str) -> None:
    (warning,) = parse_feature_gates(f"{name}=true", version="1.37").warnings
    assert warning.startswith(f"feature gate {name}=true has no effect: ")


@pytest.mark.parametrize(
    "name", ["GangScheduling", "WorkloadAwarePreemption", "SchedulerQueueingHints", "SidecarContainers"]
)
@pytest.mark.parametrize("value", ["true", "false"])
def test_gates_that_1_37_has_removed_are_unknown_there(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"unrecognized feature gate: {name}"):
        parse_feature_gates(f"{name}={value}", version="1.37")


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_every_need_is_in_the_table_and_holds_by_default(version: str) -> None:
    """As kube-scheduler asks when it starts: what is on needs what is on, what is locked what is locked."""
    known = gates_of(version)
    for gate in known.values():
        needs = [known[need] for need in gate.needs]
        assert not gate.default or all(need.default for need in needs), gate
        assert not gate.locked or all(need.locked for need in needs), gate


@pytest.mark.parametrize(
    "text",
    [
        "ExtendWebSocketsToKubelet=false",
        "kube:ExtendWebSocketsToKubelet=false",
        "WatchListClient=false",
        "KubeletInUserNamespace=true",
        "ContextualLogging=false",
        "AllBeta=false,AllAlpha=false",
    ],
)
def test_gates_of_all_of_kubernetes_are_known_and_those_of_other_programs_pass_in_silence(text: str) -> None:
    gates = parse_feature_gates(text)
    assert not [warning for warning in gates.warnings if "AllBeta" not in warning]


def test_the_gates_that_kube_scheduler_reads_are_gates() -> None:
    assert {name for version in BEHAVIOURS for name in gates_of(version)} >= READ_BY_SCHEDULERS >= HONOURED


def test_a_gate_is_known_in_the_versions_that_have_it() -> None:
    for name, having, has in (
        ("GangScheduling", {"1.36"}, "1.36 has"),
        ("PodGroupPreemptionPolicy", {"1.37"}, "1.37 has"),
        ("CompositePodGroup", {"1.37", "1.38"}, "1.37 and 1.38 have"),
    ):
        for version in BEHAVIOURS:
            if version in having:
                assert not parse_feature_gates(f"{name}=false", version=version).enabled(name)
            else:
                unknown = rf"unrecognized feature gate: {name} \(Kubernetes {has} it: see --emulated-version\)"
                with pytest.raises(ConfigError, match=unknown):
                    parse_feature_gates(f"{name}=false", version=version)


def test_a_gate_that_is_on_or_locked_in_one_version_only() -> None:
    enabled = {version: FeatureGates(version=version).enabled("StorageCapacityScoring") for version in BEHAVIOURS}
    assert enabled == {"1.36": False, "1.37": True, "1.38": True}
    parse_feature_gates("DRAPrioritizedList=false", version="1.36")
    with pytest.raises(ConfigError, match="feature is locked to true"):
        parse_feature_gates("DRAPrioritizedList=false", version="1.37")


def test_the_defaults_of_a_version_are_those_of_its_behaviours() -> None:
    for version in BEHAVIOURS:
        assert FeatureGates(version=version).behaviours.version == version
    assert DEFAULT_GATES.version == VERSION == next(iter(BEHAVIOURS))


def test_gates_that_are_built_do_not_warn() -> None:
    assert parse_feature_gates("StorageCapacityScoring=true,TaintTolerationComparisonOperators=true").warnings == ()


def test_a_whole_stage_warns_of_what_it_does_not_change_here() -> None:
    gates = parse_feature_gates("AllAlpha=true,GangScheduling=false,WorkloadAwarePreemption=false")
    (warning,) = gates.warnings
    assert warning.startswith("feature gate AllAlpha=true has no effect yet on ")
    assert "DRANodeAllocatableResources" in warning
    assert "StorageCapacityScoring" not in warning
    assert "GangScheduling" not in warning
    assert parse_feature_gates("AllAlpha=false").warnings == ()


def test_every_gate_is_listed_with_its_stage_as_the_metric_words_it() -> None:
    states = {state.name: state for state in parse_feature_gates("AllAlpha=true,GangScheduling=false").states()}
    assert list(states) == sorted([*gates_of(VERSION), "AllAlpha", "AllBeta"])
    assert states["AllAlpha"] == GateState("AllAlpha", "ALPHA", enabled=True)
    assert states["AllBeta"] == GateState("AllBeta", "BETA", enabled=False)
    assert states["StorageCapacityScoring"] == GateState("StorageCapacityScoring", "ALPHA", enabled=True)
    assert states["SchedulerQueueingHints"] == GateState("SchedulerQueueingHints", "", enabled=True)
    assert {state.stage for state in states.values()} == {"ALPHA", "BETA", "", "DEPRECATED"}


def test_a_version_without_a_table_is_not_made_up() -> None:
    assert gates_of(VERSION) is gates_of(VERSION)
    with pytest.raises(FileNotFoundError):
        gates_of("1.2")
