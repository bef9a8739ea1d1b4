"""`kscheduler config convert` of a manifest that runs kube-scheduler: ours in its place, nothing lost in silence."""

import argparse
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import pytest
import yaml

from kscheduler.cli import main
from kscheduler.cli.flags import add_flags, resolve
from kscheduler.cli.ignored_kube_scheduler_flags import without_meaning
from kscheduler.cli.log_flags import add_log_flags
from kscheduler.config.conversion.converting import convert
from kscheduler.config.conversion.manifests import IMAGE
from kscheduler.config.errors import ConfigError
from tests.builders import Tree
from tests.config.spoilt_trees import spoilt
from tests.deploy.test_static_pod import CONTAINER, MANIFEST, POD
from tests.effort import example_count

Captured = pytest.CaptureFixture[str]
PLACEHOLDER: Final = "image: write yours, by digest: this one is a placeholder"

# As kubeadm writes /etc/kubernetes/manifests/kube-scheduler.yaml; its flags begin in line 13.
KUBEADM: Final = """\
apiVersion: v1
kind: Pod
metadata:
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.36.3
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}
    name: kube-scheduler
    ports:
    - {containerPort: 10259, name: probe-port, protocol: TCP}
    resources:
      requests:
        cpu: 100m
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
      readOnly: true
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
      type: FileOrCreate
    name: kubeconfig
status: {}
"""


def with_flags(*flags: str) -> str:
    """kubeadm's, with these flags behind its own, from line 18 on (`extraArgs`)."""
    last = "    - --leader-elect=true\n"
    return KUBEADM.replace(last, last + "".join(f"    - {flag}\n" for flag in flags))


def converted(text: str, tmp_path: Path, capsys: Captured) -> tuple[dict[str, Any], list[str]]:
    """The manifest, whose command line `run` takes without a warning, and the notes."""
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(text)
    assert main(["config", "convert", str(file)]) == 0
    captured = capsys.readouterr()
    manifest: dict[str, Any] = yaml.safe_load(captured.out)
    return manifest, [line.removeprefix(f"kscheduler: {file}:") for line in captured.err.splitlines()]


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"] if manifest["kind"] == "Pod" else manifest["spec"]["template"]["spec"]
    (found,) = (each for each in spec["containers"] if each.get("name") == "kscheduler")
    container: dict[str, Any] = found
    return container


def test_kubeadms_manifest_becomes_the_recipe(tmp_path: Path, capsys: Captured) -> None:
    manifest, notes = converted(KUBEADM, tmp_path, capsys)
    recipe: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    assert set(container_of(manifest)["args"]) == set(CONTAINER["args"])
    for each in (manifest, recipe):
        container_of(each)["args"] = []
    recipe["spec"]["volumes"][0]["hostPath"]["type"] = "FileOrCreate"  # kubeadm's own is kept
    assert manifest == recipe
    assert notes == [f"18: {PLACEHOLDER}"]
    assert POD["spec"]["containers"][0]["image"] == IMAGE


def test_run_takes_the_flags_that_are_kept(tmp_path: Path, capsys: Captured) -> None:
    text = with_flags("--feature-gates=TaintTolerationComparisonOperators=true,Gone=true")
    manifest, _ = converted(text, tmp_path, capsys)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    add_log_flags(parser)
    found = resolve(parser.parse_args(container_of(manifest)["args"][1:]))
    assert found.warnings == ()
    assert found.config.gates.enabled("TaintTolerationComparisonOperators")
    election = found.config.configuration.leader_election
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "kube-scheduler")
    assert [profile.scheduler_name for profile in found.config.configuration.profiles] == ["default-scheduler"]


@pytest.mark.parametrize(
    ("flag", "note"),
    [
        ("--feature-gates=GangScheduling=true", "--feature-gates=GangScheduling=true: left out: feature gate GangS"),
        ("--feature-gates=Gone=true", "--feature-gates=Gone=true: left out: unrecognized feature gate: Gone"),
        ("--kube-api-content-type=application/vnd.kubernetes.protobuf", "--kube-api-content-type: left out: has no"),
        ("--contention-profiling", "--contention-profiling: left out: has no effect"),
        ("--tls-curve-preferences=29", "--tls-curve-preferences: left out: has no effect"),
        ("--tls-min-version=VersionTLS99", "--tls-min-version: left out: --tls-min-version: unknown tls version"),
        ("--log-flush-frequency=5s", "--log-flush-frequency: left out: has no effect: each line"),
        ("--leader-elect-resource-lock=endpoints", "--leader-elect-resource-lock: left out: Invalid value"),
        ("--leader-elect-lease-duration=fast", "--leader-elect-lease-duration: left out: "),
        ("--port=0", "--port: left out: kube-scheduler's port without TLS"),
        ("--address=127.0.0.1", "--address: left out: no flag of this name is known"),
        ("--policy-config-file=/etc/p.json", "--policy-config-file: not converted: convert the policy that it names"),
    ],
)
def test_a_flag_that_means_nothing_here_is_left_out_and_named_by_its_line(
    flag: str, note: str, tmp_path: Path, capsys: Captured
) -> None:
    manifest, (first, second) = converted(with_flags("--v=4", flag), tmp_path, capsys)
    assert first.startswith(f"19: {note}")
    assert second == f"20: {PLACEHOLDER}"
    args = container_of(manifest)["args"]
    assert ("--v=4" in args, [word for word in args if word.startswith(flag.partition("=")[0])]) == (True, [])


def test_the_file_of_config_is_mounted_and_decides_what_it_decided(tmp_path: Path, capsys: Captured) -> None:
    """Kubeadm's `extraArgs` with `extraVolumes`: the folder's mount brings it, and other files get one of their own."""
    flags = (
        "--config=/etc/kubernetes/sched/config.yaml",
        "--tls-cert-file=/pki/a.crt",
        "--tls-private-key-file=/pki/a.key",
    )
    text = with_flags(*flags).replace(
        "    volumeMounts:\n",
        "    volumeMounts:\n    - {mountPath: /etc/kubernetes/sched, name: sched, readOnly: true}\n",
    )
    text = text.replace("  volumes:\n", "  volumes:\n  - {name: sched, hostPath: {path: /etc/kubernetes/sched}}\n")
    manifest, notes = converted(text, tmp_path, capsys)
    container = container_of(manifest)
    assert set(flags) <= set(container["args"])
    assert not [word for word in container["args"] if word.startswith(("--scheduler-name", "--leader-elect-"))]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [
        "/etc/kubernetes/sched",
        "/etc/kubernetes/scheduler.conf",
        "/pki/a.crt",
        "/pki/a.key",
    ]
    by_name = {volume["name"]: volume["hostPath"] for volume in manifest["spec"]["volumes"]}
    added = [by_name[mount["name"]] for mount in container["volumeMounts"][2:]]
    assert added == [{"path": "/pki/a.crt", "type": "File"}, {"path": "/pki/a.key", "type": "File"}]
    assert notes[0].startswith(
        "18: --config: kept, and what the file says is judged by a call of its own: kscheduler config check"
    )


WORDS: Final = ("--kubeconfig=/etc/k/conf", "--leader-elect=false", "--bind-address=$(IP)")
DEPLOYMENT: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: my-kube-scheduler
  namespace: control
  uid: b2f0
  annotations: {team: a, deployment.kubernetes.io/revision: "3"}
spec:
  replicas: 2
  selector: {matchLabels: {app: kube-scheduler}}
  template:
    metadata: {labels: {app: kube-scheduler, team: a}}
    spec:
      serviceAccountName: sched
      containers:
      - {name: logs, image: busybox}
      - name: scheduler
        image: registry.example/kube-scheduler:v1.34.0
        command: COMMAND
        env: [{name: HTTPS_PROXY, value: "http://proxy.example"}]
        resources: {limits: {memory: 128Mi}}
        volumeMounts: [{name: conf, mountPath: /etc/k}]
      volumes: [{name: conf, secret: {secretName: conf}}]
"""


@pytest.mark.parametrize(
    "command",
    [
        f"[kube-scheduler, {', '.join(WORDS)}, -v2]",
        f"[/usr/local/bin/kube-scheduler, {', '.join(WORDS).replace('=', ', ').replace(', false', '=false')}, -v, 2]",
        f"[/go-runner, --log-file=/l, kube-scheduler, {', '.join(WORDS).replace('bind-', 'bind_')}, --v=2]",
        f"[/hyperkube, scheduler, {', '.join(WORDS)}, --v=2]",
        f'[/bin/sh, -c, "exec kube-scheduler {" ".join(WORDS)} --v=2 >>/l 2>&1"]',
    ],
    ids=["flags", "values behind flags", "wrapper", "hyperkube", "shell"],
)
def test_a_deployment_keeps_what_is_its_own(command: str, tmp_path: Path, capsys: Captured) -> None:
    text = DEPLOYMENT.replace("COMMAND", command)
    manifest, notes = converted(text, tmp_path, capsys)
    metadata, spec = manifest["metadata"], manifest["spec"]
    assert metadata["name"] == "my-kscheduler"
    assert (metadata["namespace"], metadata["annotations"], "uid" in metadata) == ("control", {"team": "a"}, False)
    assert (spec["selector"], spec["replicas"]) == ({"matchLabels": {"app": "kscheduler"}}, 2)
    assert spec["template"]["metadata"]["labels"] == {"app": "kscheduler", "team": "a"}
    pod, container = spec["template"]["spec"], container_of(manifest)
    assert (pod["serviceAccountName"], len(pod["containers"]), pod["volumes"][0]["name"]) == ("sched", 2, "conf")
    assert (container["env"][0]["name"], "command" in container) == ("HTTPS_PROXY", False)
    assert container["args"][:2] == ["run", "--kubeconfig=/etc/k/conf"]
    assert {"--leader-elect=false", "--v=2", "--bind-address=$(IP)"} <= set(container["args"])
    assert "runAsUser" not in container["securityContext"], "a Secret can be read by anybody"
    assert [note.partition(": ")[2].partition(":")[0] for note in notes] == ["image", "--leader-elect", "resources"]


def test_it_is_found_in_what_kubectl_prints_and_behind_a_configuration(tmp_path: Path, capsys: Captured) -> None:
    mirror = yaml.safe_load(KUBEADM)
    mirror["metadata"]["name"] = "kube-scheduler-node-1"
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "ab", "kubernetes.io/config.source": "file"}
    mirror["spec"]["nodeName"] = "node-1"
    listed, _ = converted(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [mirror]}), tmp_path, capsys)
    assert listed["metadata"]["name"] == "kscheduler"
    assert ("annotations" in listed["metadata"], "nodeName" in listed["spec"]) == (False, False)
    both = f"{KUBEADM}---\napiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"
    configuration, notes = converted(both, tmp_path, capsys)
    assert configuration["kind"] == "KubeSchedulerConfiguration"
    assert notes == ["1: Pod kube-scheduler: not converted: one configuration at a time, give it as a file of its own"]


def test_a_pod_of_anything_else_is_refused_and_check_points_to_convert(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(KUBEADM.replace("- kube-scheduler\n", "- etcd\n").replace("io/kube-scheduler:", "io/etcd:"))
    assert main(["config", "convert", str(file)]) == 2
    assert "line 1: Pod kube-scheduler: not converted" in capsys.readouterr().err
    file.write_text(KUBEADM)
    assert main(["config", "check", str(file)]) == 2
    assert "`kscheduler config convert` turns a manifest that runs kube-scheduler" in capsys.readouterr().err


@pytest.mark.parametrize("user", ["securityContext: {runAsUser: 77, runAsGroup: 78}", ""], ids=["rootless", "root"])
def test_the_user_is_the_one_who_may_read_the_files(user: str, tmp_path: Path, capsys: Captured) -> None:
    """What kubeadm calls RootlessControlPlane says who that is."""
    text = KUBEADM.replace("  securityContext:\n", indent(f"{user}\n", "  ") if user else "  securityContext:\n", 1)
    text = text.replace("    seccompProfile:\n      type: RuntimeDefault\n", "") if user else text
    manifest, _ = converted(text, tmp_path, capsys)
    context = container_of(manifest)["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == ((77, 78) if user else (0, 0))
    assert manifest["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


MANIFESTS: Final[list[Tree]] = [
    yaml.safe_load(KUBEADM),
    yaml.safe_load(DEPLOYMENT.replace("COMMAND", "[kube-scheduler, -v2]")),
]


@pytest.mark.parametrize("seed", range(example_count(80)))
def test_a_manifest_with_anything_anywhere_is_refused_or_runs_kscheduler(seed: int) -> None:
    data = spoilt(seed, MANIFESTS)
    try:
        manifest = yaml.safe_load(convert(data, "f", lambda _: None, without_meaning).text)
    except ConfigError:
        return  # refused; anything else that is raised fails the test
    assert container_of(manifest)["args"][0] == "run"
