"""An annotation that is nearly one that asks for a topology is reported: without it the group would ask for less."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from kscheduler.framework.cluster import topology_request
from kscheduler.framework.cluster.topology_request import (
    OF_KUEUE_ALONE,
    PREFERRED,
    REQUIRED,
    SLICE_SIZE,
    SPARE_NODES,
    request_in_annotations,
)
from tests.scheduling.groups.world import World, member, pod_group

RACK = "example.com/rack"


def problem_of(annotations: Mapping[str, str]) -> str:
    found = request_in_annotations(annotations)
    return "" if found is None else found.problem


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        pytest.param("kueue.x-k8s.io/podset-requierd-topology", REQUIRED, id="letters"),
        pytest.param("kueue.x-k8s.io/Podset-Required-Topology", REQUIRED, id="capitals"),
        pytest.param("kueue.x-k8s.io/podset-Prefered-Topology", PREFERRED, id="case"),
        pytest.param("kueue.x-k8s.io/podset-topology", REQUIRED, id="short"),
        pytest.param("kueue.x-k8s.io/podset-slice-sizes", SLICE_SIZE, id="plural"),
        pytest.param("kueue.k8s.io/podset-required-topology", REQUIRED, id="domain"),
        pytest.param("podset-required-topology", REQUIRED, id="no prefix"),
        pytest.param("kscheduler.io/topology-spare-node", SPARE_NODES, id="ours"),
    ],
)
def test_a_misspelt_key_is_told_with_what_was_meant(key: str, meant: str) -> None:
    assert problem_of({key: RACK}) == f"metadata.annotations[{key}] is unknown: did you mean {meant}?"


@pytest.mark.parametrize(
    "key",
    [
        *sorted(OF_KUEUE_ALONE),
        "kueue.x-k8s.io/podset-index",
        "volcano.sh/numa-topology-policy",
        "volcano.sh/network-topology-mode",
        "example.com/podset-required-topology",
        f"kueue.x-k8s.io/podset-required-{'x' * 100_000}",
    ],
    ids=lambda key: key[:60],
)
def test_what_others_read_is_none_of_ours(key: str) -> None:
    assert request_in_annotations({key: RACK}) is None
    assert problem_of({key: RACK, REQUIRED: RACK}) == ""


def test_few_of_many_keys_are_compared() -> None:
    many = {f"example.com/topology-{number:05}": "" for number in range(1_000)}
    assert problem_of({**many, "kueue.x-k8s.io/podset-required-topolgy": RACK}) == "", "behind 32 others"


@pytest.mark.parametrize("on_group", [pytest.param(True, id="group"), pytest.param(False, id="member")])
async def test_the_group_is_refused_like_one_with_a_wrong_value(on_group: bool) -> None:
    world, wrong = World(), {"kueue.x-k8s.io/podset-required-topolgy": RACK}
    world.nodes(2)
    group, pods = pod_group("g", 2), [member(f"g-{number}", "g") for number in range(2)]
    if on_group:
        group.metadata.annotations.update(wrong)
    else:
        pods[1] = replace(pods[1], metadata=replace(pods[1].metadata, annotations=wrong))
    async with world.working():
        world.add_group(group)
        world.add(*pods)
        await world.settle()
        condition = world.groups.last("g")
        who = "" if on_group else "member g-1: "
        text = "metadata.annotations[kueue.x-k8s.io/podset-required-topolgy] is unknown"
        assert condition.reason == "PodGroupError"
        assert condition.message == f"podgroup/default/g: {who}{text}: did you mean {REQUIRED}?"
        assert world.bindings == []


async def test_a_group_has_few_keys_compared_however_many_members_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is tried in many placements, and where each member has keys of its own."""
    compared: list[str] = []

    def noted(key: str) -> str:
        compared.append(key)
        return ""

    monkeypatch.setattr(topology_request, "_meant_by", noted)
    world = World(gates="GenericWorkload=true,TopologyAwareWorkloadScheduling=true")
    world.nodes(2)
    pods = []
    for number in range(4):
        keys = {f"example.com/topology-{number}-{each}": "" for each in range(20)}
        pod = member(f"g-{number}", "g")
        pods.append(replace(pod, metadata=replace(pod.metadata, annotations=keys)))
    async with world.working():
        world.add_group(pod_group("g", 4))
        world.add(*pods)
        await world.settle()
        assert len(world.bindings) == 4
    assert len(compared) == len(set(compared)) == 32
