"""What is found on a node, moved to another node of its layout, is what a search there finds."""

import random
from collections import Counter
from typing import Any, Final

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.api.selector_errors import SelectorCompileError
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.ids import AllocatedState, DeviceID
from kscheduler.devices.layouts import DeviceLayout, attributes_read, moved
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures, FailedOnThisNodeError
from kscheduler.informers.transform import default_transform
from tests.devices.generated import problem
from tests.devices.predicates import KnownPredicates
from tests.effort import example_count

Json = dict[str, Any]
NODES: Final = tuple(f"n{number}" for number in range(8))
SHARED: Final = ("perDeviceNodeSelection", "nodeName", "nodeSelector", "allNodes", "pool")


def cluster(one: Json, chance: random.Random, *, has_serials: bool = False) -> list[ResourceSlice]:
    """Nodes that have devices of the problem's slices for themselves, few different ones; some slices as they are.

    With serial numbers no two nodes have the same devices.
    """
    share = default_transform("resourceslices.resource.k8s.io")
    with_devices = [piece["spec"] for piece in one["slices"] if piece["spec"].get("devices")]
    kinds = [chance.sample(with_devices, min(len(with_devices), chance.choice((0, 1, 1, 2)))) for _ in range(2)]
    slices: list[Json] = [piece for piece in one["slices"] if chance.random() < 0.05]
    for node in NODES:
        for number, spec in enumerate(chance.choice(kinds)):
            own = {key: value for key, value in spec.items() if key not in SHARED}
            if has_serials:
                own["devices"] = [_with_serial(device, f"{node}-{device['name']}") for device in own["devices"]]
            pool = {"name": f"{chance.choice('abc')}-{node}-{number}", "generation": 1, "resourceSliceCount": 1}
            slices.append({"metadata": {"name": f"{node}-{number}"}, "spec": own | {"nodeName": node, "pool": pool}})
    made = [convert(piece, ResourceSlice) for piece in slices]
    for each in made:
        share(each)
    return made


def _with_serial(device: Json, serial: str) -> Json:
    return {**device, "attributes": {**device.get("attributes", {}), "serial": {"string": serial}}}


def taken_of(slices: list[ResourceSlice], chance: random.Random) -> AllocatedState:
    """The first devices of some pools, so that some nodes have the same ones taken."""
    taken = set()
    for piece in slices:
        spec = piece.spec
        for device in spec.devices[: chance.choice((0, 0, 1, 2))]:
            taken.add(DeviceID(spec.driver, spec.pool.name, device.name))
    return AllocatedState(taken)


def searched(allocator: Allocator, node: str) -> list[AllocationResult] | str | None:
    try:
        return allocator.allocate(node, {})
    except AllocationError:
        return "error"
    except FailedOnThisNodeError:
        return "error of the node"


@pytest.mark.parametrize("has_serials", [False, True], ids=["like devices", "serial numbers"])
@pytest.mark.parametrize("seed", range(example_count(12)))
def test_nodes_of_one_layout_get_the_same(seed: int, *, has_serials: bool) -> None:
    counts: Counter[str] = Counter()
    for number in range(150):
        one, chance = problem((seed, number)), random.Random(f"{seed} {number}")
        features = AllocatorFeatures.of(one["gates"], BEHAVIOURS[one["version"]])
        classes = {each["metadata"]["name"]: convert(each, DeviceClass) for each in one["classes"]}
        claims = [convert(each, ResourceClaim) for each in one["claims"]]
        slices = cluster(one, chance, has_serials=has_serials)
        index, state = SliceIndex(slices, features), taken_of(slices, chance)
        selections = Selections(KnownPredicates(), features)
        allocator = Allocator(features, claims, state, classes.get, index, selections)
        try:
            read = attributes_read([claim.spec for claim in claims], classes.get, selections)
        except SelectorCompileError:
            read = None
        first: dict[Any, tuple[Any, DeviceLayout]] = {}
        for node in NODES:
            layout, found = index.layout(node, {}, state, read), searched(allocator, node)
            if layout is None:
                counts["none"] += 1
            elif layout.key not in first:
                first[layout.key] = found, layout
            else:
                known, found_in = first[layout.key]
                assert (moved(known, found_in, layout, node) if isinstance(known, list) else known) == found
                counts["moved" if found else "other"] += 1
    assert counts["none"] > 20
    assert counts["moved"] > 20
    assert counts["other"] > 20


def layouts(*nodes: Json) -> list[DeviceLayout | None]:
    """Of nodes with these slices, by driver."""
    share = default_transform("resourceslices.resource.k8s.io")
    slices = []
    for number, by_driver in enumerate(nodes):
        for driver, spec in by_driver.items():
            pool = {"name": f"p{number}", "generation": 1, "resourceSliceCount": 1}
            own = {"driver": driver, "nodeName": f"n{number}", "pool": pool, **spec}
            slices.append(convert({"metadata": {"name": f"{driver}-{number}"}, "spec": own}, ResourceSlice))
    for each in slices:
        share(each)
    index = SliceIndex(slices, AllocatorFeatures())
    return [index.layout(f"n{number}", {}, AllocatedState()) for number in range(len(nodes))]


PLAIN: Final[Json] = {"devices": [{"name": "a"}]}


def test_whether_nodes_skip_the_preparation_of_devices_is_part_of_a_layout() -> None:
    plain, like, skipped = layouts({"d": PLAIN}, {"d": PLAIN}, {"d": {**PLAIN, "skipNodeOperations": ["*"]}})
    assert plain is not None
    assert like is not None
    assert skipped is not None
    assert plain.key == like.key != skipped.key


def test_pools_with_devices_to_be_made_ready_come_last() -> None:
    slow: Json = {"devices": [{"name": "a", "bindingConditions": ["ready"]}]}
    first, second, third = layouts({"d": slow, "e": PLAIN}, {"e": PLAIN, "d": slow}, {"d": PLAIN, "e": slow})
    assert first is not None
    assert second is not None
    assert third is not None
    assert [driver for driver, *_ in first.key] == ["e", "d"]
    assert first.key == second.key
    assert [driver for driver, *_ in third.key] == ["d", "e"]
