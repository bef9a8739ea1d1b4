"""`kscheduler simulate` with pod groups: those of a file exist, and `--capacity` counts whole gangs."""

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main
from tests.simulate.test_simulate import Play, Tree, node, nodes_of, pod, workload

KUBERNETES = ("--emulated-version", "1.37", "--feature-gates", "GenericWorkload=true")
COMPOSITE = (
    *KUBERNETES[:-1],
    "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
)


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Play:
    return Play(tmp_path, capsys)


def group(name: str, *, minimum: int | None = None, parent: str = "", namespace: str = "shop") -> Tree:
    policy: Tree = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    spec = {"schedulingPolicy": policy, **({"parentCompositePodGroupName": parent} if parent else {})}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": spec,
    }


def gang_workload(replicas: int, name: str = "gang", cpu: str = "1", **metadata: Any) -> Tree:
    tree = workload("Job", replicas)
    template = tree["spec"]["template"]
    template["metadata"] |= metadata
    if not metadata:
        template["spec"]["schedulingGroup"] = {"podGroupName": name}
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    tree["metadata"]["name"] = name
    return tree


def test_a_group_of_the_file_exists(play: Play) -> None:
    new = play.write("new.yaml", group("gang", minimum=3), gang_workload(3))
    assert len(play("-f", new, *KUBERNETES, objects=[node("a")])["placed"]) == 3
    tree = play("-f", new, *KUBERNETES, objects=[node("a", cpu="2")])
    assert tree["placed"] == []
    assert len(tree["pending"]) == 3


def test_a_group_without_a_namespace_is_in_that_of_the_query(play: Play) -> None:
    members = gang_workload(2)
    del members["metadata"]["namespace"]
    new = play.write("new.yaml", group("gang", minimum=2, namespace=""), members)
    tree = play("-n", "lab", "-f", new, *KUBERNETES, objects=[node("a")])
    assert list(nodes_of(tree)) == ["lab/gang-new", "lab/gang-new-1"]


@pytest.mark.parametrize(("api", "version", "metadata"), [
    ("scheduler-plugins", "scheduling.x-k8s.io/v1alpha1", {"labels": {"scheduling.x-k8s.io/pod-group": "gang"}}),
    ("volcano", "scheduling.volcano.sh/v1beta1", {"annotations": {"scheduling.k8s.io/group-name": "gang"}}),
])  # fmt: skip
def test_groups_of_other_projects_exist_and_are_counted_whole(
    play: Play, tmp_path: Path, api: str, version: str, metadata: Tree
) -> None:
    found = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "gang", "namespace": "shop"}}
    new = play.write("new.yaml", {**found, "spec": {"minMember": 2}}, gang_workload(2, **metadata))
    config = tmp_path / "config.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps({**head, "podGroupAPIs": [api], "profiles": [{"schedulerName": "kscheduler"}]}))
    tree = play("-f", new, "--config", str(config), "--capacity", objects=[node("a"), node("b", cpu="1")])
    assert len(tree["placed"]) == 2
    assert tree["capacity"] == {"pods": 2, "groups": 1, "group": "shop/gang", "isMore": False}
    notes = play("-f", new, objects=[node("a")])["notes"]
    (note,) = notes
    assert f"and groups of {api} are not followed here: `podGroupAPIs: [{api}]` in the configuration" in note


def test_capacity_counts_whole_gangs(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    """Eleven more pods would fit on three nodes of eight, six and six: those are three more gangs of three."""
    objects = [node("a", cpu="8"), node("b", cpu="3"), node("c", cpu="3"), group("gang", minimum=3)]
    new = play.write("new.yaml", gang_workload(3))
    tree = play("-f", new, "--capacity", *KUBERNETES, objects=objects)
    assert tree["capacity"] == {"pods": 9, "groups": 3, "group": "shop/gang", "isMore": False}
    text = play.text("-f", new, "--capacity", *KUBERNETES, objects=objects)
    assert "capacity for more: 3 more whole groups like shop/gang (9 pods)\n" in text
    assert main(["simulate", "--from", play.write("cluster.yaml", *objects), "-f", new, "--capacity", *KUBERNETES]) == 0
    assert capsys.readouterr().err == ""


def test_capacity_is_counted_also_where_a_gang_of_the_cluster_fits_nowhere(play: Play) -> None:
    """Such a gang is tried again and again, and each attempt fails."""
    hopeless = [group("hopeless", minimum=2)]
    for number in range(2):
        container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "90"}}}
        spec = {
            "schedulerName": "kscheduler",
            "schedulingGroup": {"podGroupName": "hopeless"},
            "containers": [container],
        }
        metadata = {"name": f"hopeless-{number}", "namespace": "shop", "uid": f"uid-{number}"}
        hopeless.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    objects = [node("a"), *hopeless]
    tree = play("-f", play.write("new.yaml", workload("Deployment", 1)), "--capacity", *KUBERNETES, objects=objects)
    assert (tree["capacity"]["pods"], tree["capacity"]["isMore"]) == (3, False)


def test_members_of_a_group_without_a_minimum_are_counted_one_by_one(play: Play) -> None:
    new = play.write("new.yaml", group("gang"), gang_workload(2))
    tree = play("-f", new, "--capacity", *KUBERNETES, objects=[node("a", cpu="5")])
    assert tree["capacity"] == {"pods": 3, "groups": None, "group": None, "isMore": False}


def test_a_gang_whose_file_has_too_few_members_is_counted_with_enough(play: Play) -> None:
    new = play.write("new.yaml", group("gang", minimum=2), gang_workload(1))
    tree = play("-f", new, "--capacity", *KUBERNETES, objects=[node("a", cpu="5")])
    assert tree["capacity"] == {"pods": 4, "groups": 2, "group": "shop/gang", "isMore": False}


def test_a_composite_group_is_counted_with_its_whole_tree(play: Play) -> None:
    root: Tree = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "whole", "namespace": "shop"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }
    parts = [group(name, minimum=2, parent="whole") for name in ("left", "right")]
    new = play.write("new.yaml", root, *parts, gang_workload(2, "left"), gang_workload(2, "right"))
    tree = play("-f", new, "--capacity", *COMPOSITE, objects=[node("a", cpu="8"), node("b", cpu="2")])
    assert len(tree["placed"]) == 4
    assert tree["capacity"] == {"pods": 4, "groups": 1, "group": "shop/whole", "isMore": False}


def test_a_kind_that_no_rule_reads_is_noted(play: Play) -> None:
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "shop"}, "spec": {}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {}}
    limits["spec"] = {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}
    service["spec"] = {"ports": [{"port": 80}]}
    new = play.write("new.yaml", workload("Deployment", 1), limits, service)
    assert play("-f", new, objects=[node("a")])["notes"] == [
        "kinds that no scheduling rule reads are skipped: LimitRange (1)"
    ]


@pytest.mark.parametrize("is_in_file", [True, False])
def test_groups_and_pods_have_the_priority_of_their_class(play: Play, is_in_file: bool) -> None:
    """The class is in the file, or in the cluster."""
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    whole, members = group("gang", minimum=2), gang_workload(2)
    whole["spec"]["priorityClassName"] = "urgent"
    members["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    new = play.write("new.yaml", whole, members, *([urgent] if is_in_file else []))
    objects = [node("a"), pod("web", cpu="3", on="a", priority=0), *([] if is_in_file else [urgent])]
    tree = play("-f", new, *KUBERNETES, objects=objects)
    assert len(tree["placed"]) == 2
    assert [each["pod"] for each in tree["evicted"]] == ["shop/web"]
    assert tree["notes"] == []


def test_the_text_of_a_gang_that_nobody_makes_room_for_ends_without_a_comma(play: Play, tmp_path: Path) -> None:
    """kube-scheduler 1.37 appends an empty answer to the condition, which JSON has as it is."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "kscheduler", "plugins": {"podGroupPostFilter": {"disabled": [{"name": "*"}]}}}],
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    new = play.write("new.yaml", group("gang", minimum=3), gang_workload(3))
    asked = ("-f", new, *KUBERNETES, "--config", str(path))
    assert any(
        each["message"].endswith("0 remaining, ") for each in play(*asked, objects=[node("a", cpu="2")])["pending"]
    )
    lines = play.text(*asked, objects=[node("a", cpu="2")]).splitlines()
    assert any(line.endswith("0 remaining") for line in lines)
