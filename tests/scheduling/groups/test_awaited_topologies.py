"""Groups whose levels are in objects that are not known yet: what must be met waits, what is preferred goes on."""

from typing import Any, Final

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.groups import VOLCANO_ANNOTATION, KubernetesPodGroup, VolcanoPodGroup
from kscheduler.api.kinds import Kind
from kscheduler.api.topologies import HYPER_NODES, TOPOLOGY_KINDS, HyperNode, KueueTopology, not_served
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.framework.cluster.topology_request import NARROWEST, PREFERRED, REQUIRED, TopologyRequest, tier_key
from kscheduler.informers import ListHandler
from kscheduler.state.cache import Cache
from kscheduler.state.topology_levels import LevelList, LevelsAwaited
from tests.builders import make_node, make_pod
from tests.scheduling.groups.test_topology_objects import following
from tests.scheduling.groups.world import ON, World, member, pod_group

RACK: Final = "example.com/rack"
ZONE: Final = "topology.kubernetes.io/zone"
KUEUE: Final = TOPOLOGY_KINDS["kueue"]
WHOLE: Final[dict[str, Any]] = {"requests": {"cpu": "4"}}
HARD: Final = {"mode": "hard", "highestTierAllowed": 1}


class AwaitingWorld(World):
    """Four nodes, two in each zone; the objects of some kinds are not known."""

    def __init__(self, *projects: str, **settings: Any) -> None:
        self.awaited: dict[Kind, str] = {kind: not_served(kind) for kind in (KUEUE, HYPER_NODES)}
        cache = Cache(why_awaited=lambda kind: self.awaited.get(kind, ""))
        super().__init__(following(*projects, gates=parse_feature_gates(ON, version="1.37"), **settings), cache=cache)
        nodes = (make_node(f"n{n}", labels={ZONE: f"z{n // 2}", RACK: f"r{n // 2}"}) for n in range(4))
        self.add(*nodes, initial=True)

    def volcano_gang(self, count: int, asked: dict[str, Any], **annotations: str) -> None:
        """A gang of Volcano, with a node for each member."""
        metadata = {"name": "g", "namespace": "default", "annotations": annotations}
        spec = {"minMember": count, **({"networkTopology": asked} if asked else {})}
        self.add_group(convert({"metadata": metadata, "spec": spec}, VolcanoPodGroup), api=1)
        named = {"metadata": {"annotations": {VOLCANO_ANNOTATION: "g"}}}
        self.add(*(make_pod(f"g-{number}", **named, **WHOLE) for number in range(count)))

    @property
    def nodes_of_members(self) -> list[str]:
        return sorted(node for _, node in self.bindings)

    def message(self) -> str:
        """What a member was told last."""
        return next(condition.message for key, condition, _ in reversed(self.reported.reports) if key == "default/g-0")


async def test_a_hard_gang_waits_until_hyper_nodes_are_served_and_listed() -> None:
    world = AwaitingWorld("volcano")
    async with world.working():
        world.volcano_gang(2, HARD)
        await world.settle()
        assert world.nodes_of_members == []
        why = "hypernodes.topology.volcano.sh of topologyAPIs: the API server does not serve v1alpha1"
        assert world.message() == f"podgroup/default/g waits for {why}"
        world.awaited[HYPER_NODES] = "they are not listed yet"
        world.put(HYPER_NODES, convert(switch("s0", "n0", "n1", "n2", "n3"), HyperNode))
        await world.pass_seconds(30)
        assert world.nodes_of_members == []
        assert world.message().endswith("they are not listed yet")
        world.put(HYPER_NODES, convert(switch("s0", "n0", "n3"), HyperNode))
        del world.awaited[HYPER_NODES]
        await world.pass_seconds(2)
        assert world.nodes_of_members == ["n0", "n3"], "as soon as they are known, not after a long backoff"


async def test_a_gang_goes_on_as_soon_as_it_is_known_that_there_are_no_objects() -> None:
    world = AwaitingWorld("volcano")
    async with world.working():
        world.volcano_gang(2, HARD)
        await world.pass_seconds(30)
        assert world.nodes_of_members == []
        del world.awaited[HYPER_NODES]
        handler = world.assembly.handlers[HYPER_NODES]
        assert isinstance(handler, ListHandler)
        handler.on_synced()
        await world.pass_seconds(2)
        assert world.nodes_of_members in (["n0", "n1"], ["n2", "n3"])


def switch(name: str, *nodes: str) -> dict[str, Any]:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    return {"metadata": {"name": name, "uid": name}, "spec": {"tier": 1, "members": members}}


async def test_where_there_are_no_hyper_nodes_the_labels_say_what_is_near() -> None:
    world = AwaitingWorld("volcano")
    del world.awaited[HYPER_NODES]
    async with world.working():
        world.volcano_gang(2, HARD)
        await world.settle()
        assert world.nodes_of_members in (["n0", "n1"], ["n2", "n3"])


@pytest.mark.parametrize(
    ("asked", "annotations"),
    [
        pytest.param({"mode": "soft"}, {}, id="volcano"),
        pytest.param({}, {PREFERRED: RACK}, id="kueue"),
    ],
)
async def test_a_soft_gang_does_not_wait(asked: dict[str, Any], annotations: dict[str, str]) -> None:
    world = AwaitingWorld("kueue", "volcano")
    async with world.working():
        world.volcano_gang(2, asked, **annotations)
        await world.settle()
        assert world.nodes_of_members in (["n0", "n1"], ["n2", "n3"])


async def test_a_required_label_waits_for_kueues_topologies() -> None:
    world = AwaitingWorld("kueue")
    async with world.working():
        world.volcano_gang(2, {}, **{REQUIRED: RACK})
        await world.settle()
        assert world.nodes_of_members == []
        assert "waits for topologies.kueue.x-k8s.io of topologyAPIs: the API server" in world.message()
        del world.awaited[KUEUE]
        world.put(KUEUE, convert({"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": RACK}]}}, KueueTopology))
        await world.pass_seconds(2)
        assert world.nodes_of_members in (["n0", "n1"], ["n2", "n3"])


async def test_a_group_of_kubernetes_has_a_condition_that_names_what_is_missing() -> None:
    world = AwaitingWorld("volcano", "kueue")
    async with world.working():
        group = pod_group("k", 2)
        group.metadata.annotations.update({REQUIRED: RACK})
        assert isinstance(group, KubernetesPodGroup)
        world.add_group(group)
        world.add(*(member(f"k-{number}", "k", **WHOLE) for number in range(2)))
        await world.settle()
        condition = world.groups.last("k")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert "waits for topologies.kueue.x-k8s.io" in condition.message


def test_what_comes_before_the_awaited_objects_answers() -> None:
    world = AwaitingWorld("kueue", "volcano", topologyLevels=[["example.com/row", RACK]])
    levels, nodes = world.cache.topology_levels, world.cache.nodes

    def source(request: TopologyRequest) -> str:
        found = levels.find(request, nodes, nodes.rows())
        return found.source if isinstance(found, LevelList) else type(found).__name__

    in_list, tier = TopologyRequest(required=RACK), TopologyRequest(required=tier_key(1), preferred=NARROWEST)
    other = TopologyRequest(required=ZONE)
    assert [source(each) for each in (in_list, tier, other)] == [
        "topologyLevels[0]",
        LevelsAwaited.__name__,
        LevelsAwaited.__name__,
    ]
    del world.awaited[HYPER_NODES]
    levels.put(convert(switch("s0", "n0"), HyperNode))
    assert [source(each) for each in (tier, other)] == ["HyperNodes", LevelsAwaited.__name__]
    levels.put(convert({"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": ZONE}]}}, KueueTopology))
    assert source(other) == LevelsAwaited.__name__, "another one may come first by name"
    del world.awaited[KUEUE]
    assert source(other) == "Topology t"
