"""Devices by class on each node: as if they were counted anew after each change, whatever comes and goes."""

from random import Random
from typing import Any

import msgspec
import pytest

from kscheduler.api.devices import ResourceSlice
from kscheduler.fragments.class_devices import MAX_GROUPS, ClassDevices, DeviceGroup, DeviceSums
from kscheduler.plugins.dynamic_resources.plugin import DynamicResources
from tests.builders import make_node
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    allocation,
    claim,
    device_class,
    devices_of,
    taint_rule,
)

BIG = [{"cel": {"expression": f'device.attributes["{DRIVER}"].size == "big"'}}]
GATE = "DRADeviceTaints"
OWN = DeviceGroup("gpu", DRIVER)


def followed(stage: Stage, devices: ClassDevices | None = None) -> ClassDevices:
    found = devices or ClassDevices(stage.cache, lambda: stage.plugin)
    for _ in found.follow():
        pass
    return found


def by_node(stage: Stage, devices: ClassDevices) -> dict[tuple[str, str], list[int]]:
    """By class and node how many there are, taken and free."""
    nodes = stage.cache.nodes
    rows = nodes.rows()
    found = {}
    for name in devices.class_names:
        for node, *amounts in zip(nodes.names(rows), *devices.reached(name, rows), strict=True):
            if any(amounts):
                found[name, node] = [int(amount) for amount in amounts]
    return found


@pytest.mark.parametrize(("is_on", "free"), [(True, 0), (False, 1)], ids=["on", "off"])
def test_a_taint_counts_only_with_the_gate_by_which_it_keeps_claims_away(is_on: bool, free: int) -> None:
    stage = Stage(device_class(), nodes=1)
    stage.put(devices_of("n0", {"name": "a", "taints": [{"key": "bad", "effect": "NoSchedule"}]}))
    others = frozenset(stage.handle.features) - {GATE}
    features = others | {GATE} if is_on else others
    stage.plugin = DynamicResources(None, msgspec.structs.replace(stage.handle, features=features))
    assert by_node(stage, followed(stage))["gpu", "n0"] == [1, 0, free]
    (count,) = stage.plugin.devices_on([stage.cache.nodes.info(0)])["n0"].counts
    assert (count.tainted, count.free) == (1 - free, free)


def pool_of_all(name: str, *devices: str) -> ResourceSlice:
    """Devices that every node reaches."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return devices_of(f"net-{name}", *devices, nodeName=None, allNodes=True, pool=pool)


def test_what_there_is_taken_and_free_is_told_by_class_and_driver() -> None:
    stage = Stage(device_class(), device_class("big", selectors=BIG), devices_of("n0", "a", "b", "c"))
    sized = {"name": "d", "attributes": {"size": {"string": "big"}}}
    stage.put(devices_of("n1", sized, {"name": "e", "taints": [{"key": "bad", "effect": "NoSchedule"}]}))
    stage.put(claim(allocated=allocation("n0", "a")))
    devices = followed(stage)
    assert by_node(stage, devices) == {("gpu", "n0"): [3, 1, 2], ("gpu", "n1"): [2, 0, 1]}
    assert devices.groups == (OWN,), "a selector that fails for a device has the class not asked about its driver"
    stage.put(devices_of("n0", sized, sized | {"name": "b"}))
    stage.put(devices_of("n1", sized))
    assert by_node(stage, followed(stage, ClassDevices(stage.cache, lambda: stage.plugin)))["big", "n1"] == [1, 0, 1]


def test_each_device_that_several_nodes_reach_counts_once() -> None:
    stage = Stage(device_class(), pool_of_all("fabric", "a", "b", "c"), devices_of("n0", "own"), nodes=3)
    shared = allocation("fabric", "a") | {"nodeSelector": None}
    stage.put(claim(allocated=shared))
    devices = followed(stage)
    assert {group: devices.sums(group) for group in devices.groups} == {
        OWN: DeviceSums(1, 0, 1),
        DeviceGroup("gpu", DRIVER, "fabric"): DeviceSums(3, 1, 2),
    }
    assert by_node(stage, devices)["gpu", "n0"] == [4, 1, 3]


def test_pools_that_have_no_room_of_their_own_are_told_together() -> None:
    stage = Stage(device_class(), *(pool_of_all(f"p{number}", "a") for number in range(MAX_GROUPS + 5)))
    devices = followed(stage)
    assert len(devices.groups) == MAX_GROUPS + 1
    assert devices.sums(DeviceGroup("other", "other", "other")) == DeviceSums(5, 0, 5)


def test_pools_that_are_gone_give_their_places_to_those_that_come() -> None:
    """Nodes are counted in batches, so that the first ones see new pools while the last ones still have old ones."""
    stage = Stage(device_class(), *(pool_of_all(f"p{number}", "a") for number in range(MAX_GROUPS)), nodes=20)
    devices = followed(stage)
    for number in range(MAX_GROUPS):
        stage.cache.devices.remove_slice(f"slice-net-p{number}")
        stage.put(pool_of_all(f"q{number}", "a"))
    followed(stage, devices)
    of_others = DeviceGroup("other", "other", "other")
    assert {group.pool for group in devices.groups if group != of_others} == {f"q{n}" for n in range(MAX_GROUPS)}
    assert devices.sums(of_others) == DeviceSums(0, 0, 0)
    assert by_node(stage, devices) == by_node(stage, followed(stage))
    stage.cache.devices.remove_slice("slice-net-q0")
    assert devices.sums(DeviceGroup("gpu", DRIVER, "q0")) == DeviceSums(1, 0, 1), "nothing is forgotten in between"
    assert followed(stage, devices).sums(DeviceGroup("gpu", DRIVER, "q0")) == DeviceSums(0, 0, 0)


def test_nodes_are_not_counted_again_for_groups_that_have_no_place() -> None:
    stage = Stage(device_class(), *(pool_of_all(f"p{number}", "a") for number in range(MAX_GROUPS + 5)), nodes=3)
    counter = _Counter(stage)
    devices = followed(stage, ClassDevices(stage.cache, lambda: counter))
    stage.cache.devices.remove_slice("slice-net-p0")
    followed(stage, devices)
    counter.asked.clear()
    followed(stage, devices)
    assert counter.asked == []
    assert devices.sums(DeviceGroup("other", "other", "other")) == DeviceSums(4, 0, 4)


def test_a_driver_that_is_gone_stays_at_zero() -> None:
    stage = Stage(device_class(), devices_of("n0", "a"))
    devices = followed(stage)
    stage.cache.devices.remove_slice("slice-n0")
    assert followed(stage, devices).sums(OWN) == DeviceSums(0, 0, 0)
    stage.put(devices_of("n0", "a", "b"))
    assert followed(stage, devices).sums(OWN) == DeviceSums(2, 0, 2)


def test_what_changes_while_others_run_is_counted_next_time() -> None:
    stage = Stage(device_class(), *(devices_of(f"n{number}", "a") for number in range(40)), nodes=40)
    devices = ClassDevices(stage.cache, lambda: stage.plugin)
    pauses = devices.follow()
    next(pauses)
    stage.cache.remove_node("n39")
    stage.put(claim(allocated=allocation("n0", "a")))
    for _ in pauses:
        pass
    assert followed(stage, devices).sums(OWN) == DeviceSums(39, 1, 38)


class _Counter:
    """Counts for which nodes the plugin is asked."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.asked: list[str] = []

    def devices_by_pool(self, nodes: Any) -> Any:
        found = list(nodes)
        self.asked += [info.name for info in found]
        return self._stage.plugin.devices_by_pool(found)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage.plugin, name)


def test_only_what_has_changed_is_counted_again() -> None:
    stage = Stage(device_class(), *(devices_of(f"n{number}", "a") for number in range(9)), nodes=9)
    counter = _Counter(stage)
    devices = followed(stage, ClassDevices(stage.cache, lambda: counter))
    assert sorted(counter.asked) == [f"n{number}" for number in range(9)]
    counter.asked.clear()
    followed(stage, devices)
    assert counter.asked == []
    stage.put(claim(allocated=allocation("n3", "a")))
    stage.put(devices_of("n5", "a", "b"))
    followed(stage, devices)
    assert sorted(counter.asked) == ["n3", "n5"]


@pytest.mark.parametrize("seed", range(6))
def test_columns_that_follow_changes_equal_columns_that_are_made_anew(seed: int) -> None:
    random = Random(seed)
    stage = Stage(device_class())
    devices = ClassDevices(stage.cache, lambda: stage.plugin)
    names = [f"n{number}" for number in range(6)]
    for step in range(60):
        name = random.choice(names)
        match random.randrange(8):
            case 0 | 1:
                stage.put(devices_of(name, *"abcd"[: random.randrange(5)]))
            case 2 | 3:
                stage.put(claim(f"c{random.randrange(4)}", allocated=allocation(name, random.choice("abcd"))))
            case 4:
                stage.cache.add_node(make_node(name))
            case 5:
                stage.cache.remove_node(name)
            case 6:
                stage.put(pool_of_all(random.choice("xy"), *"ab"[: random.randrange(3)]))
            case _:
                stage.put(taint_rule(driver=DRIVER, pool=name)) if step % 2 else stage.cache.devices.remove_rule("bad")
        followed(stage, devices)
        fresh = followed(stage)
        assert by_node(stage, devices) == by_node(stage, fresh)
        assert all(devices.sums(group) == fresh.sums(group) for group in fresh.groups)
