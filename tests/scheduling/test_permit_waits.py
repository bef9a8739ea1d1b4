"""Pods that wait for Permit are told: once in the log, while it lasts in `/readyz?verbose`, and as numbers."""

import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.long_waits import PermitWaits
from kscheduler.state.waiting_pods import PodAtPermit, WaitingPodTable
from tests.builders import pod_info


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.table = WaitingPodTable()
        self.waits = PermitWaits(self.table, self.clock.monotonic)

    def hold(self, name: str, *plugins: str, seconds: float = 60.0) -> PodAtPermit:
        now = self.clock.monotonic()
        timeouts = dict.fromkeys(plugins, seconds)
        held = PodAtPermit(pod_info(name), "node", dict.fromkeys(plugins, now + seconds), timeouts, since=now)
        self.table.hold(held)
        return held

    async def lines_after(self, seconds: int) -> list[dict[str, object]]:
        """What a look each second logs."""
        with structlog.testing.capture_logs() as lines:
            for _ in range(seconds):
                await self.clock.advance(1.0)
                self.waits.look()
        return [{**line} for line in lines]


async def test_a_long_wait_is_logged_once_and_so_is_its_end() -> None:
    world = World()
    first = world.hold("first", "Gang", "Hours")
    assert await world.lines_after(9) == []
    world.hold("second", "Gang")
    gang, hours = await world.lines_after(20)
    assert gang == {
        "event": "pods_wait_at_permit", "log_level": "info", "plugin": "Gang", "pods": 2, "pod": "default/first",
        "node": "node", "seconds": 10.0, "rejected_in_seconds": 50.0,
    }  # fmt: skip
    assert (hours["plugin"], hours["pods"]) == ("Hours", 1)
    first.allow("Hours")
    (over,) = await world.lines_after(5)
    assert over == {
        "event": "pods_wait_at_permit_no_more", "log_level": "info", "plugin": "Hours", "seconds": 30.0,
    }  # fmt: skip
    for held in world.table.all():
        world.table.release(held.pod.uid)
    (over,) = await world.lines_after(5)
    assert (over["event"], over["plugin"]) == ("pods_wait_at_permit_no_more", "Gang")


async def test_many_short_waits_are_none_that_is_reported() -> None:
    world = World()
    for number in range(5):
        held = world.hold(f"p{number}", "Gang")
        assert await world.lines_after(6) == []
        world.table.release(held.pod.uid)


async def test_the_note_names_who_waits_longest_and_is_gone_with_it() -> None:
    world = World()
    held = world.hold("first", "Gang")
    assert list(world.waits.notes()) == []
    await world.clock.advance(12.0)
    assert list(world.waits.notes()) == ["1 pod waits at Permit for plugin Gang, pod default/first on node node: 12 s"]
    world.hold("second", "Gang")
    expected = "2 pods wait at Permit for plugin Gang, pod default/first on node node longest: 12 s"
    assert list(world.waits.notes()) == [expected]
    held.settle(SUCCESS)
    assert list(world.waits.notes()) == [], "it has its verdict: it does not wait any more"


async def test_numbers_fall_to_zero_and_the_dump_has_the_deadlines() -> None:
    world = World()
    held = world.hold("first", "Gang", "Hours", seconds=30.0)
    assert dict(world.waits.pods_by_plugin()) == {"Gang": 1, "Hours": 1}
    await world.clock.advance(5.0)
    assert world.waits.by_pod() == {
        held.pod.uid: {"node": "node", "seconds": 5.0, "rejected_in_seconds": {"Gang": 25.0, "Hours": 25.0}}
    }
    world.table.release(held.pod.uid)
    assert dict(world.waits.pods_by_plugin()) == {"Gang": 0, "Hours": 0}
    assert world.waits.by_pod() == {}
