"""Devices that stand for extended resources are counted in columns as they are one by one, whatever comes and goes."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Node
from kscheduler.api.devices import Device, ResourceClaim, ResourceSlice
from kscheduler.config.plugin_args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kscheduler.framework.cluster.device_amounts import device_amounts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.decision_time import DecisionEndedError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import make_node, make_pod
from tests.effort import example_count
from tests.plugins.dynamic_resources.stage import DRIVER, Stage, device_class, devices_of
from tests.specification.devices.scored import Passes, devices_on
from tests.specification.rules import Place
from tests.specification.scores import balanced_allocation, node_resources_fit

GPU, PART = "example.com/gpu", "example.com/fpga"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NODES = [f"n{number}" for number in range(5)]
ZONES = ("a", "b")
BIG = f'device.attributes["{DRIVER}"].size == "big"'
STRATEGIES = (
    {"type": LEAST_ALLOCATED},
    {"type": MOST_ALLOCATED},
    {
        "type": REQUESTED_TO_CAPACITY_RATIO,
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
    },
)
RESOURCES = [{"name": GPU, "weight": 10}, {"name": "cpu", "weight": 1}, {"name": PART, "weight": 3}]
Tree = dict[str, Any]


def is_big(device: Device) -> bool:
    """As the selector BIG, which fails for a device without a size."""
    return device.attributes["size"].string_value == "big"


@dataclass
class World:
    """A cluster in which anything may change, and what there is in plain collections."""

    random: random.Random
    stage: Stage = field(default_factory=lambda: Stage(nodes=0))
    nodes: dict[str, Node] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    """Those that hold devices, allocated or pending."""
    classes: dict[str, Passes] = field(default_factory=dict)
    """By resource."""

    def happen(self) -> None:
        chosen = self.random.choice([self.node, self.node_gone, self.slice, self.slice, self.slice_gone])
        self.random.choice([chosen, self.claim, self.claim, self.claim_gone, self.device_class])()

    def node(self) -> None:
        name = self.random.choice(NODES)
        amounts = {"cpu": "8"} | ({GPU: self.random.choice("02")} if self.random.random() < 0.3 else {})
        labels = {"zone": self.random.choice(ZONES)}
        self.nodes[name] = node = make_node(name, labels=labels, **amounts)
        self.stage.cache.add_node(node)

    def node_gone(self) -> None:
        if self.nodes:
            name, _ = self.nodes.popitem()
            self.stage.cache.remove_node(name)

    def slice(self) -> None:
        name = f"slice-{self.random.randrange(6)}"
        devices, where = [self._device(number) for number in range(self.random.randrange(4))], self._where()
        if self.random.random() < 0.3:
            devices, where = [{**each, **self._where()} for each in devices], {"perDeviceNodeSelection": True}
        pool = {"name": f"pool-{self.random.randrange(3)}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "devices": devices, **where}
        self.slices[name] = published = convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)
        self.stage.put(published)

    def _device(self, number: int) -> Tree:
        size = self.random.choice(["big", "big", "small", ""]) if self.random.random() < 0.6 else "big"
        attributes = {"size": {"string": size}} if size else {}
        shared = {"allowMultipleAllocations": True} if self.random.random() < 0.2 else {}
        return {"name": f"d{number}", "attributes": attributes, **shared}

    def _where(self) -> Tree:
        zone = {"key": "zone", "operator": "In", "values": [self.random.choice(ZONES)]}
        selector = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
        named = {"nodeName": self.random.choice(NODES)}
        return self.random.choice([named, named, {"allNodes": True}, {"nodeSelector": selector}])

    def slice_gone(self) -> None:
        if self.slices:
            name = self.random.choice(list(self.slices))
            del self.slices[name]
            self.stage.cache.devices.remove_slice(name)

    def claim(self) -> None:
        """A claim gets some devices, or others than before; written, or chosen only."""
        name, claims = f"c{self.random.randrange(4)}", self.stage.cache.devices.claims
        self._free(name)
        results = [
            {"request": "r", "driver": DRIVER, "pool": f"pool-{self.random.randrange(3)}", "device": f"d{number}"}
            | ({"adminAccess": True} if self.random.random() < 0.1 else {})
            | ({"shareID": f"share-{name}"} if self.random.random() < 0.1 else {})
            for number in range(self.random.randrange(4))
        ]
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
        tree = {"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}}
        self.claims[name] = claim = convert(tree, ResourceClaim)
        if self.random.random() < 0.5:
            claims.signal_pending(name, claim)
        else:
            claims.update(claim)

    def claim_gone(self) -> None:
        if self.claims:
            self._free(self.random.choice(list(self.claims)))

    def _free(self, name: str) -> None:
        held, claims = self.claims.pop(name, None), self.stage.cache.devices.claims
        if held is not None:
            claims.remove_pending(name, force=True)
            claims.delete(held)

    def device_class(self) -> None:
        devices = self.stage.cache.devices
        for name, resource in (("gpu", GPU), ("part", PART)):
            devices.remove_class(name)
            for stands in (resource, f"deviceclass.resource.kubernetes.io/{name}"):
                self.classes.pop(stands, None)
            chance = self.random.random()
            if chance < 0.8:
                expressions = [f'device.driver == "{DRIVER}"', *([BIG] if chance < 0.5 else [])]
                selectors = [{"cel": {"expression": each}} for each in expressions] if chance < 0.7 else []
                devices.put_class(device_class(name, extendedResourceName=resource, selectors=selectors))
                passes: Passes = is_big if chance < 0.5 else lambda _: True
                self.classes |= {resource: passes, f"deviceclass.resource.kubernetes.io/{name}": passes}

    def counted(self, node: Node, resource: str) -> tuple[int, int]:
        passes = self.classes.get(resource)
        return (0, 0) if passes is None else devices_on(node, self.slices.values(), self.claims.values(), passes)


@settings(max_examples=example_count(60), deadline=None)
@given(seed=st.integers(0, 2**32), strategy=st.sampled_from(STRATEGIES), resource=st.sampled_from([GPU, IMPLICIT]))
def test_scores_by_devices_equal_those_that_are_counted_one_by_one(seed: int, strategy: Tree, resource: str) -> None:
    world = World(random.Random(seed))
    resources = [{**each, "name": resource if each["name"] == GPU else each["name"]} for each in RESOURCES]
    args = convert({"scoringStrategy": {**strategy, "resources": resources}}, NodeResourcesFitArgs)
    balanced = convert({"resources": resources}, NodeResourcesBalancedAllocationArgs)
    fit = NodeResourcesFit(args, world.stage.handle)
    balance = NodeResourcesBalancedAllocation(balanced, world.stage.handle)
    specified = node_resources_fit(args, world.counted), balanced_allocation(balanced, world.counted)
    pod = make_pod(requests={"cpu": "1", resource: "1"} | ({PART: "2"} if seed % 2 else {}))
    info, nodes = PodInfo(pod), world.stage.cache.nodes
    for _ in range(25):
        for _ in range(world.random.randrange(1, 4)):
            world.happen()
        rows = nodes.rows()
        if not len(rows):
            continue
        places = [Place(world.nodes[nodes.name_of(row)], ()) for row in rows.tolist()]
        for in_columns, score in zip((fit.score, balance.score), specified, strict=True):
            points = in_columns(CycleState(), info, nodes, rows).tolist()
            assert points == [score(pod, place) for place in places]


def test_a_selector_does_not_see_here_whether_several_claims_may_have_a_device() -> None:
    """As kube-scheduler 1.36 and 1.37, which leave it out where they score."""
    world = World(random.Random(0))
    selectors = [{"cel": {"expression": "!device.allowMultipleAllocations"}}]
    world.stage.put(device_class("gpu", extendedResourceName=GPU, selectors=selectors))
    world.stage.cache.add_node(make_node("n0"))
    world.stage.put(devices_of("n0", {"name": "d0", "allowMultipleAllocations": True}))
    handle = world.stage.handle
    amounts = device_amounts([GPU], handle.devices, lambda: handle.view.nodes, handle.features, "1.37")
    assert amounts is not None
    found = amounts.on(GPU, handle.view.nodes.rows())
    assert found is not None
    assert found[0].tolist() == [1]


def test_a_decision_that_is_ended_while_devices_are_counted_leaves_nothing_half_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer may end it at any call."""
    world = World(random.Random(3))
    world.stage.put(device_class("gpu", extendedResourceName=GPU))
    world.classes[GPU] = lambda _: True
    handle, nodes = world.stage.handle, world.stage.cache.nodes
    amounts = device_amounts([GPU], handle.devices, lambda: handle.view.nodes, handle.features, "1.37")
    assert amounts is not None
    ended = 0

    def end(*_: object) -> Any:
        raise DecisionEndedError

    for number in range(40):
        for change in (world.node, world.slice, world.slice, world.claim):
            change()
        if number % 2:
            with monkeypatch.context() as patch:
                patch.setattr(nodes, "matches_any", end)
                try:
                    amounts.on(GPU, nodes.rows())
                except DecisionEndedError:
                    ended += 1
        found = amounts.on(GPU, nodes.rows())
        assert found is not None
        counted = [world.counted(world.nodes[nodes.name_of(row)], GPU) for row in nodes.rows().tolist()]
        assert list(zip(*(column.tolist() for column in found), strict=True)) == counted
    assert ended > 5


def test_twelve_pods_with_one_gpu_are_packed_by_the_most_allocated_devices() -> None:
    """As by kube-scheduler 1.37: a node that has begun to give devices gives all of them first."""
    world = World(random.Random(0))
    strategy = {"type": MOST_ALLOCATED, "resources": [{"name": GPU, "weight": 10}]}
    fit = NodeResourcesFit(convert({"scoringStrategy": strategy}, NodeResourcesFitArgs), world.stage.handle)
    world.stage.put(device_class("gpu", extendedResourceName=GPU))
    nodes, pod = world.stage.cache.nodes, PodInfo(make_pod(requests={GPU: "1"}))
    for name in NODES:
        world.stage.cache.add_node(make_node(name))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"d{number}"} for number in range(4)]
        spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices}
        world.stage.put(convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice))
    taken = dict.fromkeys(NODES, 0)
    for number in range(12):
        free = nodes.rows_of(name for name in NODES if taken[name] < 4)
        chosen = nodes.name_of(int(free[fit.score(CycleState(), pod, nodes, free).argmax()]))
        result = {"request": "r", "driver": DRIVER, "pool": chosen, "device": f"d{taken[chosen]}"}
        status = {"allocation": {"devices": {"results": [result]}}}
        metadata = {"name": f"c{number}", "namespace": "default", "uid": f"c{number}"}
        world.stage.cache.devices.claims.signal_pending(
            f"c{number}", convert({"metadata": metadata, "status": status}, ResourceClaim)
        )
        taken[chosen] += 1
    assert sorted(taken.values()) == [0, 0, 4, 4, 4]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each["type"])
def test_without_the_gate_devices_do_not_count(strategy: Tree) -> None:
    world = World(random.Random(0))
    world.stage.put(device_class("gpu", extendedResourceName=GPU))
    features = frozenset(world.stage.handle.features) - {"DRAExtendedResource"}
    args = convert({"scoringStrategy": {**strategy, "resources": RESOURCES}}, NodeResourcesFitArgs)
    assert NodeResourcesFit(args, replace(world.stage.handle, features=features))._device_amounts is None
