"""`kscheduler config convert`: what it prints can be used and means the same; what has no meaning here is listed."""

from pathlib import Path
from textwrap import indent

import pytest
import yaml

from kscheduler.cli import main
from tests.builders import Tree

Captured = pytest.CaptureFixture[str]
HEAD = "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\n"


class Converted:
    """What a file has become, after `config check` has taken it."""

    def __init__(self, text: str, tmp_path: Path, capsys: Captured) -> None:
        file, result = tmp_path / "old.yaml", tmp_path / "new.yaml"
        file.write_text(text)
        assert main(["config", "convert", str(file)]) == 0
        captured = capsys.readouterr()
        result.write_text(captured.out)
        assert main(["config", "check", str(result)]) == 0, captured.out
        capsys.readouterr()
        self.tree: Tree = yaml.safe_load(captured.out)
        self.notes = [line.removeprefix(f"kscheduler: {file}:") for line in captured.err.splitlines()]
        self.listed = [(int(note.partition(":")[0]), note.split(": ")[1]) for note in self.notes]
        """Line and name of each."""

    @property
    def profile(self) -> Tree:
        """The first profile."""
        tree: Tree = self.tree["profiles"][0]
        return tree

    def names(self, point: str, verb: str = "enabled") -> list[str]:
        """The names at an extension point of the first profile."""
        return [entry["name"] for entry in self.profile.get("plugins", {}).get(point, {}).get(verb, [])]

    def args(self, plugin: str) -> Tree:
        """The arguments of a plugin of the first profile."""
        (args,) = (entry["args"] for entry in self.profile["pluginConfig"] if entry["name"] == plugin)
        tree: Tree = args
        return tree


def config_map(text: str, key: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: of-theirs}}\ndata:\n  {key}: |\n{indent(text, '    ')}"


BETA_3 = (
    HEAD.format("v1beta3")
    + """\
leaderElection: {resourceLock: endpointsleases, resourceName: mine}
profiles:
- schedulerName: gangs
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
      - name: CapacityScheduling
      disabled:
      - name: PrioritySort
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
    score: {disabled: [{name: NodeAffinity}], enabled: [{name: LoadVariationRiskBalancing, weight: 4}]}
  pluginConfig:
  - name: Coscheduling
    args:
      permitWaitingTimeSeconds: 10
  - name: InterPodAffinity
    args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: InterPodAffinityArgs, hardPodAffinityWeight: 7}
"""
)


@pytest.mark.parametrize("text", [BETA_3, BETA_3.replace("v1beta3", "v1")], ids=["v1beta3", "v1"])
@pytest.mark.parametrize("is_in_config_map", [False, True], ids=["file", "ConfigMap"])
def test_plugins_of_scheduler_plugins_become_settings_or_are_listed(
    text: str, is_in_config_map: bool, tmp_path: Path, capsys: Captured
) -> None:
    before = 5 if is_in_config_map else 0
    done = Converted(config_map(text, "scheduler-config.yaml") if is_in_config_map else text, tmp_path, capsys)
    assert done.tree["podGroupAPIs"] == ["scheduler-plugins"]
    assert done.tree["leaderElection"] == {"resourceLock": "leases", "resourceName": "mine"}
    assert done.profile["plugins"]["score"] == {
        "disabled": [{"name": "NodeAffinity"}],
        "enabled": [{"name": "LoadAware", "weight": 4}],
    }
    assert done.names("multiPoint") + done.names("queueSort") == []
    assert done.args("InterPodAffinity")["hardPodAffinityWeight"] == 7
    assert done.listed == [
        (before + 3, "leaderElection.resourceLock"),
        (before + 10, "CapacityScheduling"),
        (before + 14, "LoadVariationRiskBalancing"),
        (before + 18, "Coscheduling, permitWaitingTimeSeconds"),
    ]


def test_every_weight_of_v1beta2_is_written_where_v1_has_another(tmp_path: Path, capsys: Captured) -> None:
    text = (
        "profiles:\n- plugins: {score: {enabled: [{name: NodeAffinity, weight: 9}]}}\nmetricsBindAddress: 0.0.0.0:1\n"
    )
    done = Converted(HEAD.format("v1beta2") + text, tmp_path, capsys)
    assert done.profile["plugins"] == {
        "score": {"enabled": [{"name": "NodeAffinity", "weight": 9}]},
        "multiPoint": {
            "enabled": [{"name": "InterPodAffinity", "weight": 1}, {"name": "TaintToleration", "weight": 1}]
        },
    }
    assert done.listed == [(4, "weights"), (5, "metricsBindAddress")]
    assert len(Converted(HEAD.format("v1beta2"), tmp_path, capsys).names("multiPoint")) == 3
    assert Converted(HEAD.format("v1beta3") + "profiles: [{}]", tmp_path, capsys).notes == []


@pytest.mark.parametrize(
    ("enabled", "disabled", "strategy"),
    [
        ("NodeResourcesMostAllocated", "NodeResourcesLeastAllocated", {"type": "MostAllocated"}),
        (
            "RequestedToCapacityRatio",
            "*",
            {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            },
        ),
    ],
    ids=["MostAllocated", "RequestedToCapacityRatio"],
)
def test_the_old_plugins_about_resources_are_strategies(
    enabled: str, disabled: str, strategy: Tree, tmp_path: Path, capsys: Captured
) -> None:
    text = (
        f"profiles:\n- plugins:\n    score:\n      disabled: [{{name: '{disabled}'}}]\n"
        f"      enabled: [{{name: {enabled}, weight: 3}}]\n"
        f"  pluginConfig:\n  - name: {enabled}\n    args:\n      resources: [{{name: example.com/gpu, weight: 5}}]\n"
        "      shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]\n"
    )
    done = Converted(HEAD.format("v1beta1") + text, tmp_path, capsys)
    assert done.profile["plugins"]["score"]["enabled"] == [{"name": "NodeResourcesFit", "weight": 3}]
    resources = [{"name": "example.com/gpu", "weight": 5}]
    assert done.args("NodeResourcesFit")["scoringStrategy"] == {**strategy, "resources": resources}


def test_labels_that_nodes_need_are_an_affinity_that_the_profile_adds(tmp_path: Path, capsys: Captured) -> None:
    text = (
        "profiles:\n- plugins: {filter: {enabled: [{name: NodeLabel}]}}\n  pluginConfig:\n  - name: NodeLabel\n"
        "    args:\n      presentLabels: [zone]\n      absentLabels: [retiring]\n      presentLabelsPreference: [ssd]\n"
    )
    done = Converted(HEAD.format("v1beta1") + text, tmp_path, capsys)
    (term,) = done.args("NodeAffinity")["addedAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "zone", "operator": "Exists"},
        {"key": "retiring", "operator": "DoesNotExist"},
    ]
    assert (10, "NodeLabel, presentLabelsPreference") in done.listed


def test_what_stood_at_the_top_of_v1alpha1_stands_in_its_profile(tmp_path: Path, capsys: Captured) -> None:
    text = (
        "schedulerName: batch\nalgorithmSource: {provider: ClusterAutoscalerProvider}\ndisablePreemption: true\n"
        "hardPodAffinitySymmetricWeight: 4\nbindTimeoutSeconds: 30\nleaderElection: {lockObjectName: one}\n"
    )
    done = Converted(HEAD.format("v1alpha1") + text, tmp_path, capsys)
    assert (done.profile["schedulerName"], done.tree["leaderElection"]) == ("batch", {"resourceName": "one"})
    assert done.names("multiPoint", "disabled") == ["DefaultPreemption"]
    assert done.args("NodeResourcesFit")["scoringStrategy"] == {"type": "MostAllocated"}
    assert (done.args("InterPodAffinity"), done.args("VolumeBinding")) == (
        {"hardPodAffinityWeight": 4},
        {"bindTimeoutSeconds": 30},
    )


def test_a_point_that_needs_a_plugin_gets_the_default_back(tmp_path: Path, capsys: Captured) -> None:
    text = (
        "profiles:\n- plugins:\n    queueSort: {disabled: [{name: PrioritySort}], enabled: [{name: QOSSort}]}\n"
        "    bind: {disabled: [{name: '*'}], enabled: [{name: TheirBinder}]}\n"
    )
    done = Converted(HEAD.format("v1") + text, tmp_path, capsys)
    assert "plugins" not in done.profile
    assert done.listed == [(5, "QOSSort"), (6, "TheirBinder")]


def test_a_field_that_is_wrong_or_unknown_is_left_out_and_listed_with_its_line(
    tmp_path: Path, capsys: Captured
) -> None:
    text = "paralelism: 3\nparallelism: -1\nprofiles:\n- schedulerName: a\n  percentageOfNodesToScore: 400\n"
    done = Converted(HEAD.format("v1beta3") + text, tmp_path, capsys)
    assert done.profile == {"schedulerName": "a"}
    assert done.listed == [(3, "paralelism"), (4, "parallelism"), (7, "profiles[0].percentageOfNodesToScore")]


POLICY = """\
{
  "kind": "Policy", "apiVersion": "v1",
  "predicates": [
    {"name": "GeneralPredicates"},
    {"name": "MatchInterPodAffinity"},
    {"name": "Racked", "argument": {"labelsPresence": {"labels": ["rack"], "presence": true}}},
    {"name": "TheirPredicate"}
  ],
  "priorities": [
    {"name": "MostRequestedPriority", "weight": 3},
    {"name": "LeastRequestedPriority", "weight": 1},
    {"name": "EqualPriority", "weight": 1},
    {"name": "SelectorSpreadPriority", "weight": 2},
    {"name": "ImageLocalityPriority", "weight": 4},
    {"name": "RackSpread", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "rack"}}}
  ],
  "hardPodAffinitySymmetricWeight": 10,
  "extenders": [
    {"URLPrefix": "https://gpu.example/", "filterVerb": "filter", "enableHttps": true, "httpTimeout": 30000000000,
     "tlsConfig": {"caFile": "/no/ca.crt"}, "apiVersion": "v1beta1"}
  ]
}
"""


@pytest.mark.parametrize("is_in_config_map", [False, True], ids=["file", "ConfigMap"])
def test_a_policy_becomes_a_profile_with_what_it_lists_and_nothing_else(
    is_in_config_map: bool, tmp_path: Path, capsys: Captured
) -> None:
    before = 5 if is_in_config_map else 0
    done = Converted(config_map(POLICY, "policy.cfg") if is_in_config_map else POLICY, tmp_path, capsys)
    assert done.profile["plugins"]["multiPoint"] == {
        "disabled": [
            {"name": name}
            for name in (
                "NodeResourcesBalancedAllocation",
                "NodeVolumeLimits",
                "VolumeBinding",
                "VolumeRestrictions",
                "VolumeZone",
            )
        ],
        "enabled": [
            {"name": "NodeResourcesFit", "weight": 3},
            {"name": "ImageLocality", "weight": 4},
            {"name": "PodTopologySpread", "weight": 2},
        ],
    }
    assert done.names("score", "disabled") == ["InterPodAffinity", "NodeAffinity", "TaintToleration"]
    assert done.names("filter", "disabled") == ["PodTopologySpread"]
    assert done.args("NodeResourcesFit") == {"scoringStrategy": {"type": "MostAllocated"}}
    assert "addedAffinity" in done.args("NodeAffinity")
    assert done.tree["extenders"] == [
        {
            "urlPrefix": "https://gpu.example/",
            "filterVerb": "filter",
            "enableHTTPS": True,
            "httpTimeout": "30s",
            "tlsConfig": {"caFile": "/no/ca.crt"},
        }
    ]
    assert done.listed == [
        (before + 3, "predicates"),
        (before + 7, "TheirPredicate"),
        (before + 11, "LeastRequestedPriority"),
        (before + 13, "SelectorSpreadPriority"),
        (before + 15, "RackSpread"),
        (before + 17, "hardPodAffinitySymmetricWeight"),
        (before + 20, "extenders"),
    ]


def test_arguments_are_written_only_for_plugins_that_are_called(tmp_path: Path, capsys: Captured) -> None:
    """What only scores is no argument of a plugin that only filters, and nothing is one of a disabled plugin."""
    weight, listed = "hardPodAffinitySymmetricWeight: 10\n", (3, "hardPodAffinitySymmetricWeight")
    policy = f"kind: Policy\napiVersion: v1\n{weight}"
    for lists in ("priorities: []\n", "priorities: []\npredicates: []\n"):
        without = Converted(policy + lists, tmp_path, capsys)
        assert ("pluginConfig" in without.profile, listed in without.listed) == (False, True)
    scored = Converted(policy + "priorities: [{name: InterPodAffinityPriority}]\npredicates: []\n", tmp_path, capsys)
    assert (scored.args("InterPodAffinity"), listed in scored.listed) == ({"hardPodAffinityWeight": 10}, False)
    names = ("InterPodAffinity", "VolumeBinding", "NodeResourcesFit")
    disabled = f"{{disabled: [{', '.join(f'{{name: {name}}}' for name in names)}]}}"
    alpha = HEAD.format("v1alpha1") + (
        f"{weight}bindTimeoutSeconds: 7\nalgorithmSource: {{provider: ClusterAutoscalerProvider}}\n"
        f"plugins: {{score: {disabled}, preBind: {disabled}}}\n"
    )
    none = Converted(alpha, tmp_path, capsys)
    assert "pluginConfig" not in none.profile
    assert {listed, (4, "bindTimeoutSeconds"), (5, "algorithmSource.provider")} <= set(none.listed)


def test_lists_that_a_policy_leaves_out_are_the_defaults(tmp_path: Path, capsys: Captured) -> None:
    done = Converted("kind: Policy\napiVersion: v1\n", tmp_path, capsys)
    assert (done.names("multiPoint", "disabled"), done.names("filter", "disabled"), done.notes) == ([], [], [])
    none = Converted("kind: Policy\napiVersion: v1\npriorities: []\npredicates: []\n", tmp_path, capsys)
    assert "NodeResourcesFit" in none.names("multiPoint", "disabled")
    assert "NodeUnschedulable" not in none.names("multiPoint", "disabled"), "it was mandatory"


VOLCANO = """\
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: proportion
- plugins:
  - name: predicates
    arguments:
      predicate.NodePortsEnable: false
      predicate.GPUSharingEnable: true
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      nodeaffinity.weight: "5"
      imagelocality.weight: 0
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.cpu: 5
      binpack.resources: example.com/gpu
      binpack.resources.example.com/gpu: 7
configurations: []
"""


@pytest.mark.parametrize("is_in_config_map", [False, True], ids=["file", "ConfigMap"])
def test_what_volcano_says_about_nodes_and_gangs_has_a_meaning_here(
    is_in_config_map: bool, tmp_path: Path, capsys: Captured
) -> None:
    before = 5 if is_in_config_map else 0
    text = config_map(VOLCANO, "volcano-scheduler.conf") if is_in_config_map else VOLCANO
    done = Converted(text, tmp_path, capsys)
    assert (done.tree["podGroupAPIs"], done.profile["schedulerName"]) == (["volcano"], "volcano")
    assert done.tree["leaderElection"] == {"resourceName": "volcano"}, "kube-scheduler's Lease is another"
    assert done.profile["plugins"]["multiPoint"] == {
        "enabled": [{"name": "NodeAffinity", "weight": 5}, {"name": "NodeResourcesFit", "weight": 10}]
    }
    assert (done.names("score", "disabled"), done.names("filter", "disabled")) == (["ImageLocality"], ["NodePorts"])
    weights = {"cpu": 5, "memory": 1, "example.com/gpu": 7}
    assert done.args("NodeResourcesFit")["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [{"name": name, "weight": weight} for name, weight in weights.items()],
    }
    assert done.listed == [
        (before + 1, "enqueue"),
        (before + 6, "gang, enablePreemptable"),
        (before + 7, "proportion"),
        (before + 12, "predicates, predicate.GPUSharingEnable"),
        (before + 24, "configurations"),
    ]
    without = Converted(text.replace(", preempt", ""), tmp_path, capsys)
    assert without.names("multiPoint", "disabled") == ["DefaultPreemption"]


def test_the_configuration_is_found_among_other_documents_and_in_lists(tmp_path: Path, capsys: Captured) -> None:
    others = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: one}\n---\n"
    done = Converted(others + config_map(VOLCANO, "volcano-scheduler.conf"), tmp_path, capsys)
    assert done.listed[:2] == [(1, "ServiceAccount one"), (10, "enqueue")]
    listed = "apiVersion: v1\nkind: List\nitems:\n" + indent(config_map(BETA_3, "config"), "  ").replace("  ", "- ", 1)
    assert Converted(listed, tmp_path, capsys).tree["podGroupAPIs"] == ["scheduler-plugins"]
    both = Converted(f"{BETA_3}---\n{POLICY}", tmp_path, capsys)
    assert (21, "policy") in both.listed, "one at a time, and the other is named"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}", "line 1: Deployment x: not converted"),
        (HEAD.format("v2"), 'apiVersion: "kubescheduler.config.k8s.io/v2" is no version of KubeSchedulerConfiguration'),
        (
            config_map("partitions: []", "queues.yaml"),
            "line 6: ConfigMap of-theirs, queues.yaml: queues of Apache YuniKorn",
        ),
        ("a: [", "not YAML"),
    ],
    ids=["empty", "another kind", "another version", "YuniKorn", "no YAML"],
)
def test_what_is_no_configuration_of_a_scheduler_is_refused(
    text: str, message: str, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(text)
    assert main(["config", "convert", str(file)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, message in captured.err) == ("", True), captured.err


@pytest.mark.parametrize("text", [BETA_3, POLICY, VOLCANO, config_map(POLICY, "policy.cfg")])
def test_the_check_of_such_a_file_says_how_it_is_converted(text: str, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(text)
    assert main(["config", "check", str(file)]) == 2
    assert "`kscheduler config convert` turns such a file into one" in capsys.readouterr().err
