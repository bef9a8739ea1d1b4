"""Devices of DRA count in the policies as they are one by one, and each once, whatever comes and goes."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim, ResourceSlice
from kscheduler.api.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.config.plugin_args import BestFitArgs, DominantMostAllocatedArgs, FragmentationAwareArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.decision_time import DecisionEndedError
from kscheduler.framework.plugin import UNSIGNABLE
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.packing import claimable_devices as claimable_devices_module
from kscheduler.plugins.packing.best_fit import BestFit
from kscheduler.plugins.packing.claimable_devices import ClaimableDevices, claimable_devices
from kscheduler.plugins.packing.device_columns import DeviceDemand
from kscheduler.plugins.packing.device_shapes import left_of
from kscheduler.plugins.packing.dominant_most_allocated import DominantMostAllocated
from kscheduler.plugins.packing.fragmentation_aware import FragmentationAware
from kscheduler.scenario.listed_kinds import ShownObjects
from tests.builders import make_node, make_pod
from tests.effort import example_count
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    first_available,
    user,
)
from tests.scheduling.scheduler_in_memory import SchedulerInMemory

GPU: Final = "nvidia.com/gpu"
OF_CLASS: Final = "deviceclass.resource.kubernetes.io/gpu"
BIG: Final = f'device.attributes["{DRIVER}"].size == "big"'
Tree = dict[str, Any]


def stage_of(*slices: ResourceSlice, nodes: int = 2, **spec: Any) -> Stage:
    return Stage(device_class(extendedResourceName=GPU, **spec), *slices, nodes=nodes)


def shared(name: str, memory: str = "40Gi", **more: Any) -> Tree:
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": {"value": memory}}, **more}


def asks(memory: str, **more: Any) -> Tree:
    return exactly(capacity={"requests": {"memory": memory}}, **more)


def holds_share(name: str, node: str, device: str, memory: str) -> ResourceClaim:
    consumed = {"shareID": f"share-{name}", "consumedCapacity": {"memory": memory}}
    return claim(name, allocated=allocation(node, device, **consumed))


def counted(stage: Stage, resource: str = GPU) -> ClaimableDevices:
    found = claimable_devices(resource, stage.handle)
    assert found is not None
    return found


def free_by_node(devices: ClaimableDevices, stage: Stage) -> dict[str, list[int]]:
    nodes = stage.cache.nodes
    free = devices.free(nodes, nodes.rows())
    if free is None:
        return {}
    named = zip(map(nodes.name_of, nodes.rows().tolist()), free.tolist(), strict=True)
    return {name: found for name, lists in named if (found := [left for left in lists if left >= 0])}


def demand_by_node(stage: Stage, pod: Pod, resource: str = GPU) -> dict[str, int]:
    devices, nodes = counted(stage, resource), stage.cache.nodes
    assert devices.free(nodes, nodes.rows()) is not None
    demand = devices.demand(PodInfo(pod), nodes, nodes.rows())
    return dict(zip(map(nodes.name_of, nodes.rows().tolist()), demand.tolist(), strict=True))


def points(plugin: BestFit | DominantMostAllocated | FragmentationAware, stage: Stage, pod: Pod) -> dict[str, int]:
    nodes = stage.cache.nodes
    scores = plugin.score(CycleState(), PodInfo(pod), nodes, nodes.rows())
    return dict(zip(map(nodes.name_of, nodes.rows().tolist()), scores.tolist(), strict=True))


# --- what is free -----------------------------------------------------------------------------------------------------


class World:
    """Nodes, slices and claims of which any may change, and what each device has left, looked at one by one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage(nodes=0)
        self.names = [f"n{number}" for number in range(5)]
        self.slices: dict[str, ResourceSlice] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.wants_big = self.has_class = False
        for name in self.names:
            self.stage.cache.add_node(make_node(name))
        self.device_class()

    def happen(self) -> None:
        often, seldom = [self.slice, self.slice, self.claim, self.claim, self.claim, self.node], [self.slice_gone]
        seldom += [self.claim_gone, self.node_gone, self.device_class]
        self.random.choice(often if self.random.random() < 0.8 else seldom)()

    def node(self) -> None:
        amounts = {GPU: self.random.choice("02")} if self.random.random() < 0.3 else {}
        self.stage.cache.add_node(make_node(self.random.choice(self.names), **amounts))

    def node_gone(self) -> None:
        name = self.random.choice(self.names)
        if self.stage.cache.nodes.row_of(name) >= 0:
            self.stage.cache.remove_node(name)

    def slice(self) -> None:
        name = self.random.choice(self.names)
        where = self.random.choice([{}, {}, {}, {}, {"nodeName": None, "allNodes": True}])
        pool = {"name": name, "generation": 1, "resourceSliceCount": self.random.choice((1, 1, 1, 2))}
        devices = [self.device(f"d{number}") for number in range(self.random.randrange(1, 4))]
        self.slices[name] = piece = devices_of(name, *devices, pool=pool, **where)
        self.stage.put(piece)

    def device(self, name: str) -> Tree:
        device = shared(name) if self.random.random() < 0.7 else {"name": name}
        size = self.random.choice(("big", "big", "small", ""))
        taint = {"taints": [{"key": "k", "effect": self.random.choice(("NoSchedule", "None"))}]}
        own = {"attributes": {"size": {"string": size}}} if size else {}
        return device | own | (taint if self.random.random() < 0.2 else {})

    def slice_gone(self) -> None:
        if self.slices:
            name = self.random.choice(sorted(self.slices))
            self.stage.cache.devices.remove_slice(self.slices.pop(name).metadata.name)

    def claim(self) -> None:
        name, node = f"c{self.random.randrange(8)}", self.random.choice(self.names)
        self.free_claim(name)
        device = f"d{self.random.randrange(3)}"
        held = claim(name, allocated=allocation(node, device))
        if self.random.random() < 0.7:
            held = holds_share(name, node, device, self.random.choice(("10Gi", "15Gi", "50Gi")))
        self.claims[name] = held
        claims = self.stage.cache.devices.claims
        if self.random.random() < 0.5:
            claims.signal_pending(held.metadata.uid, held)
        else:
            claims.update(held)

    def claim_gone(self) -> None:
        self.free_claim(f"c{self.random.randrange(8)}")

    def free_claim(self, name: str) -> None:
        held = self.claims.pop(name, None)
        if held is not None:
            self.stage.cache.devices.claims.remove_pending(held.metadata.uid, force=True)
            self.stage.cache.devices.claims.delete(held)

    def device_class(self) -> None:
        self.has_class = self.random.random() < 0.8
        self.wants_big = self.random.random() < 0.5
        selectors = [{"cel": {"expression": BIG}}] if self.wants_big else []
        self.stage.cache.devices.remove_class("gpu")
        if self.has_class:
            self.stage.put(device_class(extendedResourceName=GPU, selectors=selectors))

    def left(self, name: str, resource: str) -> list[int]:
        """What is left of each device of a node."""
        row = self.stage.cache.nodes.row_of(name)
        is_listed = self.stage.cache.nodes.info(row).allocatable.get(resource, 0) > 0
        piece = self.slices.get(name)
        if not self.has_class or is_listed or piece is None or piece.spec.pool.resource_slice_count != 1:
            return []
        left = []
        for device in piece.spec.devices if piece.spec.node_name else ():
            size = device.attributes.get("size")
            if any(taint.effect == "NoSchedule" for taint in device.taints):
                continue
            if self.wants_big and (size is None or size.string_value != "big"):
                continue
            results = [
                result
                for held in self.claims.values()
                for result in held.status.allocation.devices.results  # type: ignore[union-attr]
                if (result.pool, result.device) == (name, device.name)
            ]
            shares = [result for result in results if result.share_id is not None]
            if len(shares) < len(results) or (shares and not device.allow_multiple_allocations):
                left.append(0)
                continue
            used = sum(int(str(share.consumed_capacity["memory"]).removesuffix("Gi")) for share in shares)
            left.append(max(0, 1000 - used * 25))
        return left


@settings(max_examples=example_count(60), deadline=None)
@given(seed=st.integers(0, 2**32), resource=st.sampled_from([GPU, OF_CLASS]))
def test_what_is_free_is_what_each_device_has_left_after_any_history(seed: int, resource: str) -> None:
    world = World(seed)
    devices, nodes = counted(world.stage, resource), world.stage.cache.nodes
    for _ in range(25):
        for _ in range(world.random.randrange(1, 4)):
            world.happen()
        live = [name for name in world.names if nodes.row_of(name) >= 0]
        expected = {name: left for name in live if (left := world.left(name, resource))}
        assert free_by_node(devices, world.stage) == expected
        if live:
            row = nodes.row_of(world.random.choice(live))
            fork, only = nodes.with_pods({row: [PodInfo(make_pod("more"))]}), np.array([row], dtype=np.intp)
            of_fork, of_table = devices.free(fork, only), devices.free(nodes, only)
            assert (of_fork is None) is (of_table is None)
            if of_fork is not None and of_table is not None:
                assert [each for each in of_fork[0].tolist() if each >= 0] == [
                    each for each in of_table[0].tolist() if each >= 0
                ]


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (claimable_devices_module, "left_of"),
        (ClaimableDevices, "_find_members"),
        (ClaimableDevices, "_write_row"),
        (ClaimableDevices, "_nodes_of"),
    ],
    ids=["left_of", "_find_members", "_write_row", "_nodes_of"],
)
def test_a_decision_that_is_ended_while_devices_are_looked_at_leaves_nothing_half_done(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer may end it at any call."""
    world, ended = World(3), 0
    devices, nodes = counted(world.stage), world.stage.cache.nodes
    for number in range(60):
        for _ in range(3):
            world.happen()
        calls, real = [number % 3 + 1], getattr(owner, name)

        def end(*args: Any, calls: list[int] = calls, real: Any = real) -> Any:
            calls[0] -= 1
            if not calls[0]:
                raise DecisionEndedError
            return real(*args)

        with monkeypatch.context() as patched, suppress(DecisionEndedError):
            patched.setattr(owner, name, end)
            devices.free(nodes, nodes.rows())
        ended += calls[0] <= 0
        live = [node for node in world.names if nodes.row_of(node) >= 0]
        assert free_by_node(devices, world.stage) == {node: left for node in live if (left := world.left(node, GPU))}
    assert ended > 5


def test_a_device_whose_counters_are_used_up_is_not_free() -> None:
    """A GPU and its halves: of what one half has taken the other half is left, and not the GPU."""
    counters = {"sharedCounters": [{"name": "set", "counters": {"memory": {"value": "40Gi"}}}], "devices": []}
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 2}
    own = devices_of("n0", pool=pool, **counters)
    consumers = [("gpu", "40Gi"), ("half-0", "20Gi"), ("half-1", "20Gi")]
    listed: list[str | Tree] = [
        {"name": name, "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": amount}}}]}
        for name, amount in consumers
    ]
    own = replace(own, metadata=replace(own.metadata, name="counters"))
    stage = stage_of(own, devices_of("n0", *listed, pool=pool))
    devices = counted(stage)
    assert free_by_node(devices, stage) == {"n0": [1000, 1000, 1000]}
    stage.put(claim(allocated=allocation("n0", "half-0")))
    assert free_by_node(devices, stage) == {"n0": [0, 0, 1000]}


def test_odd_amounts_leave_between_nothing_and_all_of_a_device() -> None:
    """What claims consume may be less than nothing, or of a capacity that the device does not have any more."""
    without_capacity = {"name": "d1", "allowMultipleAllocations": True}
    empty = shared("d2", "0")
    stage = stage_of(devices_of("n0", shared("d0"), without_capacity, empty), nodes=1)
    for device, memory in (("d0", "-10Gi"), ("d1", "10Gi"), ("d2", "10Gi")):
        stage.put(holds_share(f"of-{device}", "n0", device, memory))
    assert free_by_node(counted(stage), stage) == {"n0": [1000, 1000, 1000]}
    stage.put(claim("c0", asks("-1Gi")))
    assert 0 <= demand_by_node(stage, user("c0"))["n0"] <= 1000


def test_a_change_works_out_the_devices_of_its_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(*(devices_of(f"n{number}", "d0", "d1") for number in range(20)), nodes=20)
    devices = counted(stage)
    free_by_node(devices, stage)
    asked: list[str] = []

    def noted(found: Any, *rest: Any) -> int:
        asked.append(str(found.id.pool))
        return left_of(found, *rest)

    rows: list[int] = []
    write_row = ClaimableDevices._write_row

    def written(self: ClaimableDevices, row: int, *rest: Any) -> None:
        rows.append(row)
        write_row(self, row, *rest)

    monkeypatch.setattr(claimable_devices_module, "left_of", noted)
    monkeypatch.setattr(ClaimableDevices, "_write_row", written)
    free_by_node(devices, stage)
    assert (asked, rows) == ([], [])
    stage.put(claim(allocated=allocation("n3", "d0")))
    stage.put(devices_of("n5", "d0"))
    stage.cache.add_node(make_node("n6", cpu="7"))
    assert free_by_node(devices, stage)["n3"] == [0, 1000]
    assert sorted(asked) == ["n3", "n3", "n5"]
    assert sorted(rows) == [3, 5, 6]


def test_a_pool_of_several_nodes_is_followed_on_each() -> None:
    pool = {"name": "both", "generation": 1, "resourceSliceCount": 2}
    stage = stage_of(devices_of("n0", "d0", pool=pool), devices_of("n1", "d1", pool=pool))
    devices = counted(stage)
    assert free_by_node(devices, stage) == {"n0": [1000], "n1": [1000]}
    stage.put(claim(allocated=allocation("both", "d1")))
    assert free_by_node(devices, stage) == {"n0": [1000], "n1": [0]}


def test_without_slices_no_class_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of()
    devices = counted(stage)
    monkeypatch.setattr(ClaimableDevices, "_follow_slices", None)
    assert free_by_node(devices, stage) == {}
    assert claimable_devices("cpu", stage.handle) is None
    assert claimable_devices(GPU, replace(stage.handle, devices=None)) is None
    without_gate = replace(stage.handle, features=frozenset(stage.handle.features) - {"DRAExtendedResource"})
    assert claimable_devices(GPU, without_gate) is None
    assert claimable_devices(OF_CLASS, without_gate) is not None


# --- what a pod asks for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "milli"),
    [
        ([exactly()], 1000),
        ([exactly(count=3)], 3000),
        ([exactly("a"), exactly("b", count=2)], 3000),
        ([exactly(adminAccess=True)], 0),
        ([exactly(device_class="other")], 0),
        ([exactly("a", device_class="other"), exactly("b")], 1000),
        ([first_available("r", "gpu", "other")], 1000),
        ([first_available("r", "other", "gpu")], 0),
        ([exactly(count=0, allocationMode="All")], 64_000),
    ],
)
def test_the_requests_of_claims_count_by_their_class(requests: list[Tree], milli: int) -> None:
    stage = stage_of(devices_of("n0", "d0"))
    stage.put(device_class("other"))
    stage.put(claim("c0", *requests))
    assert demand_by_node(stage, user("c0")) == {"n0": milli, "n1": 0}
    assert demand_by_node(stage, user("c0"), OF_CLASS) == {"n0": milli, "n1": 0}


def test_a_share_counts_by_the_devices_of_the_node() -> None:
    stage = stage_of(devices_of("n0", shared("d0")), devices_of("n1", shared("d0", "20Gi")), devices_of("n2", "d0"))
    stage.cache.add_node(make_node("n2"))
    stage.put(claim("c0", asks("10Gi")))
    stage.put(claim("c1", asks("10Gi", count=2)))
    stage.put(claim("whole", exactly()))
    stage.put(claim("unknown", exactly(capacity={"requests": {"cores": "1"}})))
    assert demand_by_node(stage, user("c0")) == {"n0": 250, "n1": 500, "n2": 1000}
    assert demand_by_node(stage, user("c1")) == {"n0": 500, "n1": 1000, "n2": 2000}
    assert set(demand_by_node(stage, user("whole")).values()) == {1000}, "all of the capacity is the default"
    assert set(demand_by_node(stage, user("unknown")).values()) == {1000}


def test_a_share_is_rounded_up_by_the_policy_of_its_device() -> None:
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    device = shared("d0") | {"capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}}}
    stage = stage_of(devices_of("n0", device), nodes=1)
    stage.put(claim("c0", asks("11Gi")))
    stage.put(claim("default", exactly()))
    assert demand_by_node(stage, user("c0")) == {"n0": 500}
    assert demand_by_node(stage, user("default")) == {"n0": 250}


def test_claims_with_devices_and_claims_that_are_not_there_ask_for_nothing_more() -> None:
    stage = stage_of(devices_of("n0", "d0", "d1"), nodes=1)
    stage.put(claim("has", allocated=allocation("n0", "d0")))
    pending = claim("pending", allocated=allocation("n0", "d1"))
    stage.put(claim("pending"))
    stage.cache.devices.claims.signal_pending(pending.metadata.uid, pending)
    assert demand_by_node(stage, user("has", "pending", "missing")) == {"n0": 0}


def test_a_claim_of_a_template_is_found_by_the_pods_status() -> None:
    stage = stage_of(devices_of("n0", "d0"), nodes=1)
    stage.put(claim("made-x"))
    entries = [{"name": "gpu", "resourceClaimTemplateName": "template"}]
    pod = make_pod(resourceClaims=entries)
    assert demand_by_node(stage, pod) == {"n0": 0}
    status = convert({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made-x"}]}, type(pod.status))
    assert demand_by_node(stage, replace(pod, status=status)) == {"n0": 1000}


@pytest.mark.parametrize("resource", [GPU, OF_CLASS])
@pytest.mark.parametrize("requested", [GPU, OF_CLASS])
def test_an_extended_resource_that_the_class_stands_for_counts_once(resource: str, requested: str) -> None:
    stage = stage_of(devices_of("n0", "d0", "d1"))
    stage.cache.add_node(make_node("n1", **{requested: "2"}))
    stage.put(claim("c0"))
    assert demand_by_node(stage, make_pod(requests={requested: "1"}), resource) == {"n0": 1000, "n1": 0}
    both = user("c0", requests={requested: "1"})
    assert demand_by_node(stage, both, resource) == {"n0": 2000, "n1": 0}


def test_a_resource_of_another_class_does_not_count_for_a_class_that_names_it_in_vain() -> None:
    """Of two classes that name one resource the newer stands for it."""
    stage = stage_of(devices_of("n0", "d0"), nodes=1)
    stage.put(device_class("old", extendedResourceName=GPU))
    newer = device_class(extendedResourceName=GPU)
    stage.put(replace(newer, metadata=replace(newer.metadata, creation_timestamp="2026-01-01T00:00:00Z")))
    of_old = "deviceclass.resource.kubernetes.io/old"
    assert demand_by_node(stage, make_pod(requests={GPU: "1"}), of_old) == {"n0": 0}
    assert demand_by_node(stage, make_pod(requests={GPU: "1"})) == {"n0": 1000}


# --- the policies -----------------------------------------------------------------------------------------------------


def best_fit(stage: Stage, *resources: Tree, **args: Any) -> BestFit:
    return BestFit(convert({"resources": list(resources), **args}, BestFitArgs), stage.handle)


def test_best_fit_prefers_the_node_with_fewer_free_devices() -> None:
    stage = stage_of(*(devices_of(f"n{number}", "d0", "d1", "d2", "d3") for number in range(2)), nodes=3)
    plugin = best_fit(stage, {"name": GPU, "largest": "8"})
    stage.put(claim("held", allocated=allocation("n1", "d0", "d1")))
    stage.put(claim("c0"))
    assert points(plugin, stage, user("c0")) == {"n0": 62, "n1": 87, "n2": 100}
    assert points(plugin, stage, make_pod()) == {"n0": 50, "n1": 75, "n2": 100}
    assert plugin.sign(PodInfo(user("c0"))) is UNSIGNABLE
    assert plugin.sign(PodInfo(make_pod())) == (0,)
    in_thousandths = best_fit(stage, {"name": GPU, "largest": "8"}, devices={})
    assert points(in_thousandths, stage, user("c0")) == {"n0": 62, "n1": 87, "n2": 100}


def test_best_fit_counts_the_shares_of_a_device() -> None:
    stage = stage_of(*(devices_of(f"n{number}", shared("d0"), shared("d1")) for number in range(2)))
    plugin = best_fit(stage, {"name": GPU, "largest": "2"})
    stage.put(holds_share("held", "n1", "d1", "30Gi"))
    stage.put(claim("c0", asks("10Gi")))
    assert points(plugin, stage, user("c0")) == {"n0": 12, "n1": 50}


def test_best_fit_counts_listed_resources_as_before_and_a_class_of_two_names_once() -> None:
    stage = stage_of(devices_of("n0", "d0", "d1"), nodes=1)
    stage.cache.add_node(make_node("n1", **{GPU: "2"}))
    pod = make_pod(requests={GPU: "1"})
    once = best_fit(stage, {"name": GPU, "largest": "4"})
    assert points(once, stage, pod) == {"n0": 75, "n1": 75}
    twice = best_fit(stage, {"name": GPU, "largest": "4"}, {"name": OF_CLASS, "largest": "4"})
    assert points(twice, stage, pod) == {"n0": 87, "n1": 87}


def test_what_a_node_counts_of_a_resource_that_it_does_not_list_is_not_left_over() -> None:
    """The devices of a pod with an extended resource are taken by its claim, and its request is counted, too."""
    stage = stage_of(devices_of("n0", "d0", "d1"), nodes=1)
    stage.cache.add_pod(make_pod("running", requests={GPU: "1"}, node="n0"))
    stage.put(claim("held", allocated=allocation("n0", "d0")))
    assert points(best_fit(stage, {"name": GPU, "largest": "2"}), stage, make_pod()) == {"n0": 50}


def test_the_dominant_share_counts_devices_for_pods_that_ask_for_some() -> None:
    stage = stage_of(*(devices_of(f"n{number}", "d0", "d1", "d2", "d3") for number in range(2)), nodes=3)
    stage.put(claim("held", allocated=allocation("n1", "d0", "d1")))
    stage.put(claim("c0"))
    plugin = DominantMostAllocated(convert({"resources": ["cpu", GPU]}, DominantMostAllocatedArgs), stage.handle)
    assert points(plugin, stage, user("c0")) == {"n0": 25, "n1": 75, "n2": 0}
    assert points(plugin, stage, make_pod(requests={GPU: "1"})) == {"n0": 25, "n1": 75, "n2": 0}
    assert points(plugin, stage, make_pod()) == {"n0": 0, "n1": 0, "n2": 0}
    assert plugin.sign(PodInfo(user("c0"))) is UNSIGNABLE


def fragmentation_aware(stage: Stage, *typical: Tree, resource: str = GPU) -> FragmentationAware:
    tree = {"devices": {"resource": resource}, "typicalPods": list(typical), "strandedWeight": 0}
    return FragmentationAware(convert(tree, FragmentationAwareArgs), stage.handle)


def test_fragments_of_claimable_devices_are_those_of_a_device_plugin() -> None:
    """Nodes with equal GPUs, by DRA and by a device plugin: what is lost is the same."""
    stage = stage_of(devices_of("n0", "d0", "d1"), devices_of("n1", "d0", "d1"), nodes=2)
    for name in ("n2", "n3"):
        stage.cache.add_node(make_node(name, **{GPU: "2"}))
    stage.put(claim("held", allocated=allocation("n1", "d0")))
    stage.cache.add_pod(make_pod("running", requests={GPU: "1"}, node="n3"))
    stage.put(claim("c0"))
    plugin = fragmentation_aware(stage, {"requests": {GPU: "2"}})
    by_claim = points(plugin, stage, user("c0"))
    by_request = points(plugin, stage, make_pod(requests={GPU: "1"}))
    assert by_claim["n0"] < by_claim["n1"], "the pair is left whole"
    assert (by_claim["n0"], by_claim["n1"]) == (by_request["n2"], by_request["n3"])
    assert (by_request["n0"], by_request["n1"]) == (by_request["n2"], by_request["n3"])
    assert points(plugin, stage, make_pod()) == {"n0": 50, "n1": 50, "n2": 50, "n3": 50}
    assert plugin.sign(PodInfo(user("c0"))) is UNSIGNABLE
    nowhere = fragmentation_aware(stage, {"requests": {GPU: "2"}, "nodeSelector": {"zone": "a"}})
    expected = {"n0": 73, "n1": 73, "n2": 50, "n3": 50}
    assert points(nowhere, stage, user("c0")) == expected, "less is lost where nobody could use it"


def test_a_share_goes_to_the_device_that_is_shared_already() -> None:
    stage = stage_of(devices_of("n0", shared("d0")), devices_of("n1", shared("d0")))
    stage.put(holds_share("held", "n1", "d0", "20Gi"))
    stage.put(claim("c0", asks("20Gi")))
    found = points(fragmentation_aware(stage, {"requests": {GPU: "1"}}), stage, user("c0"))
    assert found["n1"] > 50 > found["n0"]


def test_the_mix_is_learned_from_claims_too() -> None:
    stage = stage_of(devices_of("n0", "d0", "d1", "d2"), nodes=1)
    held = claim("held", exactly(count=2), allocated=allocation("n0", "d0", "d1"), users=("uid-running", "uid-other"))
    stage.put(held)
    stage.put(claim("c0", exactly()))
    for name in ("running", "other"):
        stage.cache.add_pod(user("held", name=name, uid=f"uid-{name}", node="n0"))
    devices = counted(stage)
    demands = {pod.name: devices.usual_demand(pod) for pod in stage.cache.nodes.info(0).pods.values()}
    assert demands == {"running": DeviceDemand(2, 1000), "other": DeviceDemand()}, "a claim that pods share counts once"
    assert devices.usual_demand(PodInfo(user("c0"))) == DeviceDemand(1, 1000)
    assert devices.usual_demand(PodInfo(make_pod())) == DeviceDemand()


@settings(max_examples=example_count(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_points_that_are_kept_for_claims_are_those_of_a_plugin_that_begins(seed: int) -> None:
    world = World(seed)
    stage, nodes = world.stage, world.stage.cache.nodes
    typical = {"requests": {GPU: "2", "cpu": "1"}, "nodeSelector": {"zone": "a"}}, {"requests": {GPU: "1", "cpu": "2"}}
    stage.put(claim("share", asks("10Gi")))
    stage.put(claim("pair", exactly(count=2)))
    pods = [user("share", requests={"cpu": cpu}) for cpu in ("1", "3")] + [user("pair", requests={"cpu": "1"})]
    plugin = fragmentation_aware(stage, *typical)
    for step in range(25):
        for _ in range(world.random.randrange(1, 4)):
            world.happen()
        node = world.random.choice(world.names)
        if nodes.row_of(node) >= 0:
            zone = {"zone": world.random.choice("ab")}
            stage.cache.add_node(make_node(node, cpu=world.random.choice("48"), labels=zone))
            stage.cache.add_pod(make_pod(f"p{step}", requests={"cpu": "1"}, node=node))
        if not len(nodes.rows()):
            continue
        pod = world.random.choice(pods)
        assert points(plugin, stage, pod) == points(fragmentation_aware(stage, *typical), stage, pod)


def test_points_for_claims_are_worked_out_for_changed_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(*(devices_of(f"n{number}", "d0", "d1") for number in range(9)), nodes=9)
    for name in ("c0", "c1"):
        stage.put(claim(name))
    plugin = fragmentation_aware(stage, {"requests": {GPU: "2"}})
    asked: list[list[int]] = []
    points_at = FragmentationAware._points_at

    def noted(self: FragmentationAware, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        asked.append(rows.tolist())
        return points_at(self, pod, nodes, rows)

    monkeypatch.setattr(FragmentationAware, "_points_at", noted)
    points(plugin, stage, user("c0"))
    points(plugin, stage, user("c1"))
    stage.put(claim("held", allocated=allocation("n4", "d0")))
    stage.cache.add_pod(make_pod("running", requests={"cpu": "1"}, node="n7"))
    points(plugin, stage, user("c1"))
    assert asked == [[*range(9)], [4, 7]]


def test_the_learned_mix_decides_where_a_claim_goes() -> None:
    stage = stage_of(*(devices_of(f"n{number}", "d0", "d1") for number in range(3)), nodes=3)
    for node in ("n0", "n1"):
        held = claim(f"of-{node}", exactly(count=2), allocated=allocation(node, "d0", "d1"), users=(f"uid-of-{node}",))
        stage.put(held)
        stage.cache.add_pod(user(f"of-{node}", name=node, node=node))
    stage.put(claim("c0"))
    plugin = FragmentationAware(None, stage.handle)
    assert points(plugin, stage, user("c0"))["n2"] == 50, "nothing is known yet"
    asyncio.run(plugin.refresh())
    assert points(plugin, stage, user("c0"))["n2"] < 50, "the last pair is broken"


# --- points that are kept ---------------------------------------------------------------------------------------------


class Following:
    """Listers of a handle, and the nodes that its plugin has called changed."""

    def __init__(self) -> None:
        self.shown = {kind: ShownObjects() for kind in (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES)}
        self.other = ShownObjects()
        self.changed: list[str] = []

    def lister(self, kind: Kind) -> ShownObjects:
        return self.shown.get(kind, self.other)

    def note(self, names: Any, **_: str) -> None:
        self.changed += names


def test_nodes_are_called_changed_when_their_devices_change_without_a_pod() -> None:
    stage, following = stage_of(devices_of("n0", "d0"), devices_of("n1", "d0")), Following()
    stage.handle = replace(stage.handle, lister=following.lister, nodes_changed=following.note)
    before = claim("before", allocated=allocation("n1", "d0"))
    following.shown[RESOURCE_CLAIMS].on_add(before, initial=True)
    devices = counted(stage)
    assert following.changed == [], "what is there at the beginning has changed nothing"
    free_by_node(devices, stage)
    free = claim("before")
    following.shown[RESOURCE_CLAIMS].on_update(before, free)
    assert following.changed == ["n1"]
    following.shown[RESOURCE_CLAIMS].on_update(free, claim("before", users=("a",)))
    assert following.changed == ["n1"], "nothing of its devices"
    following.shown[RESOURCE_SLICES].on_add(devices_of("n0", "d0", "d1"), initial=False)
    assert following.changed == ["n1", "n0"]
    following.shown[DEVICE_CLASSES].on_add(device_class(), initial=False)
    assert following.changed == ["n1", "n0", "n0", "n1"]
    assert devices.class_name == "gpu"


def configuration() -> LoadedConfig:
    args = {"resources": [{"name": GPU, "largest": "1"}]}
    scores = {"enabled": [{"name": "BestFit"}], "disabled": [{"name": "*"}]}
    profile = {
        "schedulerName": "kscheduler",
        "tieRule": "FirstInOrder",
        "pluginConfig": [{"name": "BestFit", "args": args}],
        "plugins": {"score": scores},
    }
    tree = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    return from_tree(tree, "test")


def test_a_pod_without_devices_is_placed_by_what_is_free_now() -> None:
    """Its points are kept for the next pod like it; a claim that gives a device back changes them."""
    asyncio.run(place_beside_devices())


async def place_beside_devices() -> None:
    following = Following()
    cluster = SchedulerInMemory(configuration(), lister=following.lister)
    for kind, shown in following.shown.items():
        cluster.listeners[kind].append(shown)
    cluster.put(DEVICE_CLASSES, device_class(extendedResourceName=GPU))
    for name in ("a", "b"):
        cluster.add(make_node(name))
        cluster.put(RESOURCE_SLICES, devices_of(name, "d0"))
    held = claim("held", allocated=allocation("b", "d0"))
    cluster.put(RESOURCE_CLAIMS, held)
    async with cluster.at_work():

        async def place(name: str) -> str:
            cluster.add(make_pod(name))
            await cluster.settle()
            bound = cluster.pod_of(f"default/{name}")
            assert bound is not None
            return str(bound.spec.node_name)

        assert [await place("p0"), await place("p1")] == ["b", "b"], "all of its devices are taken"
        cluster.put(RESOURCE_CLAIMS, claim("held", version=2))
        assert [await place("p2"), await place("p3")] == ["a", "a"], "both have a free device"
        cluster.put(RESOURCE_SLICES, devices_of("b"))
        assert await place("p4") == "b"
