"""deploy/examples/static-pod.yaml: what kubeadm's kube-scheduler has, and no way for the two to decide at once.

`make check-deploy` runs its command line on a real API server with kube-scheduler's rights.
"""

import argparse
from pathlib import Path
from typing import Any, Final

import yaml

from kscheduler.cli.flags import add_flags, resolve
from kscheduler.cli.log_flags import add_log_flags

MANIFEST: Final = Path(__file__).parents[2] / "deploy" / "examples" / "static-pod.yaml"
(POD,) = yaml.safe_load_all(MANIFEST.read_text())
SPEC: Final[dict[str, Any]] = POD["spec"]
(CONTAINER,) = SPEC["containers"]
KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"


def test_it_is_a_pod_of_the_control_plane_as_kubeadm_makes_them() -> None:
    metadata = POD["metadata"]
    assert (metadata["namespace"], metadata["labels"]["tier"]) == ("kube-system", "control-plane")
    assert metadata["name"] != "kube-scheduler", "the mirror pods of both may be there for a moment"
    assert (SPEC["hostNetwork"], SPEC["priorityClassName"], SPEC["priority"]) == (
        True,
        "system-node-critical",
        2_000_001_000,
    )


def test_a_static_pod_refers_to_no_object_of_the_api() -> None:
    assert not {"serviceAccountName", "imagePullSecrets", "resourceClaims"} & set(SPEC)
    assert all(set(volume) == {"name", "hostPath"} for volume in SPEC["volumes"])
    assert not {"env", "envFrom"} & set(CONTAINER)


def test_its_command_line_takes_kube_schedulers_place_lease_and_port() -> None:
    assert CONTAINER["args"][0] == "run"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    add_log_flags(parser)
    found = resolve(parser.parse_args(CONTAINER["args"][1:]))
    assert found.warnings == ()
    configuration, serving = found.config.configuration, found.serving
    assert [profile.scheduler_name for profile in configuration.profiles] == ["default-scheduler"]
    election = configuration.leader_election
    assert (election.leader_elect, election.resource_namespace, election.resource_name) == (
        True,
        "kube-system",
        "kube-scheduler",
    )
    assert (serving.bind_address, serving.secure_port) == ("127.0.0.1", 10259)
    files = (
        configuration.client_connection.kubeconfig,
        serving.authentication.kubeconfig,
        serving.authorization.kubeconfig,
    )
    assert set(files) == {KUBECONFIG}


def test_probes_ask_where_it_listens() -> None:
    (port,) = CONTAINER["ports"]
    assert port["containerPort"] == 10259
    for name, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        queried = CONTAINER[name]["httpGet"]
        assert queried == {"host": "127.0.0.1", "path": path, "port": port["name"], "scheme": "HTTPS"}


def test_the_service_beside_it_finds_the_pod_and_its_port() -> None:
    """On loopback nobody would reach it, so the file says which flag has to be changed."""
    text = MANIFEST.with_name("static-pod-service.yaml").read_text()
    service = yaml.safe_load(text)
    assert service["metadata"]["namespace"] == POD["metadata"]["namespace"]
    assert service["spec"]["selector"].items() <= POD["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert (port["targetPort"], port["port"]) == (CONTAINER["ports"][0]["name"], CONTAINER["ports"][0]["containerPort"])
    assert "--bind-address=127.0.0.1" in CONTAINER["args"]
    assert "--bind-address=0.0.0.0" in text


def test_it_reads_the_one_file_that_is_roots_and_may_do_nothing_else() -> None:
    (volume,), (mount,) = SPEC["volumes"], CONTAINER["volumeMounts"]
    assert volume["hostPath"] == {"path": KUBECONFIG, "type": "File"}
    assert mount == {"name": volume["name"], "mountPath": KUBECONFIG, "readOnly": True}
    assert CONTAINER["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert SPEC["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert not {"hostPID", "hostIPC"} & set(SPEC)
