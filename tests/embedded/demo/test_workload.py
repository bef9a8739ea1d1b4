"""Generated nodes and pods: repeatable, mixed, and sized so that what should fit does fit."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import NODES, PODS, PRIORITY_CLASSES
from kscheduler.api.quantity import nano_value
from kscheduler.api.well_known import ZONE
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.demo import workload
from kscheduler.embedded.demo.workload import INTENT
from kscheduler.embedded.hollow.node_capacity import NodeCapacity, fits, needs_other_rules


def intent_of(pod: Object) -> object:
    return pod["metadata"]["annotations"][INTENT]


def typed(tree: Object) -> Pod:
    pod = convert(tree, Pod)
    pod.metadata.uid = pod.key
    return pod


def rooms(count: int, seed: int) -> list[NodeCapacity]:
    return [NodeCapacity(convert(tree, Node)) for tree in workload.nodes(count, seed=seed)]


def test_the_same_seed_makes_the_same_cluster() -> None:
    assert workload.nodes(20, seed=5) == workload.nodes(20, seed=5)
    assert workload.pods(200, seed=5) == workload.pods(200, seed=5)


def test_another_seed_makes_another_cluster() -> None:
    assert workload.nodes(20, seed=5) != workload.nodes(20, seed=6)
    assert [pod["metadata"]["name"] for pod in workload.pods(200, 5)] != [
        p["metadata"]["name"] for p in workload.pods(200, 6)
    ]


@pytest.mark.parametrize("count", [0, 1, 19, 20, 50, 999, 1000, 2500])
def test_there_are_as_many_pods_as_queried_for_with_names_of_their_own(count: int) -> None:
    pods = workload.pods(count, seed=3)
    assert len(pods) == len({pod["metadata"]["name"] for pod in pods}) == count
    assert {pod["spec"]["schedulerName"] for pod in pods} <= {"kscheduler"}


def test_proportions_do_not_depend_on_the_seed() -> None:
    def kinds(seed: int) -> Counter[str]:
        return Counter(pod["metadata"]["labels"]["app"] for pod in workload.pods(1000, seed))

    assert kinds(1) == kinds(2)
    assert kinds(1)["web"] > kinds(1)["api"] > kinds(1)["training"] > kinds(1)["apart"] > kinds(1)["too-big"] == 4


def test_a_thousand_pods_are_mixed() -> None:
    specs = [pod["spec"] for pod in workload.pods(1000)]
    used: set[str] = set().union(*specs)
    assert used >= {"nodeSelector", "affinity", "tolerations", "initContainers", "schedulingGates", "priorityClassName"}
    assert len({spec["priorityClassName"] for spec in specs}) == 3
    assert any("ports" in container for spec in specs for container in spec["containers"])
    assert any(one.get("restartPolicy") for spec in specs for one in spec.get("initContainers", []))
    assert any("resources" not in container for spec in specs for container in spec["containers"])


def test_nodes_are_mixed_and_keep_something_for_themselves() -> None:
    nodes = workload.nodes(100)
    labels = [node["metadata"]["labels"] for node in nodes]
    assert {one["topology.kubernetes.io/zone"] for one in labels} == {"zone-a", "zone-b", "zone-c"}
    assert {one["kubernetes.io/arch"] for one in labels} == {"amd64", "arm64"}
    effects = {taint["effect"] for node in nodes for taint in node["spec"].get("taints", [])}
    assert effects == {"NoSchedule", "PreferNoSchedule"}
    for node in nodes:
        given, whole = node["status"]["allocatable"], node["status"]["capacity"]
        assert all(nano_value(given[name]) < nano_value(whole[name]) for name in ("cpu", "memory"))


def test_zones_are_even() -> None:
    zones = Counter(node["metadata"]["labels"][ZONE] for node in workload.nodes(99, zones=3))
    assert set(zones.values()) == {33}


async def test_the_api_server_accepts_all_of_it() -> None:
    server = EmbeddedAPIServer(seed=1)
    for tree in workload.priority_classes():
        server.registry.create(PRIORITY_CLASSES, "", tree)
    for tree in workload.nodes(20):
        server.registry.create(NODES, "", tree)
    created = [server.registry.create(PODS, "default", tree).value for tree in workload.pods(200)]
    assert {pod["spec"]["priority"] for pod in created} == {100, 1_000, 10_000}


# --- what fits --------------------------------------------------------------------------------------------------------

Chooser = Callable[[Sequence[NodeCapacity]], NodeCapacity]
CHOOSERS: list[tuple[str, Chooser]] = [
    ("first fit", lambda fitting: fitting[0]),
    ("last fit", lambda fitting: fitting[-1]),
    ("least allocated", lambda fitting: min(fitting, key=lambda room: room.share("cpu"))),
    ("most cpu allocated", lambda fitting: max(fitting, key=lambda room: room.share("cpu"))),
    ("most memory allocated", lambda fitting: max(fitting, key=lambda room: room.share("memory"))),
    ("scattered", lambda fitting: fitting[7919 * sum(map(len, fitting)) % len(fitting)]),
]


def place_all(pods: list[Pod], nodes: list[NodeCapacity], choose: Chooser) -> list[str]:
    """Place them one after another; the apps of those that found no place."""
    left = []
    for pod in pods:
        fitting = [room for room in nodes if fits(pod, room)]
        if fitting:
            choose(fitting).add(pod)
        else:
            left.append(pod.metadata.labels["app"])
    return left


@pytest.mark.parametrize("choose", [pytest.param(choose, id=name) for name, choose in CHOOSERS])
@pytest.mark.parametrize(("nodes", "pods", "seed"), [(10, 50, 1), (10, 100, 2), (30, 300, 3)])
def test_all_that_is_meant_to_fit_fits_however_it_is_placed(nodes: int, pods: int, seed: int, choose: Chooser) -> None:
    meant = [typed(pod) for pod in workload.pods(pods, seed) if intent_of(pod) == "bound"]
    assert place_all(meant, rooms(nodes, seed), choose) == []


@pytest.mark.parametrize("order", ["as made", "small first", "large first"])
def test_the_demos_thousand_pods_fit_in_any_order(order: str) -> None:
    meant = [typed(pod) for pod in workload.pods(1000, 1) if intent_of(pod) == "bound"]
    if order != "as made":
        meant.sort(
            key=lambda pod: nano_value(pod.spec.containers[0].resources.requests.get("cpu", "0")),
            reverse=order == "large first",
        )
    assert place_all(meant, rooms(100, 1), lambda fitting: fitting[0]) == []


def test_the_hopeless_fit_nowhere_even_when_all_nodes_are_empty() -> None:
    empty = rooms(100, 1)
    never = [typed(pod) for pod in workload.pods(1000, 1) if intent_of(pod) == "never"]
    assert {pod.metadata.labels["app"] for pod in never} == {"too-big", "nowhere", "gated"}
    for pod in never:
        assert pod.spec.scheduling_gates or not any(fits(pod, room) for room in empty)


def test_a_twentieth_of_the_pods_needs_rules_about_other_pods() -> None:
    others = [tree for tree in workload.pods(1000, 1) if needs_other_rules(typed(tree))]
    assert Counter(pod["metadata"]["labels"]["app"] for pod in others) == {"spread": 30, "apart": 20}
    assert {intent_of(pod) for pod in others} == {"rule"}
