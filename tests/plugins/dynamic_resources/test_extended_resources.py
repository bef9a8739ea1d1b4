"""Extended resources that a class of devices stands for: which nodes count them, which give devices, and the claim."""

from collections.abc import Sequence
from typing import Any

import pytest

from kscheduler.api.core import Node, Pod
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.devices.allocator import Allocator
from kscheduler.framework.cluster.claim_writing import PodReservation
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.dynamic_resources.extended import IN_MEMORY
from kscheduler.plugins.dynamic_resources.node_result_cache import NodeResult
from kscheduler.plugins.dynamic_resources.search import DeviceSearch
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import make_node, make_pod
from tests.plugins.dynamic_resources.stage import Stage, Tree, claim, device_class, devices_of, exactly, user

GPU, IMPLICIT = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
NAMED = device_class(extendedResourceName=GPU)
NONE_LEFT = "cannot allocate all claims"
LEFT: Tree = {
    "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    "ownerReferences": [{"kind": "Pod", "name": "pod", "uid": "uid-of-pod", "controller": True}],
}


def wanting(resource: str = GPU, count: str = "1", **fields: Any) -> Pod:
    return make_pod(requests={resource: count}, **fields)


def counted_by_fit(stage: Stage, pod: Pod) -> dict[str, str]:
    """By node, what NodeResourcesFit says."""
    fit, nodes = NodeResourcesFit(None, stage.handle), stage.cache.nodes
    fit.pre_filter(stage.cycle, PodInfo(pod), nodes)
    codes = fit.filter(stage.cycle, PodInfo(pod), nodes, nodes.rows())
    rows: Sequence[int] = nodes.rows().tolist()
    values = [0] * len(rows) if codes is None else codes.tolist()
    return {
        nodes.name_of(row): fit.status(stage.cycle, code).message if code else ""
        for row, code in zip(rows, values, strict=True)
    }


@pytest.mark.parametrize("version", BEHAVIOURS)
@pytest.mark.parametrize("resource", [GPU, IMPLICIT], ids=["named-by-the-class", "implicit"])
def test_a_node_that_counts_none_gives_devices(resource: str, version: str) -> None:
    stage = Stage(NAMED, devices_of("n0", "a"), version=version)
    pod = wanting(resource)
    assert counted_by_fit(stage, pod) == {"n0": "", "n1": ""}
    assert stage.judge(pod) == {"n0": "a", "n1": NONE_LEFT}


def test_a_node_whose_kubelet_counts_the_resource_gives_that() -> None:
    stage = Stage(NAMED, devices_of("n0", "a"))
    stage.cache.add_node(make_node("n2", **{GPU: "2"}))
    assert counted_by_fit(stage, wanting(count="2")) == {"n0": "", "n1": "", "n2": ""}
    assert stage.judge(wanting(count="2")) == {"n0": NONE_LEFT, "n1": NONE_LEFT, "n2": ""}
    assert counted_by_fit(stage, wanting(count="3"))["n2"] == f"Insufficient {GPU}"


def test_a_node_that_lists_none_of_it_gives_devices_too() -> None:
    stage = Stage(NAMED, devices_of("n2", "a"), nodes=0)
    stage.cache.add_node(make_node("n2", **{GPU: "0"}))
    assert counted_by_fit(stage, wanting()) == {"n2": ""}
    assert stage.judge(wanting()) == {"n2": "a"}


def test_without_a_class_the_resource_is_counted() -> None:
    stage = Stage(device_class(), devices_of("n0", "a"))
    assert stage.begin(wanting()).is_skip
    assert counted_by_fit(stage, wanting()) == {"n0": f"Insufficient {GPU}", "n1": f"Insufficient {GPU}"}


def test_without_the_gate_the_resource_is_counted() -> None:
    stage = Stage(NAMED, devices_of("n0", "a"))
    off = stage.without(features=frozenset(stage.handle.features) - {"DRAExtendedResource"})
    assert off.pre_filter(stage.cycle, PodInfo(wanting()), stage.cache.nodes).status.is_skip


def test_a_resource_without_class_that_nobody_lists_is_reported() -> None:
    """NodeResourcesFit says so first, unless the profile leaves the resource to an extender."""
    stage = Stage(NAMED, devices_of("n0", "a"), nodes=1)
    pod = make_pod(requests={GPU: "1", "example.com/other": "1"})
    assert stage.judge(pod) == {"n0": "cannot fit resource"}


def test_devices_are_taken_for_a_claim_of_the_pods_own() -> None:
    stage = Stage(NAMED, devices_of("n0", "a", "b"), nodes=1)
    pod = wanting(count="2")
    assert stage.judge(pod) == {"n0": "a+b"}
    assert stage.reserve(pod, "n0").is_success
    (reserved,) = stage.cycle.read(PodReservation).claims
    assert reserved.claim.metadata.name == IN_MEMORY
    (request,) = reserved.claim.spec.devices.requests
    assert request.exactly is not None
    assert (request.name, request.exactly.device_class_name, request.exactly.count) == (
        "container-0-request-0",
        "gpu",
        2,
    )
    (mapping,) = reserved.mappings
    assert (mapping.container_name, mapping.resource_name, mapping.request_name) == ("main", GPU, request.name)
    assert reserved.claim.metadata.owner_references[0].uid == pod.metadata.uid
    taken = stage.cycle
    assert stage.judge(wanting(name="other")) == {"n0": NONE_LEFT}
    stage.cycle = taken
    stage.unreserve(pod, "n0")
    assert stage.judge(wanting(name="other")) == {"n0": "a"}


def test_beside_claims_of_its_own_the_pod_gets_both() -> None:
    stage = Stage(NAMED, claim("c0", exactly(count=2)), devices_of("n0", "a", "b", "c"), devices_of("n1", "a", "b"))
    stage.cache.add_node(make_node("n2", **{GPU: "1"}))
    stage.put(devices_of("n2", "x", "y"))
    pod = user("c0", requests={GPU: "1"})
    assert stage.judge(pod) == {"n0": "a+b,c", "n1": NONE_LEFT, "n2": "x+y,"}
    assert stage.reserve(pod, "n0").is_success
    assert [len(each.mappings) for each in stage.cycle.read(PodReservation).claims] == [0, 1]
    stage.unreserve(pod, "n0")
    assert stage.reserve(pod, "n2").is_success
    (only,) = stage.cycle.read(PodReservation).claims
    assert only.claim.metadata.name == "c0", "the node counts the resource itself: no claim is written for it"


def test_where_the_node_counts_all_nothing_is_reserved() -> None:
    stage = Stage(NAMED, nodes=0)
    stage.cache.add_node(make_node("n2", **{GPU: "1"}))
    assert stage.judge(wanting()) == {"n2": ""}
    assert stage.reserve(wanting(), "n2").is_success
    assert not stage.cycle.read(PodReservation).claims


def test_a_claim_that_an_earlier_attempt_has_left_goes_first() -> None:
    stage = Stage(NAMED, devices_of("n0", "a"), claim("left", metadata=LEFT))
    pod = wanting()
    text = "cannot schedule extended resource claim"
    assert stage.judge(pod) == {"n0": text, "n1": text}
    result = stage.post_filter(pod)
    assert (result.status.code, result.status.message) == (
        Code.UNSCHEDULABLE,
        "deletion of ResourceClaim completed",
    )
    assert result.deallocation is not None
    assert result.deallocation.is_deletion
    stage.cache.devices.claims.delete(claim("left", metadata=LEFT))
    assert stage.judge(pod)["n0"] == "a"


def test_an_unserved_pod_has_nothing_to_be_freed() -> None:
    stage = Stage(NAMED, nodes=1)
    assert stage.judge(wanting()) == {"n0": NONE_LEFT}
    assert not stage.post_filter(wanting()).status.reasons


def test_only_nodes_whose_devices_have_changed_are_asked_for_the_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    on = DeviceSearch.on

    def noted(self: DeviceSearch, node: Node) -> NodeResult:
        asked.append(node.metadata.name)
        return on(self, node)

    monkeypatch.setattr(DeviceSearch, "on", noted)
    names = [f"n{number}" for number in range(4)]
    stage = Stage(NAMED, *(devices_of(name, "a", "b") for name in names), nodes=len(names))
    assert stage.judge(wanting(name="p0")) == dict.fromkeys(names, "a")
    assert stage.reserve(wanting(name="p0"), "n1").is_success
    asked.clear()
    pod = PodInfo(wanting(name="p1"))
    stage.begin(pod.pod)
    assert not stage.plugin.filter(stage.cycle, pod, stage.cache.nodes, stage.cache.nodes.rows())
    assert asked == ["n1"]


def test_each_of_many_classes_finds_what_is_known_when_its_turn_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of 25 classes in turn, as scheduler_perf has them."""
    resources = [f"example.com/gpu-{number}" for number in range(25)]
    classes = [device_class(f"gpu-{at}", extendedResourceName=name) for at, name in enumerate(resources)]
    stage = Stage(*classes, devices_of("n0", "a"), nodes=1)
    for name in resources:
        assert stage.judge(wanting(name)) == {"n0": "a"}
    monkeypatch.delattr(Allocator, "allocate_in_parts")
    for name in resources:
        assert stage.judge(wanting(name)) == {"n0": "a"}
