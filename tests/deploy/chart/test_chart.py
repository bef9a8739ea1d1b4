"""The chart, for every set of values in ci/: valid for all supported Kubernetes, and understood by kscheduler."""

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import msgspec
import pytest
import yaml

from kscheduler.api.releases import BEHAVIOURS, NEWEST_SERVER, OLDEST_SERVER, numbers_of
from kscheduler.assembly import group_apis
from kscheduler.assembly.configuration_checks import profile_problems
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.cli.commands import run, shadow
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import gate_refusals, parse_feature_gates
from kscheduler.config.loader import default_configuration, load_file
from kscheduler.config.unsupported_settings import unhonoured
from tests.deploy import helm
from tests.deploy.chart.operator_schemas import SPECS
from tests.e2e.groups.crds import RULES

VALUE_SETS: Final = {path.stem: path for path in sorted((helm.CHART / "ci").glob("*.yaml"))}
# 1.38 comes when kubernetes-validate has its schemas; what differs by version is tested below.
KUBERNETES: Final = ("1.35", "1.36", "1.37")
RENDERED: Final[dict[str, list[helm.Object]]] = {}

Object = dict[str, Any]

OF_PEOPLE: Final = ("ask-kscheduler", "kscheduler-asker", "operate-kscheduler", "kscheduler-operator")
GROUPS: Final = ("pod-groups", "default")
each_value_set = pytest.mark.parametrize("values", VALUE_SETS)


def rendered(values: str) -> list[Object]:
    """The objects of one set of values; rendered once."""
    if values not in RENDERED:
        RENDERED[values] = helm.objects(helm.render(VALUE_SETS[values]))
    return RENDERED[values]


def of_kind(values: str, kind: str) -> list[Object]:
    return [one for one in rendered(values) if one["kind"] == kind]


def pod_template(values: str) -> Object:
    (deployment,) = of_kind(values, "Deployment")
    template: Object = deployment["spec"]["template"]
    return template


def container(values: str) -> Object:
    (one,) = pod_template(values)["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def ours(values: str) -> list[Object]:
    """Without what `extraObjects` adds."""
    return [one for one in rendered(values) if not one["metadata"]["name"].endswith("-notes")]


@each_value_set
def test_helm_finds_nothing_to_complain_about(values: str) -> None:
    said = helm.run_helm("lint", "--strict", helm.CHART, "--values", VALUE_SETS[values])
    # an icon is all that it misses
    assert [line for line in said.splitlines() if line.startswith("[") and "icon is recommended" not in line] == []


@each_value_set
@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_fits_its_schema_strictly(values: str, version: str) -> None:
    for one in rendered(values):
        spec = SPECS.get((one["apiVersion"], one["kind"]))
        if spec is not None:
            jsonschema.validate(one["spec"], spec)
        else:
            assert kubernetes_validate.validate(one, version, strict=True) == version


def test_a_field_that_does_not_exist_would_be_noticed() -> None:
    (service,) = of_kind("default", "Service")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**service, "spec": {**service["spec"], "prots": []}}, "1.36", strict=True)
    (monitor,) = of_kind("monitoring", "ServiceMonitor")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**monitor["spec"], "endpoint": []}, SPECS["monitoring.coreos.com/v1", "ServiceMonitor"])


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(helm.RefusedError, match="kubeVersion"):
        helm.render(kubernetes="v1.30.0")


def test_it_is_the_same_on_every_api_server_of_the_range_also_before_its_release() -> None:
    (major, oldest), (_, newest) = numbers_of(OLDEST_SERVER), numbers_of(NEWEST_SERVER)
    range_ = [f"v{major}.{minor}.0" for minor in range(oldest, newest + 1)]
    beta = f"v{NEWEST_SERVER}.0-beta.0"
    assert {helm.render(VALUE_SETS["pod-groups"], kubernetes=version) for version in (*range_, beta)} == {
        helm.render(VALUE_SETS["pod-groups"])
    }


@each_value_set
def test_no_object_is_there_twice_and_each_has_the_usual_labels(values: str) -> None:
    names = Counter(
        (one["apiVersion"], one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in rendered(values)
    )
    assert [name for name, count in names.items() if count > 1] == []
    for one in ours(values):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "kscheduler"
        assert labels["app.kubernetes.io/instance"] == helm.RELEASE


@each_value_set
def test_the_service_understands_every_argument(values: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    verbs = parser.add_subparsers()
    run.add_parser(verbs)
    shadow.add_parser(verbs)
    flags = parser.parse_args(container(values)["args"])
    versions = [flags.emulated_version] if flags.emulated_version else BEHAVIOURS
    gates = ",".join(flags.feature_gates)
    assert any(not gate_refusals(gates, version) for version in versions), "one of them is enough for a start"


@each_value_set
def test_the_service_accepts_the_configuration_and_honours_all_of_it(values: str, tmp_path: Path) -> None:
    maps = [one for one in of_kind(values, "ConfigMap") if "config.yaml" in one["data"]]
    if values == "dual-stack":
        assert maps == []  # the user brings his own
        return
    path = tmp_path / "config.yaml"
    path.write_text(maps[0]["data"]["config.yaml"])
    loaded = load_file(str(path), parse_feature_gates(""))
    if values == "shadow" or any(argument.startswith("--leader-elect") for argument in container(values)["args"]):
        election = msgspec.structs.replace(loaded.configuration.leader_election, resource_name="as the flags say")
        configuration = msgspec.structs.replace(loaded.configuration, leader_election=election)
        loaded = replace(loaded, configuration=configuration)
    assert [*unhonoured(loaded)] == []


def test_plugins_arrive_where_the_configuration_names_them_and_are_allowed(tmp_path: Path) -> None:
    mounted = "/etc/kscheduler/plugins"
    settings, plugins = of_kind("plugins", "ConfigMap")[:2]
    (volume,) = (one for one in pod_template("plugins")["spec"]["volumes"] if one["name"] == "plugins")
    (mount,) = (one for one in container("plugins")["volumeMounts"] if one["name"] == "plugins")
    assert (mount["mountPath"], mount["readOnly"]) == (mounted, True)
    assert volume["configMap"]["name"] == plugins["metadata"]["name"] == "kscheduler-plugins"
    assert f"--plugin-directory={mounted}" in container("plugins")["args"]
    for name, source in plugins["data"].items():
        (tmp_path / name).write_text(source)
    text = settings["data"]["config.yaml"].replace(mounted, str(tmp_path))
    found = ConfigurationReader(directories=[str(tmp_path)]).read_bytes(text.encode(), "config.yaml")
    assert ([origin.name for origin in found.origins], found.unused) == (["PreferCheap"], ())
    assert profile_problems(found.config, found.registry) == ()
    (tmp_path / "cheap.py").write_text("x = 1")
    with pytest.raises(ConfigError, match="digest"):
        ConfigurationReader(directories=[str(tmp_path)]).read_bytes(text.encode(), "config.yaml")


def test_pod_groups_bring_their_gate_their_apis_and_the_rights_with_which_they_are_tested() -> None:
    roles = [{rule_text(rule) for one in of_kind(values, "ClusterRole") for rule in one["rules"]} for values in GROUPS]
    assert roles[0] - roles[1] == {rule_text(rule) for rule in RULES}
    args = [*container("pod-groups")["args"]]
    assert "--feature-gates=GenericWorkload=true" in args
    assert not any("--emulated-version" in argument for argument in args), "an upgrade of the cluster is followed"
    (configuration,) = (one for one in of_kind("pod-groups", "ConfigMap") if "config.yaml" in one["data"])
    assert yaml.safe_load(configuration["data"]["config.yaml"])["podGroupAPIs"] == ["scheduler-plugins", "volcano"]


def test_levels_of_the_topology_bring_the_right_to_read_them() -> None:
    (configuration,) = (one for one in of_kind("topologies", "ConfigMap") if "config.yaml" in one["data"])
    tree = yaml.safe_load(configuration["data"]["config.yaml"])
    assert tree["topologyAPIs"] == ["kueue", "volcano"]
    assert tree["topologyLevels"] == [["topology.kubernetes.io/zone", "example.com/rack"]]
    rules = [rule for one in of_kind("topologies", "ClusterRole") for rule in one["rules"]]
    read = {(rule["apiGroups"][0], *rule["resources"], *rule["verbs"]) for rule in rules if rule.get("apiGroups")}
    assert ("kueue.x-k8s.io", "topologies", "list", "watch") in read
    assert ("topology.volcano.sh", "hypernodes", "list", "watch") in read


@pytest.mark.parametrize("mode", ["second", "shadow"])
@pytest.mark.parametrize("has_trees", [False, True], ids=["groups", "trees"])
@pytest.mark.parametrize("version", [name for name, each in BEHAVIOURS.items() if each.has_pod_group_post_filter])
def test_the_role_grants_what_groups_of_each_version_need(version: str, has_trees: bool, mode: str) -> None:
    """Groups of groups have moved to another version of the API with 1.38, and got conditions; a role is for all."""
    gates = {"TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True} if has_trees else {}
    base = [VALUE_SETS["shadow"]] if mode == "shadow" else []
    objects = helm.objects(helm.render(*base, settings={"podGroups": ["kubernetes"], "featureGates": gates}))
    granted = {
        (group, resource, verb)
        for one in objects
        if one["kind"] == "ClusterRole"
        for rule in one["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
        if group == "scheduling.k8s.io" and "podgroups" in resource
    }
    flags = ",".join(f"{name}=true" for name in ("GenericWorkload", *gates))
    followed = [api.kind for api in group_apis(default_configuration("a", parse_feature_gates(flags, version=version)))]
    versions = {"podgroups": "v1beta1"} | (
        {"compositepodgroups": BEHAVIOURS[version].composite_version} if gates else {}
    )
    assert {kind.plural: kind.version for kind in followed} == versions
    needed = {(kind.group, kind.plural, verb) for kind in followed for verb in ("list", "watch")}
    if mode != "shadow":
        needed |= {(kind.group, f"{kind.plural}/status", "patch") for kind in followed}
    assert granted == needed


def rule_text(rule: dict[str, Any]) -> str:
    return json.dumps(rule, sort_keys=True)


def test_profiles_of_the_user_arrive_as_they_are(tmp_path: Path) -> None:
    (configuration,) = of_kind("profiles", "ConfigMap")[:1]
    wanted = yaml.safe_load(VALUE_SETS["profiles"].read_text())["config"]
    tree = yaml.safe_load(configuration["data"]["config.yaml"])
    assert tree["profiles"] == wanted["profiles"]
    assert (tree["parallelism"], tree["percentageOfNodesToScore"]) == (32, 50)
    assert tree["clientConnection"] == {"qps": 200, "burst": 400}


def test_ready_profiles_come_besides_and_load_aware_brings_its_right() -> None:
    (configuration,) = of_kind("policies", "ConfigMap")
    tree = yaml.safe_load(configuration["data"]["config.yaml"])
    ready = yaml.safe_load((helm.CHART / "files" / "policies.yaml").read_text())["profiles"]
    assert tree["profiles"] == [{"schedulerName": "kscheduler"}, *ready]
    assert tree["honorSchedulerNameAnnotation"] is True
    right = {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get", "list"]}
    for values, is_granted in (("policies", True), ("default", False)):
        (role,) = (one for one in of_kind(values, "ClusterRole") if one["metadata"]["name"] == "kscheduler")
        assert (right in role["rules"]) is is_granted


def test_ready_profiles_do_not_preempt_without_the_right_either() -> None:
    settings = ("--set", "rbac.preemption=false,config.policies={cheapest}")
    objects = helm.objects(helm.run_helm("template", "x", helm.CHART, *settings))
    (configuration,) = (one for one in objects if one["kind"] == "ConfigMap")
    (_, ready) = yaml.safe_load(configuration["data"]["config.yaml"])["profiles"]
    assert ready["schedulerName"] == "cheapest"
    assert ready["plugins"]["postFilter"] == {"disabled": [{"name": "DefaultPreemption"}]}


def test_without_the_right_to_delete_nobody_preempts() -> None:
    (role,) = (one for one in of_kind("few-rights", "ClusterRole") if one["metadata"]["name"] == "kscheduler")
    writes = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"get", "list", "watch"}
    }
    assert writes == {("pods/binding", "create"), ("pods/status", "patch")}
    (configuration,) = of_kind("few-rights", "ConfigMap")
    (profile,) = yaml.safe_load(configuration["data"]["config.yaml"])["profiles"]
    assert profile["plugins"] == {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}


@each_value_set
def test_pods_may_be_evicted_only_where_overcommitted_nodes_are_repaired(values: str) -> None:
    rules = [rule for role in of_kind(values, "ClusterRole") for rule in role["rules"]]
    verbs = {verb for rule in rules if "pods/eviction" in rule.get("resources", ()) for verb in rule["verbs"]}
    assert verbs == ({"create"} if values == "several" else set())
    assert ("--repair-overfilled-nodes" in container(values)["args"]) == (values == "several")


@each_value_set
def test_events_of_bound_pods_are_left_out_only_where_that_is_asked_for(values: str) -> None:
    given = [argument for argument in container(values)["args"] if argument.startswith("--scheduled-events")]
    assert given == (["--scheduled-events=summed"] if values == "profiles" else [])


def test_another_word_for_the_events_of_bound_pods_is_refused() -> None:
    with pytest.raises(helm.RefusedError, match=r"scheduledEvents.*'all', 'sampled', 'summed', 'none'"):
        helm.render(settings={"scheduledEvents": "few"})


def test_in_place_of_kube_scheduler_it_takes_its_name_and_its_lease() -> None:
    arguments = container("replace")["args"]
    assert "--leader-elect-resource-name=kube-scheduler" in arguments
    assert "--leader-elect-resource-namespace=kube-system" in arguments
    (role,) = of_kind("replace", "Role")
    assert role["metadata"]["namespace"] == "kube-system"
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["kube-scheduler"]]
    (configuration,) = of_kind("replace", "ConfigMap")
    assert "schedulerName: default-scheduler" in configuration["data"]["config.yaml"]


def test_a_single_replica_is_stopped_before_its_successor_starts() -> None:
    (deployment,) = of_kind("single", "Deployment")
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert "--leader-elect=false" in container("single")["args"]
    assert of_kind("single", "PodDisruptionBudget") == of_kind("single", "Role") == []


def test_a_digest_wins_over_the_tag_and_secrets_are_named() -> None:
    digest = yaml.safe_load(VALUE_SETS["hardened"].read_text())["image"]["digest"]
    assert container("hardened")["image"] == f"registry.example:5000/platform/kscheduler@{digest}"
    assert pod_template("hardened")["spec"]["imagePullSecrets"] == [{"name": "platform-registry"}]


def test_certificate_and_authorities_are_mounted_where_the_flags_say() -> None:
    arguments = container("hardened")["args"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container("hardened")["volumeMounts"]}
    assert f"--tls-cert-file={mounts['tls']}/tls.crt" in arguments
    assert f"--tls-private-key-file={mounts['tls']}/tls.key" in arguments
    assert f"--client-ca-file={mounts['client-ca']}/ca.crt" in arguments
    assert "--tls-min-version=VersionTLS13" in arguments
    (certificate,) = of_kind("hardened", "Certificate")
    volumes = {volume["name"]: volume for volume in pod_template("hardened")["spec"]["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == certificate["spec"]["secretName"]


@each_value_set
def test_probes_service_and_policy_name_ports_that_the_container_has(values: str) -> None:
    ports = {port["name"] for port in container(values)["ports"]}
    scheme = {"https": "HTTPS", "http": "HTTP"}[container(values)["ports"][0]["name"]]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        queried = container(values)[probe]["httpGet"]
        assert (queried["port"] in ports, queried["scheme"]) == (True, scheme)
    for service in of_kind(values, "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} == ports
    for policy in of_kind(values, "NetworkPolicy"):
        (rule,) = policy["spec"]["ingress"]
        assert {port["port"] for port in rule["ports"]} == ports
    for kind, key in (("ServiceMonitor", "endpoints"), ("PodMonitor", "podMetricsEndpoints")):
        for monitor in of_kind(values, kind):
            assert {endpoint["port"] for endpoint in monitor["spec"][key]} <= ports


@each_value_set
def test_whatever_selects_pods_selects_these(values: str) -> None:
    labels = pod_template(values)["metadata"]["labels"].items()
    (deployment,) = of_kind(values, "Deployment")
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        *(one["spec"]["selector"] for one in of_kind(values, "Service")),
        *(one["spec"]["selector"]["matchLabels"] for one in of_kind(values, "PodDisruptionBudget")),
        *(one["spec"]["selector"]["matchLabels"] for one in of_kind(values, "PodMonitor")),
        *(one["spec"]["podSelector"]["matchLabels"] for one in of_kind(values, "NetworkPolicy")),
        *(
            one["labelSelector"]["matchLabels"]
            for one in pod_template(values)["spec"].get("topologySpreadConstraints", [])
        ),
    ]
    assert [one for one in selectors if not one.items() <= labels] == []
    for monitor in of_kind(values, "ServiceMonitor"):
        (service,) = of_kind(values, "Service")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


@each_value_set
def test_an_upgrade_of_the_chart_alone_restarts_no_pod(values: str) -> None:
    assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(pod_template(values)["metadata"]["labels"])


@each_value_set
def test_bindings_and_flow_schemas_name_the_account_of_the_pods(values: str) -> None:
    account = (pod_template(values)["spec"]["serviceAccountName"], helm.NAMESPACE)
    for one in of_kind(values, "ClusterRoleBinding") + of_kind(values, "RoleBinding"):
        if one["roleRef"]["name"] in OF_PEOPLE or one["metadata"]["name"].endswith("metrics-reader"):
            continue  # these are people's
        assert [(who["name"], who["namespace"]) for who in one["subjects"]] == [account]
    for one in of_kind(values, "FlowSchema"):
        (who,) = (subject["serviceAccount"] for rule in one["spec"]["rules"] for subject in rule["subjects"])
        assert (who["name"], who["namespace"]) == account


@pytest.mark.parametrize("who", ["askers", "operators"])
def test_who_may_ask_and_who_is_on_call_are_as_in_the_examples(who: str) -> None:
    example = [*yaml.safe_load_all((helm.CHART.parents[1] / "examples" / f"{who}.yaml").read_text())]
    wanted = [{**one, "metadata": None} for one in example]
    for one in example:
        found = [
            each
            for each in of_kind(who, one["kind"])
            if (each["metadata"]["name"], each["metadata"].get("namespace"))
            == (one["metadata"]["name"], one["metadata"].get("namespace"))
        ]
        assert [{**each, "metadata": None} for each in found] == [wanted.pop(0)]
    of_people = {one["metadata"]["name"] for one in example}
    assert [one for one in rendered("default") if one["metadata"]["name"] in of_people] == []


def test_a_shadow_may_read_and_nothing_else() -> None:
    (role,) = of_kind("shadow", "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    (binding,) = of_kind("shadow", "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    for kind in ("Role", "RoleBinding", "FlowSchema", "PodDisruptionBudget"):
        assert of_kind("shadow", kind) == []


SHADOW: Final = {"mode": "shadow", "replicas": 1, "leaderElection.enabled": False, "server.scheme": "HTTP"}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        pytest.param({"leaderElection.enabled": True}, "leaderElection.enabled", id="nothing-to-elect"),
        pytest.param({"server.scheme": "HTTPS"}, "server.scheme", id="no-login"),
        pytest.param({"repairOverfilledNodes": True}, "repairOverfilledNodes", id="no-eviction"),
        pytest.param({"metrics.prometheusRule.enabled": True}, "metrics.prometheusRule.enabled", id="no-alerts"),
    ],
)
def test_a_shadow_refuses_what_would_write_or_mislead(settings: dict[str, object], named: str) -> None:
    whole = SHADOW | {"flowSchema.enabled": False} | settings
    with pytest.raises(helm.RefusedError, match=rf"mode: shadow.*{named}"):
        helm.render(settings=whole)


@each_value_set
def test_the_test_pod_is_scheduled_by_what_was_installed_and_has_no_token(values: str) -> None:
    if values == "shadow":
        assert of_kind(values, "Pod") == []  # it places none, its own test pod included
        return
    (pod,) = of_kind(values, "Pod")
    profiles = [
        profile["schedulerName"]
        for one in of_kind(values, "ConfigMap")
        if "config.yaml" in one["data"]
        for profile in yaml.safe_load(one["data"]["config.yaml"])["profiles"]
    ]
    assert pod["spec"]["schedulerName"] in (profiles or ["kscheduler"])
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["containers"][0]["image"] == container(values)["image"]
    compile(pod["spec"]["containers"][0]["args"][0], "smoke_test.py", "exec")


def test_the_job_label_is_the_same_for_series_rules_and_dashboard() -> None:
    (monitor,) = of_kind("mixin", "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert {"action": "replace", "targetLabel": "job", "replacement": "kube-scheduler"} in endpoint["relabelings"]
    (rule,) = of_kind("mixin", "PrometheusRule")
    assert 'job="kscheduler"' not in str(rule)
    settings = {"metrics.dashboard.enabled": True, "metrics.jobName": "kube-scheduler"}
    (board,) = (one for one in helm.objects(helm.render(settings=settings)) if "kscheduler.json" in one.get("data", {}))
    assert 'job=\\"kube-scheduler\\"' in board["data"]["kscheduler.json"]
    assert 'job=\\"kscheduler\\"' not in board["data"]["kscheduler.json"]


def test_two_releases_in_two_namespaces_share_no_name() -> None:
    def names(release: str, namespace: str) -> set[tuple[str, str, str]]:
        return {
            (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
            for one in helm.objects(helm.render(release=release, namespace=namespace))
        }

    assert not names("kscheduler", "a") & names("team-b", "b")


@pytest.mark.parametrize("values", ["default", "replace", "single", "dual-stack", "few-rights", "mixin"])
def test_the_notes_say_what_to_look_at_and_what_to_mind(values: str) -> None:
    notes = helm.notes({}, VALUE_SETS[values])
    assert "rollout status deployment/kscheduler" in notes
    assert "helm -n kscheduler-system test kscheduler" in notes
    warnings = {"default": 0, "replace": 1, "single": 1, "dual-stack": 2, "few-rights": 0, "mixin": 1}
    assert notes.count("WARNING") == warnings[values]


def test_a_shadow_follows_pod_groups_and_the_version_of_the_cluster() -> None:
    (deployment,) = [
        one
        for one in helm.objects(helm.render(VALUE_SETS["shadow"], settings={"podGroups": ["kubernetes"]}))
        if one["kind"] == "Deployment"
    ]
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--feature-gates=GenericWorkload=true" in args
    assert not any("--emulated-version" in argument for argument in args)


def test_the_notes_of_kube_schedulers_place_are_about_what_is_there() -> None:
    """Where `kubectl kscheduler` finds it, who may look inside; nothing of what has been built since."""
    notes = helm.notes(
        {"rbac.operator.create": True}, VALUE_SETS["replace"], release="kscheduler-main", namespace="kube-system"
    )
    assert "export KSCHEDULER_SERVICE=kube-system/kscheduler-main:10259\n" in notes
    assert "NS=kube-system NAME=kscheduler-main LEASE=kube-system/kube-scheduler" in notes
    assert "not built" not in notes
    of_default = helm.notes({})
    assert "KSCHEDULER_SERVICE" not in of_default
    assert "Nobody may look into the process yet" in of_default


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"replicas": 0}, "WARNING: replicas is 0: nobody places its pods"),
        ({"replicas": 0, "mode": "replace"}, "nobody places its pods, but for a kube-scheduler that runs"),
        (
            {"config.profiles": [{"schedulerName": "default-scheduler"}]},
            "WARNING: default-scheduler is kube-scheduler's name",
        ),
        ({"config.existingConfigMap": "mine"}, "schedulerName is that of a profile in the\nConfigMap mine"),
        (
            {"config.profiles": [{"schedulerName": "a"}], "config.policies": ["random"]},
            "schedulerName: a      # or random",
        ),
        (
            {"featureGates.GenericWorkload": True},
            "WARNING: on an API server of Kubernetes 1.36 the feature gates do not",
        ),
        (
            {"featureGates.PodCertificateMLDSA": False},
            (
                "WARNING: on an API server of Kubernetes 1.37 the feature gates do not fit "
                "(featureGates.PodCertificateMLDSA: only Kubernetes 1.38 has it)"
            ),
        ),
        (
            {"featureGates.DRAResourceClaimDeviceStatus": True, "featureGates.PodGroupPreemptionPolicy": False},
            (
                "WARNING: on an API server of Kubernetes 1.38 the feature gates do not fit "
                "(featureGates.PodGroupPreemptionPolicy: only Kubernetes 1.37 has it)"
            ),
        ),
        (
            {"config.existingConfigMap": "mine", "podGroups": ["volcano"]},
            "write podGroupAPIs into the ConfigMap mine",
        ),
    ],
    ids=[
        "nobody",
        "nobody in its place",
        "whose name",
        "whose file",
        "names",
        "gates of one version",
        "gates of the newest version",
        "gates that a version has dropped",
        "groups beside a configuration",
    ],
)
def test_the_notes_say_what_values_do_not_do(settings: dict[str, object], reported: str) -> None:
    assert reported in helm.notes(settings)
    assert reported.removeprefix("WARNING: ") not in helm.notes({})


@pytest.mark.parametrize(
    ("size", "room"),
    [("1Gi", "1280Mi"), ("1Mi", "2Mi"), ("4G", "4769Mi"), ("1048576", "2Mi"), ("2Ti", "2621440Mi")],
)
def test_a_recording_on_the_nodes_disk_asks_for_room_and_has_an_end(size: str, room: str) -> None:
    volume, resources = recording_of({"recorder.maxSize": size})
    assert volume == {"name": "recording", "emptyDir": {"sizeLimit": room}}
    assert resources["requests"] == {"cpu": "200m", "memory": "384Mi", "ephemeral-storage": room}


@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_ephemeral_storage_that_the_values_name_stays(kind: str) -> None:
    _, resources = recording_of({"resources": {kind: {"ephemeral-storage": "9Gi"}}})
    assert resources[kind]["ephemeral-storage"] == "9Gi"
    assert sum("ephemeral-storage" in resources[each] for each in resources) == 1


def test_a_volume_of_the_users_takes_nothing_of_the_nodes_disk() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "recordings"}}
    volume, resources = recording_of({"recorder.volume": claim})
    assert volume == {"name": "recording", **claim}
    assert "ephemeral-storage" not in resources["requests"]


def recording_of(settings: dict[str, object]) -> tuple[Object, Object]:
    """The volume of the recording, and the container's resources."""
    objects = helm.objects(helm.render(settings={"recorder.enabled": True, **settings}))
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (volume,) = (one for one in spec["volumes"] if one["name"] == "recording")
    return volume, spec["containers"][0]["resources"]
