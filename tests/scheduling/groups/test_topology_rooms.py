"""How much room a group finds where the filters alone would say less: rules that the placement of members satisfies."""

from typing import Any, Final

from kscheduler.framework.cluster.topology_request import REQUIRED
from kscheduler.scheduling.groups.topology_search import MAX_TRIALS
from tests.builders import make_node, make_pod
from tests.scheduling.groups.test_topology_requests import RACK, asking
from tests.scheduling.groups.world import World, member, pod_group

HOST: Final = "kubernetes.io/hostname"
ASKED: Final = {REQUIRED: RACK}
SPREAD: Final[dict[str, Any]] = {
    "maxSkew": 1,
    "topologyKey": HOST,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}
NEAR_THE_FIRST: Final[dict[str, Any]] = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": RACK, "labelSelector": {"matchLabels": {"role": "first"}}}
        ]
    }
}


async def test_a_node_that_is_too_full_for_the_first_member_has_room_for_a_later_one() -> None:
    world = World()
    for number in range(3):
        name = f"r0n{number}"
        world.add(make_node(name, labels={RACK: "r0", HOST: name}, cpu="4"), initial=True)
    world.add(make_pod("old", labels={"app": "x"}, node="r0n2", requests={"cpu": "1"}), initial=True)
    async with world.working():
        world.add_group(pod_group("g", 5))
        requests = {"cpu": "2"}
        pods = [
            member(f"g-{number}", "g", labels={"app": "x"}, requests=requests, topologySpreadConstraints=[SPREAD])
            for number in range(5)
        ]
        world.add(*(asking(pod, **ASKED) for pod in pods))
        await world.settle()
        assert len({name for name, _ in world.bindings}) == 5, world.groups.last("g").message


async def test_a_member_that_must_be_near_another_has_room_before_the_other_is_placed() -> None:
    world = World()
    for kind in ("first", "second"):
        world.add(make_node(f"r0-{kind}", labels={RACK: "r0", "for": kind}, cpu="2"), initial=True)
    async with world.working():
        world.add_group(pod_group("g", 2))
        first = member("g-0", "g", labels={"role": "first"}, requests={"cpu": "2"}, nodeSelector={"for": "first"})
        second = member("g-1", "g", requests={"cpu": "2"}, nodeSelector={"for": "second"}, affinity=NEAR_THE_FIRST)
        world.add(*(asking(pod, **ASKED) for pod in (first, second)))
        await world.settle()
        assert dict(world.bindings) == {"g-0": "r0-first", "g-1": "r0-second"}, world.groups.last("g").message


async def test_what_no_trial_holds_is_not_said_to_have_no_room_at_all() -> None:
    world = World()
    for rack in range(MAX_TRIALS + 1):
        world.add(make_node(f"r{rack}", labels={RACK: f"r{rack}"}, cpu="4"), initial=True)
    away = {"podAntiAffinity": NEAR_THE_FIRST["podAffinity"]}
    async with world.working():
        world.add_group(pod_group("g", 2))
        pods = [member("g-0", "g", labels={"role": "first"}), member("g-1", "g", affinity=away)]
        world.add(*(asking(pod, **ASKED) for pod in pods))
        await world.settle()
        message = world.groups.last("g").message
        assert "16 choices of domains of example.com/rack were tried, and none holds 2 members" in message
