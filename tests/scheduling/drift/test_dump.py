"""The dump of cache and queue: everything that is there, bounded, line by line."""

from typing import Any

import pytest
import structlog

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.drift.dump import NO_OTHER_WAITS, Dump, WaitsBesideQueue
from tests.builders import make_node, make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.drift.test_drift import World
from tests.scheduling.plugins_for_tests import TurnsDown, profile


def dump_of(world: World, waits: WaitsBesideQueue = NO_OTHER_WAITS) -> Dump:
    return Dump(world.cache, world.queue, world.pods.store, then=lambda: None, waits=waits)


async def lines_of(world: World, event: str) -> list[dict[str, Any]]:
    with structlog.testing.capture_logs() as lines:
        await dump_of(world).write()
    return [dict(line) for line in lines if line["event"] == event]


@pytest.fixture
def world() -> World:
    world = World()
    world.see(make_node("a", cpu="4"), make_pod("on-a", node="a", requests={"cpu": "1"}), make_pod("assumed"))
    queued = world.queue.pop_nowait(world.clock.time())
    assert queued is not None
    world.cache.assume_pod(queued.pod, "a")
    world.queue.done(queued.pod.uid)
    return world


async def test_a_node_is_reported_with_what_is_taken_its_pods_and_who_is_expected(world: World) -> None:
    world.see(make_pod("nominated", status={"nominatedNodeName": "a"}))
    world.see(make_pod("early", node="ghost"))
    node, ghost = await lines_of(world, "Cached NodeInfo")
    assert (node["node"], node["deleted"], node["scheduled"]) == ("a", False, 2)
    assert (node["requested"], node["allocatable"]["cpu"]) == ({"cpu": 1000}, 4000)
    assert {pod["pod"]: pod.get("assumed", False) for pod in node["pods"]} == {
        "default/on-a": False,
        "default/assumed": True,
    }
    assert node["nominated"] == [
        {"pod": "default/nominated", "uid": "uid-of-nominated", "phase": "", "nominated_node": "a"}
    ]
    assert (ghost["node"], ghost["deleted"]) == ("ghost", True)


async def test_a_pod_that_stands_in_line_for_an_extender_is_reported_with_its_name(world: World) -> None:
    """It is in no queue, and nobody tries it yet: without this line it would be nowhere."""
    world.see(make_pod("in-line", priority=7))
    queued = world.queue.pop_nowait(world.clock.time())
    assert queued is not None
    world.queue.rest(queued.pod.uid)
    dump = dump_of(world, WaitsBesideQueue(in_line=lambda: [("http://slow", queued)]))
    with structlog.testing.capture_logs() as lines:
        await dump.write()
    (line,) = (line for line in lines if line["event"] == "Pod in scheduling queue")
    assert (line["pod"], line["queue"], line["extender"]) == ("default/in-line", "extender_line", "http://slow")
    assert line["priority"] == 7


async def test_a_pod_that_waits_for_permit_is_reported_with_what_it_waits_for(world: World) -> None:
    """It is in no queue: without this line it would be nowhere."""
    said = {"uid-of-assumed": {"node": "a", "rejected_in_seconds": {"Gang": 5.0}}}
    dump = dump_of(world, WaitsBesideQueue(at_permit=lambda: said))
    with structlog.testing.capture_logs() as lines:
        await dump.write()
    (line,) = (line for line in lines if line["event"] == "Pod in scheduling queue")
    assert (line["pod"], line["queue"], line["node"]) == ("default/assumed", "permit", "a")
    assert line["rejected_in_seconds"] == {"Gang": 5.0}


async def test_a_pod_that_waits_is_reported_with_its_queue_its_attempts_and_who_turned_it_down(world: World) -> None:
    world.see(make_pod("parked"))
    queued = world.queue.pop_nowait(world.clock.time())
    assert queued is not None
    queued.unschedulable_plugins = frozenset({"F"})
    world.queue.requeue(queued, world.clock.time())
    world.see(make_pod("active"))
    reported = {line["pod"]: line for line in await lines_of(world, "Pod in scheduling queue")}
    assert {key: line["queue"] for key, line in reported.items()} == {
        "default/parked": "unschedulable",
        "default/active": "active",
    }
    assert (reported["default/parked"]["attempts"], reported["default/parked"]["unschedulable_plugins"]) == (1, ["F"])
    (summary,) = await lines_of(world, "Dump of scheduling queue")
    assert (summary["summary"]["active"], summary["summary"]["unschedulable"]) == (1, 1)


async def test_a_dump_is_bounded_and_reports_the_true_numbers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.scheduling.drift.dump.MAX_NODES", 3)
    monkeypatch.setattr("kscheduler.scheduling.drift.dump.MAX_WAITING", 4)
    world.see(*(make_node(f"n{number}") for number in range(9)), *(make_pod(f"p{number}") for number in range(9)))
    assert len(await lines_of(world, "Cached NodeInfo")) == 3
    assert len(await lines_of(world, "Pod in scheduling queue")) == 4
    (summary,) = await lines_of(world, "Dump of cached NodeInfo")
    assert (summary["nodes"], summary["shown"]) == (10, 3)


async def test_a_gated_pod_is_reported_as_gated() -> None:
    harness = SchedulerHarness(profile(TurnsDown("F")), World().cache)
    pod = make_pod("gated")
    harness.add(pod)
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    queued.gating_plugin, queued.unschedulable_plugins = "SchedulingGates", frozenset({"SchedulingGates"})
    harness.queue.requeue(queued, harness.clock.time())
    world = World()
    world.see(pod)
    with structlog.testing.capture_logs() as lines:
        await Dump(world.cache, harness.queue, world.pods.store, then=lambda: None).write()
    reported = [line for line in lines if line["event"] == "Pod in scheduling queue"]
    assert [(line["pod"], line["gating_plugin"]) for line in reported] == [(PodInfo(pod).key, "SchedulingGates")]
