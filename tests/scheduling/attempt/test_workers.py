"""Workers: bounded, undying, drained at the end, and never asleep while there is work."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status
from kscheduler.scheduling.attempt import binding_cycle
from kscheduler.scheduling.attempt_events import PodBound
from kscheduler.scheduling.observers import hears
from kscheduler.scheduling.work.workers import SLICE_SECONDS
from tests.builders import make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import AroundBinding, TurnsDown, cluster, profile


class GatedBind(Plugin):
    """Binds wait at a gate."""

    name = "Bind"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.under_way = 0
        self.most = 0
        self.bound: list[str] = []
        self.failure: Exception | None = None

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.gate.wait()
        self.under_way -= 1
        if self.failure is not None:
            raise self.failure
        self.bound.append(pod.name)
        return SUCCESS


async def turns(count: int = 30) -> None:
    """Let every task do what it can."""
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def working(harness: SchedulerHarness) -> AsyncIterator["asyncio.Task[None]"]:
    """The workers at work, woken by the queue."""
    harness.wake = harness.workers.wake
    task = asyncio.ensure_future(harness.workers.run())
    await turns()
    yield task
    task.cancel()
    await asyncio.wait({task})


async def test_the_limit_bounds_the_binds_on_the_wire() -> None:
    binder = GatedBind()
    harness = SchedulerHarness(profile(binder), cluster("node"), workers=8, limit=3)
    harness.add(*(make_pod(f"p{number}") for number in range(10)))
    async with working(harness):
        assert (binder.under_way, harness.workers.binding) == (3, 3)
        binder.gate.set()
        await turns()
        assert sorted(binder.bound) == sorted(f"p{number}" for number in range(10))
        assert binder.most == 3


async def test_a_pod_that_comes_while_all_are_parked_is_taken() -> None:
    binder = GatedBind()
    binder.gate.set()
    harness = SchedulerHarness(profile(binder), cluster("node"))
    async with working(harness):
        for number in range(20):
            harness.add(make_pod(f"p{number}"))
            await turns(5)
        assert len(binder.bound) == 20


async def test_pods_that_come_in_one_burst_use_all_workers() -> None:
    """One wake-up per arrival would be enough; one for all of them would leave three workers asleep."""
    binder = GatedBind()
    harness = SchedulerHarness(profile(binder), cluster("node"), workers=4, limit=4)
    async with working(harness):
        harness.add(*(make_pod(f"p{number}") for number in range(4)))
        await turns()
        assert binder.under_way == 4


async def test_a_binder_that_raises_ends_no_worker() -> None:
    binder = GatedBind()
    binder.failure = RuntimeError("it broke")
    binder.gate.set()
    harness = SchedulerHarness(profile(binder), cluster("node"), workers=2)
    async with working(harness) as task:
        harness.add(*(make_pod(f"p{number}") for number in range(10)))
        await turns(100)
        assert harness.queue.statistics().backoff == 10
        assert harness.cache.statistics().pods == 0
        binder.failure = None
        harness.add(make_pod("good"))
        await turns()
        assert binder.bound == ["good"]
        assert not task.done()


async def test_a_bug_after_the_binding_does_not_give_the_room_of_a_bound_pod_away() -> None:
    """The API server has the pod on its node, whatever breaks here afterwards."""
    binder = GatedBind()
    binder.gate.set()

    class Breaks:
        @hears(PodBound)
        def note(self, event: PodBound) -> None:
            raise RuntimeError(f"it broke about {event.queued.key}")

    harness = SchedulerHarness(profile(binder), cluster("node"), workers=2, observer=Breaks())
    async with working(harness) as task:
        harness.add(make_pod("p"))
        await turns()
        assert binder.bound == ["p"]
        assert harness.cache.statistics().pods == 1
        assert harness.where("default/p") == ""
        assert not task.done()


async def test_a_bug_in_a_decision_ends_no_worker_and_keeps_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(pod: PodInfo, node_name: str) -> None:
        raise KeyError(1)

    binder = GatedBind()
    binder.gate.set()
    harness = SchedulerHarness(profile(binder), cluster("node"), workers=2)
    monkeypatch.setattr(harness.cache, "assume_pod", breaks)
    async with working(harness) as task:
        harness.add(*(make_pod(f"p{number}") for number in range(5)))
        await turns(100)
        assert harness.queue.statistics().backoff == 5
        assert harness.reported.notes == ["KeyError: 1"] * 5
        monkeypatch.undo()
        harness.add(make_pod("good"))
        await turns()
        assert binder.bound == ["good"]
        assert not task.done()


async def test_a_stop_drains_binds_and_takes_no_more_pods() -> None:
    binder = GatedBind()
    harness = SchedulerHarness(profile(binder), cluster("node"), workers=2, limit=2)
    async with working(harness):
        harness.add(*(make_pod(f"p{number}") for number in range(5)))
        await turns()
        stop = asyncio.ensure_future(harness.workers.stop(10.0))
        await turns()
        assert not stop.done()
        binder.gate.set()
        assert await stop
        assert len(binder.bound) == 2
        assert harness.queue.statistics().active == 3


async def test_a_stop_gives_up_on_binds_that_hang() -> None:
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"))
    async with working(harness):
        harness.add(make_pod("p"))
        await turns()
        stop = asyncio.ensure_future(harness.workers.stop(10.0))
        await turns()
        await harness.clock.advance(10.0)
        assert not await stop


WAIT = PermitResult(Status(Code.WAIT), 600.0)


async def test_a_pod_that_waits_for_permit_holds_no_worker() -> None:
    binder = GatedBind()
    binder.gate.set()
    keeper = AroundBinding("Keeper", [], {"permit": WAIT})
    harness = SchedulerHarness(profile(binder, keeper), cluster("node"), workers=1, limit=1)
    async with working(harness):
        harness.add(*(make_pod(f"p{number}") for number in range(5)))
        await turns(60)
        assert len(harness.waiting) == 5
        assert harness.workers.binding == 0
        for pod in harness.waiting.all():
            pod.allow("Keeper")
        await turns(60)
        assert len(binder.bound) == 5


async def test_a_stop_cancels_who_waits_for_permit_and_drains_who_was_let_go() -> None:
    """A bind that was sent is not cancelled, whether Permit held the pod before or not."""
    binder = GatedBind()
    keeper = AroundBinding("Keeper", [], {"permit": WAIT})
    harness = SchedulerHarness(profile(binder, keeper), cluster("node"))
    async with working(harness):
        harness.add(make_pod("goes"), make_pod("stays"))
        await turns(60)
        waiting = harness.waiting.get("uid-of-goes")
        assert waiting is not None
        waiting.allow("Keeper")
        await turns()
        assert binder.under_way == 1
        stop = asyncio.ensure_future(harness.workers.stop(10.0))
        await turns()
        assert len(harness.waiting) == 0
        assert not stop.done()
        binder.gate.set()
        assert await stop
        assert binder.bound == ["goes"]


async def test_pods_that_permit_holds_do_not_starve_the_loop() -> None:
    """Deciding about them awaits nothing; once `SLICE_SECONDS` are used up, the loop gets its turn all the same."""
    rounds: Counter[int] = Counter()
    ticks = 0

    class Slow(AroundBinding):
        def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
            harness.clock._now += SLICE_SECONDS / 2
            rounds[ticks] += 1
            return WAIT

    harness = SchedulerHarness(profile(Slow("Slow", [])), cluster("node"), workers=1)
    harness.add(*(make_pod(f"p{number}") for number in range(50)))
    task = asyncio.ensure_future(harness.workers.run())
    while len(harness.waiting) < 50:
        ticks += 1
        await asyncio.sleep(0)
    assert max(rounds.values()) <= 3
    assert SLICE_SECONDS <= 0.002, "as docs/figures.md has the lag of the loop"
    task.cancel()
    await asyncio.wait({task})


async def test_back_off_is_flushed_on_whole_seconds_and_the_net_every_thirty() -> None:
    harness = SchedulerHarness(profile(TurnsDown("F", "node")), cluster("node"))
    harness.add(make_pod("error"), make_pod("parked"))
    for plugins in (frozenset[str](), frozenset({"F"})):
        queued = harness.queue.pop_nowait(harness.clock.time())
        assert queued is not None
        queued.unschedulable_plugins = plugins
        harness.queue.requeue(queued, harness.clock.time())
    task = asyncio.ensure_future(harness.workers.keep_flushing())
    await turns()
    await harness.clock.advance(1)
    assert harness.where("default/error") == "backoff"
    await harness.clock.advance(1)
    assert harness.where("default/error") == "active"
    await harness.clock.advance(297)
    assert harness.where("default/parked") == "unschedulable"
    await harness.clock.advance(32)
    assert harness.where("default/parked") == "active"
    task.cancel()
    await asyncio.wait({task})


async def test_a_bug_in_a_binding_is_logged_once_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    async def has_a_bug(*_: object) -> Status:
        raise LookupError("nobody thought of that")

    monkeypatch.setattr(binding_cycle, "run_bind", has_a_bug)
    harness = SchedulerHarness(profile(GatedBind()), cluster("node"), workers=1)
    harness.add(make_pod("p"))
    with structlog.testing.capture_logs() as lines:
        async with working(harness):
            pass
    assert [one["event"] for one in lines if one["log_level"] == "error"] == ["binding_failed"]
    assert lines[0]["pod"] == "default/p"
    (failed,) = harness.reported.notes
    assert failed == "LookupError: nobody thought of that"
