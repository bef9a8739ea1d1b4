"""Feature gates: what is unknown, locked or unmet is an error that names it; what has no effect is a warning."""

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import DEFAULT_GATES, GATES, Stage, parse_feature_gates


def test_without_settings_every_gate_has_its_default() -> None:
    assert DEFAULT_GATES.as_dict() == {name: gate.default for name, gate in GATES.items()}
    assert DEFAULT_GATES.enabled("OpportunisticBatching")
    assert not DEFAULT_GATES.enabled("SchedulerAsyncAPICalls")


def test_the_defaults_satisfy_their_own_needs() -> None:
    assert parse_feature_gates("").chosen == {}


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
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        ("PodLevelResources=false", "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on"),
    ],
)
def test_a_setting_that_cannot_be_is_an_error_that_names_the_gate(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(text)
    assert f"--feature-gates: {message}" in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates("A=true,B=true,SidecarContainers=false,C")
    assert len(caught.value.problems) == 4


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    gates = parse_feature_gates("SchedulerQueueingHints=true")
    assert gates.enabled("SchedulerQueueingHints")
    assert gates.warnings == ()


def test_a_known_gate_without_effect_is_a_warning_that_names_it() -> None:
    gates = parse_feature_gates("SchedulerAsyncAPICalls=true,OpportunisticBatching=true")
    assert gates.warnings == ("feature gate SchedulerAsyncAPICalls=true is known but has no effect yet",)


def test_all_alpha_turns_on_alpha_gates_and_a_gate_of_its_own_wins() -> None:
    gates = parse_feature_gates("GangScheduling=false,WorkloadAwarePreemption=false,AllAlpha=true")
    alphas = {name for name, gate in GATES.items() if gate.stage is Stage.ALPHA}
    assert {name for name in alphas if not gates.enabled(name)} == {"GangScheduling", "WorkloadAwarePreemption"}


def test_every_locked_gate_is_ga_and_every_need_is_in_the_table() -> None:
    assert all(gate.stage is Stage.GA for gate in GATES.values() if gate.locked)
    assert {need for gate in GATES.values() for need in gate.needs} <= set(GATES)
