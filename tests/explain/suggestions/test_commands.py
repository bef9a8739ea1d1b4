"""The kubectl command of a suggestion, by who owns the pod; and what the text says."""

import json
import shlex
from typing import Any

import pytest

from kscheduler.explain.situation import NO_SITUATION, PodState, Situation
from kscheduler.explain.suggestions.as_text import suggestions_text
from kscheduler.explain.suggestions.suggestion_rules import suggested
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from kscheduler.text import PLAIN
from tests.explain.as_json import decision_tree, suggestion_trees
from tests.explain.scenarios import Tree, node_tree, pod_tree

TAINT = {"key": "team", "value": "a b", "effect": "NoSchedule"}
GPU_LIMIT = {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}


def queried(
    pod: Tree, *, nodes: Any = (), situation: Situation = NO_SITUATION, **objects: Any
) -> tuple[list[Tree], str]:
    """The suggestions as JSON, and the text."""
    tree = {"id": "one", "config": None, "objects": {"nodes": nodes, **objects}, "pod": pod}
    decision = decide(parse_scenario(json.dumps(tree).encode(), "test:1"))
    found = suggested(decision, situation)
    assert found is not None
    text = suggestions_text(found, decision.scenario, situation, PLAIN)
    return suggestion_trees(found, decision.scenario, situation), text


def command(kind: str, found: list[Tree]) -> str:
    (chosen,) = [each for each in found if each["kind"] == kind]
    return str(chosen["command"])


def owned_by(kind: str, name: str = "web") -> Tree:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1", "controller": True}
    return {"metadata": {**pod_tree()["metadata"], "ownerReferences": [owner]}}


def test_a_pod_without_a_template_is_made_anew() -> None:
    found, text = queried(pod_tree(cpu="3"), nodes=[node_tree("a", cpu="2")])
    assert command("request", found) == (
        "kubectl get pod web -n default -o yaml | kubectl patch --local -f - --type=json -p "
        '\'[{"op":"replace","path":"/spec/containers/0/resources/requests/cpu","value":"2"}]\' -o yaml'
        " | kubectl replace --force -f -"
    )
    assert "1. request 2 of cpu instead of 3 (1 node)" in text
    assert command("request", found) in text.splitlines()[3]


def test_a_deployment_is_changed_where_its_replica_set_names_it() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "2", "controller": True}
    replica_set = {"metadata": {"name": "web-5d", "namespace": "default", "ownerReferences": [owner]}}
    pod = pod_tree(cpu="3") | owned_by("ReplicaSet", "web-5d")
    found, _ = queried(pod, nodes=[node_tree("a", cpu="2")], replicasets=[replica_set])
    assert command("request", found) == "kubectl set resources deployment web -n default -c main --requests=cpu=2"


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_a_controller_that_keeps_its_pods_has_the_pod_deleted(kind: str) -> None:
    pod = pod_tree(nodeSelector={"disk": "ssd"}) | owned_by(kind)
    found, _ = queried(pod, nodes=[node_tree("a")])
    assert command("nodeSelector", found) == (
        f"kubectl patch {kind.lower()} web -n default --type=json -p "
        '\'[{"op":"remove","path":"/spec/template/spec/nodeSelector/disk"}]\' && kubectl delete pod web -n default'
    )


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        (
            "Job",
            "job/web recreates its pods from its template, which cannot be changed in place: change the template of",
        ),
        ("RayCluster", "raycluster/web recreates its pods from its template: change the template there"),
    ],
)
def test_no_command_replaces_a_pod_that_its_controller_would_make_anew_as_it_was(kind: str, note: str) -> None:
    found, text = queried(pod_tree(cpu="3") | owned_by(kind), nodes=[node_tree("a", cpu="2")])
    assert command("request", found) == ""
    assert note in found[0]["commandNote"]
    assert "(no single command does it:" in text
    found, _ = queried(pod_tree() | owned_by(kind), nodes=[node_tree("a", taints=[TAINT])])
    assert command("toleration", found).startswith("kubectl patch pod web ")


def test_a_stateful_set_that_another_kind_makes_is_not_changed_as_it_would_be_changed_back() -> None:
    owner = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "lws", "controller": True}
    made = {"metadata": {"name": "web", "namespace": "default", "ownerReferences": [owner]}}
    pod = pod_tree(cpu="3") | owned_by("StatefulSet")
    found, _ = queried(pod, nodes=[node_tree("a", cpu="2")], statefulsets=[made])
    assert command("request", found) == ""
    assert "leaderworkerset/lws recreates its pods" in found[0]["commandNote"]


def test_a_kind_of_the_same_name_in_another_group_is_not_taken_for_kubernetes_own() -> None:
    pod = pod_tree(cpu="3") | owned_by("StatefulSet")
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.kruise.io/v1beta1"
    assert command("request", queried(pod, nodes=[node_tree("a", cpu="2")])[0]) == ""


def test_a_daemon_set_replaces_its_pods_itself() -> None:
    pod = pod_tree(nodeSelector={"disk": "ssd"}) | owned_by("DaemonSet")
    assert "delete" not in command("nodeSelector", queried(pod, nodes=[node_tree("a")])[0])


@pytest.mark.parametrize(("kind", "is_of_template"), [("DaemonSet", False), ("ReplicaSet", True)])
def test_the_node_that_a_daemon_set_s_controller_names_in_each_pod_is_in_no_template(
    kind: str, is_of_template: bool
) -> None:
    names = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["full"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [names]}}
    pod = pod_tree(cpu="3", affinity={"nodeAffinity": required}) | owned_by(kind)
    found, _ = queried(pod, nodes=[node_tree("full", cpu="2"), node_tree("free", cpu="4")])
    assert ("nodeAffinity" in {each["kind"] for each in found}) == is_of_template


def test_gates_and_tolerations_are_changed_on_the_pod_itself() -> None:
    found, text = queried(pod_tree(schedulingGates=[{"name": "example.com/quota"}]), nodes=[node_tree("a")])
    patch = '[{"op":"remove","path":"/spec/schedulingGates"}]'
    assert command("schedulingGate", found) == f"kubectl patch pod web -n default --type=json -p '{patch}'"
    assert "remove the scheduling gates example.com/quota, or let their owner do it" in text
    found, _ = queried(pod_tree(), nodes=[node_tree("a", taints=[TAINT])])
    assert command("toleration", found).startswith("kubectl patch pod web -n default --type=json -p ")


def test_a_template_has_no_tolerations_of_admission() -> None:
    """So there may be no list that could be appended to."""
    lasting = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    pod = pod_tree(tolerations=[lasting]) | owned_by("DaemonSet")
    patch = json.loads(shlex.split(command("toleration", queried(pod, nodes=[node_tree("a", taints=[TAINT])])[0]))[-1])
    assert [(step["op"], step["path"]) for step in patch] == [("add", "/spec/template/spec/tolerations")]
    assert [toleration["key"] for toleration in patch[0]["value"]] == ["team"]


def test_what_a_machine_is_and_where_it_stands_is_not_relabelled() -> None:
    zone = "topology.kubernetes.io/zone"
    for labels, proposed in (({}, True), ({zone: "a"}, False)):
        node = node_tree("a")
        node["metadata"]["labels"] = labels
        found, _ = queried(pod_tree(nodeSelector={zone: "b"}), nodes=[node])
        assert ("nodeLabel" in [each["kind"] for each in found]) is proposed
    found, _ = queried(pod_tree(nodeSelector={"kubernetes.io/arch": "arm64"}), nodes=[node_tree("a")])
    assert [each["kind"] for each in found] == ["nodeSelector"]


def test_nodes_are_changed_with_kubectls_own_verbs() -> None:
    found, _ = queried(pod_tree(), nodes=[node_tree("a", taints=[TAINT])])
    assert shlex.split(command("taint", found)) == ["kubectl", "taint", "node", "a", "team=a b:NoSchedule-"]
    found, _ = queried(pod_tree(), nodes=[node_tree("a", unschedulable=True)])
    assert command("uncordon", found) == "kubectl uncordon a"
    found, _ = queried(pod_tree(nodeSelector={"disk": "ssd"}), nodes=[node_tree("a")])
    assert command("nodeLabel", found) == "kubectl label node a --overwrite disk=ssd"


def test_a_label_that_is_replaced_is_said_with_what_it_was() -> None:
    node = node_tree("a")
    node["metadata"]["labels"] = {"disk": "hdd"}
    found, text = queried(pod_tree(nodeSelector={"disk": "ssd", "rack": "1"}), nodes=[node])
    assert "label node a: disk=ssd instead of hdd, rack=1 (1 node)" in text
    (label,) = [each for each in found if each["kind"] == "nodeLabel"]
    assert label["steps"][0]["facts"]["replaced"] == {"disk": "hdd"}


def test_taints_of_controllers_are_not_taken_off() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    found, _ = queried(pod_tree(), nodes=[node_tree("a", taints=[taint])])
    assert [each["kind"] for each in found] == ["addNode", "toleration"]


def test_a_cordon_is_ended_before_it_is_tolerated() -> None:
    """A pod that tolerates it would ignore every cordon there will be."""
    found, text = queried(pod_tree(), nodes=[node_tree("a", unschedulable=True), node_tree("b", unschedulable=True)])
    assert [each["kind"] for each in found] == ["uncordon", "uncordon", "addNode", "toleration"]
    assert "1. uncordon node a (1 node; 1 other would also help)" in text
    assert "3. tolerate the taint node.kubernetes.io/unschedulable:NoSchedule (2 nodes)" in text


@pytest.mark.parametrize("taint", ["kubernetes.io/arch", "node-role.kubernetes.io/control-plane", "example.com/gpu"])
def test_room_is_made_before_a_pod_goes_where_it_hardly_belongs(taint: str) -> None:
    special = node_tree("special", taints=[{"key": taint, "value": "x", "effect": "NoSchedule"}])
    special["status"]["allocatable"]["example.com/gpu"] = "1"
    special["metadata"]["labels"] = {taint: "x"}
    other = pod_tree("other", cpu="2", nodeName="a")
    other["metadata"]["ownerReferences"] = owned_by("ReplicaSet", "other")["metadata"]["ownerReferences"]
    full: dict[str, Any] = {"nodes": [node_tree("a", cpu="2"), special], "pods": [other]}
    found, _ = queried(pod_tree(), **full)
    assert [each["kind"] for each in found] == ["deletePods", "addNode", "toleration", "request", "taint"]
    assert found[3]["text"].startswith("request no cpu")
    found, _ = queried(pod_tree(nodeSelector={taint: "x"}), **full)  # it says itself that it belongs there
    assert found[0]["kind"] == "toleration"


def test_a_pod_that_asks_for_what_a_taint_is_named_after_tolerates_it_first() -> None:
    node = node_tree("a", taints=[{"key": "example.com/gpu", "effect": "NoSchedule"}])
    node["status"]["allocatable"]["example.com/gpu"] = "4"
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"] = GPU_LIMIT
    assert [each["kind"] for each in queried(pod, nodes=[node])[0]][:2] == ["toleration", "taint"]


def dedicated(key: str, *effects: str) -> list[Tree]:
    """Three nodes, and one with a label and taints of this key and the value `batch`."""
    batch = node_tree("batch", taints=[{"key": key, "value": "batch", "effect": effect} for effect in effects])
    batch["metadata"]["labels"] = {key: "batch"}
    return [*(node_tree(name) for name in "abc"), batch]


IN_BATCH = {"matchExpressions": [{"key": "dedicated", "operator": "In", "values": ["other", "batch"]}]}
REQUIRED_BATCH = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_BATCH]}}


@pytest.mark.parametrize("effects", [("NoSchedule",), ("NoSchedule", "NoExecute")])
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"nodeSelector": {"dedicated": "batch"}}, id="nodeSelector"),
        pytest.param({"affinity": {"nodeAffinity": REQUIRED_BATCH}}, id="nodeAffinity"),
    ],
)
def test_a_taint_with_the_label_that_the_pod_asks_for_is_tolerated_first(rule: Tree, effects: tuple[str, ...]) -> None:
    assert queried(pod_tree(**rule), nodes=dedicated("dedicated", *effects))[0][0]["kind"] == "toleration"


def test_a_taint_of_kubernetes_itself_is_not_put_first() -> None:
    pod = pod_tree(nodeSelector={"kubernetes.io/arch": "batch"})
    found, _ = queried(pod, nodes=dedicated("kubernetes.io/arch", "NoSchedule"))
    assert [each["kind"] for each in found][:2] == ["nodeSelector", "toleration"]


def test_replicas_of_the_same_workload_are_the_last_to_go() -> None:
    """Their controller recreates them, and one of them waits as before."""
    replicas = [pod_tree(f"m-{number}", cpu="1", nodeName="a", priority=0) for number in range(3)]
    for replica in replicas:
        replica["metadata"]["ownerReferences"] = owned_by("ReplicaSet", "m")["metadata"]["ownerReferences"]
    other = pod_tree("other", cpu="1", nodeName="a", priority=9)
    pod = pod_tree() | owned_by("ReplicaSet", "m")
    found, text = queried(pod, nodes=[node_tree("a", cpu="4")], pods=[*replicas, other])
    gone = [(each["kind"], [change["name"] for change in each["changes"]]) for each in found]
    assert gone[:2] == [("addNode", ["a-copy-1"]), ("request", ["web"])]
    assert gone[2:5] == [("deletePods", [f"m-{number}"]) for number in range(3)]
    assert gone[5:] == [("deletePods", ["other"])]  # nobody recreates it
    last = "3. delete default/m-0 on a (priority 0; the pod's own controller recreates m-0) (1 node; 2 others would"
    assert last in " ".join(text.split())
    found, _ = queried(pod, nodes=[node_tree("a", cpu="3")], pods=replicas)
    assert [each["kind"] for each in found] == ["addNode", "request", "deletePods", "deletePods", "deletePods"]


def victim(name: str, priority: int, kind: str = "ReplicaSet") -> Tree:
    pod = pod_tree(name, cpu="4", nodeName=name, priority=priority)
    return pod | owned_by(kind, f"of-{name}") | {"metadata": {**owned_by(kind)["metadata"], "name": name, "uid": name}}


def test_pods_that_come_again_and_go_first_are_the_last_to_be_deleted_and_the_text_says_why() -> None:
    """Their room is taken by what their controllers make, so the deletion frees nothing."""
    nodes, pods = [node_tree(name) for name in "abc"], [victim("a", 200000), victim("b", 0), victim("c", -5)]
    found, text = queried(pod_tree(priority=0), nodes=nodes, pods=pods)
    assert [(each["kind"], each["changes"][0]["name"]) for each in found if each["kind"] != "addNode"] == [
        ("deletePods", "c"),
        ("deletePods", "b"),
        ("request", "web"),
        ("deletePods", "a"),
    ]
    texts = {each["changes"][0]["name"]: each["text"] for each in found}
    assert texts["a"] == (
        "delete default/a on a (priority 200000; its controller recreates it, and it goes first: "
        "priority 200000 against 0)"
    )
    assert texts["b"].endswith("(priority 0; its controller recreates it, and it may get the room first)")
    assert texts["c"].endswith("(priority -5)")
    assert "and it goes first: priority 200000 against 0) (1 node)" in " ".join(text.split())


def test_of_several_pods_that_go_the_text_says_how_many_come_again_before_the_pod() -> None:
    pods = [victim("x", 9), victim("y", 7), victim("z", 0), pod_tree("w", cpu="1", priority=8)]
    for pod in pods:
        pod["spec"] |= {"nodeName": "a", "containers": pod_tree(cpu="1")["spec"]["containers"]}
    pods[3]["metadata"]["uid"] = "w"
    found, _ = queried(pod_tree(cpu="4", priority=0), nodes=[node_tree("a")], pods=pods)
    (deletion,) = [each for each in found if each["kind"] == "deletePods"]
    assert deletion["text"] == (
        "delete default/x, default/w, default/y, default/z on a (priority 0 to 9; "
        "controllers recreate 2 of them, and these go first: priorities 7 to 9 against 0; "
        "controllers recreate 1 of them, and these may get the room first; "
        "of higher priority than the pod: priority 8 against 0; no controller recreates 1 of them)"
    )
    assert [each["controller"] for each in deletion["steps"][0]["facts"]["pods"]][:2] == ["replicaset/web", ""]


def of_replica_set(pod: Tree, name: str, template_hash: str) -> Tree:
    """The pod as the Deployment controller makes it."""
    pod["metadata"] |= {
        "ownerReferences": owned_by("ReplicaSet", name)["metadata"]["ownerReferences"],
        "labels": {"pod-template-hash": template_hash},
    }
    return pod


@pytest.mark.parametrize(
    ("owners", "comes_again"),
    [
        pytest.param({}, True, id="by their names"),
        pytest.param({"web-old": "web", "web-new": "web"}, True, id="by their owners"),
        pytest.param({"web-old": "other", "web-new": "web"}, False, id="owners say otherwise"),
        pytest.param({"web-old": "", "web-new": ""}, False, id="nobody owns them"),
    ],
)
def test_pods_of_an_older_version_of_the_deployment_are_its_replicas_too(
    owners: dict[str, str], comes_again: bool
) -> None:
    older = of_replica_set(pod_tree("older", cpu="2", nodeName="a", priority=0), "web-old", "old")
    pod = of_replica_set(pod_tree(), "web-new", "new")
    replica_sets = []
    for name, owner in owners.items():
        above = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": "2", "controller": True}]
        metadata = {"name": name, "namespace": "default", "ownerReferences": above if owner else []}
        replica_sets.append({"metadata": metadata})
    found, text = queried(pod, nodes=[node_tree("a", cpu="2")], pods=[older], replicasets=replica_sets)
    assert (found[0]["kind"] == "deletePods") is not comes_again
    assert ("the pod's own controller recreates older" in " ".join(text.split())) is comes_again


def test_pods_that_would_have_to_go_are_named_with_priority_and_budgets() -> None:
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    other = pod_tree("other", cpu="3", nodeName="a", priority=7)
    other["metadata"]["labels"] = {"app": "db"}
    found, text = queried(pod_tree(cpu="3"), nodes=[node_tree("a")], pods=[other], poddisruptionbudgets=[budget])
    assert command("deletePods", found) == "kubectl delete pod -n default other"
    assert "delete default/other on a (priority 7; 1 of them against a disruption budget; " in text


def test_a_new_node_has_no_command() -> None:
    found, text = queried(pod_tree(), nodes=[node_tree("a", cpu="2")], pods=[pod_tree("other", cpu="2", nodeName="a")])
    assert command("addNode", found) == ""
    (change,) = next(each for each in found if each["kind"] == "addNode")["changes"]
    assert change["patch"][0]["value"]["metadata"]["name"] == "a-copy-1"
    assert "add a node like a (1 node)" in text


def test_what_may_not_be_less_than_its_limit_is_lowered_with_it() -> None:
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"] = GPU_LIMIT
    node = node_tree("a")
    node["status"]["allocatable"]["example.com/gpu"] = "1"
    found, _ = queried(pod, nodes=[node])
    (change,) = next(each for each in found if each["kind"] == "request")["changes"]
    assert [(step["path"].split("/")[-2], step["value"]) for step in change["patch"]] == [
        ("requests", "1"),
        ("limits", "1"),
    ]


def test_pairs_where_no_single_change_helps() -> None:
    pod = pod_tree(cpu="3", nodeSelector={"disk": "ssd"})
    found, text = queried(pod, nodes=[node_tree("a", cpu="2")])
    assert [each["kind"] for each in found] == ["request+nodeSelector", "request+nodeLabel"]
    assert "request 2 of cpu instead of 3, and drop disk=ssd from the nodeSelector" in text


def test_a_resource_is_nowhere_only_where_no_node_has_any_and_a_pair_leaves_the_pod_some() -> None:
    taint = {"key": "example.com/gpu", "value": "", "effect": "NoSchedule"}
    nodes = [node_tree("a"), node_tree("b", taints=[taint]), node_tree("c", taints=[taint])]
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "9"
    (nowhere,) = [each for each in queried(pod, nodes=nodes)[0] if each["kind"] == "request"]
    assert nowhere["text"] == "request no example.com/gpu (now 9): it is unavailable: no node has any"
    for node, count in zip(nodes[1:], ("8", "5"), strict=True):
        node["status"]["allocatable"]["example.com/gpu"] = count
    user = pod_tree("user", nodeName="b")
    user["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "6"}}
    found, _ = queried(pod, nodes=nodes, pods=[user])
    assert [each["text"] for each in found] == [
        "request 5 of example.com/gpu instead of 9, and tolerate the taint example.com/gpu:NoSchedule",
        "request 2 of example.com/gpu instead of 9, and take example.com/gpu:NoSchedule off node b",
        f"{nowhere['text'][:34]}: the nodes that it may be on have none free (2 nodes have 13 in all, 7 free)",
    ]


def test_nodes_that_have_more_together_than_an_int64_holds_are_said_to_have_it() -> None:
    taint = {"key": "a.b/c", "value": "", "effect": "NoSchedule"}
    nodes = [node_tree("a"), node_tree("b", taints=[taint]), node_tree("c", taints=[taint])]
    for node in nodes[1:]:
        node["status"]["allocatable"]["a.b/c"] = "8E"
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"]["requests"]["a.b/c"] = "9E"
    (nowhere,) = [each for each in queried(pod, nodes=nodes)[0] if each["kind"] == "request"]
    assert nowhere["text"].endswith(
        "have none free (2 nodes have 16000000000000000000 in all, 16000000000000000000 free)"
    )


def test_a_manifest_has_no_command() -> None:
    found, _ = queried(pod_tree(cpu="3"), nodes=[node_tree("a", cpu="2")], situation=Situation(pod_state=PodState.NEW))
    assert command("request", found) == ""


def test_a_claim_that_does_not_exist_is_what_has_to_be_created() -> None:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "logs-web")]
    pod = pod_tree(volumes=volumes, resourceClaims=[{"name": "gpu", "resourceClaimName": "one-gpu"}])
    found, text = queried(pod, nodes=[node_tree("a")])
    assert found == []
    assert text.splitlines()[1:] == [
        "  it waits for a missing object: create PersistentVolumeClaim data in namespace default",
        "  it waits for a missing object: create PersistentVolumeClaim logs-web in namespace default",
        "  it waits for a missing object: create ResourceClaim one-gpu in namespace default",
    ]
    tree = {"id": "one", "config": None, "objects": {"nodes": [node_tree("a")]}, "pod": pod}
    decision = decide(parse_scenario(json.dumps(tree).encode(), "test:1"))
    reported = [line.strip() for line in text.splitlines()[1:]]
    assert decision_tree(decision, suggestions=())["missing"] == reported
    assert decision_tree(decision)["missing"] == [], "nobody asked what would help"
    _, text = queried(
        pod_tree(volumes=[{**volumes[1], "name": "logs"}]) | owned_by("StatefulSet"), nodes=[node_tree("a")]
    )
    said = "it waits for a missing object: statefulset/web has not made PersistentVolumeClaim logs-web in namespace"
    assert said in " ".join(text.split())


def test_nothing_to_suggest() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
            }
        }
    }
    pod = pod_tree(cpu="9", affinity=affinity, tolerations=[], overhead={"cpu": "9"})
    found, text = queried(pod, nodes=[node_tree("a")])
    assert found == []
    assert "none of the changes that were tried makes it fit" in text
