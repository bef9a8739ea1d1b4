"""Extenders that have a say in preemption: nobody is evicted before they have answered, nor on an old answer."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.extenders.extender_results import UNASKED, ExtenderVictimResults
from tests.builders import make_pod
from tests.plugins.default_preemption.test_default_preemption import World
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.attempt.test_extender_consultation import SLOW, SlowExtenders
from tests.scheduling.attempt.test_workers import working
from tests.scheduling.eviction.stage import turns

PREEMPTOR = make_pod("new", priority=10, requests={"cpu": "1"}, **SLOW)


class Holding(SlowExtenders):
    """Leaves no node, and evicts whoever is on a."""

    def __init__(self) -> None:
        super().__init__(left=())
        self.gate.set()
        self.proposed: dict[str, int] = {}

    async def about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> ExtenderVictimResults:
        self.proposed = {each.node_name: len(each.victims) for each in candidates}
        everybody = Candidate("a", tuple(pods_on["a"].values()), 0)
        nobody: frozenset[str] = frozenset()
        return ExtenderVictimResults({"a": ReviewedCandidate(nobody, everybody), "b": ReviewedCandidate(nobody, None)})


def staged(allowed: str = "", *, is_about_nodes: bool = True) -> tuple[SlowExtenders, World, SchedulerHarness]:
    """Two full nodes; without extenders, preemption would take b."""
    world = World()
    world.node("a", 5, 5)
    world.node("b", 1, 1)
    extenders = SlowExtenders()
    extenders.first = replace(UNASKED, is_about_nodes=is_about_nodes, victims=ExtenderVictimResults())
    extenders.allowed_node = allowed
    harness = SchedulerHarness(world.profile(), world.cache, extenders=extenders)
    harness.add(PREEMPTOR)
    return extenders, world, harness


async def test_nobody_is_evicted_before_the_answer_and_then_where_it_allows() -> None:
    extenders, _, harness = staged("a")
    async with working(harness):
        await turns()
        assert extenders.victim_nodes == [["a", "b"]]
        assert harness.started.preemptions == []
        assert harness.reported.notes == []
        extenders.gate.set()
        await turns()
        assert [preemption.node_name for preemption in harness.started.preemptions] == ["a"]
        assert harness.reported.nominations == ["a"]
        assert extenders.queried == [], "it fits nowhere, so there are no nodes to ask about"


async def test_nobody_is_evicted_where_all_is_rejected() -> None:
    extenders, _, harness = staged()
    extenders.gate.set()
    async with working(harness):
        await turns()
        assert harness.started.preemptions == []
        assert harness.reported.notes == [
            "0/2 nodes are available: 2 Insufficient cpu. preemption: no candidate node for preemption"
        ]
        assert len(extenders.victim_nodes) == 1


async def test_nobody_is_evicted_where_there_is_room_by_now() -> None:
    extenders, world, harness = staged("a")
    async with working(harness):
        await turns()
        world.cache.remove_pod("uid-of-b-0")
        extenders.gate.set()
        await turns()
        assert harness.started.preemptions == []
        assert extenders.queried == [("new", ("b",))]


async def test_extenders_are_queried_again_about_victims_that_are_others_now() -> None:
    extenders, world, harness = staged("a")
    async with working(harness):
        await turns()
        for place in range(2):
            world.cache.remove_pod(f"uid-of-a-{place}")
            world.cache.add_pod(make_pod(f"later-{place}", node="a", priority=6, requests={"cpu": "1"}))
        extenders.gate.set()
        await turns()
        assert extenders.victim_nodes == [["a", "b"], ["a"]]
        (preemption,) = harness.started.preemptions
        assert preemption.node_name == "a"
        assert preemption.victims[0].name.startswith("later-")


async def test_an_extender_that_only_has_a_say_in_preemption_is_queried_about_no_nodes() -> None:
    extenders, world, harness = staged("a", is_about_nodes=False)
    world.cache.remove_pod("uid-of-b-0")
    async with working(harness):
        await turns()
        assert extenders.queried == []
        assert extenders.victim_nodes == []
        assert harness.reported.notes == ["no Bind plugin took the pod"], "it got as far as Bind"


@pytest.mark.parametrize("version", ["1.37", "1.38"])
async def test_from_1_38_an_extender_that_holds_all_nodes_back_may_name_victims_where_none_are_needed(
    version: str,
) -> None:
    """(1.38: D5) No filter of a plugin lacks anything there. Before, that was an error."""
    world = World(version=version)
    world.node("a", 5)
    world.node("b", 1)
    extenders = Holding()
    extenders.first = replace(UNASKED, victims=ExtenderVictimResults())
    harness = SchedulerHarness(world.profile(), world.cache, extenders=extenders)
    harness.add(PREEMPTOR)
    async with working(harness):
        await turns()
        started = [(each.node_name, [one.name for one in each.victims]) for each in harness.started.preemptions]
        if version == "1.38":
            assert extenders.proposed == {"a": 0, "b": 0}
            assert started == [("a", ["a-0"])]
        else:
            assert (extenders.proposed, started) == ({}, [])
            (note,) = harness.reported.notes
            assert 'expected at least one victim pod on node "a"' in note
