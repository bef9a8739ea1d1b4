"""One more node brings its devices: it is suggested to pods and gangs that need devices, with what makes it help."""

import json
from typing import Any

from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.suggestion_rules import suggested
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from tests.explain.as_json import suggestion_trees
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.suggestions.applied import applied
from tests.explain.suggestions.test_of_groups import by_kind, gang
from tests.explain.test_devices import AS_1_37, DRIVER, claim, named, published


def cluster(**more: Any) -> Tree:
    """Node `b` alone has a device, and it is taken."""
    return {
        "nodes": [node_tree(name) for name in ("a", "b", "c")],
        "pods": [],
        "resourceclaims": [claim("mine"), taken()],
        "resourceslices": [published("b", "gpu-0")],
        "deviceclasses": [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}],
        **more,
    }


def taken() -> Tree:
    held = claim("theirs", "gpu-0")
    (result,) = held["status"]["allocation"]["devices"]["results"]
    result["pool"] = "b"
    return held


def added(scenario: Tree) -> Tree | None:
    decision = decide(parse_scenario(json.dumps(scenario).encode(), "test", AS_1_37))
    trees = suggestion_trees(suggested(decision) or (), decision.scenario, NO_SITUATION)
    return next((tree for tree in trees if tree["kind"] == "addNode"), None)


def test_a_pod_with_a_claim_is_reported_which_node_has_the_devices() -> None:
    scenario: Tree = {"pod": pod_tree(resourceClaims=named("mine")), "objects": cluster()}
    suggestion = added(scenario)
    assert suggestion is not None
    assert suggestion["text"] == "add a node like b"
    node, piece = suggestion["changes"]
    assert (node["resource"], node["name"]) == ("nodes", "b-copy-1")
    value = piece["patch"][0]["value"]
    assert (piece["resource"], value["apiVersion"], value["kind"]) == (
        "resourceslices",
        "resource.k8s.io/v1",
        "ResourceSlice",
    )
    assert (value["spec"]["driver"], value["spec"]["nodeName"], value["spec"]["pool"]["name"]) == (
        DRIVER,
        "b-copy-1",
        "b-copy-1",
    )
    after = decide(parse_scenario(json.dumps(applied(scenario, suggestion)).encode(), "test", AS_1_37))
    assert after.record is not None
    assert after.record.node_name == "b-copy-1"


def test_a_pod_with_a_resource_that_devices_stand_for_is_reported_it_too() -> None:
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    suggestion = added({"pod": pod, "objects": cluster()})
    assert suggestion is not None
    assert suggestion["text"] == "add a node like b"


def test_a_gang_is_reported_how_many_nodes_with_devices_it_takes() -> None:
    scenario = gang(2, [])
    for number, member in enumerate(scenario["objects"]["pods"]):
        member["spec"]["resourceClaims"] = named(f"own-{number}")
    claims = [claim("own-0"), claim("own-1"), taken()]
    scenario["objects"] |= cluster(pods=scenario["objects"]["pods"], resourceclaims=claims)
    suggestion = by_kind(scenario)["addNode"]
    assert suggestion["text"] == "add 2 nodes like b"
    names = [change["name"] for change in suggestion["changes"] if change["resource"] == "nodes"]
    assert names == ["b-copy-1", "b-copy-2"]
