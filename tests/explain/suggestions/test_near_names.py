"""A name that nobody has but nearly is probably a typing mistake: the change writes it as the cluster has it."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.for_many import common_change
from kscheduler.explain.suggestions.suggestion_rules import suggested
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import Decision, decide
from kscheduler.scenario.manifests import Manifests, fill_in_pod
from kscheduler.scenario.scenario import parse_scenario
from tests.explain.as_json import suggestion_trees
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.suggestions.test_commands import owned_by, queried
from tests.explain.suggestions.test_every_kind import scenario, suggested_for
from tests.explain.test_devices import AS_1_37, published

IMPLICIT = "deviceclass.resource.kubernetes.io/"


def gpu_node(name: str, resource: str = "nvidia.com/gpu", count: str = "4") -> Tree:
    node = node_tree(name)
    node["status"]["allocatable"][resource] = count
    return node


def querying(resource: str, count: str = "1") -> Tree:
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"] = {"requests": {resource: count}, "limits": {resource: count}}
    return pod


# --- resources --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "there"),
    [
        pytest.param("nvidia.com/gpus", "nvidia.com/gpu", id="a letter too many"),
        pytest.param("amd.com/gpu", "nvidia.com/gpu", id="another domain"),
        pytest.param("nvdia.com/gpuu", "nvidia.com/gpu", id="nearly equal as a whole"),
        pytest.param("nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.5gb", id="another profile"),
        pytest.param("xilinx.com/fpga_u250", "xilinx.com/fpga-u250", id="another separator"),
    ],
)
def test_a_resource_that_no_node_has_is_written_as_nodes_have_it(wrong: str, there: str) -> None:
    found = suggested_for(scenario(querying(wrong), nodes=[gpu_node("a", there), gpu_node("b", there), node_tree("c")]))
    assert next(iter(reversed(found))) == "resourceName", "the smallest change"
    assert found["resourceName"]["text"] == (
        f"request {there} instead of {wrong}: no node has {wrong}, 2 nodes have {there}"
    )
    patch = found["resourceName"]["changes"][0]["patch"]
    assert {(step["op"], step["path"].split("/")[-2], step["path"].split("/")[-1]) for step in patch} == {
        (op, field, name.replace("/", "~1"))
        for op, name in (("add", there), ("remove", wrong))
        for field in ("requests", "limits")
    }


def test_a_resource_of_a_device_class_is_written_as_the_class_is_called() -> None:
    tree = {
        "id": "one",
        "config": None,
        "pod": querying(f"{IMPLICIT}gpu.exmaple.com"),
        "objects": {
            "nodes": [node_tree("a")],
            "resourceslices": [published("a", "gpu-0")],
            "deviceclasses": [{"metadata": {"name": "gpu.example.com"}, "spec": {}}],
        },
    }
    decision = decide(parse_scenario(json.dumps(tree).encode(), "test", AS_1_37))
    found = trees_of(decision)
    assert found[0]["text"] == (
        f"request {IMPLICIT}gpu.example.com instead of {IMPLICIT}gpu.exmaple.com: "
        f"no node has {IMPLICIT}gpu.exmaple.com, a device class stands for {IMPLICIT}gpu.example.com"
    )


def trees_of(decision: Decision) -> list[Tree]:
    return suggestion_trees(suggested(decision) or (), decision.scenario, NO_SITUATION)


def test_the_template_is_changed_whether_it_has_requests_or_limits_alone() -> None:
    pod = querying("nvidia.com/gpus") | owned_by("DaemonSet")
    found, _ = queried(pod, nodes=[gpu_node("a")])
    words = shlex.split(found[0]["command"])
    assert words[:6] == ["kubectl", "patch", "daemonset", "web", "-n", "default"]
    assert "--type=json" not in words
    (container,) = json.loads(words[-1])["spec"]["template"]["spec"]["containers"]
    renamed = {"nvidia.com/gpu": "1", "nvidia.com/gpus": None}
    assert container == {"name": "main", "resources": {"requests": renamed, "limits": renamed}}


def test_where_no_name_is_near_it_is_said_what_nodes_have() -> None:
    nodes = [gpu_node("a"), gpu_node("b"), gpu_node("c", "intel.com/qat", "2")]
    (suggestion,) = queried(querying("example.com/license"), nodes=nodes)[0]
    assert suggestion["text"] == (
        "request no example.com/license (now 1): it is unavailable: no node has any; "
        "there is nvidia.com/gpu (on 2 nodes), intel.com/qat (on 1 node)"
    )


def test_a_near_name_is_said_where_it_alone_does_not_help_and_paired_with_what_does() -> None:
    user = querying("nvidia.com/gpu", "4")
    user["metadata"] |= {"name": "user", "uid": "user"}
    user["spec"]["nodeName"] = "a"
    found, _ = queried(querying("nvidia.com/gpus"), nodes=[gpu_node("a")], pods=[user])
    assert [each["kind"] for each in found] == ["resourceName+addNode", "resourceName+deletePods", "request"]
    assert "do you mean nvidia.com/gpu, which 1 node has?" in found[-1]["text"]


def test_a_resource_that_nodes_have_is_not_renamed_when_it_is_used_up() -> None:
    found, _ = queried(querying("nvidia.com/gpu", "8"), nodes=[gpu_node("a"), gpu_node("b", "amd.com/gpu", "8")])
    assert "resourceName" not in [each["kind"] for each in found]


# --- what gives up what the pod is for --------------------------------------------------------------------------------


def test_for_many_pods_a_device_is_given_up_only_where_nothing_else_helps() -> None:
    """Without the GPU all of them would fit; a node more helps fewer, and is what anybody wants."""
    pod = querying("nvidia.com/gpu", "2")
    user = querying("nvidia.com/gpu", "4")
    user["metadata"] |= {"name": "user", "uid": "user"}
    user["spec"]["nodeName"] = "a"
    tree = {"id": "one", "config": None, "objects": {"nodes": [gpu_node("a")], "pods": [user]}, "pod": pod}
    decision = decide(parse_scenario(json.dumps(tree).encode(), "test:1"))
    assert decision.profile is not None
    assert decision.cache is not None
    pods = [PodInfo(decision.scenario.pod)]
    for number in range(1, 6):
        metadata = {**pod["metadata"], "name": f"web-{number}", "uid": f"uid-{number}"}
        pods.append(PodInfo(convert({**pod, "metadata": metadata}, Pod)))
    best = common_change(decision.profile, pods, decision.cache, None)
    assert best is not None
    assert (best.suggestion.steps[0].facts.kind, best.frees) == ("addNode", 2)


# --- objects that the pod names ---------------------------------------------------------------------------------------


def named(kind: str, *keys: str) -> list[Tree]:
    """Objects of these names, as namespace/name."""
    spec: Tree = {"spec": {}} if kind == "resourceclaimtemplates" else {}
    return [{"metadata": dict(zip(("namespace", "name"), key.split("/"), strict=True)), "spec": spec} for key in keys]


ELSEWHERE = "; it exists in namespace team-b, which pods of default cannot name"
NAMING: dict[str, Callable[[str], Tree]] = {
    "resourceclaims": lambda name: {"resourceClaims": [{"name": "c", "resourceClaimName": name}]},
    "resourceclaimtemplates": lambda name: {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": name}]},
    "persistentvolumeclaims": lambda name: {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
    },
}


@pytest.mark.parametrize("plural", sorted(NAMING))
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("sharedd", "; do you mean shared?", id="nearly the name"),
        pytest.param(
            "of-another", "; it exists in namespace team-b, which pods of default cannot name", id="elsewhere"
        ),
        pytest.param("something-else", "", id="nothing like it"),
    ],
)
def test_of_an_object_that_does_not_exist_it_is_said_what_may_be_meant(plural: str, name: str, hint: str) -> None:
    there: Any = {plural: named(plural, "default/shared", "team-b/of-another", "team-b/shared")}
    found, text = queried(pod_tree(**NAMING[plural](name)), nodes=[node_tree("a")], **there)
    assert found == []
    line = " ".join(text.split()).replace(", which the pod's claim c is made from", "")
    assert line.startswith("it waits for a missing object: create ")
    assert line.endswith(f"{name} in namespace default{hint}")


def test_a_priority_class_that_does_not_exist_is_named_with_the_one_that_may_be_meant() -> None:
    found = Manifests(priority_classes={"training": {"metadata": {"name": "training"}, "value": 5}})
    tree = {"metadata": {"name": "p"}, "spec": {"priorityClassName": "trainning", "containers": []}}
    fill_in_pod(tree, found, "p.yaml")
    (note,) = found.notes
    assert note.endswith(
        "priority 0 is presumed; do you mean training? An API server refuses pods of a class that does not exist"
    )


# --- tolerations ------------------------------------------------------------------------------------------------------


def tainted(name: str, value: str, key: str = "nvidia.com/gpu") -> Tree:
    return node_tree(name, taints=[{"key": key, "value": value, "effect": "NoSchedule"}])


@pytest.mark.parametrize(
    ("toleration", "reported"),
    [
        pytest.param(
            {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
            "nvidia.com/gpu=true:NoSchedule",
            id="value",
        ),
        pytest.param({"key": "nvidia.com/gpu", "value": "true"}, "nvidia.com/gpu=true", id="value, of all effects"),
        pytest.param(
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoExecute"},
            "nvidia.com/gpu=present:NoExecute",
            id="effect",
        ),
        pytest.param({"key": "nvidia.com/gpus", "operator": "Exists"}, "nvidia.com/gpus", id="key"),
    ],
)
def test_a_toleration_that_tolerates_nothing_is_changed_instead_of_one_more_added(
    toleration: Tree, reported: str
) -> None:
    other = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    nodes = [tainted("a", "present")]
    found = suggested_for(scenario(pod_tree(tolerations=[other, toleration]), nodes=nodes))["toleration"]
    assert found["text"] == (
        f"tolerate the taint nvidia.com/gpu=present:NoSchedule: there is a toleration of {reported}, which no node has"
    )
    (step,) = found["changes"][0]["patch"]
    assert (step["op"], step["path"]) == ("replace", "/spec/tolerations/1")
    # The API server lets nobody change a toleration of a pod that exists: there one more is added.
    (added,) = json.loads(shlex.split(found["command"])[-1])
    assert (added["op"], added["path"], added["value"]) == ("add", "/spec/tolerations/-", step["value"])
    pod = pod_tree(tolerations=[other, toleration]) | owned_by("DaemonSet")
    (of_template,) = json.loads(shlex.split(suggested_for(scenario(pod, nodes=nodes))["toleration"]["command"])[-1])
    assert (of_template["path"], of_template["value"]) == ("/spec/template/spec/tolerations", [step["value"]])


def test_a_toleration_of_what_another_node_has_is_left_as_it_is() -> None:
    pod = pod_tree(cpu="3", tolerations=[{"key": "dedicated", "operator": "Equal", "value": "a"}])
    small = tainted("small", "a", "dedicated")
    small["status"]["allocatable"]["cpu"] = "1"
    found = suggested_for(scenario(pod, nodes=[small, tainted("b", "b", "dedicated")]))["toleration"]
    assert found["changes"][0]["patch"][0]["path"] == "/spec/tolerations/-"


def test_a_wrong_resource_and_a_wrong_toleration_are_both_corrected_before_a_node_is_changed() -> None:
    node = gpu_node("a")
    node["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    pod = querying("nvidia.com/gpus") | owned_by("DaemonSet")
    pod["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    found, _ = queried(pod, nodes=[node])
    assert found[0]["kind"] == "resourceName+toleration"
    # What a template may lack is merged, never removed by a JSON patch.
    of_resources, of_tolerations = found[0]["command"].split(" && ")
    assert "--type=json" not in of_resources
    assert [step["path"] for step in json.loads(shlex.split(of_tolerations)[-1])] == ["/spec/template/spec/tolerations"]
