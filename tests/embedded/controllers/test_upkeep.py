"""Nodes, taints, pods of nodes that are gone, budgets, ServiceAccounts, namespaces."""

import pytest

from kscheduler.api.machinery.api_errors import ApiError, Object
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.resources import LEASES, NAMESPACES, NODES
from kscheduler.embedded.controllers import catalogue
from tests.embedded.controllers.miniature import Miniature, condition, job, template, workload

BUDGETS = "poddisruptionbudgets.policy"
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture
def mini() -> Miniature:
    return Miniature()


def taints(mini: Miniature, name: str = "node-0") -> list[tuple[str, str]]:
    return [(one["key"], one["effect"]) for one in mini.get("nodes", name)["spec"].get("taints", [])]


def bare_pod(mini: Miniature, name: str, node: str, **spec: object) -> None:
    body = {**template()["spec"], "nodeName": node, **spec}
    mini.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}, "spec": body})
    mini.run_pods()


def budget(mini: Miniature, **spec: object) -> None:
    body = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    mini.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": body})


def counts(mini: Miniature) -> tuple[int, int, int, int]:
    status = mini.get(BUDGETS, "web")["status"]
    return status["expectedPods"], status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_cordon_is_a_taint_and_goes_with_it(mini: Miniature) -> None:
    mini.change("nodes", "node-0", taints=[{"key": "mine", "value": "x", "effect": "NoSchedule"}], unschedulable=True)
    assert taints(mini) == [("mine", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")]
    mini.change("nodes", "node-0", unschedulable=False)
    assert taints(mini) == [("mine", "NoSchedule")]


def test_conditions_become_taints(mini: Miniature) -> None:
    pressed = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    mini.change("nodes", "node-0", subresource="status", conditions=pressed)
    assert taints(mini) == [("node.kubernetes.io/disk-pressure", "NoSchedule")]
    mini.change("nodes", "node-0", subresource="status", conditions=[{"type": "Ready", "status": "False"}])
    key = "node.kubernetes.io/not-ready"
    assert taints(mini) == [(key, "NoExecute"), (key, "NoSchedule")]


def test_a_new_node_is_not_ready_until_its_conditions_say_so(mini: Miniature) -> None:
    mini.registry.taints_new_nodes = True
    key = ("node.kubernetes.io/not-ready", "NoSchedule")
    body = {"metadata": {"name": "new"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    created = mini.registry.create(NODES, "", body).value
    assert [(taint["key"], taint["effect"]) for taint in created["spec"]["taints"]] == [key]
    mini.settle()
    assert key in taints(mini, "new")
    mini.change("nodes", "new", subresource="status", conditions=[{"type": "Ready", "status": "True"}])
    assert taints(mini, "new") == []


def test_a_node_has_the_old_names_of_its_labels_too(mini: Miniature) -> None:
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64"}
    mini.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new", "labels": labels}})
    old = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}
    assert mini.get("nodes", "new")["metadata"]["labels"] == labels | old


def test_a_node_that_falls_silent_is_unreachable_and_its_pods_leave_after_their_patience(mini: Miniature) -> None:
    mini.create(workload("Deployment", replicas=3))
    mini.run_pods()
    lease = {"spec": {"holderIdentity": "node-0", "leaseDurationSeconds": 40, "renewTime": timestamp(mini.time)}}
    metadata = {"name": "node-0", "namespace": "kube-node-lease"}
    whole = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, **lease}
    mini.registry.create(LEASES, "kube-node-lease", whole)
    mini.settle()
    mini.advance(49)
    assert taints(mini) == []
    mini.advance(2)
    assert taints(mini) == [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")]
    assert condition(mini.get("nodes", "node-0"), "Ready")["reason"] == "NodeStatusUnknown"
    (pod,) = [one for one in mini.pods() if one["spec"]["nodeName"] == "node-0"]
    assert condition(pod, "Ready")["status"] == "False"
    mini.advance(299)
    assert "deletionTimestamp" not in mini.get("pods", pod["metadata"]["name"])["metadata"]
    mini.advance(2)
    assert "deletionTimestamp" in mini.get("pods", pod["metadata"]["name"])["metadata"]
    assert (
        condition(mini.get("pods", pod["metadata"]["name"]), "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    )
    assert len(mini.pods()) == 4, "the ReplicaSet has made another one"


def test_nodes_that_never_sent_a_heartbeat_are_not_missed(mini: Miniature) -> None:
    mini.advance(3600)
    assert taints(mini) == []


def test_no_execute_evicts_who_does_not_tolerate_it_when_patience_ends(mini: Miniature) -> None:
    tolerant = {"key": "sick", "operator": "Exists", "effect": "NoExecute"}
    bare_pod(mini, "gone", "node-0")
    bare_pod(mini, "patient", "node-0", tolerations=[{**tolerant, "tolerationSeconds": 30}])
    bare_pod(mini, "stoic", "node-0", tolerations=[tolerant])
    mini.change("nodes", "node-0", taints=[{"key": "sick", "effect": "NoExecute"}])
    mini.run_pods()
    assert mini.names("pods") == ["patient", "stoic"]
    assert mini.events("TaintManagerEviction") == ["Marking for deletion Pod default/gone"]
    mini.advance(29)
    mini.run_pods()
    assert mini.names("pods") == ["patient", "stoic"]
    mini.advance(1)
    mini.run_pods()
    assert mini.names("pods") == ["stoic"]


def test_no_execute_with_a_number_spares_who_compares_with_it(mini: Miniature) -> None:
    """What a scheduler with TaintTolerationComparisonOperators has placed stays, as the kubelet lets it run."""
    for name, bound in (("modest", "5"), ("demanding", "15")):
        compares = {"key": "left", "operator": "Gt", "value": bound, "effect": "NoExecute"}
        bare_pod(mini, name, "node-0", tolerations=[compares])
    mini.change("nodes", "node-0", taints=[{"key": "left", "value": "10", "effect": "NoExecute"}])
    mini.run_pods()
    assert mini.names("pods") == ["modest"]


def test_a_taint_that_goes_in_time_evicts_nobody(mini: Miniature) -> None:
    tolerant = {"key": "sick", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    bare_pod(mini, "patient", "node-0", tolerations=[tolerant])
    mini.change("nodes", "node-0", taints=[{"key": "sick", "effect": "NoExecute"}])
    mini.advance(20)
    mini.change("nodes", "node-0", taints=[])
    mini.advance(20)
    assert mini.names("pods") == ["patient"]


def test_pods_of_a_deleted_node_are_removed_and_made_elsewhere(mini: Miniature) -> None:
    mini.create(workload("Deployment", replicas=3))
    mini.run_pods()
    (lost,) = [pod["metadata"]["name"] for pod in mini.pods() if pod["spec"]["nodeName"] == "node-0"]
    mini.delete("nodes", "node-0")
    mini.advance(39)
    assert lost in mini.names("pods")
    mini.advance(1)
    mini.run_pods()
    assert lost not in mini.names("pods")
    assert sorted({pod["spec"]["nodeName"] for pod in mini.pods()}) == ["node-1", "node-2"]
    assert len(mini.pods()) == 3


def test_a_pod_that_was_being_deleted_on_a_node_that_goes_does_not_hang(mini: Miniature) -> None:
    bare_pod(mini, "last", "node-0")
    mini.delete("pods", "last")
    mini.delete("nodes", "node-0")
    mini.advance(40)
    assert mini.pods() == []


def test_a_node_that_comes_back_in_time_keeps_its_pods(mini: Miniature) -> None:
    bare_pod(mini, "kept", "node-0")
    mini.delete("nodes", "node-0")
    mini.advance(20)
    mini.add_node("node-0")
    mini.advance(3600)
    assert mini.names("pods") == ["kept"]


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 3}, (6, 4, 3, 1)),
        ({"minAvailable": "50%"}, (6, 4, 3, 1)),
        ({"minAvailable": "51%"}, (6, 4, 4, 0)),
        ({"maxUnavailable": 3}, (6, 4, 3, 1)),
        ({"maxUnavailable": "40%"}, (6, 4, 3, 1)),
        ({"maxUnavailable": 0}, (6, 4, 6, 0)),
        ({"minAvailable": 9}, (6, 4, 9, 0)),
    ],
)
def test_budgets_count_what_the_owners_ask_for(mini: Miniature, spec: Object, expected: tuple[int, ...]) -> None:
    mini.create(workload("Deployment", replicas=5))
    mini.run_pods()
    mini.unready(mini.names("pods")[0])
    mini.change("deployments.apps", "web", paused=True)
    mini.change("deployments.apps", "web", replicas=6)
    budget(mini, **spec)
    assert counts(mini) == expected


def test_evictions_take_turns_and_go_on_when_a_pod_is_back(mini: Miniature) -> None:
    mini.create(workload("Deployment", replicas=3))
    mini.run_pods()
    budget(mini, maxUnavailable=1)
    assert counts(mini) == (3, 3, 2, 1)
    first, second = mini.names("pods")[:2]
    mini.evict(first)
    with pytest.raises(ApiError, match="disruption budget") as refused:
        mini.evict(second)
    assert refused.value.code == 429
    mini.run_pods()
    assert counts(mini) == (3, 3, 2, 1)
    mini.evict(second)


def test_a_budget_over_bare_pods_says_what_it_cannot_count(mini: Miniature) -> None:
    bare_pod(mini, "alone", "node-0")
    budget(mini, maxUnavailable=1)
    assert counts(mini)[3] == 0
    assert mini.events("UnmanagedPods")


def test_a_budget_over_a_job_fails_openly(mini: Miniature) -> None:
    mini.create(job())
    mini.run_pods()
    name = mini.names("pods")[0]
    mini.relabel(name, **mini.get("pods", name)["metadata"]["labels"], app="web")
    budget(mini, maxUnavailable=1)
    found = condition(mini.get(BUDGETS, "web"), "DisruptionAllowed")
    assert (found["status"], found["reason"]) == ("False", "SyncFailed")


def test_pods_that_are_not_ready_go_while_the_budget_is_healthy(mini: Miniature) -> None:
    mini.create(workload("Deployment", replicas=4))
    mini.run_pods()
    budget(mini, minAvailable=3)
    sick = mini.names("pods")[0]
    mini.unready(sick)
    assert counts(mini)[3] == 0
    mini.evict(sick)
    assert "deletionTimestamp" in mini.get("pods", sick)["metadata"]


def test_two_budgets_over_one_pod_are_refused_as_upstream_does(mini: Miniature) -> None:
    mini.create(workload("Deployment", replicas=3))
    mini.run_pods()
    budget(mini, minAvailable=1)
    other = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "other"}}
    mini.create({**kind, "spec": other})
    with pytest.raises(ApiError, match="more than one PodDisruptionBudget") as refused:
        mini.evict(mini.names("pods")[0])
    assert refused.value.code == 500


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_each_namespace_has_its_service_account(mini: Miniature) -> None:
    mini.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    assert mini.has("serviceaccounts", "default", "shop")
    mini.delete("serviceaccounts", "default")
    assert mini.has("serviceaccounts", "default")


def test_a_namespace_with_workloads_empties_and_goes(mini: Miniature) -> None:
    mini.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    for value in (workload("Deployment"), workload("StatefulSet", "db"), workload("DaemonSet", "agent"), job()):
        mini.create(value, "shop")
    mini.run_pods()
    mini.registry.deletion.delete(NAMESPACES, "", "shop")
    mini.settle()
    mini.run_pods()
    assert "shop" not in mini.names("namespaces")
    assert mini.pods() == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_each_workload_goes_with_all_that_it_has_made(mini: Miniature, kind: str, propagation: str) -> None:
    mini.create(workload(kind))
    mini.run_pods()
    mini.delete(f"{kind.lower()}s.apps", "web", propagation=propagation)
    mini.run_pods()
    made = ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "controllerrevisions.apps")
    assert [mini.names(key) for key in (*made, "pods")] == [[]] * 6


# --- which controllers run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "present", "absent"),
    [
        ("*", "job-controller", ""),
        ("*,-job-controller", "deployment-controller", "job-controller"),
        ("-job-controller,*", "deployment-controller", "job-controller"),
        ("job-controller", "job-controller", "deployment-controller"),
        ("", "", "job-controller"),
    ],
)
def test_controllers_are_chosen_as_kube_controller_manager_does(text: str, present: str, absent: str) -> None:
    names = catalogue.chosen(text)
    assert not present or present in names
    assert absent not in names


def test_a_controller_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(
        catalogue.UnknownControllerError, match="no such controller: jobs; there are cronjob-controller"
    ):
        catalogue.make("*,-jobs")
