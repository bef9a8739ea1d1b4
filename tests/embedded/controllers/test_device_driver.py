"""The driver of hollow devices: slices of a node, their generations, and their end with the node."""

import random
from datetime import UTC, datetime

import pytest

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from kscheduler.embedded.controllers.devices.driver import GPUS, HollowDeviceDriver, device_class, devices
from kscheduler.embedded.controllers.engine.loop import Engine
from kscheduler.embedded.objects.registry import NO_OPTIONS, ObjectRegistry
from kscheduler.embedded.objects.store import ObjectStore


class Site:
    """A registry with the driver of `gpus` devices per node."""

    def __init__(self, gpus: int = 8) -> None:
        self.registry = ObjectRegistry(ObjectStore(), lambda: datetime(2026, 1, 1, tzinfo=UTC), random.Random(0))
        self.engine = Engine(self.registry, [HollowDeviceDriver(gpus)])
        self.engine.start()

    def node(self, name: str = "node-0", **annotations: str) -> None:
        metadata = {"name": name, "annotations": annotations}
        self.registry.create(NODES, "", {"metadata": metadata})
        self.engine.settle()

    def annotate(self, name: str, **annotations: str) -> None:
        record = self.registry.get(NODES, "", name)
        metadata = {**record.value["metadata"], "annotations": annotations}
        self.registry.replace(NODES, record, {**record.value, "metadata": metadata}, NO_OPTIONS)
        self.engine.settle()

    def slices(self) -> list[Object]:
        records = self.registry.store.collection(RESOURCE_SLICES.collection).records
        return [records[key].value for key in sorted(records)]

    def pools(self) -> list[tuple[str, int, int, int]]:
        """Pool, generation, slices of the pool, devices: of each slice."""
        return [
            (pool["name"], pool["generation"], pool["resourceSliceCount"], len(one["spec"]["devices"]))
            for one in self.slices()
            for pool in [one["spec"]["pool"]]
        ]


def test_a_node_has_a_slice_with_its_devices() -> None:
    site = Site()
    site.node()
    (made,) = site.slices()
    assert made["spec"]["nodeName"] == "node-0"
    assert made["spec"]["driver"] == "gpu.example.com"
    assert site.pools() == [("node-0", 1, 1, 8)]
    first, *_, last = made["spec"]["devices"]
    assert first["name"] == "gpu-0"
    assert set(first["attributes"]) == {"model", "index", "uuid", "numa"}
    assert [first["attributes"]["numa"], last["attributes"]["numa"]] == [{"int": 0}, {"int": 1}]
    assert first["capacity"]["memory"]["value"] in {"40Gi", "80Gi"}
    assert len({device["attributes"]["uuid"]["string"] for device in made["spec"]["devices"]}) == 8


def test_many_devices_are_several_slices_of_one_pool() -> None:
    site = Site(130)
    site.node()
    assert site.pools() == [("node-0", 1, 3, 64), ("node-0", 1, 3, 64), ("node-0", 1, 3, 2)]


def test_the_generation_rises_with_each_change() -> None:
    site = Site(130)
    site.node()
    site.annotate("node-0", **{GPUS: "70"})
    assert site.pools() == [("node-0", 2, 2, 64), ("node-0", 2, 2, 6)]
    site.annotate("node-0", **{GPUS: "70", "other": "x"})
    assert {generation for _, generation, _, _ in site.pools()} == {2}
    site.annotate("node-0", **{GPUS: "0"})
    assert site.pools() == []


@pytest.mark.parametrize("text", ["", "many", "-1", "²"])
def test_an_annotation_that_is_no_number_is_ignored(text: str) -> None:
    site = Site(2)
    site.node("node-0", **{GPUS: text})
    assert site.pools() == [("node-0", 1, 1, 2)]


def test_what_somebody_else_changes_is_published_again() -> None:
    site = Site(2)
    site.node()
    record = site.registry.get(RESOURCE_SLICES, "", site.slices()[0]["metadata"]["name"])
    spec = {**record.value["spec"], "devices": record.value["spec"]["devices"][:1]}
    site.registry.replace(RESOURCE_SLICES, record, {**record.value, "spec": spec}, NO_OPTIONS)
    site.engine.settle()
    assert site.pools() == [("node-0", 2, 1, 2)]
    site.registry.deletion.delete(RESOURCE_SLICES, "", site.slices()[0]["metadata"]["name"])
    site.engine.settle()
    assert [count for *_, count in site.pools()] == [2]


def test_slices_go_with_the_node() -> None:
    site = Site(2)
    site.node("node-0")
    site.node("node-1")
    site.registry.deletion.delete(NODES, "", "node-0")
    site.engine.settle()
    assert [pool for pool, *_ in site.pools()] == ["node-1"]


def test_devices_are_repeatable_and_of_two_models() -> None:
    assert devices("node-0", 4) == devices("node-0", 4)
    models = {devices(f"node-{number}", 1)[0]["attributes"]["model"]["string"] for number in range(30)}
    assert models == {"hollow-40", "hollow-80"}


def test_the_class_selects_the_driver() -> None:
    site = Site()
    made = site.registry.create(DEVICE_CLASSES, "", device_class()).value
    assert made["spec"]["selectors"] == [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
