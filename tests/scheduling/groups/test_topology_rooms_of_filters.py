"""The room for a group is what the profile's own filters leave: what they do not count takes none."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.framework.cluster.topology_request import REQUIRED
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.per_node import PerNodeFilter
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_weight import COSTLY
from kscheduler.plugins.in_tree import registry
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.groups import member_rooms
from tests.builders import make_node, make_pod
from tests.plugins.dynamic_resources.stage import device_class, devices_of
from tests.scheduling.attempt.test_extender_consultation import BUSY, SlowExtenders
from tests.scheduling.groups.test_gangs_with_devices import DeviceWorld
from tests.scheduling.groups.test_topology_requests import RACK, asking
from tests.scheduling.groups.world import ON, World, member, pod_group

HOST: Final = "kubernetes.io/hostname"
REQUIRED_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
ASKED: Final = {REQUIRED: RACK}
GPU: Final = "example.com/gpu"


def configured(profile: dict[str, Any], **fields: Any) -> LoadedConfig:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    tree = {**kind, "profiles": [{"schedulerName": "kscheduler", **profile}], **fields}
    return from_tree(tree, "", parse_feature_gates(ON, version="1.37"))


def rack(world: World, nodes: int, **allocatable: Any) -> None:
    """Rack r0 with so many nodes."""
    for number in range(nodes):
        name = f"r0n{number}"
        world.add(make_node(name, labels={RACK: "r0", HOST: name}, **allocatable), initial=True)


async def bound(world: World, members: Sequence[Any]) -> int:
    """How many members of a gang that must be in one rack get a node."""
    async with world.working():
        world.add_group(pod_group("g", len(members)))
        world.add(*(asking(pod, **ASKED) for pod in members))
        await world.settle(200)
        return len({name for name, _ in world.bindings})


def repelling(**labels: str) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {REQUIRED_TERMS: [term]}}


async def test_devices_that_stand_for_a_resource_are_no_lack_of_it() -> None:
    world = DeviceWorld()
    rack(world, 2)
    world.cache.devices.put_class(device_class("big", extendedResourceName=GPU))
    for node in ("r0n0", "r0n1"):
        world.cache.devices.put_slice(devices_of(node, "gpu-0", "gpu-1"))
    members = [member(f"g-{number}", "g", requests={"cpu": "1", GPU: "1"}) for number in range(4)]
    assert await bound(world, members) == 4, world.groups.last("g").message


IGNORING: Final = {
    "ignoredResources": configured(
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": [GPU]}}]}
    ),
    "ignoredResourceGroups": configured(
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResourceGroups": ["example.com"]}}]}
    ),
    "without NodeResourcesFit": configured({"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}),
}


@pytest.mark.parametrize("how", IGNORING)
async def test_what_the_profile_does_not_count_takes_no_room(how: str) -> None:
    world = World(IGNORING[how])
    rack(world, 2)
    members = [member(f"g-{number}", "g", requests={GPU: "1"}) for number in range(4)]
    assert await bound(world, members) == 4, world.groups.last("g").message


async def test_a_profile_without_node_resources_fit_has_room_for_any_number_of_pods() -> None:
    world = World(IGNORING["without NodeResourcesFit"])
    rack(world, 1, pods="1")
    assert await bound(world, [member(f"g-{number}", "g") for number in range(3)]) == 3


async def test_members_with_different_host_ports_share_a_node() -> None:
    world = World()
    rack(world, 1)
    ports = [[{"name": "main", "image": "app", "ports": [{"hostPort": port}]}] for port in (80, 81)]
    members = [member(f"g-{number}", "g", containers=each) for number, each in enumerate(ports)]
    assert await bound(world, members) == 2, world.groups.last("g").message


async def test_members_that_avoid_only_their_own_kind_share_a_node() -> None:
    world = World()
    rack(world, 1)
    kinds = ("a", "b")
    members = [member(f"g-{kind}", "g", labels={"kind": kind}, affinity=repelling(kind=kind)) for kind in kinds]
    assert await bound(world, members) == 2, world.groups.last("g").message


@pytest.mark.parametrize("kind", ["port", "anti-affinity"])
async def test_members_that_exclude_each_other_have_one_place_on_a_node(kind: str) -> None:
    """However much else they differ."""
    world = World()
    rack(world, 2)
    members = []
    for number in range(12):
        container = {"name": "main", "image": f"app-{number}", "ports": [{"hostPort": 80}] if kind == "port" else []}
        away = {} if kind == "port" else {"affinity": repelling(app="x")}
        labels = {"app": "x", "index": str(number)}
        members.append(member(f"g-{number}", "g", containers=[container], labels=labels, **away))
    assert await bound(world, members) == 0
    assert "have room for 12 members: at most 2 fit into one" in world.groups.last("g").message


async def test_members_of_very_many_kinds_share_a_node() -> None:
    world = World()
    rack(world, 1)
    members = [member(f"g-{n}", "g", labels={"kind": f"k{n}"}, affinity=repelling(kind=f"k{n}")) for n in range(40)]
    assert await bound(world, members) == 40, world.groups.last("g").message


@pytest.mark.parametrize("tolerations", [COSTLY + 1, 60], ids=["costly", "together"])
async def test_members_with_many_entries_are_not_read_before_the_trial(
    tolerations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing counts the time of that; the trial of the members has its own."""

    def not_asked(plugin: NodePorts, pods: Sequence[PodInfo], nodes: NodeTable, rows: Rows) -> None:
        raise AssertionError(plugin, pods, nodes, rows)

    monkeypatch.setattr(NodePorts, "most_members", not_asked)
    monkeypatch.setattr(member_rooms, "_MOST_ENTRIES", 100)
    world = World()
    rack(world, 1)
    keys = [{"key": f"k{number}", "operator": "Exists"} for number in range(tolerations)]
    assert await bound(world, [member(f"g-{number}", "g", tolerations=keys) for number in range(2)]) == 2


async def test_only_the_member_that_a_pod_avoids_is_kept_off_its_node() -> None:
    world = World()
    rack(world, 1)
    world.add(make_pod("old", node="r0n0", affinity=repelling(kind="a")), initial=True)
    world.add(make_node("r0n1", labels={RACK: "r0", HOST: "r0n1"}, pods="1"), initial=True)
    members = [member(f"g-{number}", "g", labels={"kind": kind}) for number, kind in enumerate("abb")]
    assert await bound(world, members) == 3, world.groups.last("g").message


async def test_anti_affinity_means_nothing_on_nodes_without_the_label() -> None:
    world = World()
    world.add(make_node("r0n0", labels={RACK: "r0"}), initial=True)
    members = [member(f"g-{number}", "g", labels={"a": "b"}, affinity=repelling(a="b")) for number in range(2)]
    assert await bound(world, members) == 2, world.groups.last("g").message


def by_index(pod: PodInfo, node: NodeInfo) -> str | None:
    return None if node.name.endswith(pod.annotations["node"]) else "node(s) of other members"


@pytest.mark.parametrize("size", [2, 20])
async def test_a_filter_of_a_user_is_asked_about_members_that_it_may_tell_apart(size: int) -> None:
    known = registry()
    known.register("ByIndex", lambda *_: PerNodeFilter("ByIndex", by_index))
    world = World(configured({"plugins": {"multiPoint": {"enabled": [{"name": "ByIndex"}]}}}), known=known)
    rack(world, size, pods="1")
    members = [asking(member(f"g-{number}", "g"), node=f"n{number}") for number in range(size)]
    assert await bound(world, members) == size, world.groups.last("g").message


class ByLabel(SlowExtenders):
    """Leaves each pod the node that a label of its names."""

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderResults:
        left = frozenset(name for name in names if name.endswith(pod.labels["node"]))
        others = frozenset(names) - left
        by = dict.fromkeys(others, "http://by-label")
        return ExtenderResults(frozenset(names), left, dict.fromkeys(others, BUSY), rejected_by=by)


@pytest.mark.parametrize("size", [2, 20])
async def test_an_extender_is_asked_about_each_member(size: int) -> None:
    extender = {"urlPrefix": "http://by-label", "filterVerb": "filter"}
    world = World(configured({}, extenders=[extender]), extenders=ByLabel())
    rack(world, size, pods="1")
    members = [member(f"g-{number}", "g", labels={"asks": "yes", "node": f"n{number}"}) for number in range(size)]
    assert await bound(world, members) == size, world.groups.last("g").message
