"""What is free and of no use: against a model that looks at one node and one pod after the other."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from kscheduler.aio.tasks import finished
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceSlice
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.fragments.typical_requests import Ignores, ignores_nothing
from kscheduler.fragments.unusable import MAX_RESOURCES, fragments
from kscheduler.framework.pods.pod_info import PodInfo
from tests.builders import make_node, make_pod
from tests.fragments.test_class_devices import pool_of_all
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    user,
)

GPU = "nvidia.com/gpu"
OF_CLASS = "deviceclass.resource.kubernetes.io/gpu"


def found_on(
    stage: Stage, *waiting: Pod, ignores: Ignores = ignores_nothing
) -> dict[tuple[str, str], ResourceFragmentation]:
    """By resource and pool. The running pods are those of the nodes."""
    nodes = stage.cache.nodes

    def running() -> list[PodInfo]:
        return [pod for row in nodes.rows().tolist() for pod in nodes.info(row).pods.values()]

    devices = ClassDevices(stage.cache, lambda: stage.plugin)
    found = finished(fragments(stage.cache, devices, running, lambda: map(PodInfo, waiting), ignores))
    return {(each.resource, each.pool): each for each in found}


def stage_of(*objects: Any, **nodes: dict[str, Any]) -> Stage:
    stage = Stage(*objects, nodes=0)
    for name, amounts in nodes.items():
        stage.cache.add_node(make_node(name, **amounts))
    return stage


def lacking(found: ResourceFragmentation) -> tuple[int, int, dict[str, int]]:
    return found.free, found.cordoned, found.lacking


def test_free_devices_of_a_class_are_of_no_use_where_cpu_is_spent_or_too_few_are_left() -> None:
    """n0 has 3 devices and no CPU; n1 one device, of which all pods want two; n2 both; n3 is cordoned."""
    stage = stage_of(
        device_class(),
        *(devices_of(name, *"abcd"[:count]) for name, count in (("n0", 3), ("n1", 2), ("n2", 4), ("n3", 2))),
        n0={"cpu": "4"},
        n1={"cpu": "64"},
        n2={"cpu": "64"},
        n3={"cpu": "64", "spec": {"unschedulable": True}},
    )
    stage.put(claim("taken", allocated=allocation("n1", "a")))
    stage.put(claim("wanted", exactly(count=2)))
    stage.cache.add_pod(make_pod("busy", node="n0", requests={"cpu": "4"}))
    gpus = found_on(stage, user("wanted", requests={"cpu": "8"}))[OF_CLASS, ""]
    assert lacking(gpus) == (10, 2, {"cpu": 3, OF_CLASS: 1})
    assert (gpus.allocatable, gpus.driver, gpus.device_class) == (11, DRIVER, "gpu")
    assert gpus.name_text == f"devices of class gpu ({DRIVER})"
    assert gpus.why_text == "3 for lack of cpu, 1 in pieces too small, 2 on cordoned nodes"


def test_cpu_beside_devices_that_are_taken_is_told_by_the_class_that_lacks() -> None:
    stage = stage_of(device_class(), devices_of("n0", "a"), n0={"cpu": "4"})
    stage.put(claim("taken", allocated=allocation("n0", "a")))
    stage.put(claim("wanted"))
    found = found_on(stage, user("wanted", requests={"cpu": "1"}))["cpu", ""]
    assert (found.lacking, found.why_text) == ({OF_CLASS: 4000}, "4 for lack of devices of class gpu")


def test_devices_that_several_nodes_reach_are_of_use_if_one_of_the_nodes_has_the_rest() -> None:
    stage = stage_of(device_class(), pool_of_all("fabric", "a", "b"), n0={"cpu": "1"}, n1={"cpu": "8"})
    stage.put(claim("wanted"))
    pod = user("wanted", requests={"cpu": "4"})
    assert lacking(found_on(stage, pod)[OF_CLASS, "fabric"]) == (2, 0, {})
    stage.cache.add_node(make_node("n1", cpu="2"))
    assert lacking(found_on(stage, pod)[OF_CLASS, "fabric"]) == (2, 0, {"cpu": 2})
    for name in ("n0", "n1"):
        stage.cache.add_node(make_node(name, cpu="8", spec={"unschedulable": True}))
    assert lacking(found_on(stage, pod)[OF_CLASS, "fabric"]) == (2, 2, {})


def test_devices_stand_for_a_resource_where_the_node_lists_none_of_it() -> None:
    stage = stage_of(
        device_class(extendedResourceName=GPU),
        devices_of("dra", "a", "b"),
        dra={"cpu": "8"},
        plugin={"cpu": "8", GPU: "4"},
    )
    stage.cache.add_pod(make_pod("one", node="plugin", requests={GPU: "1"}))
    found = found_on(stage, make_pod("waits", requests={GPU: "3"}))[GPU, ""]
    assert (found.allocatable, *lacking(found)) == (6, 5, 0, {})
    for_two = found_on(stage, make_pod("waits", requests={GPU: "3"}), make_pod("idle", requests={"cpu": "1"}))
    assert lacking(for_two["cpu", ""])[0] == 16_000


def test_a_claim_of_several_pods_counts_for_one_of_them() -> None:
    stage = stage_of(device_class(), devices_of("n0", "a", "b"), n0={"cpu": "8"})
    stage.put(claim("both", allocated=allocation("n0", "a"), users=("first", "second")))
    for name in ("first", "second"):
        stage.cache.add_pod(user("both", name=name, node="n0", requests={"cpu": "1"}, uid=name))
    assert lacking(found_on(stage)[OF_CLASS, ""]) == (1, 0, {})
    assert {key for key, _ in found_on(stage)} == {OF_CLASS, "cpu"}


def test_a_pod_that_asks_for_more_than_an_int64_holds_fits_nowhere_and_is_no_failure() -> None:
    most = 2**63 - 1
    stage = stage_of(device_class(extendedResourceName=GPU), devices_of("n0", "a"), n0={"cpu": "4"})
    stage.put(claim("greedy", exactly("first", count=most), exactly("second", count=most)))
    found = found_on(stage, user("greedy", requests={"cpu": "9E", GPU: "9E", OF_CLASS: "9E"}))
    assert lacking(found[OF_CLASS, ""]) == (1, 0, {"cpu": 1})


def test_what_is_free_on_several_nodes_may_be_more_than_an_int64_holds() -> None:
    """The pod fits on n0; n1 and n2 have no CPU, n3 and n4 are cordoned."""
    cordoned = {"spec": {"unschedulable": True}}
    stage = stage_of(
        n0={"cpu": "4", "a.b/c": "8E"},
        **{name: {"cpu": "0", "a.b/c": "8E"} for name in ("n1", "n2")},
        **{name: {"cpu": "4", "a.b/c": "8E", **cordoned} for name in ("n3", "n4")},
    )
    found = found_on(stage, make_pod("waits", requests={"cpu": "1", "a.b/c": "1"}))["a.b/c", ""]
    assert (found.allocatable, *lacking(found)) == (40 * 10**18, 40 * 10**18, 16 * 10**18, {"cpu": 16 * 10**18})


def test_a_resource_lacks_only_pods_whose_profile_looks_at_it() -> None:
    """n0 has none of the licence that both pods ask for, and n1 no CPU; the profile `mine` leaves the licence out."""
    stage = stage_of(n0={"cpu": "4"}, n1={"cpu": "0", "a.b/licence": "1"})
    asked = {"cpu": "1", "a.b/licence": "1"}
    mine, other = (make_pod(name, requests=asked, schedulerName=name) for name in ("mine", "other"))

    def ignores(scheduler_name: str, resource: str) -> bool:
        return (scheduler_name, resource) == ("mine", "a.b/licence")

    assert found_on(stage, other, ignores=ignores)["cpu", ""].lacking == {"a.b/licence": 4000}
    assert found_on(stage, mine, other, ignores=ignores)["cpu", ""].lacking == {}
    assert found_on(stage, mine, ignores=ignores).keys() == {("cpu", "")}


def test_resources_that_no_node_has_are_told_together_however_many_pods_name() -> None:
    stage = stage_of(n0={"cpu": "4"})
    odd = [make_pod(f"p{n}", requests={"cpu": "1", f"a.b/r{n}": "1", f"a.b/s{n}": "1"}) for n in range(300)]
    found = found_on(stage, *odd)
    assert {key: each.lacking for key, each in found.items()} == {("cpu", ""): {"other": 4000}}
    assert found["cpu", ""].why_text == "4 for pods that ask for what no node has"


def test_only_so_many_resources_are_told_apart() -> None:
    names = [f"a.b/r{number:02}" for number in range(MAX_RESOURCES + 8)]
    stage = stage_of(n0={"cpu": "4", **dict.fromkeys(names, "2")})
    found = found_on(stage, *(make_pod(f"p{name[-2:]}", requests={"cpu": "1", name: "1"}) for name in names))
    assert len(found) == MAX_RESOURCES
    assert ("cpu", "") in found


def test_pods_that_all_differ_are_counted_within_a_bound() -> None:
    stage = stage_of(n0={"cpu": "400"})
    pods = [make_pod(f"p{n}", requests={"cpu": f"{n}m"}) for n in range(1, 2500)]
    frequent = [make_pod(f"q{n}", requests={"cpu": "1", "memory": "1Gi"}) for n in range(60)]
    assert lacking(found_on(stage, *frequent, *pods)["cpu", ""]) == (400_000, 0, {})


def test_what_waits_counts_however_many_other_requests_are_more_frequent() -> None:
    stage = stage_of(n0={"cpu": "400", GPU: "8"})
    for number in range(600):
        stage.cache.add_pod(
            make_pod(f"p{number}", node="n0", uid=f"u{number}", requests={"cpu": f"{1 + number // 2}m"})
        )
    assert lacking(found_on(stage, make_pod("waits", requests={GPU: "9"}))[GPU, ""]) == (8, 0, {GPU: 8})


def test_a_piece_that_only_small_pods_can_use_is_lost_for_the_others() -> None:
    """Of four pods three want one GPU, and one all four; n0 has two left, n1 four, n2 is cordoned."""
    stage = stage_of(n0={GPU: "2"}, n1={GPU: "4"}, n2={GPU: "4", "spec": {"unschedulable": True}})
    pods = [make_pod(f"p{number}", requests={GPU: wants}) for number, wants in enumerate("1114")]
    found = found_on(stage, *pods)[GPU, ""]
    assert (found.unusable, found.fragmented) == (4, round(2 * 1 / 4 + 4))
    shared = stage_of(device_class(), pool_of_all("fabric", "a", "b", "c", "d"), n0={"cpu": "1"}, n1={"cpu": "8"})
    for number, wants in enumerate((1, 1, 1, 9)):
        shared.put(claim(f"c{number}", exactly(count=wants)))
    users = [user(f"c{number}", name=f"u{number}", requests={"cpu": "4"}) for number in range(4)]
    assert found_on(shared, *users)[OF_CLASS, "fabric"].fragmented == 1


def naive(free: dict[str, Counter[str]], mix: list[Counter[str]], cordoned: set[str], name: str) -> Any:
    """As the docstring of `unusable` says it."""
    lacked: Counter[str] = Counter()
    asking = [shape for shape in mix if shape[name]]
    for node, has in free.items():
        if node in cordoned or not has[name]:
            continue
        if not any(all(has[key] >= amount for key, amount in shape.items()) for shape in asking):
            short = Counter(key for shape in asking for key, amount in shape.items() if has[key] < amount)
            lacked[max(sorted(short), key=lambda key: (short[key], -sorted(short).index(key)))] += has[name]
    total = sum(has[name] for has in free.values())
    return total, sum(free[node][name] for node in cordoned), dict(lacked)


def slice_with(node: str, count: int) -> ResourceSlice:
    return devices_of(node, *(f"d{number}" for number in range(count)))


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_a_look_at_each_node_and_each_pod_finds(seed: int) -> None:
    random = Random(seed)
    stage, free, cordoned = stage_of(device_class()), dict[str, Counter[str]](), set[str]()
    for number in range(12):
        name, cpu, gpus, devices = f"n{number}", random.randrange(9), random.randrange(4), random.randrange(4)
        is_cordoned = random.random() < 0.2
        stage.cache.add_node(make_node(name, cpu=str(cpu), **{GPU: str(gpus)}, spec={"unschedulable": is_cordoned}))
        stage.put(slice_with(name, devices))
        free[name] = Counter({"cpu": cpu * 1000, GPU: gpus, OF_CLASS: devices})
        cordoned |= {name} if is_cordoned else set()
    mix, pods = [], []
    for number in range(6):
        cpu, gpus, devices = random.randrange(1, 9), random.choice((0, 1, 2, 3)), random.choice((0, 0, 1, 2))
        stage.put(claim(f"c{number}", exactly(count=devices or 1)))
        claims = [{"name": "c", "resourceClaimName": f"c{number}"}] if devices else []
        pods.append(make_pod(f"p{number}", requests={"cpu": str(cpu), GPU: str(gpus)}, resourceClaims=claims))
        mix.append(Counter({"cpu": cpu * 1000, GPU: gpus, OF_CLASS: devices}))
    found = {resource: lacking(each) for (resource, _), each in found_on(stage, *pods).items()}
    asked = {name for shape in mix for name, amount in shape.items() if amount}
    expected = {name: naive(free, mix, cordoned, name) for name in asked}
    assert found == {name: entry for name, entry in expected.items() if entry[0]}
