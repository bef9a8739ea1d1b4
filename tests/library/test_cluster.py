"""`Cluster` of `kscheduler.library`: what its methods return, and that it never changes."""

from typing import Any

import pytest

from kscheduler import Cluster, ClusterError, NodeInfo, PodInfo, make_node, make_pod, plugin
from tests.library.manifests import DEPLOYMENT, budget, owned, pod_tree
from tests.telemetry.logs.unconfigured import unconfigured

BIG = {"cpu": "1500m"}
GPUS: dict[str, Any] = {"nvidia.com/gpu": "4"}


def two_nodes() -> Cluster:
    return Cluster.of([make_node("a", cpu="2"), make_node("b", cpu="1", **GPUS)])


def test_pods_get_nodes_and_one_that_fits_nowhere_says_why() -> None:
    result = two_nodes().schedule([make_pod("one", requests=BIG), make_pod("two", requests=BIG)])
    assert [(each.pod, each.node, each.origin) for each in result.placed] == [("default/one", "a", "new")]
    assert [(each.pod, each.node, each.score) for each in result.pending] == [("default/two", None, None)]
    assert "2 Insufficient cpu" in result.pending[0].reason
    assert [*result.pods] == [*result.placed, *result.pending]


def test_the_score_is_what_explain_gives_the_node() -> None:
    cluster, pod = two_nodes(), make_pod("one")
    placed, explained = cluster.schedule(pod).placed[0], cluster.explain(pod).to_dict()
    assert placed.node == explained["node"]
    assert placed.score == explained["scores"][placed.node]["_total"]


def test_a_cluster_does_not_change_and_the_results_cluster_has_the_pods() -> None:
    cluster = two_nodes()
    result = cluster.schedule(make_pod("one", requests=BIG))
    assert len(cluster.pods) == 0
    assert [(each.pod, each.node, each.requests) for each in result.cluster.pods] == [
        ("default/one", "a", {"cpu": 1.5})
    ]
    again = result.cluster.schedule(make_pod("two", requests=BIG))
    assert [each.pod for each in again.pending] == ["default/two"]
    assert [each.pod for each in cluster.schedule(make_pod("two", requests=BIG)).placed] == ["default/two"]


def test_waiting_pods_of_the_cluster_come_before_new_ones_and_keep_their_uids() -> None:
    waiting = make_pod("waits", requests=BIG)
    result = Cluster.of([make_node("a", cpu="2")], waiting).schedule(make_pod("new", requests=BIG))
    assert [(each.pod, each.origin) for each in result.pods] == [
        ("default/waits", "pending"),
        ("default/new", "new"),
    ]
    assert result.placed[0].pod == "default/waits"


def test_a_pod_of_higher_priority_evicts_another() -> None:
    low = make_pod("low", requests=BIG, node="a", priority=1)
    result = Cluster.of(make_node("a", cpu="2"), low).schedule(make_pod("high", requests=BIG, priority=9))
    assert [(each.pod, each.by) for each in result.evicted] == [("default/low", "default/high")]
    assert [(each.pod, each.node) for each in result.cluster.pods] == [("default/high", "a")]


def test_a_deployment_makes_its_pods() -> None:
    result = two_nodes().schedule(DEPLOYMENT)
    assert {each.pod for each in result.placed} == {"default/web-new", "default/web-new-1", "default/web-new-2"}


def test_utilisation_has_a_row_for_each_node_and_resource_in_cores_bytes_and_units() -> None:
    pods = [make_pod("one", requests=BIG, node="a"), make_pod("gpu", requests={"nvidia.com/gpu": "3"}, node="b")]
    rows = {(each.node, each.resource): each for each in two_nodes().add(pods).utilisation()}
    assert (rows["a", "cpu"].allocatable, rows["a", "cpu"].requested, rows["a", "cpu"].share) == (2.0, 1.5, 0.75)
    assert (rows["b", "nvidia.com/gpu"].requested, rows["b", "nvidia.com/gpu"].share) == (3.0, 0.75)
    assert rows["a", "memory"].allocatable == 8 * 2**30
    assert rows["b", "pods"].requested == 1
    assert ("a", "nvidia.com/gpu") not in rows


def test_nodes_as_rows() -> None:
    node = make_node("a", labels={"zone": "z"}, taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    (row,) = Cluster.of(node, make_pod("web", node="a", requests={"cpu": "500m"})).nodes
    assert (row.node, row.ready, row.cordoned, row.pods, row.taints, row.labels) == (
        *("a", True, False, 1),
        ("team=ml:NoSchedule",),
        {"zone": "z"},
    )
    assert (row.allocatable["cpu"], row.requested["cpu"]) == (4.0, 0.5)


def test_a_drain_moves_pods_and_a_budget_keeps_one() -> None:
    pods = [owned(make_pod(name, node="a", labels={"app": name}, requests={"cpu": "100m"})) for name in ("web", "db")]
    cluster = two_nodes().add(pods, budget("db", allowed=0))
    result = cluster.drain("a")
    (drained,) = result.drains
    assert drained.evicted == ("default/web",)
    assert [(each.pod, each.budget) for each in drained.blocked] == [("default/db", "default/db")]
    assert {each.pod: each.node for each in result.cluster.pods} == {"default/db": "a", "default/web-again-1": "b"}


def test_changes_of_nodes_and_what_fits_then() -> None:
    cluster = two_nodes()
    result = cluster.simulate(DEPLOYMENT, replicas=2, add_nodes={"a": 2}, cordon="b", capacity=True)
    assert result.added_nodes == ("a-new-1", "a-new-2")
    assert {each.node for each in result.placed} <= {"a", "a-new-1", "a-new-2"}
    assert result.capacity is not None
    assert result.capacity.pods == 3 * 20 - 2  # of 100m
    assert [each.node for each in result.cluster.nodes] == ["a", "a-new-1", "a-new-2", "b"]
    assert len(result.cluster.pods) == 2  # none of those that were only counted
    assert [each.node for each in cluster.simulate(remove_nodes=["a"]).cluster.nodes] == ["b"]


def test_rows_are_explained_and_lists_of_nodes_drained() -> None:
    result = two_nodes().schedule([make_pod("one", requests=BIG), make_pod("two", requests=BIG)])
    assert (
        two_nodes().explain([make_pod("one")]).to_dict()["node"]
        == two_nodes().explain(make_pod("one")).to_dict()["node"]
    )
    for row in (result.pending[0], result.cluster.pods[1]):
        assert result.cluster.explain(row).to_dict()["id"] == "default/two"
    assert [each.node for each in result.cluster.drain(["a", "b"]).drains] == ["a", "b"]
    assert [each.node for each in result.cluster.drain("a", "b").drains] == ["a", "b"]
    assert str(result.cluster) == "cluster of 2 nodes: 2 pods, 1 of them pending"


@pytest.mark.parametrize(
    "given", [make_pod("web"), pod_tree("web", schedulerName="default-scheduler")], ids=["pod", "manifest"]
)
def test_replicas_multiply_new_pods_whatever_their_form(given: Any) -> None:
    placed = Cluster.of(make_node("a")).simulate([given, make_pod("api")], replicas=3).placed
    assert [pod.pod.removeprefix("default/") for pod in placed] == ["web", "web-1", "web-2", "api", "api-1", "api-2"]


def test_labels_and_taints_are_set_and_removed() -> None:
    cluster = Cluster.of(make_node("a", labels={"old": "1"}))
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    then = cluster.simulate(labels={"a": {"disk": "ssd", "old": None}}, taints={"a": [taint]}).cluster
    assert (then.nodes[0].labels, then.nodes[0].taints) == ({"disk": "ssd"}, ("team=ml:NoSchedule",))
    assert then.simulate(taints={"a": [{**taint, "remove": True}]}).cluster.nodes[0].taints == ()


def test_a_plugin_of_the_notebook_decides() -> None:
    @plugin("PreferNamed")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 100 if node.name == pod.labels["wants"] else 0

    nodes = [make_node(name) for name in "abc"]
    pods = [make_pod(f"to-{name}", labels={"wants": name}) for name in "abc"]
    result = Cluster.of(nodes, plugins=[score]).schedule(pods)
    assert {each.pod: each.node for each in result.placed} == {f"default/to-{name}": name for name in "abc"}


def test_explain_names_a_pod_of_the_cluster_or_takes_a_new_one() -> None:
    result = two_nodes().schedule([make_pod("one", requests=BIG), make_pod("two", requests=BIG)])
    for given in ("two", "default/two", make_pod("two", requests=BIG)):
        answer = result.cluster.explain(given)
        assert (answer.to_dict()["pod"]["name"], answer.to_dict()["outcome"]) == ("two", "Unschedulable")
    assert result.cluster.explain("one").to_dict()["outcome"] == "Bound"
    assert "3 pods" in str(two_nodes().explain(DEPLOYMENT))
    assert "changes that would make it fit" in str(result.cluster.explain("two"))
    assert "changes that would make it fit" not in str(result.cluster.explain("two", suggestions=False))
    assert result.cluster.explain("one", against="b").to_dict()["against"]["node"] == "b"


def test_a_pod_of_a_gang_waits_for_the_others_and_is_explained_with_them() -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    members = [make_pod(name, schedulingGroup={"podGroupName": "gang"}) for name in ("one", "two")]
    cluster = Cluster.of(make_node("a"), members[0], group, version="1.37", feature_gates={"GenericWorkload": True})
    assert [each.pod for each in cluster.schedule().pending] == ["default/one"]
    assert cluster.explain("one").to_dict()["kind"] == "PodGroupExplanation"
    assert [each.pod for each in cluster.schedule(members[1]).placed] == ["default/one", "default/two"]


async def test_methods_work_where_an_event_loop_runs() -> None:
    cluster = two_nodes()
    assert cluster.schedule(make_pod("one")).placed[0].node == cluster.explain(make_pod("one")).to_dict()["node"]


def test_a_failing_plugin_is_a_note_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    @plugin("Broken")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        raise LookupError("no prices")

    nodes = [make_node("a"), make_node("b")]
    with unconfigured():
        result = Cluster.of(nodes, plugins=[score]).schedule(make_pod("web"))
        compacted = Cluster.of(nodes, make_pod("web", node="a"), plugins=[score]).compact(trials=1)
    assert len(result.placed) == 1
    assert compacted.profiles[0].fewest == 1
    for notes in (result.notes, compacted.notes):
        assert any("plugin Broken failed in Score" in note and "no prices" in note for note in notes)
    assert capsys.readouterr().out == ""


def test_a_pod_of_a_scheduler_that_is_not_served_is_noted() -> None:
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine"}],
    }
    result = Cluster.of(make_node("a"), configuration=tree).schedule(make_pod("web"))
    assert len(result.pods) == 0
    assert any("new pods of scheduler kscheduler are left alone" in note for note in result.notes)


def test_pending_pods_of_a_scheduler_that_is_not_served_are_counted_in_a_note() -> None:
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine"}],
    }
    of_others = [make_pod(f"web-{number}", schedulerName="theirs") for number in range(2)]
    pods = [*of_others, make_pod("own", schedulerName="mine"), make_pod("runs", node="a")]
    served = "served here is mine (profiles of configuration)"
    scheduled = Cluster.of(make_node("a"), pods, configuration=tree).schedule()
    assert scheduled.notes == (f"2 pods of scheduler theirs are pending and left alone: {served}",)
    several = Cluster.of(make_node("a"), [*pods, make_pod("one")]).simulate(configuration=tree)
    of_both = f"3 pods of schedulers theirs (2), kscheduler (1) are pending and left alone: {served}"
    assert of_both in several.notes
    assert [each.pod for each in several.placed] == ["default/own"]


def test_errors_are_one_type_also_for_a_pod_that_is_there() -> None:
    with pytest.raises(ClusterError, match="pod default/web exists already"):
        Cluster.of(make_node("a"), make_pod("web")).schedule(make_pod("web"))


def test_a_group_is_explained_by_its_name_and_a_new_one_by_its_manifests() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**head, "podGroupAPIs": ["volcano"], "profiles": [{"schedulerName": "kscheduler"}]}
    named = {"metadata": {"name": "g"}, "spec": {"minMember": 2}}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **named}
    members = [pod_tree(name, cpu="1") for name in ("one", "two")]
    for member in members:
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    node, fits = make_node("a", cpu="2"), "pod group default/g: would be scheduled now"
    there = Cluster.of(node, members, group, configuration=config)
    assert str(there.explain("podgroup/g")).startswith(fits)
    assert str(there.explain("podgroups.scheduling.volcano.sh/g")).startswith(fits)
    with pytest.raises(ClusterError, match="no pod of namespace ml names pod group g"):
        there.explain("pg/g", namespace="ml")
    assert str(Cluster.of(node, configuration=config).explain([group, *members])).startswith(fits)
