"""An explanation says which devices the claims of a pod, or of a group's members, have or get."""

import json
from typing import Any

import pytest

from kscheduler.assembly import Ports
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import default_configuration
from kscheduler.explain.group_text import group_text
from kscheduler.explain.pod_text import decision_text
from kscheduler.explain.queries.explain_query import query_about
from kscheduler.scenario.decide import cluster_cache, decide, prepare_over, profile_of
from kscheduler.scenario.decide_group import decide_group
from kscheduler.scenario.scenario import GroupScenario, parse_line, parse_scenario
from kscheduler.scenario.serving import Serving
from tests.explain.as_json import decision_tree, group_tree
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.schema import assert_valid

DRIVER = "gpu.example.com"
AS_1_37 = default_configuration("default-scheduler", FeatureGates(version="1.37"))


def published(node: str, *devices: str) -> Tree:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": name} for name in devices]}
    return {"metadata": {"name": f"slice-{node}"}, "spec": spec}


def claim(name: str, *held: str) -> Tree:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    own = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    results = [{"request": "r", "driver": DRIVER, "pool": "a", "device": device} for device in held]
    return own | ({"status": {"allocation": {"devices": {"results": results}}}} if held else {})


def scenario(pods: list[Tree], claims: list[Tree], **more: Any) -> bytes:
    resource = {"extendedResourceName": "example.com/gpu"}
    objects = {
        "nodes": [node_tree("a"), node_tree("b")],
        "pods": pods,
        "resourceclaims": claims,
        "resourceslices": [published("a", "gpu-0", "gpu-1"), published("b", "gpu-2")],
        "deviceclasses": [{"metadata": {"name": "gpu"}, "spec": resource}],
        **more.pop("objects", {}),
    }
    return json.dumps({"id": "one", "objects": objects, **more}).encode()


def named(*claims: str) -> list[Tree]:
    return [{"name": name, "resourceClaimName": name} for name in claims]


def test_each_node_that_fits_is_reported_with_its_devices() -> None:
    line = scenario([], [claim("c"), claim("held", "gpu-0")], pod=pod_tree(resourceClaims=named("held", "c")))
    decision = decide(parse_scenario(line, "test", AS_1_37))
    tree = json.loads(json.dumps(decision_tree(decision)))
    assert_valid(tree)
    found = {node: [(each["claim"], each["device"]) for each in reported] for node, reported in tree["devices"].items()}
    assert found == {"a": [("held", "gpu-0"), ("c", "gpu-1")], "b": [("held", "gpu-0"), ("c", "gpu-2")]}
    assert [each["isAllocated"] for each in tree["devices"]["a"]] == [True, False]
    text = decision_text(decision)
    goes = tree["node"]
    assert f"devices on {goes}\n    held, r  {DRIVER}/a/gpu-0  has it\n" in text


def test_devices_of_extended_resources_are_reported() -> None:
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2"
    tree = decision_tree(decide(parse_scenario(scenario([], [], pod=pod), "test", AS_1_37)))
    assert [(each["claim"], each["device"]) for each in tree["devices"]["a"]] == [
        ("<extended-resources>", "gpu-0"),
        ("<extended-resources>", "gpu-1"),
    ]
    assert list(tree["devices"]) == ["a"]


def test_what_stands_in_a_claims_way_is_reported_as_text_and_as_json() -> None:
    wanted = claim("c")
    selector = f'device.attributes["{DRIVER}"].model == "big"'
    wanted["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": selector}}]
    slices = [published("a", "gpu-0"), published("b", "gpu-2")]
    slices[0]["spec"]["devices"][0]["attributes"] = {"model": {"string": "small"}}
    slices[1]["spec"]["pool"]["resourceSliceCount"] = 2
    line = scenario([], [wanted], pod=pod_tree(resourceClaims=named("c")), objects={"resourceslices": slices})
    decision = decide(parse_scenario(line, "test", AS_1_37))
    tree = json.loads(json.dumps(decision_tree(decision)))
    assert_valid(tree)
    text = " ".join(decision_text(decision).split())
    assert f'{selector} does not match the only device of class gpu ({DRIVER}/model is "small") (1: a)' in text
    assert f"pool b of driver {DRIVER} is being updated: its driver has published 1 of 2 slices" in text
    facts = {each["nodes"][0]: each["facts"]["obstacles"] for each in tree["rejections"][0]["details"]}
    assert facts["a"]["requests"][0]["unmatched"][0]["attributes"][0]["values"] == ['"small"']
    assert facts["b"]["pools"][0]["sliceCount"] == 2


def running_with_devices() -> tuple[Tree, Tree]:
    """A pod on node `a` with both of its devices as extended resources, and its claim."""
    pod = pod_tree(nodeName="a")
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2"
    own = claim("own", "gpu-0", "gpu-1")
    uid = pod["metadata"]["uid"]
    own["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": True}],
    }
    own["status"]["reservedFor"] = [{"resource": "pods", "name": "web", "uid": uid}]
    return pod, own


@pytest.mark.parametrize("is_in_service", [False, True])
def test_the_claim_for_extended_resources_of_a_running_pod_is_its_own(is_in_service: bool) -> None:
    pod, own = running_with_devices()
    read = parse_scenario(scenario([pod], [own], pod=pod), "test", AS_1_37)
    query = query_about(read.pod, read.objects, Serving(AS_1_37, "here"), "test")
    if is_in_service:
        cache = cluster_cache(read.objects, None, AS_1_37.gates)
        profile = profile_of(read, cache, None, Ports())
        decision = prepare_over(query.scenario, cache, profile).decide()
    else:
        decision = query.decide()
    assert decision.record is not None
    assert decision.record.node_name == "a"


def test_the_claim_for_extended_resources_of_a_waiting_pod_is_left_over() -> None:
    pod, own = running_with_devices()
    pod["spec"]["nodeName"] = ""
    decision = decide(parse_scenario(scenario([], [own], pod=pod), "test", AS_1_37))
    assert decision.record is not None
    assert "cannot schedule extended resource claim" in decision.record.message


@pytest.mark.parametrize("pod", [pod_tree(), pod_tree(cpu="9", resourceClaims=named("c"))])
def test_without_claims_or_nodes_no_devices_are_reported(pod: Tree) -> None:
    tree = decision_tree(decide(parse_scenario(scenario([], [claim("c")], pod=pod), "test", AS_1_37)))
    assert tree["devices"] is None


def test_members_of_a_group_are_reported_with_their_devices() -> None:
    members = [
        pod_tree(f"m-{number}", schedulingGroup={"podGroupName": "g"}, resourceClaims=named("shared", f"own-{number}"))
        for number in range(2)
    ]
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    everywhere = published("fabric", "x-0", "x-1", "x-2")
    everywhere["spec"] |= {"nodeName": None, "allNodes": True}
    line = scenario(
        members,
        [claim("shared"), claim("own-0"), claim("own-1")],
        podGroup="default/g",
        gates={"GenericWorkload": True},
        objects={"podgroups": [group], "resourceslices": [everywhere]},
    )
    read = parse_line(line, "test", AS_1_37)
    assert isinstance(read, GroupScenario)
    decision = decide_group(read)
    found = group_tree(decision)["devices"]
    assert found is not None
    reported = {name: [(each["claim"], each["device"]) for each in devices] for name, devices in found.items()}
    assert reported["m-0"] == [("shared", "x-0"), ("own-0", "x-1")]
    assert reported["m-1"] == [("shared", "x-0"), ("own-1", "x-2")]
    assert f"with {DRIVER}/fabric/x-0 (shared, r), {DRIVER}/fabric/x-1 (own-0, r)" in group_text(decision)


def test_nodes_that_are_rejected_with_one_sentence_are_one_paragraph() -> None:
    """Though what else they reach differs, which JSON has."""
    nodes = [node_tree(name) for name in "abc"]
    others = [published(name, *(f"o{each}" for each in range(number))) for number, name in enumerate("abc", 1)]
    for other in others:
        other["metadata"]["name"] += "-other"
        other["spec"]["driver"] = "nic.example.com"
    objects = {
        "nodes": nodes,
        "resourceslices": [*(published(name, "gpu-0") for name in "abc"), *others],
        "deviceclasses": [
            {
                "metadata": {"name": "gpu"},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
            }
        ],
    }
    many = claim("many")
    many["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    line = scenario([], [many], pod=pod_tree(resourceClaims=named("many")), objects=objects)
    decision = decide(parse_scenario(line, "test", AS_1_37))
    text = " ".join(decision_text(decision).split())
    assert text.count("claim many (r: 2 of class gpu) cannot be served") == 1
    (rejection,) = decision_tree(decision)["rejections"]
    assert [each["facts"]["reached"] for each in rejection["details"]] == [2, 3, 4]
