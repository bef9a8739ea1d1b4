"""Settings without effect: what the user set warns with its path, what nobody set is silent."""

import pytest

from kscheduler.config.defaults import IN_TREE_PLUGINS
from kscheduler.config.loader import default_configuration, load_bytes
from kscheduler.config.unhonoured import RULES, UNBUILT_PLUGINS, unhonoured

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def paths(text: str) -> list[str]:
    return [warning.path for warning in unhonoured(load_bytes((HEAD + text).encode(), "f"))]


def test_defaults_that_nobody_wrote_do_not_warn() -> None:
    assert paths("") == []
    assert unhonoured(default_configuration()) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("leaderElection: {leaderElect: true}", ["leaderElection.leaderElect"]),
        ("leaderElection: {leaderElect: false}", []),
        ("leaderElection: {retryPeriod: 3s}", ["leaderElection.retryPeriod"]),
        ("extenders: [{urlPrefix: x}, {urlPrefix: z, filterVerb: f}]", ["extenders[1]"]),
        ("extenders: []", []),
        ("percentageOfNodesToScore: 50", []),
        ("profiles: [{percentageOfNodesToScore: 50}]", []),
        ("enableProfiling: true", ["enableProfiling"]),
        ("enableProfiling: false", []),
        ("clientConnection: {contentType: application/vnd.kubernetes.protobuf}", ["clientConnection.contentType"]),
        ("clientConnection: {contentType: application/json}", []),
        ("clientConnection: {qps: 5, burst: 6}", []),
        ("podInitialBackoffSeconds: 2", []),
        (
            "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: DynamicResources}]}]",
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
    (warning,) = unhonoured(load_bytes((HEAD + "enableProfiling: true").encode(), "f"))
    assert str(warning) == "enableProfiling: has no effect: profiling endpoints are not built yet"


def test_whoever_builds_a_feature_takes_its_rule_out() -> None:
    loaded = load_bytes((HEAD + "enableProfiling: true").encode(), "f")
    assert unhonoured(loaded, tuple(rule for rule in RULES if rule.path != "enableProfiling")) == ()


MANAGED = "managedResources: [{name: example.com/gpu, ignoredByScheduler: true}, {name: example.com/nic}]"

EVERYTHING = (
    "it turns no node down, it gives no points, it is not asked whom to preempt, the profile's own plugins bind, "
    "nobody keeps account of example.com/gpu"
)


@pytest.mark.parametrize(
    ("extender", "effects"),
    [
        ("filterVerb: f", "all pods are held"),
        ("bindVerb: b, prioritizeVerb: p, weight: 1", "all pods are held"),
        (f"filterVerb: f, {MANAGED}", "pods that request or limit example.com/gpu, example.com/nic are held"),
        ("preemptVerb: p", "all pods preempt nobody"),
        ("prioritizeVerb: p, weight: 1", "it gives no points"),
        ("filterVerb: f, ignorable: true", "it turns no node down"),
        (
            f"filterVerb: f, prioritizeVerb: p, weight: 2, preemptVerb: q, bindVerb: b, ignorable: true, {MANAGED}",
            EVERYTHING,
        ),
    ],
)
def test_an_extender_warns_of_exactly_what_goes_without_it(extender: str, effects: str) -> None:
    text = f"extenders: [{{urlPrefix: 'http://me:secret@gpu.example.com/scheduler', {extender}}}]"
    (warning,) = unhonoured(load_bytes((HEAD + text).encode(), "f"))
    assert str(warning) == (f"extenders[0]: extenders are not called yet: {effects} (http://gpu.example.com/scheduler)")


def test_unbuilt_plugins_are_in_tree_plugins() -> None:
    assert UNBUILT_PLUGINS <= IN_TREE_PLUGINS
