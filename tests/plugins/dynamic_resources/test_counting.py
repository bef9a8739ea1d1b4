"""How many devices a node has, by class: what counts as taken and free, and what an evaluation may cost."""

from typing import Any

import msgspec
import pytest

from kscheduler.cel.environment import Program
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.devices.counting import DeviceCount, NodeDevices
from kscheduler.framework.cluster.devices import DeviceCounter
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimsInCycle
from kscheduler.scenario.device_counts import DevicesByClass
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

TAINTED: Any = {"taints": [{"key": "broken", "effect": "NoExecute"}]}
ONLY_REPORTED: Any = {"taints": [{"key": "odd", "effect": "None"}]}


def selecting(name: str, expression: str) -> Any:
    return device_class(name, selectors=[{"cel": {"expression": expression}}])


def counted(stage: Stage, *names: str) -> dict[str, NodeDevices]:
    infos = (stage.cache.node_info(name) for name in names or ("n0", "n1"))
    return stage.plugin.devices_on([info for info in infos if info is not None])


def figures(found: NodeDevices) -> dict[str, tuple[int, int, int, int]]:
    return {each.device_class: (each.devices, each.taken, each.tainted, each.free) for each in found.counts}


def test_taken_tainted_and_free_devices_of_each_class_are_counted() -> None:
    sized = {"attributes": {"size": {"int": 2}}}
    stage = Stage(
        selecting("all", f'device.driver == "{DRIVER}"'),
        selecting("large", f'device.attributes["{DRIVER}"].?size.orValue(0) > 1'),
        selecting("other", 'device.driver == "net.example.com"'),
        devices_of(
            "n0", "a", {"name": "b", **sized, **TAINTED}, {"name": "c", **sized}, {"name": "d", **ONLY_REPORTED}
        ),
        claim("c0", allocated=allocation("n0", "a")),
    )
    assert isinstance(stage.plugin, DeviceCounter)
    (n0,) = counted(stage).values()
    assert figures(n0) == {"all": (4, 1, 1, 2), "large": (2, 0, 1, 1)}


def test_devices_that_are_chosen_for_a_pod_are_taken_before_anything_is_written() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a", "b"), nodes=1)
    pod = user("c0")
    stage.judge(pod)
    assert figures(counted(stage)["n0"]) == {"gpu": (2, 0, 0, 2)}
    stage.reserve(pod, "n0")
    assert figures(counted(stage)["n0"]) == {"gpu": (2, 1, 0, 1)}
    stage.unreserve(pod, "n0")
    assert figures(counted(stage)["n0"]) == {"gpu": (2, 0, 0, 2)}


def test_whoever_administers_a_device_takes_nothing() -> None:
    allocated = allocation("n0", "a", adminAccess=True)
    stage = Stage(device_class(), claim(allocated=allocated), devices_of("n0", "a"), nodes=1)
    assert figures(counted(stage)["n0"]) == {"gpu": (1, 0, 0, 1)}


def test_a_share_makes_a_device_taken() -> None:
    shared = allocation("n0", "a", shareID="8b3c1a52-0b5c-4d5c-9a52-5d9f3d2f3c11", consumedCapacity={"memory": "1Gi"})
    device = {"name": "a", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}
    stage = Stage(device_class(), claim(allocated=shared), devices_of("n0", device), nodes=1)
    assert figures(counted(stage)["n0"]) == {"gpu": (1, 1, 0, 0)}


def test_devices_that_all_nodes_reach_count_on_each() -> None:
    stage = Stage(device_class(), devices_of("shelf", "a", nodeName=None, allNodes=True))
    assert [figures(found) for found in counted(stage).values()] == [{"gpu": (1, 0, 0, 1)}] * 2


def test_without_devices_nothing_is_reported_and_without_a_class_the_devices_are() -> None:
    assert counted(Stage(device_class())) == {}
    found = counted(Stage(devices_of("n0", "a")))
    assert found == {"n0": NodeDevices((DeviceCount("", DRIVER, 1, 0, 0, 1),))}


def test_a_class_that_names_only_the_driver_is_evaluated_once_and_one_that_fails_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queried = []
    evaluate = Program.evaluate

    def counting(self: Program, *arguments: Any) -> Any:
        queried.append(self)
        return evaluate(self, *arguments)

    monkeypatch.setattr(Program, "evaluate", counting)
    stage = Stage(
        selecting("all", f'device.driver == "{DRIVER}"'),
        selecting("typo", f'device.attributes["{DRIVER}"].modell == "x"'),
        *(devices_of(f"n{node}", *(f"d{number}" for number in range(8))) for node in range(20)),
        nodes=20,
    )
    found = counted(stage, *(f"n{node}" for node in range(20)))
    assert [figures(each) for each in found.values()] == [{"all": (8, 0, 0, 8)}] * 20
    assert {each.unclear for each in found.values()} == {("typo",)}
    assert len(queried) == 2


def test_pools_are_complete_or_not_by_their_newest_generation() -> None:
    stage = Stage(device_class())
    whole, half = devices_of("n0", "a"), devices_of("n1", "a")
    pool = msgspec.structs.replace(half.spec.pool, resource_slice_count=2)
    stage.put(whole)
    stage.put(msgspec.structs.replace(half, spec=msgspec.structs.replace(half.spec, pool=pool)))
    assert stage.plugin.pool_states() == {(DRIVER, "complete"): 1, (DRIVER, "incomplete"): 1}
    assert counted(stage)["n1"].incomplete == ((DRIVER, "n1"),)
    newer = msgspec.structs.replace(whole.spec.pool, generation=2, resource_slice_count=2)
    part = devices_of("n0", "b")
    part.metadata.name = "newer"
    stage.put(msgspec.structs.replace(part, spec=msgspec.structs.replace(part.spec, pool=newer)))
    assert stage.plugin.pool_states() == {(DRIVER, "incomplete"): 2}
    assert counted(stage)["n0"].incomplete == ((DRIVER, "n0"),)


# --- equal devices of two drivers -----------------------------------------------------------------------------------

OTHER = "net.example.com"


def stage_of_two_drivers() -> Stage:
    """Both publish a device `a` without attributes, which is one object."""
    both = selecting("of-other", f'device.driver == "{OTHER}"')
    second = devices_of("n0", "a", driver=OTHER)
    second.metadata.name = "second"
    stage = Stage(both, devices_of("n0", "a"), second, nodes=1, shares_devices=True)
    first, other = stage.cache.devices.slices()
    assert first.spec.devices is other.spec.devices
    return stage


def test_a_claim_gets_the_one_of_the_driver_that_its_class_selects() -> None:
    stage = stage_of_two_drivers()
    stage.put(claim("c0", exactly(device_class="of-other")))
    stage.judge(user("c0"))
    (found,) = stage.cycle.read(ClaimsInCycle).found_on(stage.cache.nodes.info(0)) or ()
    assert [result.driver for result in found.devices.results] == [OTHER]


def test_only_the_one_of_the_driver_is_counted_as_of_the_class() -> None:
    stage = stage_of_two_drivers()
    (n0,) = counted(stage).values()
    assert figures(n0) == {"of-other": (1, 0, 0, 1), "": (1, 0, 0, 1)}
    assert DevicesByClass(FeatureGates()).counts(stage.cache.devices, ["n0"]) == {"of-other": (1, 0)}
