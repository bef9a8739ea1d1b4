"""Others' pods that go: as few as do it, the least important, and never before what costs nobody a pod for good."""

import pytest

from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.suggestions.test_commands import queried
from tests.explain.suggestions.test_every_kind import device_scenario, suggested_for

DRIVER = "gpu.example.com"


def owned(pod: Tree, kind: str = "ReplicaSet") -> Tree:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "other", "uid": "1", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def held_by(*holders: tuple[int, int], count: int, is_made_for_its_pod: bool = True) -> Tree:
    """Pods with a claim each, of so many devices and this priority, fill a node; one of 100000 wants `count`."""
    names = [f"d{number}" for number in range(sum(devices for devices, _ in holders))]
    tree = device_scenario({"count": count})
    tree["objects"]["resourceslices"][0]["spec"]["devices"] = [{"name": name} for name in names]
    tree["pod"]["spec"]["priority"] = 100_000
    for number, (devices, priority) in enumerate(holders):
        pod = owned(pod_tree(f"p{number}", cpu="1m", nodeName="a", priority=priority))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": f"p{number}", "uid": f"uid-p{number}", "controller": True}
        taken = [names.pop(0) for _ in range(devices)]
        results = [{"request": "r", "driver": DRIVER, "pool": "a", "device": name} for name in taken]
        metadata = {"name": f"c{number}", "namespace": "default", "uid": f"c{number}"}
        users = [{"resource": "pods", "name": f"p{number}", "uid": f"uid-p{number}"}]
        claim = {
            "metadata": {**metadata, "ownerReferences": [owner]} if is_made_for_its_pod else metadata,
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users},
        }
        tree["objects"]["pods"].append(pod)
        tree["objects"]["resourceclaims"].append(claim)
    return tree


@pytest.mark.parametrize(
    ("holders", "count", "gone"),
    [
        pytest.param([(1, 100)] * 8, 2, ["p0", "p1"], id="two of eight"),
        pytest.param([(1, 100)] * 8, 4, ["p0", "p1", "p2", "p3"], id="four of eight"),
        pytest.param([(1, 100), (1, 7), (1, 100), (1, 3), (1, 100)], 2, ["p1", "p3"], id="the least important"),
        pytest.param([(1, 5), (1, 5), (1, 5), (1, 5), (4, 9)], 4, ["p4"], id="the fewest"),
        pytest.param([(1, 5), (2, 5), (1, 5), (2, 9)], 4, ["p1", "p3"], id="the fewest of several"),
        pytest.param([(1, 5), (1, 200_000), (1, 5), (1, 200_000)], 2, ["p0", "p2"], id="nobody more important"),
    ],
)
def test_as_few_pods_as_do_it_give_their_devices_back(
    holders: list[tuple[int, int]], count: int, gone: list[str]
) -> None:
    tree = held_by(*holders, count=count)
    found = suggested_for(tree)["releaseDevices"]
    assert sorted(each["name"] for each in found["changes"] if each["resource"] == "pods") == gone
    assert sorted(found["command"].split()[5:]) == gone  # kubectl delete pod -n default; their claims go with them


def test_claims_that_stay_when_their_pods_go_are_deleted_with_them() -> None:
    found = suggested_for(held_by((1, 100), (1, 100), count=2, is_made_for_its_pod=False))["releaseDevices"]
    assert found["text"] == (
        "delete claims default/c0, default/c1, which hold gpu.example.com/a/d0, gpu.example.com/a/d1, and delete "
        "default/p0, default/p1, which use them (priority 100)"
    )
    assert found["command"] == ("kubectl delete pod -n default p0 p1 && kubectl delete resourceclaim -n default c0 c1")


@pytest.mark.parametrize("priority", [0, 100_000])
def test_a_pod_that_nobody_makes_again_goes_last_and_the_text_says_so(priority: int) -> None:
    bare = pod_tree("classic", nodeName="a", priority=priority)
    found, text = queried(pod_tree(priority=0), nodes=[node_tree("a", cpu="1")], pods=[bare])
    assert [each["kind"] for each in found] == ["addNode", "request", "deletePods"]
    more = f"; of higher priority than the pod: priority {priority} against 0" if priority else ""
    assert found[-1]["text"] == f"delete default/classic on a (priority {priority}{more}; no controller recreates it)"
    assert text.index("add a node") < text.index("delete default/classic")


def test_a_pod_that_its_controller_makes_again_goes_before_one_that_nobody_does() -> None:
    pods = [owned(pod_tree("web-1", nodeName="a", priority=5)), pod_tree("bare", nodeName="a", priority=1)]
    found, _ = queried(pod_tree(priority=9), nodes=[node_tree("a", cpu="2")], pods=pods)
    deletions = [each["changes"][0]["name"] for each in found if each["kind"] == "deletePods"]
    assert (found[0]["kind"], deletions) == ("deletePods", ["web-1", "bare"])
