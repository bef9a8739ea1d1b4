"""The manifests in deploy/: valid for every Kubernetes they claim, with the least rights, and safe to run."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kscheduler.client.reachability import UNREADY_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36")

RIGHTS = {
    ("", "nodes"): {"get", "list", "watch"},
    ("", "pods"): {"get", "list", "watch", "delete"},
    ("policy", "poddisruptionbudgets"): {"list", "watch"},
    ("", "namespaces"): {"list", "watch"},
    ("", "services"): {"list", "watch"},
    ("", "replicationcontrollers"): {"list", "watch"},
    ("apps", "replicasets"): {"list", "watch"},
    ("apps", "statefulsets"): {"list", "watch"},
    ("", "persistentvolumes"): {"list", "watch", "patch"},
    ("", "persistentvolumeclaims"): {"list", "watch", "patch"},
    ("storage.k8s.io", "storageclasses"): {"list", "watch"},
    ("storage.k8s.io", "csinodes"): {"list", "watch"},
    ("storage.k8s.io", "csidrivers"): {"list", "watch"},
    ("storage.k8s.io", "csistoragecapacities"): {"list", "watch"},
    ("storage.k8s.io", "volumeattachments"): {"list", "watch"},
    ("", "pods/binding"): {"create"},
    ("", "pods/status"): {"patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
}
"""All that the service may do. Whoever needs more adds a line here and tells why in the manifest."""

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


OBJECTS = [document for path in sorted((DEPLOY / "manifests").glob("*.yaml")) for document in documents(path)]
OPTIONAL = [document for path in sorted((DEPLOY / "optional").glob("*.yaml")) for document in documents(path)]
EXAMPLES = [document for path in sorted((DEPLOY / "examples").glob("*.yaml")) for document in documents(path)]


def only(kind: str, name: str = "") -> Object:
    (found,) = (one for one in OBJECTS if one["kind"] == kind and name in ("", one["metadata"]["name"]))
    return found


def pod_spec() -> Object:
    spec: Object = only("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> Object:
    (one,) = pod_spec()["containers"]
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("document", OBJECTS + OPTIONAL + EXAMPLES, ids=lambda document: document["kind"])
def test_every_object_fits_its_schema_strictly(document: Object, version: str) -> None:
    assert kubernetes_validate.validate(document, version, strict=True) == version


def test_a_field_that_does_not_exist_would_be_noticed() -> None:
    service = only("Service")
    spoiled = {**service, "spec": {**service["spec"], "prots": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(spoiled, KUBERNETES[-1], strict=True)


def test_the_yaml_is_in_style() -> None:
    command = [sys.executable, "-m", "yamllint", "--strict", "--config-file", "deploy/yamllint.yaml", "deploy"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_kustomization_lists_every_manifest_in_order() -> None:
    (kustomization,) = documents(DEPLOY / "kustomization.yaml")
    manifests = sorted((DEPLOY / "manifests").glob("*.yaml"))
    assert kustomization["resources"] == [f"manifests/{path.name}" for path in manifests]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_the_same_objects() -> None:
    built = subprocess.run(["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, check=True).stdout
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(built)}
    assert by_name == {(one["kind"], one["metadata"]["name"]): one for one in OBJECTS}


def test_the_role_grants_exactly_what_the_table_says() -> None:
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in only("ClusterRole")["rules"]:
        assert set(rule) == {"apiGroups", "resources", "verbs"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted.setdefault((group, resource), set()).update(rule["verbs"])
    assert granted == RIGHTS


def test_the_table_itself_holds_no_dangerous_right() -> None:
    assert [what for what, verbs in RIGHTS.items() if "delete" in verbs] == [("", "pods")]  # victims of preemption
    verbs = set().union(*RIGHTS.values()) - {"delete"}
    assert not verbs & {"*", "delete", "deletecollection", "update", "escalate", "bind", "impersonate"}
    assert not {resource for _, resource in RIGHTS} & {"*", "secrets", "configmaps", "pods/exec"}
    assert {key for key, granted in RIGHTS.items() if granted - {"get", "list", "watch"}} == {
        ("", "pods"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("", "pods/binding"),
        ("", "pods/status"),
        ("events.k8s.io", "events"),
    }


def test_only_this_service_account_gets_the_role_and_only_this_pod_its_token() -> None:
    binding = only("ClusterRoleBinding", "kscheduler")
    account = only("ServiceAccount")
    assert binding["roleRef"]["name"] == only("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "kscheduler-system"}
    ]
    assert account["automountServiceAccountToken"] is False
    assert pod_spec()["automountServiceAccountToken"] is True
    assert pod_spec()["serviceAccountName"] == account["metadata"]["name"]


def test_the_login_gets_two_roles_that_every_cluster_has_and_nothing_else() -> None:
    account = [{"kind": "ServiceAccount", "name": "kscheduler", "namespace": "kscheduler-system"}]
    delegator = only("ClusterRoleBinding", "kscheduler-auth-delegator")
    assert (delegator["roleRef"]["kind"], delegator["roleRef"]["name"]) == ("ClusterRole", "system:auth-delegator")
    reader = only("RoleBinding", "kscheduler-authentication-reader")
    assert (reader["roleRef"]["kind"], reader["roleRef"]["name"]) == (
        "Role",
        "extension-apiserver-authentication-reader",
    )
    assert reader["metadata"]["namespace"] == "kube-system"
    assert delegator["subjects"] == reader["subjects"] == account


def test_prometheus_may_read_metrics_and_nothing_else() -> None:
    (role,) = (one for one in OPTIONAL if one["kind"] == "ClusterRole")
    assert role["rules"] == [{"nonResourceURLs": ["/metrics", "/metrics/resources"], "verbs": ["get"]}]


def test_everything_namespaced_is_in_the_one_namespace() -> None:
    name = only("Namespace")["metadata"]["name"]
    kinds = ("ServiceAccount", "Deployment", "Service", "NetworkPolicy")  # and a RoleBinding where the Role is
    namespaced = [one for one in OBJECTS + OPTIONAL if one["kind"] in kinds]
    assert {one["metadata"]["namespace"] for one in namespaced} == {name}


def test_without_leader_election_there_is_never_more_than_one() -> None:
    spec = only("Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_the_three_probes_ask_the_three_endpoints_on_the_named_port() -> None:
    (port,) = container()["ports"]
    assert (port["name"], port["containerPort"]) == ("https", 10259)
    paths = {"startupProbe": "/healthz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    asked = {name: container()[name]["httpGet"] for name in paths}
    assert asked == {name: {"path": path, "port": "https", "scheme": "HTTPS"} for name, path in paths.items()}


def test_liveness_is_more_patient_than_readiness() -> None:
    def patience(probe: Object) -> int:
        return int(probe["periodSeconds"] * probe["failureThreshold"])

    assert patience(container()["livenessProbe"]) >= 30 > patience(container()["readinessProbe"])
    assert patience(container()["startupProbe"]) >= 60


def test_the_service_reaches_the_port_of_the_pods_it_selects() -> None:
    service, deployment = only("Service")["spec"], only("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"] == deployment["selector"]["matchLabels"]
    assert service["selector"].items() <= labels.items()
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(10259, "https")]


def test_only_who_is_labelled_for_it_reaches_the_port() -> None:
    (policy,) = (one["spec"] for one in OPTIONAL if one["kind"] == "NetworkPolicy")
    assert policy["podSelector"]["matchLabels"] == only("Service")["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kscheduler.io/scrapes": "true"}}}]
    (port,) = container()["ports"]
    assert [one["port"] for one in rule["ports"]] == [port["name"]]


def test_readiness_waits_no_longer_for_the_api_server_than_the_manifest_says() -> None:
    comment = (DEPLOY / "manifests" / "30-deployment.yaml").read_text()
    assert f"One that is away for {UNREADY_SECONDS:g} s makes it unready" in comment


def test_the_namespace_enforces_the_restricted_profile() -> None:
    assert only("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("spec", [pod_spec(), *(pod["spec"] for pod in EXAMPLES)], ids=["deployment", "example"])
def test_every_pod_meets_the_restricted_profile(spec: Object) -> None:
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(spec)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in spec["containers"]:
        context = one["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not context.get("privileged", False)


def test_the_scheduler_asks_for_room_and_has_a_memory_limit_but_no_cpu_limit() -> None:
    resources = container()["resources"]
    assert resources["requests"] == {"cpu": "200m", "memory": "256Mi"}
    assert set(resources["limits"]) == {"memory"}
    assert pod_spec()["priorityClassName"] == "system-cluster-critical"


def test_the_scheduler_does_not_schedule_itself_and_the_example_is_scheduled_by_it() -> None:
    assert pod_spec()["schedulerName"] == "default-scheduler"
    assert [pod["spec"]["schedulerName"] for pod in EXAMPLES] == ["kscheduler"]
