"""`--from`: what a scenario may say, and objects that kubectl has printed."""

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.explain.scenarios import Tree, node_tree, pod_tree, scenario_line
from tests.explain.test_command import run

OURS = ("--scheduler-name", "default-scheduler")


def scenario(**more: Any) -> Tree:
    tree: Tree = json.loads(scenario_line(nodes=[node_tree("a")]))
    return {**tree, **more}


def written(tmp_path: Path, content: Any, name: str = "file.jsonl") -> str:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(path)


# --- scenarios --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (scenario(podd={}), "podd: unknown field; there are config, expect, gates, id, objects, pod, podGroup"),
        (scenario(objets={}), "objets: unknown field; do you mean objects?"),
        (scenario(objects={"nodez": []}), "objects.nodez: unknown field; do you mean nodes?"),
        (
            scenario(
                config={
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "parallelsm": 3,
                }
            ),
            "parallelsm",
        ),
    ],
    ids=["a key", "a misspelt key", "a resource name", "a field of the configuration"],
)
def test_an_unknown_field_is_refused_with_line_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tree: Tree, message: str
) -> None:
    path = written(tmp_path, json.dumps(scenario()).encode() + b"\n" + json.dumps(tree).encode())
    assert run("--from", path) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"kscheduler: {path}:2: ")
    assert message in err


def test_what_recorded_decisions_have_besides_is_accepted(tmp_path: Path) -> None:
    tree = scenario(expect={"best": ["a"]}, objects={"nodes": [], "resourceslices": [{}], "deviceclasses": []})
    assert run("--from", written(tmp_path, tree)) == 0


def test_a_misspelt_field_within_an_object_is_reported_and_a_newer_one_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = pod_tree(nodeSelectr={"a": "b"}, dnsPolicy="ClusterFirst", somethingNewInKubernetes=3)
    assert run("--from", written(tmp_path, scenario(pod=pod)), "-o", "json") == 0
    captured = capsys.readouterr()
    assert captured.err.endswith(":1: pod.spec.nodeSelectr is not a field: do you mean nodeSelector?\n")
    assert captured.err.count("\n") == 1
    assert json.loads(captured.out)["notes"] == [captured.err.removeprefix("kscheduler: ").rstrip()]


def test_an_unknown_scheduler_name_is_an_error_with_a_code_and_the_rest_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps(scenario(pod=pod_tree(schedulerName="mine"))), json.dumps(scenario())]
    assert run("--from", written(tmp_path, "\n".join(lines).encode()), "-o", "json") == 1
    trees = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [tree["outcome"] for tree in trees] == ["Error", "Placed"]
    assert trees[0]["error"] == 'profile not found for scheduler name "mine"'


@pytest.mark.parametrize(
    "flags", [["default/web"], ["--config", "CONFIG"], OURS, ["-f", "POD"]], ids=lambda one: one[0]
)
def test_scenarios_bring_their_pod_and_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    config = written(
        tmp_path,
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"},
        "config.yaml",
    )
    given = [{"CONFIG": config, "POD": config}.get(flag, flag) for flag in flags]
    assert run("--from", written(tmp_path, scenario()), *given) == 2
    assert "scenarios bring their pod and configuration" in capsys.readouterr().err


@pytest.mark.parametrize(
    "broken",
    [b'"\xff"', b"[" * 5000 + b"]" * 5000, b"1e99999"],
    ids=["no UTF-8", "nested too deep", "a huge number"],
)
@pytest.mark.parametrize("kind", [b"", b'"kind":"Pod","apiVersion":"v1",'], ids=["a scenario", "an object"])
def test_what_is_broken_in_a_field_that_nobody_reads_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: bytes, broken: bytes
) -> None:
    line = b"{" + kind + json.dumps(scenario()).encode()[1:-1] + b',"expect":' + broken + b"}"
    code = run("--from", written(tmp_path, line), *([] if not kind else OURS))
    err = capsys.readouterr().err
    assert (code, err) == (0, "") or (code == 2 and err.startswith("kscheduler: ") and err.count("\n") == 1)


@pytest.mark.parametrize("name", ["deep.json", "deep.yaml"])
def test_a_file_that_is_all_brackets_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"[" * 100_000)
    assert run("--from", str(path)) == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- objects ----------------------------------------------------------------------------------------------------------


def kinded(kind: str, tree: Tree) -> Tree:
    return {"apiVersion": "v1", "kind": kind, **tree}


CLUSTER = [
    kinded("Node", node_tree("a")),
    kinded("Node", node_tree("b", cpu="1")),
    kinded("Pod", pod_tree("running", cpu="1", nodeName="b")),
    kinded("Pod", pod_tree("web")),
    kinded("Pod", pod_tree("worker")),
    kinded("ConfigMap", {"metadata": {"name": "settings"}}),
]
AS_LIST = {"apiVersion": "v1", "kind": "List", "items": CLUSTER}
WHEN = (
    b"apiVersion: v1\nkind: Pod\nmetadata: {name: old, creationTimestamp: 2026-11-22T10:00:00Z}\nspec: {nodeName: a}\n"
)
FORMS = {
    "JSON, printed": json.dumps(AS_LIST, indent=4).encode(),
    "JSON, a line": json.dumps(AS_LIST).encode(),
    "JSON, a line each": b"\n".join(json.dumps(one).encode() for one in CLUSTER),
    "JSON, a list": json.dumps(CLUSTER).encode(),
    "JSON, a printed list": json.dumps(CLUSTER, indent=1).encode(),
    "YAML, a List": yaml.safe_dump(AS_LIST).encode(),
    "YAML, documents": yaml.safe_dump_all([*CLUSTER, None]).encode(),
    "YAML, with a comment first": b"# nodes and pods\n" + yaml.safe_dump_all(CLUSTER).encode(),
    "YAML, with a time": WHEN + b"---\n" + yaml.safe_dump_all(CLUSTER).encode(),
    "gzipped": gzip.compress(yaml.safe_dump_all(CLUSTER).encode()),
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("from_stdin", [False, True], ids=["file", "stdin"])
def test_pending_pods_of_objects_in_any_form(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    from_stdin: bool,
) -> None:
    path = "-" if from_stdin else written(tmp_path, content, "dump")
    if from_stdin:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    assert run("--from", path, "-o", "json", *OURS) == 0
    captured = capsys.readouterr()
    trees = [json.loads(line) for line in captured.out.splitlines()]
    assert [(tree["id"], tree["feasible"]) for tree in trees] == [("default/web", ["a"]), ("default/worker", ["a"])]
    assert captured.err == "kscheduler: kinds that no scheduling rule reads are skipped: ConfigMap (1)\n"


def test_one_pod_of_the_objects_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, AS_LIST, "dump.json")
    for given in (["default/running"], ["running"], ["pod/running", "-n", "default"]):
        assert run("--from", path, *given, *OURS) == 0
        assert capsys.readouterr().out.startswith("default/running: is on node b already")
    assert run("--from", path, "other/running") == 2
    assert capsys.readouterr().err == f"kscheduler: {path}: there is no pod other/running among its 3 pods\n"


def test_a_pod_is_answered_as_its_own_scheduler_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, AS_LIST, "dump.json")
    assert run("--from", path, "web") == 0
    reported = capsys.readouterr().out
    assert reported.startswith(
        "default/web: goes to a\n  scheduler default-scheduler decides about it, with the default"
    )
    assert run("--from", path, "web", *OURS) == 0
    assert "decides about it" not in capsys.readouterr().out, "somebody has said who schedules"


def test_defaults_are_filled_in_for_what_a_person_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 7
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  priorityClassName: high
  containers: [{name: c, image: app, resources: {limits: {cpu: 5}}}]
"""
    assert run("--from", written(tmp_path, text.encode(), "hand.yaml"), "-o", "json", *OURS) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["pod"]["schedulerName"] == "default-scheduler"
    assert tree["rejections"][0]["details"][0]["facts"]["requested"] == 5000
    assert tree["rejections"][0]["details"][0]["facts"]["closest"][0]["allocatable"] == 4000


def test_of_several_global_defaults_the_smallest_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As at the API server's admission: with 3 the pod may not preempt the one of 5, with 9 it might."""
    classes = [
        f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n"
        "globalDefault: true\n"
        for name, value in (("first", 9), ("smallest", 3))
    ]
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 2, memory: 8Gi, pods: 10}}\n"
    container = "containers: [{name: c, image: app, resources: {limits: {cpu: 2}}}]"
    pods = [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{{spec}{container}}}\n{status}"
        for name, spec, status in (
            ("here", "nodeName: a, priority: 5, ", "status: {phase: Running}\n"),
            ("web", "", ""),
        )
    ]
    path = written(tmp_path, "---\n".join([*classes, node, *pods]).encode(), "hand.yaml")
    assert run("--from", path, "-o", "json", *OURS) == 0
    (tree,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert tree["preemption"]["victims"] == []


BAD_OBJECTS = {
    "no object": (b"- 1\n- 2\n", "a Kubernetes object was expected, not a list"),
    "no kind": (b"apiVersion: v1\nmetadata: {name: a}\n", "document 1: kind: is missing"),
    "no name": (b"apiVersion: v1\nkind: Node\n", "document 1 (Node ): metadata.name: is missing"),
    "a wrong type": (
        b"apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taints: 3}\n",
        "document 1 (Node a): Expected `array`, got `int`",
    ),
    "broken YAML": (b"kind: Node\n  x: [\n", "2: not YAML: "),
    "broken JSON": (b'{\n  "kind": \n', "not JSON: "),
    "a wrong type of a pod": (
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: 3}\n",
        "document 1 (Pod a): ",
    ),
    "nobody pending": (b"apiVersion: v1\nkind: Node\nmetadata: {name: a}\n", "none of its 0 pods is pending"),
}


@pytest.mark.parametrize(("content", "message"), BAD_OBJECTS.values(), ids=BAD_OBJECTS)
def test_objects_that_cannot_be_used_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    assert run("--from", written(tmp_path, content, "dump.yaml")) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_group_of_a_file_is_decided_about_in_lines_and_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member = pod_tree("m-0", schedulingGroup={"podGroupName": "g"})
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    member["spec"]["schedulerName"] = "default-scheduler"
    objects = {"nodes": [node_tree("a")], "pods": [member], "podgroups": [group]}
    line = {"id": "x", "gates": {"GenericWorkload": True}, "objects": objects, "podGroup": "default/g"}
    path = written(tmp_path, line)
    assert run("--from", path, "--emulated-version", "1.37") == 0
    fits = "pod group default/g: would be scheduled now\n  m-0: goes to a\n"
    assert capsys.readouterr().out == f"{fits}\nby the rules of kube-scheduler 1.37\n"
    assert run("--from", path, "-o", "json", "--emulated-version", "1.37") == 0
    assert json.loads(capsys.readouterr().out)["podGroupOutcome"]["pods"] == {"m-0": {"node": "a"}}
    assert run("--from", path) == 2
    refusal = "gates: feature gate GenericWorkload cannot be switched on, it is not built: pod groups are built as 1.37"
    assert refusal in capsys.readouterr().err


def test_a_group_that_preempts_is_reported_with_its_victims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member = pod_tree("m-0", schedulingGroup={"podGroupName": "g"}, priority=9)
    victim = pod_tree("low", nodeName="a", priority=1)
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "priority": 9}
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}
    objects = {"nodes": [node_tree("a", cpu="1")], "pods": [member, victim], "podgroups": [group]}
    line = {"id": "x", "gates": {"GenericWorkload": True}, "objects": objects, "podGroup": "default/g"}
    path = written(tmp_path, line)
    assert run("--from", path, "--emulated-version", "1.37") == 0
    reported = capsys.readouterr().out
    assert "found a placement for podgroup, preempting 1 victims\n" in reported
    assert "  m-0: 0/1 nodes are available: 1 Insufficient cpu. (waits for room on a)\n" in reported
    assert "\nit would evict 1 pod:\n  default/low on a, priority 1\n" in reported
    assert run("--from", path, "-o", "json", "--emulated-version", "1.37") == 0
    assert json.loads(capsys.readouterr().out)["preemption"] == {
        "nominatedNodes": {"m-0": "a"},
        "victims": [{"namespace": "default", "name": "low", "node": "a", "priority": 1}],
        "brokenBudgets": 0,
        "disruptedGroups": 0,
    }
