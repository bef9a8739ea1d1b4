"""Gangs whose pods concern HTTP extenders: all or nothing, by what these leave."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import error, unschedulable
from kscheduler.scheduling.attempt.extender_lines import TURNS_PER_LINE
from kscheduler.scheduling.extenders.extender_results import ExtenderPoints, ExtenderResults
from kscheduler.scheduling.groups.member_extender_results import MAX_QUERIES, MemberExtenderResults, merged
from kscheduler.scheduling.record import SchedulingRecord
from tests.builders import make_node, make_pod
from tests.scheduling.attempt.test_extender_consultation import SlowExtenders
from tests.scheduling.groups.world import World, member, pod_group

# Two fit on a node.
HALF: dict[str, Any] = {"requests": {"cpu": "2"}, "labels": {"asks": "yes"}}


def queried_at_once(left: Sequence[str] | None = None) -> SlowExtenders:
    extenders = SlowExtenders(left)
    extenders.gate.set()
    return extenders


async def test_a_gang_goes_where_the_extenders_let_it() -> None:
    world = World(extenders=queried_at_once(["node-1", "node-3"]))
    world.nodes(4)
    async with world.working():
        world.gang("g", 4, **HALF)
        await world.settle()
        assert len(world.bound()) == 4
        assert {node for _, node in world.bindings} == {"node-1", "node-3"}
        assert world.groups.last("g").reason == "Scheduled"


async def test_a_gang_is_queried_about_once_for_each_member() -> None:
    extenders = queried_at_once()
    world = World(extenders=extenders)
    world.nodes(4)
    async with world.working():
        world.gang("g", 8, **HALF)
        await world.settle()
        assert len(world.bound()) == 8
    assert sorted(name for name, _ in extenders.queried) == [f"g-{number}" for number in range(8)]


async def test_a_gang_that_the_extenders_leave_no_room_holds_nothing_and_says_why() -> None:
    world = World(extenders=queried_at_once(["node-1"]))
    world.nodes(4)
    async with world.working():
        world.gang("g", 4, **HALF)
        await world.settle()
        assert world.bound() == []
        assert world.cache.statistics().pods == 0
        assert world.groups.last("g").message.startswith("minCount (4) cannot be satisfied: 2 scheduled, 1 remaining")
        assert any("3 busy" in note for note in world.reported.notes)
        assert {world.where(f"g-{number}") for number in range(4)} == {"backoff"}


async def test_while_extenders_think_nothing_is_held_and_everybody_else_goes_on() -> None:
    extenders = SlowExtenders()
    world = World(extenders=extenders)
    world.nodes(3)
    async with world.working():
        world.gang("slow", 4, **HALF)
        await world.settle()
        assert world.cache.statistics().pods == 0
        world.add(make_pod("quick"))
        world.gang("plain", 2, requests={"cpu": "2"})
        await world.settle()
        assert world.bound() == ["plain-0", "plain-1", "quick"]
        extenders.gate.set()
        await world.settle()
        assert world.bound("slow") == [f"slow-{number}" for number in range(4)]
        assert world.queue.statistics().in_flight == 0


async def test_several_gangs_are_queried_about_at_a_time_within_the_turns() -> None:
    extenders = SlowExtenders()
    world = World(extenders=extenders)
    world.nodes(40)
    async with world.working():
        for number in range(8):
            world.gang(f"g{number}", 4, **HALF)
        await world.settle()
        assert len(extenders.queried) == TURNS_PER_LINE
        extenders.gate.set()
        await world.settle(400)
        assert len(world.bound()) == 32


async def test_members_that_come_or_go_meanwhile() -> None:
    extenders = SlowExtenders()
    world = World(extenders=extenders)
    world.nodes(4)
    async with world.working():
        world.gang("g", 4, min_count=3, **HALF)
        await world.settle()
        world.delete("g-1")
        world.add(member("g-9", "g", **HALF))
        assert world.where("g-9") == "pending"
        extenders.gate.set()
        await world.settle()
        assert world.bound() == ["g-0", "g-2", "g-3", "g-9"]
        assert world.queue.statistics().in_flight == 0


async def test_a_group_that_is_deleted_meanwhile() -> None:
    extenders = SlowExtenders()
    world = World(extenders=extenders)
    world.nodes(4)
    async with world.working():
        group = pod_group("g", 2)
        world.add_group(group)
        world.add(member("g-0", "g", **HALF), member("g-1", "g", **HALF))
        await world.settle()
        world.delete_group(group)
        extenders.gate.set()
        await world.settle()
        assert world.bound() == []
        assert {world.where("g-0"), world.where("g-1")} == {"incomplete"}
        world.add_group(group)
        await world.pass_seconds(3)
        assert world.bound() == ["g-0", "g-1"]


async def test_room_that_goes_while_extenders_think_is_not_given_twice() -> None:
    extenders = SlowExtenders()
    world = World(extenders=extenders)
    world.nodes(1)
    async with world.working():
        world.gang("g", 2, **HALF)
        await world.settle()
        world.add(make_pod("other", requests={"cpu": "2"}))
        await world.settle()
        assert world.bound() == ["other"]
        extenders.gate.set()
        await world.settle()
        assert world.bound() == ["other"]
        assert world.groups.last("g").reason == "Unschedulable"


async def test_nodes_that_become_free_meanwhile_are_queried_about_too() -> None:
    extenders = SlowExtenders(["node-1"])
    world = World(extenders=extenders)
    world.nodes(1)
    async with world.working():
        world.gang("g", 2, **HALF)
        await world.settle()
        world.add(make_node("node-1"))
        extenders.gate.set()
        await world.settle()
        assert [node for _, node in world.bindings] == ["node-1", "node-1"]
        assert ("g-0", ("node-1",)) in extenders.queried or ("g-1", ("node-1",)) in extenders.queried


async def test_an_extender_that_fails_is_an_error_for_the_group() -> None:
    extenders = queried_at_once()
    extenders.is_broken = True
    world = World(extenders=extenders)
    world.nodes(2)
    async with world.working():
        world.gang("g", 2, **HALF)
        await world.settle()
        assert world.bound() == []
        assert world.groups.last("g").reason == "SchedulerError"
        assert any("no answer" in note for note in world.reported.notes)
        extenders.is_broken = False
        await world.pass_seconds(5)
        assert world.bound() == ["g-0", "g-1"]


async def test_a_bug_while_querying_ends_the_attempt_and_no_worker() -> None:
    extenders = queried_at_once()
    extenders.failure = RuntimeError("a bug")
    world = World(extenders=extenders)
    world.nodes(2)
    async with world.working():
        world.gang("g", 2, **HALF)
        await world.settle()
        assert world.bound() == []
        assert world.queue.statistics().in_flight == 0
        extenders.failure = None
        await world.pass_seconds(10)
        assert world.bound() == ["g-0", "g-1"]


async def test_a_gang_preempts_where_extenders_allow_it() -> None:
    extenders = queried_at_once(["node-1"])
    world = World(extenders=extenders)
    world.nodes(2)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", requests={"cpu": "2"}, priority=0) for number in range(4)))
        await world.settle()
        assert len(world.bound("low")) == 4
        world.add_group(pod_group("g", 2, priority=100))
        world.add(*(member(f"g-{number}", "g", priority=100, **HALF) for number in range(2)))
        await world.pass_seconds(10)
        assert {node for name, node in world.bindings if name.startswith("g")} == {"node-1"}
        assert len(world.evicted) == 2


async def test_after_a_reload_the_new_extenders_are_queried() -> None:
    old, new = SlowExtenders(), queried_at_once(["node-1"])
    world = World(extenders=old)
    world.nodes(2)
    async with world.working():
        world.gang("g", 2, **HALF)
        await world.settle()
        evaluators = world.assembly.scheduler._evaluators
        world.assembly.scheduler.apply(type(evaluators)(**{**vars_of(evaluators), "extenders": new}))
        assert old in list(world.workers.extenders_in_use()), "its connections stay open"
        in_use_at_ends: list[bool] = []
        world.workers.on_attempt_end = lambda: in_use_at_ends.append(old in list(world.workers.extenders_in_use()))
        old.gate.set()
        await world.settle()
        assert {node for _, node in world.bindings} == {"node-1"}
        assert old not in list(world.workers.extenders_in_use())
        assert in_use_at_ends


async def test_who_looks_for_extenders_to_be_closed_hears_of_a_gang_without_room_too() -> None:
    world = World(extenders=queried_at_once([]))
    world.nodes(1)
    ends: list[int] = []
    world.workers.on_attempt_end = lambda: ends.append(len(list(world.workers.extenders_in_use())))
    async with world.working():
        world.gang("g", 2, **HALF)
        await world.settle()
        assert world.bound() == []
        assert ends == [0]


def vars_of(evaluators: Any) -> dict[str, Any]:
    return {name: getattr(evaluators, name) for name in evaluators.__struct_fields__}


# --- answers ----------------------------------------------------------------------------------------------------------


def answers(queried: str, left: str, **points: int) -> ExtenderResults:
    by = dict.fromkeys(set(queried) - set(left), unschedulable("busy"))
    given = (ExtenderPoints("http://x", 2, points),) if points else ()
    return ExtenderResults(frozenset(queried), frozenset(left), by, given)


def test_answers_about_other_nodes_are_added() -> None:
    both = merged(answers("ab", "a", a=3), answers("cd", "cd", c=1, d=2))
    assert both.asked_nodes == set("abcd")
    assert both.left == set("acd")
    assert both.rejected.keys() == {"b"}
    assert [both.points_of(name) for name in "abcd"] == [3, 0, 1, 2]
    assert len(both.points) == 1


@pytest.mark.parametrize("times", [MAX_QUERIES - 1, MAX_QUERIES])
async def test_nobody_is_queried_without_end(times: int) -> None:
    extenders, pod = queried_at_once([]), PodInfo(make_pod("p", **HALF))
    known = MemberExtenderResults({pod.key: answers("", "")})
    for number in range(times):
        known.check(SchedulingRecord(pod, "kscheduler", queries=(f"n{number}",)))
        await known.ask(extenders, [pod], asyncio.Semaphore(1))
    record = SchedulingRecord(pod, "kscheduler", queries=("another",))
    known.check(record)
    assert record.status.code == error("x").code
    assert (known.query is None) is (times == MAX_QUERIES)


async def test_members_that_ask_for_something_else_are_queried_about_by_themselves() -> None:
    extenders = queried_at_once()
    like, other = (PodInfo(make_pod(name, **fields)) for name, fields in (("b", HALF), ("c", {**HALF, "requests": {}})))
    first = PodInfo(replace(make_pod("a", **HALF)))
    known = MemberExtenderResults({pod.key: answers("", "") for pod in (first, like, other)})
    known.check(SchedulingRecord(first, "kscheduler", queries=("n0", "n1")))
    await known.ask(extenders, [first, like, other], asyncio.Semaphore(1))
    assert [name for name, _ in extenders.queried] == ["a", "b"]
