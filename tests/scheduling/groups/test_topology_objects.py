"""Levels from objects: Kueue's Topology, Volcano's HyperNode."""

from collections.abc import Iterable
from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.groups import VOLCANO_ANNOTATION, VolcanoPodGroup
from kscheduler.api.topologies import HYPER_NODES, TOPOLOGY_KINDS, HyperNode, KueueTopology
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.framework.cluster.topology_request import PREFERRED, TopologyRequest, tier_key
from kscheduler.state.hyper_nodes import tiers_of
from kscheduler.state.topology_levels import LevelList, TopologyLevel, level_list
from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World

WHOLE: dict[str, Any] = {"requests": {"cpu": "4"}}


def following(*projects: str, gates: FeatureGates | None = None, **settings: Any) -> LoadedConfig:
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podGroupAPIs": ["volcano"],
        "topologyAPIs": list(projects),
        "profiles": [{"schedulerName": "kscheduler"}],
        **settings,
    }
    return from_tree(tree, "", gates or parse_feature_gates(""))


def hyper_node(name: str, tier: int, *members: dict[str, Any], tier_name: str = "") -> HyperNode:
    spec = {"tier": tier, "tierName": tier_name, "members": list(members)}
    return convert({"metadata": {"name": name}, "spec": spec}, HyperNode)


def exact(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def regex(kind: str, pattern: str) -> dict[str, Any]:
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


def by_name(hyper_nodes: Iterable[HyperNode]) -> dict[str, HyperNode]:
    return {each.metadata.name: each for each in hyper_nodes}


SWITCHES = [
    hyper_node("s0", 1, exact("Node", "n0"), exact("Node", "n1"), exact("Node", "gone")),
    hyper_node("s1", 1, regex("Node", "^n[2-4]$")),
    hyper_node("s2", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"pool": "x"}}}}),
    hyper_node("core", 3, exact("HyperNode", "s0"), regex("HyperNode", "s1"), tier_name="core"),
]


def test_members_of_hyper_nodes_are_named_matched_or_labelled() -> None:
    nodes = [make_node(f"n{number}") for number in range(5)] + [make_node("m", labels={"pool": "x"})]
    core, switches = tiers_of(by_name(SWITCHES), nodes).tiers
    assert (core.number, core.name, switches.number) == (3, "core", 1)
    assert switches.domains == {"n0": "s0", "n1": "s0", "n2": "s1", "n3": "s1", "n4": "s1", "m": "s2"}
    assert core.domains == dict.fromkeys(("n0", "n1", "n2", "n3", "n4"), "core")


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(
            [hyper_node("a", 1, exact("HyperNode", "b")), hyper_node("b", 2, exact("HyperNode", "a"))], id="circle"
        ),
        pytest.param([hyper_node(f"h{n:03}", n, exact("HyperNode", f"h{n + 1:03}")) for n in range(200)], id="deep"),
        pytest.param([hyper_node("a", 1, regex("Node", "("))], id="no expression"),
        pytest.param([hyper_node("a", 1, regex("Node", "a" * 2_000))], id="long"),
        pytest.param([hyper_node("a", 1, regex("Node", "(a{1,500}){1,500}"))], id="large"),
        pytest.param([hyper_node("a", -7, {"type": "Pod"}, {"type": "Node"})], id="empty"),
    ],
)
def test_what_makes_no_sense_has_no_nodes(hostile: list[HyperNode]) -> None:
    tiers = tiers_of(by_name(hostile), [make_node("a")]).tiers
    assert all(not tier.domains for tier in tiers)


def test_what_has_no_nodes_is_no_tier_and_the_narrowest_is_tier_1() -> None:
    found = [hyper_node("leaf", 1, exact("Node", "a")), hyper_node("below", 0, exact("Node", "a"))]
    found += [hyper_node("below-too", -1, exact("Node", "a")), hyper_node("early", 2, exact("Node", "not-yet"))]
    assert [tier.number for tier in tiers_of(by_name(found), [make_node("a")]).tiers] == [1]


def test_the_widest_level_within_a_tier() -> None:
    levels = (TopologyLevel("tier 4", tier=4), TopologyLevel("tier 2", "tier leaf", tier=2))
    tiers = LevelList("HyperNodes", levels)
    assert [tiers.place_of(tier_key(tier)) for tier in (5, 4, 3, 2, 1)] == [0, 0, 1, 1, -1]
    assert tiers.place_of(tier_key("leaf")) == 1
    labels = level_list("labels", ["zone", "rack", "kubernetes.io/hostname"])
    assert [labels.place_of(tier_key(tier)) for tier in (3, 2, 1, 0)] == [0, 0, 1, -1]
    assert labels.answers(TopologyRequest(required="zone", preferred="rack"))
    assert not labels.answers(TopologyRequest(required="row"))


@pytest.mark.parametrize(
    ("highest", "expected"),
    [
        pytest.param({"highestTierAllowed": 1}, [], id="one switch is too small"),
        pytest.param({"highestTierAllowed": 2}, [], id="there is no tier 2"),
        pytest.param({"highestTierAllowed": 3}, ["n0", "n1", "n2", "n3"], id="the core"),
        pytest.param({"highestTierName": "core"}, ["n0", "n1", "n2", "n3"], id="by name"),
    ],
)
async def test_a_group_of_volcano_stays_within_its_tier(highest: dict[str, Any], expected: list[str]) -> None:
    world = World(following("volcano"))
    world.add(*(make_node(f"n{number}") for number in range(4)), make_node("apart"), initial=True)
    async with world.working():
        for switch in SWITCHES:
            world.put(HYPER_NODES, switch)
        tree = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 4, "networkTopology": highest}}
        world.add_group(convert(tree, VolcanoPodGroup))
        named = {"metadata": {"annotations": {VOLCANO_ANNOTATION: "g"}}}
        world.add(*(make_pod(f"g-{number}", **named, **WHOLE) for number in range(4)))
        await world.settle()
        assert sorted(node for _, node in world.bindings) == expected


async def test_kueues_topology_says_what_is_around_a_rack() -> None:
    world = World(following("kueue"))
    labels = [("b0", "r0"), ("b0", "r1"), ("b1", "r2"), ("b1", "r3"), ("b1", "r3")]
    nodes = [
        make_node(f"n{number}", labels={"example.com/block": block, "example.com/rack": rack})
        for number, (block, rack) in enumerate(labels)
    ]
    world.add(*nodes, initial=True)
    levels = [{"nodeLabel": key} for key in ("example.com/block", "example.com/rack", "kubernetes.io/hostname")]
    topology = convert({"metadata": {"name": "default"}, "spec": {"levels": levels}}, KueueTopology)
    async with world.working():
        world.put(TOPOLOGY_KINDS["kueue"], topology)
        annotations = {PREFERRED: "example.com/rack"}
        tree = {"metadata": {"name": "g", "namespace": "default", "annotations": annotations}, "spec": {"minMember": 3}}
        world.add_group(convert(tree, VolcanoPodGroup))
        named = {"metadata": {"annotations": {VOLCANO_ANNOTATION: "g"}}}
        world.add(*(make_pod(f"g-{number}", **named, **WHOLE) for number in range(3)))
        await world.settle()
        assert sorted(node for _, node in world.bindings) == ["n2", "n3", "n4"]
        world.remove(TOPOLOGY_KINDS["kueue"], topology.key)
        assert world.cache.topology_levels.lists(world.cache.nodes) == ()
