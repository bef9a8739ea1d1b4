"""Preemptors wait for what the watch shows of their victims, and nothing wakes them before it does."""

import asyncio
from collections.abc import Callable

import pytest

from kscheduler.aio.clock import Alarm, VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.client.watch import WatchEvent
from kscheduler.informers.informer import Informer
from kscheduler.scheduling.eviction.pod_change_waits import LONGEST_LAG_SECONDS, PodChangeWaits
from tests.builders import make_pod
from tests.scheduling.eviction.stage import Stage, turns

PREEMPTORS = 200


class CountingClock(VirtualClock):
    """Counts what it is asked for: a task that wakes up looks at it, or sets the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def monotonic(self) -> float:
        self.calls += 1
        return super().monotonic()

    async def sleep(self, seconds: float) -> None:
        self.calls += 1
        await super().sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        self.calls += 1
        return super().call_later(seconds, callback)


async def test_many_preemptors_wait_without_waking_up() -> None:
    clock = CountingClock()
    stage = Stage(clock)
    stage.writes.take_their_time = True
    for number in range(PREEMPTORS):
        stage.evictions.begin(stage.preemption(f"v{number}", preemptor=f"p{number}"))
    await turns(PREEMPTORS)
    assert stage.executions() == {"success": PREEMPTORS}
    assert all(stage.must_wait(f"p{number}") for number in range(PREEMPTORS))
    queried, looked = clock.calls, stage.looks
    await clock.advance(LONGEST_LAG_SECONDS / 2)
    # One look for deletions that hang, whose places others may take, however many there are.
    assert clock.calls - queried <= 1, "a minute goes by in which nothing happens"
    assert stage.looks == looked
    assert clock.sleepers == PREEMPTORS, "one timer each, for the end of the wait"
    stage.terminating("v7")
    await turns()
    assert stage.activated == ["p7"]
    assert stage.looks - looked <= 5, "the others were not asked"
    assert clock.sleepers == PREEMPTORS - 1
    stage.activated.clear()
    await clock.advance(LONGEST_LAG_SECONDS)
    assert len(stage.activated) == PREEMPTORS - 1
    assert (clock.sleepers, stage.evictions._under_way) == (0, {})


async def test_a_stop_ends_all_waits() -> None:
    stage = Stage()
    stage.writes.take_their_time = True
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    assert await stage.evictions.stop()
    assert (stage.clock.sleepers, stage.evictions.pod_change_waits._waits) == (0, {})


@pytest.mark.parametrize("event", ["MODIFIED", "DELETED", "made again"])
async def test_whatever_the_watch_says_of_a_pod_is_looked_at(event: str) -> None:
    clock = VirtualClock()
    pod_change_waits = PodChangeWaits(clock)
    informer: Informer[Pod] = Informer(PODS, clock=clock)
    informer.add_handler(pod_change_waits)
    informer.apply(WatchEvent("MODIFIED", make_pod("v")))
    queried: list[str] = []

    def is_over() -> bool:
        pod = informer.store.get("default/v")
        queried.append("" if pod is None else f"{pod.metadata.uid} {pod.metadata.deletion_timestamp}")
        return len(queried) > 1

    wait = asyncio.ensure_future(pod_change_waits.until(is_over, ["default/v", "default/other"]))
    await turns()
    informer.apply(WatchEvent("MODIFIED", make_pod("unknown")))
    await turns()
    assert (len(queried), wait.done()) == (1, False)
    if event == "MODIFIED":
        informer.apply(WatchEvent("MODIFIED", make_pod("v", metadata={"deletionTimestamp": "2026-11-21T12:00:00Z"})))
    elif event == "DELETED":
        informer._delete("default/v")
    else:
        informer.apply(WatchEvent("MODIFIED", make_pod("v", uid="another")))
    await turns()
    assert wait.done()
    assert queried[1] == {"MODIFIED": "uid-of-v 2026-11-21T12:00:00Z", "DELETED": ""}.get(event, "")
    assert (pod_change_waits._waits, clock.sleepers) == ({}, 0)


async def test_what_is_over_already_waits_for_nothing() -> None:
    clock = VirtualClock()
    await PodChangeWaits(clock).until(lambda: True, ["default/v"])
    assert clock.sleepers == 0
