"""Attributes that no claim or class reads, such as serial numbers, do not make each node a layout of its own."""

import pytest

from kscheduler.api.devices import DeviceClass, ResourceClaim
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocatorFeatures
from tests.plugins.dynamic_resources.stage import DRIVER, Stage, Tree, claim, device_class, devices_of, exactly, user
from tests.plugins.dynamic_resources.test_deciding import with_constraint
from tests.plugins.dynamic_resources.test_node_result_cache import LIKE, Searches


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    return Searches(monkeypatch)


def with_serial(name: str, serial: str, **more: Tree) -> Tree:
    return {"name": name, "attributes": {"serial": {"string": serial}, "model": {"string": "m"}, **more}}


def selected(expression: str) -> Tree:
    return {"selectors": [{"cel": {"expression": expression}}]}


OWN = f'device.attributes["{DRIVER}"]'
BY_MODEL, BY_SERIAL = selected(f'{OWN}.model == "m"'), selected(f'{OWN}.serial != ""')
CLAIMS: dict[str, tuple[DeviceClass, ResourceClaim, int]] = {
    "no selector": (device_class(), claim("c0"), 1),
    "selectors that read something else": (device_class(**BY_MODEL), claim("c0", exactly(**BY_MODEL)), 1),
    "a selector that reads it": (device_class(), claim("c0", exactly(**BY_SERIAL)), len(LIKE)),
    "a class that reads it": (device_class(**BY_SERIAL), claim("c0"), len(LIKE)),
    "a selector that may read all": (device_class(), claim("c0", exactly(**selected(f"{OWN}.size() > 0"))), len(LIKE)),
    "a constraint about something else": (
        device_class(),
        with_constraint(claim("c0"), {"matchAttribute": f"{DRIVER}/model"}),
        1,
    ),
    "a constraint about it": (
        device_class(),
        with_constraint(claim("c0"), {"matchAttribute": f"{DRIVER}/serial"}),
        len(LIKE),
    ),
}


@pytest.mark.parametrize(("of_class", "of_pod", "searched_nodes"), CLAIMS.values(), ids=CLAIMS)
def test_attributes_that_nobody_reads_tell_no_nodes_apart(
    searches: Searches, of_class: DeviceClass, of_pod: ResourceClaim, searched_nodes: int
) -> None:
    devices = (devices_of(name, with_serial("a", name)) for name in LIKE)
    stage = Stage(of_class, of_pod, *devices, nodes=len(LIKE), shares_devices=True)
    assert stage.judge(user("c0")) == dict.fromkeys(LIKE, "a")
    assert searches.since() == searched_nodes


def test_a_class_that_begins_to_read_an_attribute_tells_nodes_apart(searches: Searches) -> None:
    devices = (devices_of(name, with_serial("a", name)) for name in LIKE)
    stage = Stage(device_class(), claim("c0"), *devices, nodes=len(LIKE), shares_devices=True)
    stage.judge(user("c0"))
    searches.since()
    stage.put(device_class(**selected(f'{OWN}.serial in ["n1", "n2"]')))
    assert [name for name, verdict in stage.judge(user("c0")).items() if verdict == "a"] == ["n1", "n2"]
    assert searches.since() == len(LIKE)


@pytest.mark.parametrize("odd", [{"version": "no version"}, {"strings": ["a"]}, {}], ids=["version", "list", "none"])
def test_an_attribute_that_may_not_be_readable_is_part_of_a_layout(odd: Tree) -> None:
    """Up to 1.37 a selector fails for such a device, whatever it is about."""
    slices = [devices_of("n0", with_serial("a", "s")), devices_of("n1", with_serial("a", "s", odd=odd))]
    index, read = SliceIndex(slices, AllocatorFeatures()), frozenset({"model"})
    layouts = [index.layout(name, {}, AllocatedState(), read) for name in ("n0", "n1")]
    assert len({layout.key for layout in layouts if layout is not None}) == 2
