"""Loading: strict about the file, complete in what comes out, and all mistakes at once."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import NodeSelectorRequirement
from kscheduler.api.releases import VERSION
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.in_tree_plugins import IN_TREE_POINTS
from kscheduler.config.loader import (
    LoadedConfig,
    default_configuration,
    dump,
    dump_default,
    from_tree,
    load_bytes,
    load_file,
    to_tree,
)
from kscheduler.config.plugin_args import (
    ARGS_KINDS,
    DynamicResourcesArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)

LARGE = pytest.mark.slow("reads files of half a million values")

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

FULL = (
    HEAD
    + """
parallelism: 8
leaderElection: {leaderElect: false, leaseDuration: 1m30s, resourceName: mine}
clientConnection: {qps: 100, burst: 0}
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
profiles:
- schedulerName: packing
  percentageOfNodesToScore: 70
  plugins:
    multiPoint:
      enabled: [{name: ImageLocality, weight: 5}, {name: Mine}]
      disabled: [{name: NodePorts}]
    score:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit, weight: 3}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResourceGroups: [example.com]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu}, {name: example.com/gpu, weight: 7}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [batch]}]}]
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  - name: DynamicResources
    args: {bindingTimeout: 20s}
  - name: Mine
    args: {anything: [1, {deep: null}]}
- schedulerName: spreading
extenders:
- urlPrefix: https://extender.example.com
  filterVerb: filter
  enableHTTPS: true
  httpTimeout: 100ms
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
"""
)


def load(text: str, gates: str = "") -> LoadedConfig:
    return load_bytes(text.encode(), "f.yaml", parse_feature_gates(gates))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return str(caught.value)


def test_a_null_in_a_list_of_names_is_an_empty_name() -> None:
    arguments = "{name: NodeResourcesFit, args: {ignoredResources: [null]}}"
    with pytest.raises(ConfigError, match=r"ignoredResources\[0\]"):
        load(f"{HEAD}profiles: [{{pluginConfig: [{arguments}]}}]\n")


def test_an_almost_empty_file_means_kube_schedulers_defaults() -> None:
    configuration = load(HEAD).configuration
    assert configuration.parallelism == 16
    assert configuration.profiles[0].scheduler_name == "default-scheduler"
    assert configuration.leader_election.leader_elect
    assert configuration.leader_election.resource_name == "kube-scheduler"
    assert str(configuration.leader_election.lease_duration) == "15s"
    assert (configuration.client_connection.qps, configuration.client_connection.burst) == (50.0, 100)
    assert configuration.enable_profiling is configuration.enable_contention_profiling is True
    assert (configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds) == (1, 10)


def test_every_enabled_plugin_that_takes_arguments_gets_its_defaults() -> None:
    profile = load(HEAD).configuration.profiles[0]
    in_tree = IN_TREE_POINTS[VERSION].keys()
    assert [entry.name for entry in profile.plugin_config] == sorted(ARGS_KINDS.keys() & in_tree)
    strategy = profile.args("NodeResourcesFit", NodeResourcesFitArgs).scoring_strategy
    assert strategy is not None
    assert (strategy.type, [(one.name, one.weight) for one in strategy.resources]) == (
        "LeastAllocated",
        [("cpu", 1), ("memory", 1)],
    )
    balanced = profile.args("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocationArgs)
    assert [one.name for one in balanced.resources] == ["cpu", "memory"]
    assert profile.args("VolumeBinding", VolumeBindingArgs) == VolumeBindingArgs(600, None)
    devices = profile.args("DynamicResources", DynamicResourcesArgs)
    assert (str(devices.filter_timeout), str(devices.binding_timeout)) == ("10s", "10m0s")


def test_a_full_file_is_read_into_typed_settings() -> None:
    configuration = load(FULL).configuration
    packing, spreading = configuration.profiles
    assert (packing.scheduler_name, spreading.scheduler_name) == ("packing", "spreading")
    assert configuration.client_connection.burst == 100
    assert configuration.leader_election.lease_duration.seconds == 90
    affinity = packing.args("NodeAffinity", NodeAffinityArgs).added_affinity
    assert affinity is not None
    assert affinity.required_during_scheduling_ignored_during_execution is not None
    (term,) = affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    assert term.match_expressions == (NodeSelectorRequirement("pool", "In", ("batch",)),)
    strategy = packing.args("NodeResourcesFit", NodeResourcesFitArgs).scoring_strategy
    assert strategy is not None
    assert [one.weight for one in strategy.resources] == [1, 7]
    assert packing.args("PodTopologySpread", PodTopologySpreadArgs).default_constraints[0].topology_key == "zone"
    assert next(entry.args for entry in packing.plugin_config if entry.name == "Mine") == {
        "anything": [1, {"deep": None}]
    }
    assert configuration.extenders[0].enable_https


def test_plugin_sets_of_a_file_are_merged_with_the_defaults() -> None:
    plugins = load(FULL).configuration.profiles[0].plugins
    names = [plugin.name for plugin in plugins.multi_point.enabled]
    assert "NodePorts" not in names
    assert names[-3:] == ["DefaultBinder", "NodeDeclaredFeatures", "Mine"]
    assert {plugin.name: plugin.weight for plugin in plugins.multi_point.enabled}["ImageLocality"] == 5
    assert [plugin.name for plugin in plugins.score.enabled] == ["NodeResourcesFit"]


def test_the_fields_that_were_given_are_known_by_path() -> None:
    loaded = load(FULL)
    assert loaded.is_given("clientConnection.qps")
    assert loaded.is_given("profiles[0].pluginConfig[3].args.bindingTimeout")
    assert not loaded.is_given("clientConnection.kubeconfig")
    assert not load(HEAD + "clientConnection: {qps: null}").is_given("clientConnection.qps")


def test_without_a_file_profile_and_lease_carry_the_services_own_name() -> None:
    configuration = default_configuration().configuration
    assert [profile.scheduler_name for profile in configuration.profiles] == ["kscheduler"]
    assert configuration.leader_election.resource_name == "kscheduler"
    assert default_configuration("other").configuration.leader_election.resource_name == "other"
    assert not default_configuration().given


@pytest.mark.parametrize("text", [HEAD, FULL], ids=["defaults", "full"])
def test_a_dumped_configuration_loads_as_the_same_value(text: str) -> None:
    configuration = load(text).configuration
    assert load(dump(configuration)).configuration == configuration
    assert from_tree(json.loads(json.dumps(to_tree(configuration))), "").configuration == configuration


def test_the_dumped_default_is_the_default() -> None:
    assert load(dump_default()).configuration == default_configuration().configuration


def test_gates_change_what_defaults_are() -> None:
    profile = load(HEAD, "StorageCapacityScoring=true,DRASchedulerFilterTimeout=false").configuration.profiles[0]
    shape = profile.args("VolumeBinding", VolumeBindingArgs).shape
    assert shape is not None
    assert [(point.utilization, point.score) for point in shape] == [(0, 10), (100, 0)]
    assert profile.args("DynamicResources", DynamicResourcesArgs).filter_timeout is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml: not a KubeSchedulerConfiguration but empty"),
        ("- 1", "f.yaml: not a KubeSchedulerConfiguration but [1]"),
        ("a: 1", "f.yaml: apiVersion: is missing: write apiVersion: kubescheduler.config.k8s.io/v1"),
        ("apiVersion: v1\nkind: Pod", "f.yaml: couldn't decode as KubeSchedulerConfiguration, got v1, Kind=Pod"),
        (
            HEAD.replace("io/v1", "io/v1beta3"),
            "got kubescheduler.config.k8s.io/v1beta3, Kind=KubeSchedulerConfiguration: Kubernetes 1.36 reads",
        ),
        (HEAD + "Parallelism: 1", "f.yaml:3: Parallelism: unknown field: did you mean parallelism?"),
        (HEAD + "parallelism: '8'", 'f.yaml:3: parallelism: expected a whole number, got "8"'),
        (HEAD + "parallelism: yes", "f.yaml:3: parallelism: expected a whole number, got true"),
        (HEAD + "parallelism: 3000000000", "f.yaml:3: parallelism: 3000000000 is outside [-2147483648, 2147483647]"),
        (HEAD + "parallelism: 1.5", "f.yaml:3: parallelism: expected a whole number, got 1.5"),
        (HEAD + "enableProfiling: 1", "f.yaml:3: enableProfiling: expected true or false, got 1"),
        (HEAD + "leaderElection: {leaseDuration: 15}", "leaderElection.leaseDuration: expected a duration such as 15s"),
        (HEAD + "leaderElection: {leaseDuration: 15x}", "leaderElection.leaseDuration: unknown unit 'x'"),
        (HEAD + "profiles: {}", "f.yaml:3: profiles: expected a list, got an object"),
        (HEAD + "profiles: [[]]", "f.yaml:3: profiles[0]: expected an object, got a list"),
        (HEAD + "clientConnection: {qps: 1e39}", "clientConnection.qps: 1e39 is outside [-3.4"),
        (HEAD + "profiles: [{schedulerName: on}]", "profiles[0].schedulerName: expected text (in quotes"),
        (
            HEAD + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeout: 1}}]}]",
            "profiles[0].pluginConfig[0].args.bindTimeout: unknown field",
        ),
        (
            HEAD + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {kind: NodeAffinityArgs}}]}]",
            "args for plugin VolumeBinding were not of type VolumeBindingArgs.kubescheduler.config.k8s.io",
        ),
        (
            HEAD + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {apiVersion: v1}}]}]",
            "args.apiVersion: expected kubescheduler.config.k8s.io/v1, got v1",
        ),
        (
            HEAD + "profiles: [{pluginConfig: [{name: VolumeBinding, args: [1]}]}]",
            "profiles[0].pluginConfig[0].args: expected an object, got a list",
        ),
    ],
    ids=lambda value: "" if value.startswith(HEAD) else value[:40],
)
def test_a_file_that_is_not_right_is_refused_with_file_and_field(text: str, message: str) -> None:
    assert message in refusal(text)


def test_all_mistakes_are_reported_at_once_a_line_each() -> None:
    lines = refusal(
        HEAD + "parallelism: a\nfoo: 1\nprofiles: [{schedulerName: 1, plugins: {filter: [x]}}]"
    ).splitlines()
    paths = ["parallelism", "foo", "profiles[0].schedulerName", "profiles[0].plugins.filter"]
    assert [line.split(": ")[1] for line in lines] == paths


@LARGE
@pytest.mark.parametrize(
    "body",
    ["profiles: [" + "{}," * 9_900 + "]", "profiles: [" + "1," * 19_900 + "]", "x: [" + "1," * 500_000 + "]"],
    ids=["very many profiles", "very many mistakes", "very many values"],
)
def test_a_hostile_file_costs_little_and_its_error_is_short(body: str) -> None:
    started = time.process_time()
    text = refusal(HEAD + body)
    assert time.process_time() - started < 5
    assert len(text.splitlines()) <= 101


def test_a_tree_of_very_many_values_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 20,000 values"):
        from_tree({"apiVersion": "x", "kind": "y", "profiles": [[1, 2]] * 10_000}, "f")


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(FULL)
    assert load_file(path).configuration == load(FULL).configuration


@pytest.mark.parametrize("name", ["missing.yaml", "."], ids=["missing", "a folder"])
def test_a_file_that_cannot_be_read_is_a_config_error_that_names_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        load_file(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path))


@LARGE
def test_a_tree_nested_without_end_is_refused() -> None:
    tree: Any = 1
    for _ in range(100_000):
        tree = [tree]
    with pytest.raises(ConfigError, match="nested more than 50 deep"):
        from_tree({"apiVersion": "x", "kind": "y", "profiles": tree}, "f")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
field_names = st.sampled_from(
    [
        "addedAffinity",
        "args",
        "bindTimeoutSeconds",
        "clientConnection",
        "defaultConstraints",
        "enabled",
        "extenders",
        "filter",
        "httpTimeout",
        "leaderElection",
        "leaseDuration",
        "managedResources",
        "maxSkew",
        "multiPoint",
        "name",
        "nodeSelectorTerms",
        "parallelism",
        "pluginConfig",
        "plugins",
        "profiles",
        "qps",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "resources",
        "schedulerName",
        "scoringStrategy",
        "shape",
        "weight",
    ]
)
plugin_names = st.sampled_from(sorted(ARGS_KINDS))
trees = st.recursive(
    scalars | plugin_names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(field_names | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
profiles = st.fixed_dictionaries(
    {},
    optional={
        "schedulerName": trees,
        "plugins": trees | st.dictionaries(field_names, trees, max_size=3),
        "pluginConfig": st.lists(st.fixed_dictionaries({"name": plugin_names, "args": trees}), max_size=2),
    },
)


@settings(deadline=None)
@given(st.dictionaries(field_names, trees, max_size=5), st.lists(profiles, max_size=2))
def test_no_tree_raises_anything_but_config_error(tree: dict[str, Any], some_profiles: list[Any]) -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    for whole in (tree, {**tree, **head}, {**tree, **head, "profiles": some_profiles}):
        with suppress(ConfigError):
            loaded = from_tree(whole, "f")
            assert from_tree(to_tree(loaded.configuration), "f").configuration == loaded.configuration


def test_a_null_in_a_list_is_the_empty_value_as_for_kube_scheduler() -> None:
    assert load(HEAD + "profiles: [null]").configuration == load(HEAD).configuration
    (extender,) = load(HEAD + "extenders: [null]").configuration.extenders
    assert extender.url_prefix == ""
