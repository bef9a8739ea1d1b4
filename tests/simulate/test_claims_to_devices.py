"""`kscheduler simulate` with claims to devices: templates, shared claims, drains, more nodes, dumps without any."""

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main
from tests.simulate.test_simulate import OWNER, Play, Tree, budget, node, nodes_of, pod, workload

CLASS = "gpu.example.com"
DEVICES = f"{CLASS}.deviceclass.resource.k8s.io/devices"
CONTAINER = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Play:
    return Play(tmp_path, capsys)


def device_class(**spec: Any) -> Tree:
    selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": CLASS, "uid": "class"},
        "spec": {"selectors": [selector], **spec},
    }


def gpus(node_name: str, count: int) -> Tree:
    devices = [{"name": f"gpu-{number}"} for number in range(count)]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpus", "uid": f"slice-{node_name}"},
        "spec": {"driver": CLASS, "nodeName": node_name, "pool": pool, "devices": devices},
    }


def cluster(**count_by_node: int) -> list[Tree]:
    nodes = [node(name, cpu="64") for name in count_by_node]
    return [*nodes, device_class(), *(gpus(name, count) for name, count in count_by_node.items() if count)]


def claim_spec(count: int = 1) -> Tree:
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def template(name: str = "gpu", count: int = 1, namespace: str = "shop") -> Tree:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": claim_spec(count)},
    }


def claim(name: str, *held: str, node_name: str = "a", users: tuple[str, ...] = (), **metadata: Any) -> Tree:
    tree: Tree = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "shop", **metadata},
        "spec": claim_spec(max(len(held), 1)),
    }
    if held:
        results = [{"request": "gpu", "driver": CLASS, "pool": node_name, "device": device} for device in held]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}]
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}
        reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
        tree["status"] = {"allocation": allocation, "reservedFor": reserved}
        tree["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "7"}
    return tree


def from_template(name: str = "gpu") -> list[Tree]:
    return [{"name": "gpu", "resourceClaimTemplateName": name}]


def new_pod(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"schedulerName": "kscheduler", "containers": [CONTAINER], **spec},
    }


def gpu_workload(replicas: int, kind: str = "Deployment") -> Tree:
    tree = workload(kind, replicas)
    tree["spec"]["template"]["spec"]["resourceClaims"] = from_template()
    return tree


def running(name: str, device: str, node_name: str) -> list[Tree]:
    """A pod with a device, and the claim that was made for it."""
    tree = pod(name, on=node_name, cpu="100m", resourceClaims=from_template(), owner=OWNER)
    tree["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu-x"}]}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    made = claim(f"{name}-gpu-x", device, node_name=node_name, users=(name,), ownerReferences=[owner])
    return [tree, made]


def test_new_pods_get_claims_from_the_template_in_their_file_and_take_devices(play: Play) -> None:
    new = play.write("new.yaml", template(), gpu_workload(6))
    tree = play("-f", new, "--capacity", objects=cluster(a=2, b=3, c=0))
    assert sorted(nodes_of(tree).values()) == ["a", "a", "b", "b", "b"]
    (waits,) = tree["pending"]
    assert "cannot allocate all claims" in waits["message"]
    assert tree["capacity"]["pods"] == 0
    assert tree["notes"] == []


def test_the_template_of_the_cluster_serves_as_well(play: Play) -> None:
    new = play.write("new.yaml", gpu_workload(1))
    tree = play("-f", new, "--capacity", objects=[*cluster(a=3), template()])
    assert (len(tree["placed"]), tree["capacity"]["pods"]) == (1, 2)


def test_a_template_that_is_not_there_is_named(play: Play) -> None:
    new = play.write("new.yaml", template("other"), gpu_workload(5))
    tree = play("-f", new, objects=cluster(a=3))
    assert {each["message"] for each in tree["pending"]} == {
        "gated: ResourceClaimTemplate shop/gpu is not known, so the pod has no claim"
    }
    (note,) = tree["notes"]
    assert "ResourceClaimTemplate shop/gpu is not known" in note
    assert "shop/new-new, shop/new-new-1, shop/new-new-2 and 2 more" in note


def test_objects_of_a_file_are_in_the_namespace_of_the_query(play: Play) -> None:
    objects = [template(), claim("mine"), new_pod("one", resourceClaims=from_template())]
    objects.append(new_pod("two", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}]))
    for each in objects:
        del each["metadata"]["namespace"]
    tree = play("-n", "lab", "-f", play.write("new.yaml", *objects), objects=cluster(a=2))
    assert nodes_of(tree) == {"lab/one": "a", "lab/two": "a"}


def test_pods_that_share_a_claim_all_run_on_the_node_of_its_device(play: Play) -> None:
    sharing = new_pod("one", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    new = play.write("new.yaml", claim("shared"), sharing)
    tree = play("-f", new, "--replicas", "5", objects=cluster(a=1, b=1))
    assert len(tree["placed"]) == 5
    assert len(set(nodes_of(tree).values())) == 1
    assert tree["room"]["after"][DEVICES] == {"allocatable": 2, "requested": 1}


@pytest.mark.parametrize("flag", ["--drain", "--remove-node"])
def test_a_replacement_gets_a_claim_of_its_own_and_the_old_ones_go(play: Play, flag: str) -> None:
    objects = [*cluster(a=2, b=2), *running("web-0", "gpu-0", "a"), *running("web-1", "gpu-1", "a")]
    tree = play(flag, "a", objects=[*objects, template()])
    assert nodes_of(tree) == {"shop/web-0-again-1": "b", "shop/web-1-again-1": "b"}
    assert (tree["pending"], tree["notes"]) == ([], [])
    assert tree["room"]["before"][DEVICES] == {"allocatable": 4, "requested": 2}
    assert tree["room"]["after"][DEVICES]["requested"] == 2


def test_without_the_template_a_replacement_claims_what_its_pod_had(play: Play) -> None:
    objects = [*cluster(a=2, b=2), *running("web-0", "gpu-0", "a")]
    tree = play("--drain", "a", objects=objects)
    assert nodes_of(tree) == {"shop/web-0-again-1": "b"}
    (note,) = tree["notes"]
    assert "ResourceClaimTemplate shop/gpu was not read: new claims are like those that were made from it" in note


def test_a_device_that_an_evicted_pod_gives_back_serves_another(play: Play) -> None:
    waits = new_pod("waits", resourceClaims=from_template(), nodeSelector={"kubernetes.io/hostname": "b"})
    objects = [*cluster(a=1, b=1), *running("web-0", "gpu-0", "b"), template(), waits]
    tree = play("--taint-node", "b:x=y:NoExecute", "--drain", "a", objects=objects)
    assert [each["pod"] for each in tree["evicted"]] == ["shop/web-0"]
    tree = play("--taint-node", "b:x=y:NoExecute", objects=[*objects[:-1], {
        **waits,
        "spec": {**waits["spec"], "tolerations": [{"operator": "Exists"}]},
    }])  # fmt: skip
    assert nodes_of(tree) == {"shop/waits": "b", "shop/web-0-again-1": "a"}


def test_a_node_that_comes_brings_its_own_devices(play: Play) -> None:
    new = play.write("new.yaml", template(), gpu_workload(5))
    objects = cluster(a=2)
    objects[-1]["spec"]["pool"]["name"] = "pool-of-a"
    tree = play("-f", new, "--add-nodes", "1:a", objects=objects)
    assert sorted(nodes_of(tree).values()) == ["a", "a", "a-new-1", "a-new-1"]
    assert tree["room"]["before"][DEVICES] == {"allocatable": 2, "requested": 0}
    assert tree["room"]["after"][DEVICES] == {"allocatable": 4, "requested": 4}
    text = play.text("-f", new, "--add-nodes", "1:a", objects=objects)
    assert f"{CLASS} devices 0 of 2 (0 %) 4 of 4 (100 %)" in " ".join(text.split())


def test_devices_that_nodes_have_by_slices_with_a_node_per_device_are_copied_too(play: Play) -> None:
    published = gpus("a", 0)
    devices = [{"name": f"gpu-{name}", "nodeName": name} for name in ("a", "b")]
    published["spec"] |= {"nodeName": None, "perDeviceNodeSelection": True, "devices": devices}
    new = play.write("new.yaml", template(), gpu_workload(4))
    tree = play("-f", new, "--add-nodes", "1:a", objects=[*cluster(a=0, b=0), published])
    assert sorted(nodes_of(tree).values()) == ["a", "a-new-1", "b"]


def test_extended_resources_that_devices_stand_for_are_counted_as_devices(play: Play) -> None:
    container = {"name": "main", "image": "app", "resources": {"limits": {"example.com/gpu": "1"}}}
    new = play.write("new.yaml", new_pod("one", containers=[container]))
    objects = [node("a"), device_class(extendedResourceName="example.com/gpu"), gpus("a", 2)]
    tree = play("-f", new, "--replicas", "3", "--emulated-version", "1.37", objects=objects)
    assert len(tree["placed"]) == 2
    assert tree["room"]["after"][DEVICES] == {"allocatable": 2, "requested": 2}
    assert "example.com/gpu" not in tree["room"]["after"]


def test_a_dump_without_claims_is_reported_with_what_to_print(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [node("a"), running("web-0", "gpu-0", "a")[0]]
    (note,) = play("--drain", "a", objects=objects)["notes"][:1]
    wanted = "nodes,pods,resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses"
    assert "shop/web-0 claim devices, and it has no claim, slice or class" in note
    assert f"`kubectl get {wanted} -A -o yaml`" in note
    source = play.write("dump.yaml", node("a"), new_pod("waits", resourceClaims=from_template()))
    assert main(["explain", "--from", source]) == 0
    assert wanted in capsys.readouterr().err


def test_an_explained_new_pod_has_the_claims_that_it_would_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Play(tmp_path, capsys).write("cluster.yaml", *cluster(a=0, b=1))
    new = Play(tmp_path, capsys).write("new.yaml", template(), new_pod("one", resourceClaims=from_template()))
    assert main(["explain", "--from", source, "-f", new, "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["node"] == "b"
    assert [each["device"] for each in tree["devices"]["b"]] == ["gpu-0"]
    new = Play(tmp_path, capsys).write("new.yaml", new_pod("one", resourceClaims=from_template()))
    assert main(["explain", "--from", source, "-f", new, "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert "ResourceClaimTemplate shop/gpu, which claim gpu of shop/one is made from, is not known" in captured.err
    assert json.loads(captured.out)["node"] is None


def test_devices_that_only_the_file_has_count(play: Play) -> None:
    """A class, slices and a rule of taints: what if a node had GPUs, and one of them were broken?"""
    objects = [node("a"), template(), new_pod("one", resourceClaims=from_template())]
    assert play(objects=objects)["placed"] == []
    new = play.write("new.yaml", device_class(), gpus("a", 1))
    assert nodes_of(play("-f", new, objects=objects)) == {"shop/one": "a"}
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"device": "gpu-0"},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        },
    }
    new = play.write("new.yaml", device_class(), gpus("a", 1), rule)
    gates = ("--emulated-version", "1.37", "--feature-gates", "DRADeviceTaints=true,DRADeviceTaintRules=true")
    assert play("-f", new, *gates, objects=objects)["placed"] == []


def test_devices_that_drivers_would_have_to_make_ready_are_ready(play: Play) -> None:
    published = gpus("a", 1)
    published["spec"]["devices"][0] |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    sharing = new_pod("one", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    new = play.write("new.yaml", claim("shared"), sharing)
    tree = play("-f", new, "--replicas", "2", objects=[node("a"), device_class(), published])
    assert list(nodes_of(tree).values()) == ["a", "a"]


def test_a_budget_of_the_file_counts_and_no_pod_need_be_there(play: Play) -> None:
    new = play.write("new.yaml", budget(0))
    (drained,) = play("--drain", "a", "-f", new, objects=[node("a"), node("b"), pod("web-0", on="a")])["drains"]
    assert [each["pod"] for each in drained["blocked"]] == ["shop/web-0"]


def test_a_running_pod_with_a_shared_claim_leaves_it_to_the_others(play: Play) -> None:
    """The claim gives its device back when the last pod that uses it is gone: then it may get one elsewhere."""
    uses = [{"name": "gpu", "resourceClaimName": "shared"}]
    users = [pod(f"web-{number}", on="a", cpu="100m", resourceClaims=uses) for number in range(2)]
    shared = claim("shared", "gpu-0", users=("web-0", "web-1"))
    tree = play("--remove-node", "a", objects=[*cluster(a=1, b=1), *users, shared])
    assert nodes_of(tree) == {"shop/web-0-again-1": "b", "shop/web-1-again-1": "b"}
