"""Settings without effect: what the user set warns with its path, what nobody set is silent."""

import pytest

from kscheduler.config.defaults import IN_TREE_PLUGINS
from kscheduler.config.loader import default_configuration, dump_default, load_bytes
from kscheduler.config.unhonoured import RULES, UNBUILT_PLUGINS, unhonoured

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


ELECTION = "leaderElection.leaderElect"


def paths(text: str) -> list[str]:
    """All but leader election, which warns wherever it is not switched off."""
    warnings = unhonoured(load_bytes((HEAD + text).encode(), "f"))
    return [warning.path for warning in warnings if warning.path != ELECTION]


def test_of_defaults_that_nobody_wrote_leader_election_alone_warns() -> None:
    """Two replicas without it would both bind: this is said even where no file asks for it."""
    for loaded in (default_configuration(), load_bytes(HEAD.encode(), "f")):
        (warning,) = unhonoured(loaded)
        assert warning.path == ELECTION
        assert "run one replica" in warning.reason


def test_leader_election_switched_off_is_silent_with_all_its_fields() -> None:
    text = HEAD + "leaderElection: {leaderElect: false, retryPeriod: 3s, resourceName: x}"
    assert unhonoured(load_bytes(text.encode(), "f")) == ()


def test_defaults_that_are_written_out_ask_for_nothing() -> None:
    loaded = load_bytes(dump_default().encode(), "f")
    assert [warning.path for warning in unhonoured(loaded)] == [ELECTION]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parallelism: 16", []),
        ("parallelism: 8", ["parallelism"]),
        ("extenders: [{urlPrefix: x}]", ["extenders"]),
        ("extenders: []", []),
        ("percentageOfNodesToScore: 50", []),
        ("profiles: [{percentageOfNodesToScore: 50}]", []),
        ("enableProfiling: true", []),
        ("enableProfiling: false", []),
        ("clientConnection: {contentType: application/vnd.kubernetes.protobuf}", []),
        ("clientConnection: {contentType: application/cbor}", ["clientConnection.contentType"]),
        ("clientConnection: {contentType: application/json}", []),
        ("clientConnection: {qps: 5, burst: 6}", []),
        ("podInitialBackoffSeconds: 2", []),
        (
            "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: DynamicResources, args: {filterTimeout: 3s}}]}]",
            ["profiles[0].pluginConfig[1]"],
        ),
        (
            "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}, {name: GangScheduling}]}}}]",
            ["profiles[0].plugins.multiPoint.enabled[1]"],
        ),
        ("profiles: [{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}]", []),
    ],
)
def test_a_setting_warns_only_where_it_was_set_and_differs_from_what_is_done(text: str, expected: list[str]) -> None:
    assert paths(text) == expected


def test_a_warning_says_which_field_and_why() -> None:
    warning, _ = unhonoured(load_bytes((HEAD + "extenders: [{urlPrefix: x}]").encode(), "f"))
    assert str(warning) == "extenders: has no effect: extenders are not called yet"


def test_whoever_builds_a_feature_takes_its_rule_out() -> None:
    loaded = load_bytes((HEAD + "extenders: [{urlPrefix: x}]").encode(), "f")
    left = unhonoured(loaded, tuple(rule for rule in RULES if rule.path != "extenders"))
    assert [warning.path for warning in left] == [ELECTION]


def test_unbuilt_plugins_are_in_tree_plugins() -> None:
    assert UNBUILT_PLUGINS <= IN_TREE_PLUGINS
