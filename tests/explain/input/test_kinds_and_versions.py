"""Group and version are part of a kind: what is read as what, what is left out by name, and that the rest goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.machinery.resources import KNOWN
from kscheduler.api.served_kinds import SERVED
from kscheduler.cli import kubectl_plugin, main
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.object_files import Document
from tests.explain.input.test_forms_of_files import node, pod

Tree = dict[str, Any]
Play = Callable[..., tuple[int, str, str]]

TEMPLATE: Tree = {"metadata": {"labels": {"a": "x"}}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}}


def workload(version: str, kind: str, name: str = "old") -> Tree:
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "x"}}, "serviceName": name, "template": TEMPLATE}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Play:
    """Runs a verb on files: `cluster` is what --from has, `new` what -f has."""

    def run(verb: str, *words: str, new: list[Tree] | None = None, cluster: list[Tree] | None = None) -> Any:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, cluster or [node("a")])))
        (tmp_path / "new.json").write_text("\n".join(map(json.dumps, new or [])))
        given = ["-f", "new.json"] if new else []
        code = (kubectl_plugin.main if verb in ("why", "whatif") else main)(
            [verb, "--from", "cluster.json", *given, *words]
        )
        return (code, *capsys.readouterr())

    return run


VERBS = pytest.mark.parametrize("verb", ["simulate", "explain", "whatif", "why"])
NOT_SERVED = [
    ("extensions/v1beta1", "Deployment", "served: apps/v1"),
    ("extensions/v1beta1", "DaemonSet", "served: apps/v1"),
    ("apps/v1beta1", "StatefulSet", "served: apps/v1"),
    ("apps/v1beta2", "ReplicaSet", "served: apps/v1"),
    ("batch/v1beta1", "CronJob", "served: batch/v1"),
    ("policy/v1beta1", "PodDisruptionBudget", "served: policy/v1"),
    ("storage.k8s.io/v1beta1", "StorageClass", "served: storage.k8s.io/v1"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass", "served: scheduling.k8s.io/v1"),
    ("resource.k8s.io/v1alpha3", "ResourceClaim", "served: resource.k8s.io/v1"),
    ("v1beta3", "Pod", "served: v1"),
    ("scheduling.volcano.sh/v1alpha2", "PodGroup", "served: scheduling.volcano.sh/v1beta1"),
]
UNKNOWN = [
    ("apps.kruise.io/v1beta1", "StatefulSet"),
    ("foo.example.org/v1", "Deployment"),
    ("serving.knative.dev/v1", "Service"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("example.com/v1", "Pod"),
    ("example.com/v1", "Node"),
    ("example.com/v1", "PriorityClass"),
    ("example.com/v1", "ResourceClaimTemplate"),
    ("apps/v1", "Deploymnet"),
    ("v1", "Deployment"),
    ("apps/v1", "Pod"),
]


@VERBS
@pytest.mark.parametrize(("version", "kind", "instead"), NOT_SERVED, ids=lambda each: each.replace("/", "-"))
def test_what_no_server_serves_is_named_and_the_rest_goes_on(
    play: Play, verb: str, version: str, kind: str, instead: str
) -> None:
    code, out, err = play(verb, new=[workload(version, kind), pod()])
    assert code == 0
    assert "default/p" in out
    assert "default/old" not in out
    assert f"do not serve are left out: {kind} (1) of {version} ({instead})" in err


@VERBS
@pytest.mark.parametrize(("version", "kind"), UNKNOWN, ids=lambda each: each.replace("/", "-"))
def test_what_is_not_known_is_named_with_its_group_and_makes_no_pods(
    play: Play, verb: str, version: str, kind: str
) -> None:
    for files in ({"new": [workload(version, kind), pod()]}, {"cluster": [node("a"), workload(version, kind), pod()]}):
        code, out, err = play(verb, *(["default/p"] if verb == "why" and "cluster" in files else []), **files)
        assert code == 0
        assert "default/p" in out
        assert "default/old" not in out
        assert f"kinds that are not known here are left out, and make no pods: {kind} (1) of {version}" in err


@VERBS
@pytest.mark.parametrize(("version", "kind"), [("extensions/v1beta1", "Deployment"), ("example.com/v1", "Job")])
def test_a_file_of_nothing_else_is_refused_by_version(play: Play, verb: str, version: str, kind: str) -> None:
    code, out, err = play(verb, new=[workload(version, kind)])
    assert (code, out) == (2, "")
    assert f"{kind} (1) of {version}" in err


DEVICES = [{"name": "d0", "basic": {"attributes": {"model": {"string": "x"}}}}]
SLICE: Tree = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": DEVICES,
    },
}
CLASS: Tree = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.example.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.attributes["gpu.example.com"].model == "x"'}}]},
}
REQUEST: Tree = {"name": "gpu", "deviceClassName": "gpu.example.com", "count": 1}


@pytest.mark.parametrize("verb", ["simulate", "explain"])
@pytest.mark.parametrize(
    ("version", "request_"),
    [("v1beta1", REQUEST), ("v1beta2", {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}})],
)
def test_devices_of_a_beta_version_are_read_as_that_version(
    play: Play, verb: str, version: str, request_: Tree
) -> None:
    """Requests of v1beta1 have no `exactly`, and its devices have a `basic`: both are where v1 has them."""
    template = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "g"},
        "spec": {"spec": {"devices": {"requests": [request_]}}},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "g"}]
    querying = pod(resourceClaims=claims)
    querying["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    code, out, err = play(verb, new=[template, querying], cluster=[node("a"), node("b"), SLICE, CLASS])
    assert code == 0, err
    assert "default/p  a" in out or "default/p: goes to a" in out


def test_pod_groups_of_each_served_version_are_groups(play: Play) -> None:
    for version in ("v1alpha2", "v1alpha3", "v1beta1"):
        group = {
            "apiVersion": f"scheduling.k8s.io/{version}",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
        }
        member = pod(schedulingGroup={"podGroupName": "g"})
        flags = ("--emulated-version", "1.37", "--feature-gates", "GenericWorkload=true")
        code, out, err = play("simulate", *flags, new=[group, member])
        assert (code, "are left out" in err) == (0, False), err
        assert "1 pod would get a node" in out


def test_each_kind_that_the_embedded_cluster_serves_is_known() -> None:
    missing = {(each.group_version, each.kind) for each in KNOWN} - SERVED
    assert missing == set()


def test_an_object_without_a_version_is_what_its_kind_says() -> None:
    notes: list[str] = []
    given = [Document({"kind": "Deployment", "metadata": {"name": "a"}}, "x")]
    assert (known(given, notes), notes) == (given, [])


# --- one object that cannot be read -----------------------------------------------------------------------------------


def test_a_bare_pod_with_gates_waits_and_the_others_are_placed(play: Play) -> None:
    gated = pod("gated", schedulingGates=[{"name": "example.com/foo"}])
    for verb in ("simulate", "whatif"):
        code, out, _ = play(verb, new=[gated, pod()])
        assert code == 0
        assert "default/gated: gated: waiting for scheduling gates: [example.com/foo]" in out
        assert "default/p  a" in out
    code, out, _ = play("explain", new=[gated, pod()])
    assert code == 0
    assert "remove the scheduling gates example.com/foo" in out


UNREADABLE: list[Tree] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bad"}, "spec": {"taints": 3}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": {"containers": 3}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": 3},
    {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": []},
    {"apiVersion": "v1", "kind": "Service", "metadata": {}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": []},
]


@pytest.mark.parametrize("bad", UNREADABLE, ids=lambda each: f"{each['kind']} {each.get('spec', '')}")
@pytest.mark.parametrize("verb", ["simulate", "explain", "pending"])
def test_an_object_of_a_dump_that_cannot_be_read_costs_itself_by_name(play: Play, verb: str, bad: Tree) -> None:
    code, out, err = play(verb, cluster=[node("a"), bad, pod()])
    assert code == 0
    assert "default/p" in out
    if bad["kind"] != "PriorityClass":
        assert f"cluster.json: document 2 ({bad['kind']}" in err
        assert "it is left out" in err


def test_a_query_about_a_pod_that_cannot_be_read_says_why(play: Play) -> None:
    code, out, err = play("explain", "default/bad", cluster=[node("a"), UNREADABLE[1], pod()])
    assert (code, out) == (2, "")
    assert "cluster.json: document 2 (Pod bad): " in err


@pytest.mark.parametrize("version", ["{0.kind}", "x/{a}", "{}", "}"])
def test_a_version_with_braces_is_named_as_it_is(play: Play, version: str) -> None:
    odd = {"apiVersion": version, "kind": "Deployment", "metadata": {"name": "odd"}, "spec": {}}
    code, out, err = play("explain", new=[odd, pod()])
    assert code == 0
    assert out.startswith("default/p: goes to a")
    assert f"kinds that are not known here are left out, and make no pods: Deployment (1) of {version}\n" in err


def test_a_new_workload_that_cannot_be_read_costs_itself_in_an_explanation(play: Play) -> None:
    bad = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bad"}, "spec": {}}
    code, out, err = play("explain", new=[bad, pod()])
    assert code == 0
    assert out.startswith("default/p: goes to a")
    assert "new.json: document 1 (Deployment bad): spec.selector: Required value: it is left out" in err


def test_a_file_without_pods_beside_others_refuses_nothing(play: Play, tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    )
    code, out, err = play("simulate", "-f", "more.json", new=[pod()])
    assert code == 0
    assert "default/p  a" in out
    assert "ConfigMap" in err


def test_of_two_dumps_with_the_same_object_the_last_counts_and_it_is_said(play: Play, tmp_path: Path) -> None:
    larger = node("a")
    larger["status"]["allocatable"]["cpu"] = "64"
    code, out, err = play("simulate", cluster=[node("a"), larger, pod()])
    assert code == 0
    assert "of 64" in out
    assert "given more than once, of which the last counts: nodes a" in err


# --- DaemonSets -------------------------------------------------------------------------------------------------------


def daemon(**spec: Any) -> Tree:
    template = {"metadata": {"labels": {"a": "x"}}, "spec": {**TEMPLATE["spec"], **spec}}
    body = {"selector": {"matchLabels": {"a": "x"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": body}


def nodes() -> list[Tree]:
    found = {name: node(name) for name in ("plain", "tainted", "labelled", "leaving", "unready")}
    found["tainted"]["spec"] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    found["labelled"]["metadata"]["labels"] = {"disk": "ssd"}
    found["leaving"]["spec"] = {"taints": [{"key": "go", "effect": "NoExecute"}]}
    found["unready"]["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}
    return list(found.values())


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("spec", "flags", "where"),
    [
        ({}, (), "labelled plain unready"),
        ({"tolerations": [{"operator": "Exists"}]}, (), "labelled leaving plain tainted unready"),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, (), "labelled plain tainted unready"),
        ({"nodeSelector": {"disk": "ssd"}}, (), "labelled"),
        ({"affinity": AFFINITY}, (), "labelled"),
        ({"nodeSelector": {"disk": "hdd"}}, (), ""),
        ({}, ("--cordon", "plain"), "labelled plain unready"),
        ({}, ("--remove-node", "plain"), "labelled unready"),
        ({}, ("--add-nodes", "2:plain"), "labelled plain plain-new-1 plain-new-2 unready"),
        ({"nodeSelector": {"disk": "ssd"}}, ("--label-node", "plain:disk=ssd"), "labelled plain"),
        ({}, ("--taint-node", "plain:a=b:NoSchedule"), "labelled unready"),
    ],
)
def test_a_daemon_set_has_the_pods_that_its_controller_makes(
    play: Play, spec: Tree, flags: tuple[str, ...], where: str
) -> None:
    code, out, _ = play("simulate", "-o", "json", *flags, new=[daemon(**spec)], cluster=nodes())
    assert code == 0
    tree = json.loads(out)
    assert sorted(each["node"] for each in tree["placed"]) == where.split()
    assert tree["pending"] == [] or where.split() == []


@VERBS
def test_a_storage_class_that_is_not_there_is_named(play: Play, verb: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c1"},
        "spec": {
            "storageClassName": "rook-ceph-block",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    new = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}])
    code, out, err = play(verb, new=[claim, new])
    assert code == 0, err
    if verb in ("explain", "why"):
        assert "StorageClass rook-ceph-block does not exist" in " ".join(out.split())
    assert "binds at once" not in out


POD_SPEC: Tree = TEMPLATE["spec"]
WITH_TEMPLATES = [
    ("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": TEMPLATE}}}),
    ("ray.io/v1", "RayCluster", {"workerGroupSpecs": [{"replicas": 2, "template": TEMPLATE}]}),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]}),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}}),
    ("kueue.x-k8s.io/v1beta1", "Workload", {"podSets": [{"count": 4, "template": {"spec": POD_SPEC}}]}),
]


@VERBS
@pytest.mark.parametrize(("version", "kind", "spec"), WITH_TEMPLATES, ids=[each[1] for each in WITH_TEMPLATES])
def test_of_a_kind_that_is_not_known_and_has_a_pod_template_it_is_said_how_to_ask_about_its_pods(
    play: Play, verb: str, version: str, kind: str, spec: Tree
) -> None:
    """Alone in a file, and beside a pod; of an object of the cluster, whose pods are there, nothing is said."""
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}
    said = f"what controllers make of {kind} is not known here: give its pods, or a Deployment with"
    for new, expected in ([made], 2), ([made, pod()], 0):
        code, _, err = play(verb, new=new)
        assert code == expected
        assert said in err
    plain = {"apiVersion": "example.com/v1", "kind": "Monitor", "metadata": {"name": "m"}, "spec": {"interval": "5s"}}
    assert "what controllers make" not in play(verb, new=[plain, pod()])[2]
    assert "what controllers make" not in play(verb, cluster=[node("a"), made], new=[pod()])[2]
