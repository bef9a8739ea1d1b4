"""What comes with a new pod has no command; what others use as well is said to be changed for them, too."""

import json
from pathlib import Path

import pytest

from kscheduler.cli import main
from tests.explain.scenarios import Tree, pod_tree
from tests.explain.suggestions.test_commands import queried
from tests.explain.suggestions.test_every_kind import CLAIMED, claim_tree, class_tree, device_scenario

TWO_DEVICES: Tree = {"one": {}, "two": {}}


def as_object(api_version: str, kind: str, tree: Tree) -> Tree:
    return {"apiVersion": api_version, "kind": kind, **tree}


def template(name: str, count: int) -> Tree:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
    metadata = {"name": name, "namespace": "default"}
    return as_object(
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        {"metadata": metadata, "spec": {"spec": {"devices": {"requests": [request]}}}},
    )


def user_of(name: str, template_name: str) -> Tree:
    pod = pod_tree(name, resourceClaims=[{"name": "c", "resourceClaimTemplateName": template_name}])
    del pod["metadata"]["uid"]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    return as_object("v1", "Pod", pod)


def explained(
    cluster: list[Tree], new: list[Tree], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, Tree]:
    """The suggestions for the pod of a file, by kind."""
    scenario = device_scenario({}, **TWO_DEVICES)["objects"]
    cluster = [
        *(as_object("v1", "Node", each) for each in scenario["nodes"]),
        *(as_object("resource.k8s.io/v1", "DeviceClass", each) for each in scenario["deviceclasses"]),
        *(as_object("resource.k8s.io/v1", "ResourceSlice", each) for each in scenario["resourceslices"]),
        *cluster,
    ]
    dump, file = tmp_path / "dump.json", tmp_path / "q.json"
    dump.write_text(json.dumps(as_object("v1", "List", {"items": cluster})))
    file.write_text(json.dumps(as_object("v1", "List", {"items": new})))
    assert main(["explain", "--from", str(dump), "-f", str(file), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["suggestions"]
    return {each["kind"]: each for each in reversed(found)}


def test_a_template_of_the_file_is_changed_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = explained([], [template("q", 3), user_of("new", "q")], tmp_path, capsys)["deviceCount"]
    assert found["text"] == "ask for 2 devices instead of 3 in request r of claim template q"
    assert (found["command"], found["commandNote"]) == (
        "",
        "ResourceClaimTemplate q is in the file: change it in the file",
    )


def test_a_template_of_the_cluster_is_changed_there_and_its_other_users_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [user_of(f"other-{number}", "q") for number in range(4)]
    found = explained([template("q", 3), *others], [user_of("new", "q")], tmp_path, capsys)["deviceCount"]
    assert found["command"].startswith("kubectl get resourceclaimtemplate q -n default ")
    assert found["commandNote"].endswith(
        "ResourceClaimTemplate q is also that of pods other-0, other-1, other-2 and 1 more"
    )


def test_a_claim_of_the_file_is_changed_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = as_object("v1", "PersistentVolumeClaim", claim_tree(storageClassName="nowhere"))
    pod = as_object("v1", "Pod", pod_tree("new", volumes=CLAIMED))
    classes = [as_object("storage.k8s.io/v1", "StorageClass", class_tree("fast"))]
    found = explained(classes, [claim, pod], tmp_path, capsys)["claimClass"]
    assert found["command"] == ""
    assert found["commandNote"] == "data (persistentvolumeclaims) is in the file: change it in the file"


def test_the_other_users_of_a_shared_claim_are_named() -> None:
    tree = device_scenario({"count": 3}, **TWO_DEVICES)
    other = pod_tree("other", resourceClaims=tree["pod"]["spec"]["resourceClaims"])
    objects = tree["objects"] | {"pods": [other]}
    nodes = objects.pop("nodes")
    found, _ = queried(tree["pod"], nodes=nodes, **objects)
    assert found[0]["commandNote"].endswith("; claim mine is also that of pod other")
