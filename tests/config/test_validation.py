"""Every rule of a valid configuration, in kube-scheduler's words and with the field's path."""

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import load_bytes

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ARGS = "profiles[0].pluginConfig[0].args"


def problems(text: str, gates: str = "") -> list[str]:
    try:
        load_bytes((HEAD + text).encode(), "f", parse_feature_gates(gates))
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def args_problems(plugin: str, args: str, gates: str = "") -> list[str]:
    found = problems(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]", gates)
    assert all(problem.startswith(f"{ARGS}.") for problem in found)
    return [problem.removeprefix(f"{ARGS}.") for problem in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parallelism: 0", ["parallelism: Invalid value: 0: should be an integer value greater than zero"]),
        ("percentageOfNodesToScore: 101", ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"]),
        (
            "profiles: [{percentageOfNodesToScore: -1}]",
            ["profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"],
        ),
        ("clientConnection: {burst: -1}", ["clientConnection.burst: Invalid value: -1: must be non-negative"]),
        ("podInitialBackoffSeconds: 0", ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"]),
        (
            "podInitialBackoffSeconds: 11",
            ["podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds"],
        ),
        (
            "leaderElection: {leaseDuration: 10s}",
            ['leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'],
        ),
        (
            "leaderElection: {retryPeriod: -1s}",
            ['leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero'],
        ),
        (
            "leaderElection: {leaseDuration: -1s, renewDeadline: -2s, retryPeriod: -3s}",
            [
                'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
                'leaderElection.renewDeadline: Invalid value: "-2s": must be greater than zero',
                'leaderElection.retryPeriod: Invalid value: "-3s": must be greater than zero',
            ],
        ),
        (
            "leaderElection: {retryPeriod: 9s}",
            [
                (
                    'leaderElection.renewDeadline: Invalid value: "10s": '
                    "renewDeadline must be greater than retryPeriod*JitterFactor"
                )
            ],
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            ['leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"'],
        ),
        (
            "leaderElection: {leaseDuration: 3ms, renewDeadline: 2ms, retryPeriod: 1ms}",
            [
                f'leaderElection.{name}: Invalid value: "{value}": must be at least {least}: '
                "no client can renew a Lease faster"
                for name, value, least in (
                    ("leaseDuration", "3ms", "1s"),
                    ("renewDeadline", "2ms", "500ms"),
                    ("retryPeriod", "1ms", "100ms"),
                )
            ],
        ),
        ("leaderElection: {leaseDuration: 1s, renewDeadline: 500ms, retryPeriod: 100ms}", []),
        ("leaderElection: {resourceName: my.lease-1, resourceNamespace: kube-system}", []),
        (
            "leaderElection: {resourceName: My_Lease, resourceNamespace: a.b}",
            [
                (
                    'leaderElection.resourceName: Invalid value: "My_Lease": a lowercase RFC 1123 subdomain must '
                    "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
                    "alphanumeric character (e.g. 'example.com', regex used for validation is "
                    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                ),
                (
                    'leaderElection.resourceNamespace: Invalid value: "a.b": a lowercase RFC 1123 label must consist '
                    "of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
                    "character (e.g. 'my-name',  or '123-abc', regex used for validation is "
                    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                ),
            ],
        ),
        (
            f"leaderElection: {{resourceNamespace: {'n' * 64}}}",
            [f'leaderElection.resourceNamespace: Invalid value: "{"n" * 64}": must be no more than 63 bytes'],
        ),
        ("leaderElection: {leaderElect: false, resourceName: A_B}", []),
        ("leaderElection: {leaderElect: false, retryPeriod: -1s, leaseDuration: 1s, resourceLock: x}", []),
        ("profiles: []", []),
        ('profiles: [{schedulerName: ""}]', ["profiles[0].schedulerName: Required value"]),
        (
            "profiles: [{schedulerName: a}, {}]",
            ["profiles[1].schedulerName: Required value"],
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            ['profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName"'],
        ),
        (
            "profiles: [{pluginConfig: [{name: X}, {name: X}]}]",
            ['profiles[0].pluginConfig[1]: Duplicate value: "X"'],
        ),
    ],
)
def test_the_configurations_own_fields(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


def test_removed_plugins_are_named_at_a_point_and_in_plugin_config() -> None:
    plugins = "{filter: {enabled: [{name: X}, {name: EBSLimits}]}}"
    text = f"profiles: [{{plugins: {plugins}, pluginConfig: [{{name: CinderLimits}}]}}]"
    tail = (
        'was invalid in version "kubescheduler.config.k8s.io/v1" '
        '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
    )
    assert problems(text) == [
        f'profiles[0].plugins.filter.enabled[1]: Invalid value: "EBSLimits": {tail}',
        f'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": {tail}',
    ]


def test_profiles_must_agree_on_the_queue_sort_plugin_and_its_arguments() -> None:
    sort = "plugins: {queueSort: {enabled: [{name: Mine}]}}"
    text = f"""
profiles:
- {{schedulerName: a, {sort}, pluginConfig: [{{name: Mine, args: {{x: 1}}}}]}}
- {{schedulerName: b, {sort}, pluginConfig: [{{name: Mine, args: {{x: 2}}}}]}}
- {{schedulerName: c}}
"""
    first, second = problems(text)
    assert first.startswith("profiles[1].pluginConfig.args: Invalid value")
    assert first.endswith("queueSort must be the same for all profiles")
    assert second.startswith("profiles[2].plugins.queueSort: Invalid value")
    assert second.endswith("must be the same for all profiles")


def test_two_queue_sort_plugins_are_too_many() -> None:
    (problem,) = problems("profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}]")
    assert problem.endswith("only one queue sort plugin can be enabled")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "{prioritizeVerb: p}",
            ["extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"],
        ),
        (
            "{bindVerb: b}, {bindVerb: b}",
            ['extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind'],
        ),
        (
            "{managedResources: [{name: cpu}]}",
            ['extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name'],
        ),
        (
            "{managedResources: [{name: x.kubernetes.io/y}]}",
            [
                (
                    'extenders[0].managedResources[0].name: Invalid value: "x.kubernetes.io/y": '
                    "is an invalid extended resource name"
                )
            ],
        ),
        (
            "{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}",
            ['extenders[1].managedResources[0].name: Invalid value: "a.b/c": duplicate extender managed resource name'],
        ),
        ("{managedResources: [{name: a.b/c}], prioritizeVerb: p, weight: 1, bindVerb: b}", []),
    ],
)
def test_extenders(text: str, expected: list[str]) -> None:
    assert problems(f"extenders: [{text}]") == expected


def test_a_managed_resources_name_follows_the_rules_of_label_keys() -> None:
    (problem,) = problems("extenders: [{managedResources: [{name: Example.com/gpu}]}]")
    assert "prefix part a lowercase RFC 1123 subdomain must consist of lower case" in problem


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
            [
                "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            [
                (
                    "minCandidateNodesPercentage: Invalid value: 0: "
                    "cannot be zero at the same time as minCandidateNodesAbsolute"
                ),
                (
                    "minCandidateNodesAbsolute: Invalid value: 0: "
                    "cannot be zero at the same time as minCandidateNodesPercentage"
                ),
            ],
        ),
        (
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: Most}}",
            [
                (
                    'scoringStrategy.type: Unsupported value: "Most": supported values: '
                    '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
                )
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}",
            [
                (
                    "scoringStrategy.resources[0].weight: Invalid value: 101: "
                    "resource weight of cpu not in valid range (0, 100]"
                )
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            [
                (
                    "scoringStrategy.requestedToCapacityRatio: Required value: "
                    "must be specified when type is RequestedToCapacityRatio"
                )
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
            [
                (
                    "scoringStrategy.requestedToCapacityRatio: Forbidden: "
                    "must be nil when type is not RequestedToCapacityRatio"
                )
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}}",
            ["scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified"],
        ),
        (
            "NodeResourcesFit",
            (
                "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: "
                "[{utilization: 50}, {utilization: 50, score: 11}, {utilization: 101}]}}}"
            ),
            [
                (
                    "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: "
                    "values must be sorted in increasing order"
                ),
                (
                    "scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: 11: "
                    "not in valid range [0, 10]"
                ),
                (
                    "scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: 101: "
                    "not in valid range [0, 100]"
                ),
            ],
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
            ["resources[0].weight: Invalid value: 2: must be 1", 'resources[1].name: Duplicate value: "cpu"'],
        ),
        (
            "PodTopologySpread",
            "{defaultingType: X}",
            ['defaultingType: Unsupported value: "X": supported values: "System", "List"'],
        ),
        (
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
            ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
        ),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{}]}",
            [
                "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "defaultConstraints[0].topologyKey: Required value: can not be empty",
                "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
            ],
        ),
        (
            "PodTopologySpread",
            (
                "{defaultingType: List, defaultConstraints: "
                "[{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Maybe, labelSelector: {}}]}"
            ),
            [
                (
                    'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Maybe": '
                    'supported values: "DoNotSchedule", "ScheduleAnyway"'
                ),
                (
                    "defaultConstraints[0].labelSelector: Forbidden: "
                    "constraint must not define a selector, as they deduced for each pod"
                ),
            ],
        ),
        (
            "PodTopologySpread",
            (
                "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: "
                "ScheduleAnyway}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}"
            ),
            ['defaultConstraints[1]: Duplicate value: "{z, ScheduleAnyway}"'],
        ),
        (
            "VolumeBinding",
            "{bindTimeoutSeconds: -1}",
            ["bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"],
        ),
        (
            "DynamicResources",
            "{filterTimeout: -1s, bindingTimeout: 500ms}",
            [
                'filterTimeout: Invalid value: "-1s": must be zero or positive',
                'bindingTimeout: Invalid value: "500ms": must be at least 1 second',
            ],
        ),
    ],
)
def test_plugin_arguments(plugin: str, args: str, expected: list[str]) -> None:
    assert args_problems(plugin, args) == expected


def test_resource_groups_are_prefixes_without_a_slash() -> None:
    found = args_problems("NodeResourcesFit", "{ignoredResourceGroups: [a/b], ignoredResources: [-x]}")
    assert found[0].startswith('ignoredResources[0]: Invalid value: "-x": name part must consist of')
    assert found[1] == "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'"


def test_a_volume_shape_needs_its_gate() -> None:
    args = "{shape: [{utilization: 0, score: 1}]}"
    (problem,) = args_problems("VolumeBinding", args)
    assert problem.endswith("unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")
    assert args_problems("VolumeBinding", args, "StorageCapacityScoring=true") == []


def test_device_timeouts_need_their_gates() -> None:
    gates = "DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false"
    assert args_problems("DynamicResources", "{filterTimeout: 1s, bindingTimeout: 1s}", gates) == [
        "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        (
            "bindingTimeout: Forbidden: "
            "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
        ),
    ]


REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (
            "{matchExpressions: [{key: a, operator: Like}]}",
            (
                'matchExpressions[0].operator: Unsupported value: "Like": supported values: '
                '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
            ),
        ),
        (
            "{matchExpressions: [{key: a, operator: In}]}",
            "matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
            'matchExpressions[0].values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
        ),
        (
            "{matchExpressions: [{key: a, operator: Gt, values: [b]}]}",
            (
                'matchExpressions[0].values[0]: Invalid value: "b": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            ),
        ),
        (
            "{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}",
            'matchFields[0].values: Invalid value: ["a","b"]: must have one element',
        ),
        (
            "{matchFields: [{key: metadata.name, operator: Exists}]}",
            'matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
        ),
    ],
)
def test_an_added_affinity_that_cannot_be_parsed_is_refused(term: str, expected: str) -> None:
    selector = f"{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}"
    assert args_problems("NodeAffinity", f"{{addedAffinity: {selector}}}") == [f"{REQUIRED}.{expected}"]


@pytest.mark.parametrize(("weight", "count"), [(1, 2), (0, 0)], ids=["weighed", "weight 0 is never looked at"])
def test_preferred_terms_of_an_added_affinity_are_parsed_if_they_weigh(weight: int, count: int) -> None:
    term = f"{{weight: {weight}, preference: {{matchExpressions: [{{key: -a, operator: In, values: [-b]}}]}}}}"
    args = f"{{addedAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}"
    assert len(args_problems("NodeAffinity", args)) == count
