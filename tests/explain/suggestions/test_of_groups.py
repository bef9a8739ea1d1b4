"""What would make a gang fit: each suggestion, applied to the JSON, gives the gang nodes, and nothing less does."""

import asyncio
import copy
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL, VOLCANO_ANNOTATION
from kscheduler.api.machinery.resources import PODS, served_kinds
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.loader import default_configuration
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.explain.explanation import answered
from kscheduler.explain.queries.explain_query import GroupExplainQuery
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.scenario import GroupScenario, parse_line
from kscheduler.state.group_apis import SCHEDULER_PLUGINS, VOLCANO
from tests.effort import example_count
from tests.explain.as_json import as_json
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.suggestions.random_scenarios import AS_1_37

MEMBERS = pytest.mark.slow("a group of thousands of members")

GATES = {"GenericWorkload": True}


def gang(members: int, nodes: list[Tree], *, cpu: str = "2", needs: int | None = None, **more: Any) -> Tree:
    """A gang that needs all of its members, unless `needs` says otherwise; `more` is in each member's spec."""
    pods = [member(f"m-{number}", cpu=cpu, **more) for number in range(members)]
    count = members if needs is None else needs
    group = {
        "metadata": {"name": "gang", "namespace": "default", "uid": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": count}}},
    }
    objects = {"nodes": nodes, "pods": pods, "podgroups": [group]}
    return {"id": "one", "config": None, "gates": GATES, "objects": objects, "podGroup": "default/gang"}


def member(name: str, *, cpu: str = "2", **more: Any) -> Tree:
    return pod_tree(name, cpu=cpu, schedulingGroup={"podGroupName": "gang"}, **more)


def decided(scenario: Tree) -> tuple[GroupScenario, GroupDecision]:
    built_in = default_configuration(DEFAULT_SCHEDULER_NAME, AS_1_37)
    query = parse_line(json.dumps(scenario).encode(), "test:1", built_in)
    assert isinstance(query, GroupScenario)
    return query, decide_group(query)


def queried(scenario: Tree) -> tuple[list[Tree] | None, str]:
    """The suggestions as `-o json` prints them, and the text."""
    query, decision = decided(scenario)
    explanation = answered(GroupExplainQuery(query), decision)
    return as_json(explanation.answer)["suggestions"], explanation.as_text()


def fits(scenario: Tree) -> bool:
    _, decision = decided(scenario)
    return decision.pre_enqueue is None and decision.status is not None and decision.status.is_success


def after(scenario: Tree, changes: list[Tree]) -> Tree:
    """The scenario with the changes."""
    changed: Tree = copy.deepcopy(scenario)
    for change in changes:
        listed = changed["objects"][change["resource"]]
        at = [number for number, obj in enumerate(listed) if obj["metadata"]["name"] == change["name"]]
        if at:
            listed[at[0]] = jsonpatch.apply_patch(listed[at[0]], change["patch"])
        else:
            listed.append(jsonpatch.apply_patch({}, change["patch"]))
    return changed


def by_kind(scenario: Tree) -> dict[str, Tree]:
    """The best suggestion of each kind. Each of them holds."""
    found, _ = queried(scenario)
    assert found
    for suggestion in found:
        assert fits(after(scenario, suggestion["changes"])), suggestion["text"]
    return {suggestion["kind"]: suggestion for suggestion in reversed(found)}


def test_as_many_nodes_are_added_as_the_whole_gang_needs_and_no_more() -> None:
    scenario = gang(7, [node_tree("a", cpu="4")])
    suggestion = by_kind(scenario)["addNode"]
    assert suggestion["text"] == "add 3 nodes like a"
    assert [change["name"] for change in suggestion["changes"]] == ["a-copy-1", "a-copy-2", "a-copy-3"]
    assert (suggestion["nodes"], suggestion["steps"][0]["facts"]["placed"]) == (4, 7)
    assert not fits(after(scenario, suggestion["changes"][:2]))


def test_of_two_shapes_the_one_is_added_of_which_fewer_are_needed() -> None:
    nodes = [node_tree("small-1", cpu="2"), node_tree("small-2", cpu="2"), node_tree("large", cpu="8")]
    assert by_kind(gang(12, nodes))["addNode"]["text"] == "add 2 nodes like large"


def test_a_copy_gets_a_name_that_no_node_has() -> None:
    nodes = [node_tree("a", cpu="2"), node_tree("a-copy-2", cpu="2")]
    names = [change["name"] for change in by_kind(gang(4, nodes))["addNode"]["changes"]]
    assert names == ["a-copy-1", "a-copy-3"]


def test_a_gang_could_be_smaller_by_the_members_that_find_no_node() -> None:
    found = by_kind(gang(5, [node_tree("a", cpu="4"), node_tree("b", cpu="2")]))
    assert found["groupMinCount"]["text"] == "let pod group default/gang need 3 members instead of 5"
    assert found["groupMinCount"]["command"].startswith(
        "kubectl patch podgroups.scheduling.k8s.io gang -n default --type=json"
    )


def test_all_members_could_request_less() -> None:
    scenario = gang(3, [node_tree("a", cpu="4")])
    suggestion = by_kind(scenario)["request"]
    assert suggestion["text"].startswith("in each member: request 1333m of cpu")
    assert len(suggestion["changes"]) == 3


def test_of_a_resource_that_too_few_have_the_text_says_how_much_there_is() -> None:
    nodes = [node_tree("a"), node_tree("b")]
    scenario = gang(3, nodes, cpu="1")
    for pod in scenario["objects"]["pods"]:
        pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    assert by_kind(scenario)["request"]["text"].endswith("(now 1): it is unavailable: no node has any")
    nodes[1]["status"]["allocatable"]["example.com/gpu"] = "2"
    assert by_kind(scenario)["request"]["text"].endswith(
        "(now 1): the nodes that they may be on have too little free (1 node has 2 in all, 2 free)"
    )


def test_the_command_is_one_of_the_controller_that_makes_all_members() -> None:
    scenario = gang(3, [node_tree("a", cpu="4")])
    for pod in scenario["objects"]["pods"]:
        pod["metadata"]["ownerReferences"] = [_stateful_set("train")]
    command = by_kind(scenario)["request"]["command"]
    assert command.count("kubectl set resources statefulset train") == 1
    assert all(f"m-{number}" in command for number in range(3))


@pytest.mark.parametrize("members", [12, 100])
def test_members_of_a_stateful_set_are_deleted_by_one_command_after_its_template_is_changed(members: int) -> None:
    scenario = gang(members, [_roomy("4")])
    for pod in scenario["objects"]["pods"]:
        pod["metadata"]["ownerReferences"] = [_stateful_set("train")]
    changed, deleted = by_kind(scenario)["request"]["command"].split(" && ")
    assert changed.startswith("kubectl set resources statefulset train -n default ")
    names = [pod["metadata"]["name"] for pod in scenario["objects"]["pods"]]
    assert sorted(deleted.split()) == sorted(["kubectl", "delete", "pod", *names, "-n", "default"])


def test_of_a_leader_and_workers_only_those_that_change_are_deleted() -> None:
    scenario = gang(10, [_roomy("8")], cpu="6")
    scenario["objects"]["pods"][0] = member("leader", cpu="1")
    for pod, name in zip(scenario["objects"]["pods"], ["lead", *["work"] * 9], strict=True):
        pod["metadata"]["ownerReferences"] = [_stateful_set(name)]
    command = by_kind(scenario)["request"]["command"]
    assert "statefulset work " in command
    assert "lead" not in command
    assert command.count("kubectl delete pod") == 1


@MEMBERS
@pytest.mark.parametrize("is_of_a_set", [True, False], ids=["of a set", "alone"])
def test_too_many_members_to_name_get_no_command_and_are_reported_why(is_of_a_set: bool) -> None:
    scenario = gang(101, [_roomy("4")])
    if is_of_a_set:
        for pod in scenario["objects"]["pods"]:
            pod["metadata"]["ownerReferences"] = [_stateful_set("train")]
    request = by_kind(scenario)["request"]
    assert request["command"] == ""
    assert request["commandNote"] == (
        "no single command does it: 101 members would have to change, and a command names 100 at most: "
        "change what makes them"
    )


def test_the_members_of_many_sets_get_no_command_and_are_reported_why() -> None:
    scenario = gang(9, [_roomy("4")])
    for number, pod in enumerate(scenario["objects"]["pods"]):
        pod["metadata"]["ownerReferences"] = [_stateful_set(f"train-{number}")]
    request = by_kind(scenario)["request"]
    assert request["command"] == ""
    assert request["commandNote"].endswith("their makers are too many for one line: change the template of each")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH: the command is UNTESTED")
@pytest.mark.parametrize("kind", ["request", "toleration"])
async def test_members_without_a_controller_are_changed_by_one_command_that_kubectl_takes(
    kind: str, tmp_path: Path
) -> None:
    taints = [{"key": "gpu", "value": "", "effect": "NoSchedule"}] if kind == "toleration" else []
    node = node_tree("a", cpu="4" if kind == "request" else "40", taints=taints)
    node["status"]["allocatable"] |= {"memory": "1Ti", "pods": "500"}
    scenario = gang(12, [node], cpu="1")
    command = by_kind(scenario)[kind]["command"]
    assert command.startswith("kubectl get pod m-0 m-1 ")
    assert command.count("kubectl get") == 1
    async with EmbeddedAPIServer(seed=1, kinds=served_kinds("1.37", lambda gate: gate in GATES)) as server:
        for tree in scenario["objects"]["pods"]:
            server.registry.create(PODS, "default", tree)
        config = tmp_path / "config"
        config.write_text(server.kubeconfig_text())
        environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}
        process = await asyncio.create_subprocess_shell(command, env=environment)
        assert await process.wait() == 0
        records = [server.store.get("pods", "default", f"m-{number}") for number in range(12)]
    assert None not in records
    for pod in (record.value for record in records if record is not None):
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        tolerated = [each for each in pod["spec"].get("tolerations", ()) if each.get("key") == "gpu"]
        assert bool(tolerated) == (kind == "toleration")
        assert requests["cpu"] == ("333m" if kind == "request" else "1")


def _roomy(cpu: str) -> Tree:
    """A node that only its CPUs make too small."""
    node = node_tree("a", cpu=cpu)
    node["status"]["allocatable"] |= {"memory": "1Ti", "pods": "500"}
    return node


def _stateful_set(name: str) -> Tree:
    return {"kind": "StatefulSet", "name": name, "controller": True, "apiVersion": "apps/v1", "uid": f"uid-{name}"}


def test_members_that_jobs_make_get_no_command_but_are_reported_whose_template_to_change() -> None:
    scenario = gang(4, [node_tree("a", cpu="4")])
    for number, pod in enumerate(scenario["objects"]["pods"]):
        owner = {
            "kind": "Job",
            "name": f"train-{number // 2}",
            "controller": True,
            "apiVersion": "batch/v1",
            "uid": "u",
        }
        pod["metadata"]["ownerReferences"] = [owner]
    found, text = queried(scenario)
    (request,) = [each for each in found or () if each["kind"] == "request"]
    assert request["command"] == ""
    assert "job/train-0, job/train-1 recreate their pods" in request["commandNote"]
    assert request["commandNote"] in text


def test_of_a_leader_and_workers_each_alone_could_request_less() -> None:
    scenario = gang(3, [node_tree("a", cpu="8"), node_tree("b", cpu="4")])
    scenario["objects"]["pods"][0] = member("leader", cpu="60")
    found, text = queried(scenario)
    (request,) = [each for each in found or () if each["kind"] == "request"]
    assert request["text"].startswith("in leader: request 8 of cpu instead of 60")
    assert [change["name"] for change in request["changes"]] == ["leader"]
    assert request["command"].startswith("kubectl get pod leader ")
    assert (
        request["commandNote"] == "the command deletes leader and creates it again: a pod cannot be changed so in place"
    )
    assert fits(after(scenario, request["changes"]))
    assert request["text"] in text


def test_the_workers_alone_could_request_less() -> None:
    scenario = gang(3, [node_tree("a", cpu="8")], cpu="6")
    scenario["objects"]["pods"][0] = member("leader", cpu="4")
    suggestion = by_kind(scenario)["request"]
    assert suggestion["text"].startswith("in the 2 members like m-1: request 2 of cpu instead of 6")


def test_what_a_leader_and_workers_all_ask_for_they_could_all_give_up() -> None:
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    scenario = gang(3, [node_tree("a", cpu="8", taints=[taint])])
    scenario["objects"]["pods"][0] = member("leader", cpu="4")
    assert by_kind(scenario)["toleration"]["text"] == "in each member: tolerate the taint gpu:NoSchedule"


def test_all_members_could_tolerate_a_taint() -> None:
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    found = by_kind(gang(2, [node_tree("a", cpu="4", taints=[taint])]))
    assert found["toleration"]["text"] == "in each member: tolerate the taint gpu:NoSchedule"


def test_a_gang_that_lacks_members_could_get_them_and_is_tried_as_a_whole() -> None:
    found = by_kind(gang(2, [node_tree("a", cpu="4")], needs=4, cpu="1"))
    assert found["groupMinCount"]["steps"][0]["facts"]["to"] == 2
    assert found["groupMembers"]["text"] == ("create 2 more members of pod group default/gang: it needs 4 and has 2")
    _, text = queried(gang(2, [node_tree("a", cpu="4")], needs=4, cpu="1"))
    assert text.splitlines()[0] == "pod group default/gang is not tried: 2 of 4 members are there"


@pytest.mark.parametrize(
    ("label", "group"),
    [(SCHEDULER_PLUGINS.name, "scheduling.x-k8s.io"), (VOLCANO.name, "scheduling.volcano.sh")],
)
@pytest.mark.parametrize("members", [2, 5])
def test_gangs_of_other_apis_could_be_smaller_or_get_members(label: str, group: str, members: int) -> None:
    scenario = gang(members, [node_tree("a", cpu="3")], cpu="1")
    for pod in scenario["objects"]["pods"]:
        del pod["spec"]["schedulingGroup"]
        pod["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: "g"}
        pod["metadata"]["annotations"] = {VOLCANO_ANNOTATION: "g"}
    scenario["objects"]["podgroups"] = []
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podGroupAPIs": [label],
        "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME}],
    }
    scenario |= {"config": configuration, "gates": {}, "podGroup": "default/g"}
    built_in = default_configuration(DEFAULT_SCHEDULER_NAME, AS_1_37)
    query = parse_line(json.dumps(scenario).encode(), "test:1", built_in)
    assert isinstance(query, GroupScenario)
    known = GroupDefinition(GroupKey(group, "default", "g"), min_count=max(members, 3))
    query = replace(query, definitions=(known,))
    explanation = answered(GroupExplainQuery(query), decide_group(query))
    found = {each["kind"]: each for each in as_json(explanation.answer)["suggestions"]}
    smaller = {2: 2, 5: 3}[members]
    patch = f'[{{"op":"replace","path":"/spec/minMember","value":{smaller}}}]'
    assert found["groupMinCount"]["command"] == (
        f"kubectl patch podgroups.{group} g -n default --type=json -p '{patch}'"
    )
    assert found["groupMinCount"]["changes"][0]["resource"] == f"podgroups.{group}"
    assert ("groupMembers" in found) == (members == 2)


def test_a_topology_that_no_node_has_is_reported_and_could_be_dropped() -> None:
    scenario = gang(2, [node_tree("a", cpu="4")])
    scenario["gates"] = {**GATES, "TopologyAwareWorkloadScheduling": True}
    constraints = {"topology": [{"key": "example.com/rack"}]}
    scenario["objects"]["podgroups"][0]["spec"]["schedulingConstraints"] = constraints
    found, text = queried(scenario)
    assert "  no node has label example.com/rack, which its topology constraint names" in text.splitlines()
    assert [each["kind"] for each in found or ()] == ["groupTopology"]
    (dropped,) = by_kind(scenario).values()
    assert dropped["text"] == (
        "let pod group default/gang be placed anywhere, without its topology constraint on example.com/rack"
    )
    assert dropped["command"] == ""
    assert "a group's constraint is for good" in dropped["commandNote"]


def test_a_member_whose_claim_is_missing_is_reported_what_to_create() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "shared"}]
    _, text = queried(gang(2, [node_tree("a", cpu="4")], cpu="1", resourceClaims=claims))
    assert text.splitlines()[-1] == "it waits for a missing object: create ResourceClaim shared in namespace default"


def test_the_text_says_how_many_members_get_a_node() -> None:
    _, text = queried(gang(3, [node_tree("a", cpu="2")]))
    assert "changes that would make it fit, the smallest first; each was tried:" in text
    assert "add 2 nodes like a (3 of 3 waiting members, on 3 nodes)" in text


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(lambda: gang(2, [node_tree("a", cpu="4")]), id="a gang that fits"),
        pytest.param(lambda: gang(2, []), id="no nodes at all"),
    ],
)
def test_nothing_is_suggested_where_nothing_can_be_said(scenario: Callable[[], Tree]) -> None:
    found, _ = queried(scenario())
    assert found is None


@settings(max_examples=example_count(30), deadline=None)
@given(
    st.lists(st.sampled_from(["1", "2", "3", "5"]), min_size=1, max_size=4),
    st.integers(1, 9),
    st.sampled_from(["1", "2", "3"]),
    st.booleans(),
)
def test_each_suggestion_for_a_random_gang_holds_and_one_node_less_does_not(
    sizes: list[str], members: int, cpu: str, is_apart: bool
) -> None:
    rules: Tree = (
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_apart()]}} if is_apart else {}
    )
    nodes = [node_tree(f"n-{number}", cpu=size) for number, size in enumerate(sizes)]
    for node in nodes:
        node["metadata"]["labels"] = {"kubernetes.io/hostname": node["metadata"]["name"]}
    scenario = gang(members, nodes, cpu=cpu, affinity=rules)
    for pod in scenario["objects"]["pods"]:
        pod["metadata"]["labels"] = {"app": "gang"}
    found, _ = queried(scenario)
    assert (found is None) == fits(scenario)
    for suggestion in found or ():
        assert fits(after(scenario, suggestion["changes"])), suggestion["text"]
        if suggestion["kind"] == "addNode":
            assert not fits(after(scenario, suggestion["changes"][:-1]))


def _apart() -> Tree:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "gang"}}}


def in_rack(name: str, rack: str, block: str = "b0") -> Tree:
    tree = node_tree(name, cpu="8")
    tree["metadata"]["labels"] = {"example.com/block": block, "example.com/rack": rack}
    return tree


def test_nodes_are_added_where_kubernetes_own_constraint_lacks_the_fewest() -> None:
    nodes = [in_rack("a", "r0"), in_rack("b", "r0"), in_rack("c", "r1"), in_rack("d", "r1"), in_rack("e", "r1")]
    scenario = gang(8, nodes, cpu="3")
    scenario["objects"]["pods"] += [pod_tree(f"busy-{name}", cpu="6", nodeName=name) for name in "abc"]
    scenario["gates"] = {**GATES, "TopologyAwareWorkloadScheduling": True}
    constraints = {"topology": [{"key": "example.com/rack"}]}
    scenario["objects"]["podgroups"][0]["spec"]["schedulingConstraints"] = constraints
    assert by_kind(scenario)["addNode"]["text"] == "add 2 nodes like c"


@pytest.mark.parametrize("asked", ["required", "slice-required"])
def test_racks_of_one_name_in_two_blocks_are_two_domains(asked: str) -> None:
    nodes = [in_rack(name, "r0", block) for name, block in zip("abcd", ["b0", "b0", "b1", "b1"], strict=True)]
    scenario = gang(6, nodes, cpu="3")
    scenario["objects"]["pods"] += [pod_tree(f"busy-{name}", cpu="6", nodeName=name) for name in "ab"]
    scenario["gates"] = {**GATES, "TopologyAwareWorkloadScheduling": True}
    annotations = {f"kueue.x-k8s.io/podset-{asked}-topology": "example.com/rack"}
    if asked == "slice-required":
        annotations["kueue.x-k8s.io/podset-slice-size"] = "6"
    scenario["objects"]["podgroups"][0]["metadata"]["annotations"] = annotations
    scenario["config"] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "topologyLevels": [["example.com/block", "example.com/rack"]],
        "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME}],
    }
    assert by_kind(scenario)["addNode"]["text"] == "add a node like c"
