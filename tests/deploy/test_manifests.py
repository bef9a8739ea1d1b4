"""deploy/kscheduler.yaml, which the chart renders to: with the least rights, and safe to run.

`make check-deploy` says besides that it is what the chart renders to, and that it fits every Kubernetes that is
supported.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.client.reachability import UNREADY_SECONDS
from tests.deploy import manifests

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

# All that the service may do in the whole cluster. Anyone who needs more adds a line here and tells why in the chart.
RIGHTS = {
    ("", "nodes"): {"list", "watch"},
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
    ("resource.k8s.io", "resourceclaims"): {"get", "list", "watch", "patch", "create", "delete"},
    ("resource.k8s.io", "resourceclaims/status"): {"update", "patch"},
    ("resource.k8s.io", "resourceclaims/binding"): {"update", "patch"},
    ("resource.k8s.io", "resourceslices"): {"list", "watch"},
    ("resource.k8s.io", "deviceclasses"): {"list", "watch"},
    ("resource.k8s.io", "devicetaintrules"): {"list", "watch"},
    ("resource.k8s.io", "resourceclaimtemplates"): {"get"},
    ("", "pods/binding"): {"create"},
    ("", "pods/status"): {"patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
}

LEASE_RIGHTS = [
    ({"create"}, None),  # cannot be limited to a name
    ({"get", "watch", "update"}, ["kscheduler"]),
]

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


OBJECTS = documents(DEPLOY / "kscheduler.yaml")
EXAMPLE_PODS = documents(DEPLOY / "examples" / "pod.yaml")


def only(kind: str, name: str = "kscheduler") -> Object:
    (found,) = (one for one in OBJECTS if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def pod_spec() -> Object:
    spec: Object = only("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> Object:
    (one,) = pod_spec()["containers"]
    assert isinstance(one, dict)
    return one


def test_the_role_grants_exactly_what_the_table_says() -> None:
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in only("ClusterRole")["rules"]:
        assert set(rule) == {"apiGroups", "resources", "verbs"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted.setdefault((group, resource), set()).update(rule["verbs"])
    assert granted == RIGHTS


def test_the_deployment_elects_on_the_lease_that_its_role_names() -> None:
    args = container()["args"]
    assert "--leader-elect=true" in args
    assert "--leader-elect-resource-namespace=kscheduler-system" in args
    assert "--leader-elect-resource-name=kscheduler" in args


def test_the_table_itself_holds_no_dangerous_right() -> None:
    deleted = [("", "pods"), ("resource.k8s.io", "resourceclaims")]  # victims of preemption; claims that it has made
    assert [what for what, verbs in RIGHTS.items() if "delete" in verbs] == deleted
    verbs = set().union(*RIGHTS.values()) - {"delete"}
    assert not verbs & {"*", "delete", "deletecollection", "escalate", "bind", "impersonate"}
    updated = [resource for (_, resource), granted in RIGHTS.items() if "update" in granted]
    assert updated == ["resourceclaims/status", "resourceclaims/binding"]  # they are sent back whole
    assert not {resource for _, resource in RIGHTS} & {"*", "secrets", "configmaps", "pods/exec"}
    assert {key for key, granted in RIGHTS.items() if granted - {"get", "list", "watch"}} == {
        ("", "pods"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaims/status"),
        ("resource.k8s.io", "resourceclaims/binding"),
        ("", "pods/binding"),
        ("", "pods/status"),
        ("events.k8s.io", "events"),
    }


def test_only_the_one_lease_can_be_read_and_written() -> None:
    role = only("Role", "kscheduler-leader-election")
    assert role["metadata"]["namespace"] == "kscheduler-system"
    assert [(set(rule["verbs"]), rule.get("resourceNames")) for rule in role["rules"]] == LEASE_RIGHTS
    assert all(rule["resources"] == ["leases"] for rule in role["rules"])


def test_all_bindings_are_to_this_service_account_and_to_known_roles() -> None:
    bindings = [one for one in OBJECTS if one["kind"] in {"ClusterRoleBinding", "RoleBinding"}]
    account = {"kind": "ServiceAccount", "name": "kscheduler", "namespace": "kscheduler-system"}
    assert all(one["subjects"] == [account] for one in bindings)
    assert {(one["metadata"].get("namespace"), one["roleRef"]["name"]) for one in bindings} == {
        (None, "kscheduler"),
        (None, "system:auth-delegator"),
        ("kube-system", "extension-apiserver-authentication-reader"),
        ("kscheduler-system", "kscheduler-leader-election"),
    }


def test_only_this_pod_gets_the_token() -> None:
    assert only("ServiceAccount")["automountServiceAccountToken"] is False
    assert pod_spec()["automountServiceAccountToken"] is True
    assert pod_spec()["serviceAccountName"] == only("ServiceAccount")["metadata"]["name"]


def test_everything_namespaced_is_in_the_one_namespace_or_belongs_to_the_api_server() -> None:
    namespaces = {one["metadata"]["namespace"] for one in OBJECTS if "namespace" in one["metadata"]}
    assert namespaces == {"kscheduler-system", "kube-system"}
    elsewhere = [one["metadata"]["name"] for one in OBJECTS if one["metadata"].get("namespace") == "kube-system"]
    assert elsewhere == ["kscheduler-authentication-reader"]


def test_one_is_there_before_another_goes() -> None:
    spec = only("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert only("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert "--leader-elect=true" in container()["args"]


def test_the_three_probes_ask_the_three_endpoints_on_the_named_port() -> None:
    (port,) = container()["ports"]
    assert (port["name"], port["containerPort"]) == ("https", 10259)
    paths = {"startupProbe": "/healthz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    queried = {name: container()[name]["httpGet"] for name in paths}
    assert queried == {name: {"path": path, "port": "https", "scheme": "HTTPS"} for name, path in paths.items()}


def test_liveness_is_more_patient_than_readiness() -> None:
    def patience(probe: Object) -> int:
        return int(probe["periodSeconds"] * probe["failureThreshold"])

    assert patience(container()["livenessProbe"]) >= UNREADY_SECONDS > patience(container()["readinessProbe"])
    assert patience(container()["startupProbe"]) >= 60


def test_the_service_reaches_the_port_of_the_pods_it_selects() -> None:
    service, deployment = only("Service")["spec"], only("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"] == deployment["selector"]["matchLabels"]
    assert service["selector"].items() <= labels.items()
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(10259, "https")]


def test_the_namespace_enforces_the_restricted_profile() -> None:
    labels = only("Namespace", "kscheduler-system")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("spec", [pod_spec(), *(pod["spec"] for pod in EXAMPLE_PODS)], ids=["deployment", "example"])
def test_every_pod_meets_the_restricted_profile(spec: Object) -> None:
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all(set(volume) <= {"name", "configMap", "secret"} for volume in spec.get("volumes", []))
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
    assert resources["requests"] == {"cpu": "200m", "memory": "384Mi"}
    assert set(resources["limits"]) == {"memory"}
    assert pod_spec()["priorityClassName"] == "system-cluster-critical"


def test_the_configuration_is_mounted_as_a_folder_so_that_a_change_arrives() -> None:
    (mount,) = container()["volumeMounts"]
    assert "subPath" not in mount
    assert f"--config={mount['mountPath']}/config.yaml" in container()["args"]
    (volume,) = pod_spec()["volumes"]
    assert volume["configMap"]["name"] == only("ConfigMap")["metadata"]["name"]
    assert list(only("ConfigMap")["data"]) == ["config.yaml"]


def test_the_scheduler_does_not_schedule_itself_and_the_example_is_scheduled_by_it() -> None:
    assert pod_spec()["schedulerName"] == "default-scheduler"
    (profile,) = yaml.safe_load(only("ConfigMap")["data"]["config.yaml"])["profiles"]
    assert [pod["spec"]["schedulerName"] for pod in EXAMPLE_PODS] == [profile["schedulerName"]]


def test_the_chart_takes_the_gates_that_there_are() -> None:
    assert manifests.GATES.read_text() == manifests.feature_gates(), "`make manifests` writes it anew"
