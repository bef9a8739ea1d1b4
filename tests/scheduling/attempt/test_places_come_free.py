"""A place that comes free is used, whoever held it: also where it was held by a pod that no worker waits for."""

import asyncio

from kscheduler.aio.shared_slots import TURNS
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Status
from tests.builders import make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.attempt.test_workers import turns, working
from tests.scheduling.plugins_for_tests import cluster, profile

HANGS = "hangs"
WAITING = TURNS + 8


class Gates(Plugin):
    """Pods wait before their Binding, or in it, as their name says: `early-1` before it, until the gate opens."""

    name = "Gates"

    def __init__(self) -> None:
        self.early = asyncio.Event()
        self.hanging = asyncio.Event()
        self.last = asyncio.Event()
        self.bound: list[str] = []

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None: ...

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS if pod.name.startswith("early") else SKIP

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        await self.early.wait()
        return SUCCESS

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        if pod.name == HANGS:
            await self.hanging.wait()
        elif pod.name.startswith("early") and len(self.bound) > TURNS + 1:
            await self.last.wait()
        self.bound.append(pod.name)
        return SUCCESS


async def test_pods_that_were_bound_in_turn_leave_their_places_to_idle_workers() -> None:
    """Their namespace recovers while they wait, so they take places; the workers see none free, and go to sleep."""
    gates = Gates()
    harness = SchedulerHarness(profile(gates), cluster("node"), workers=2, limit=1)
    async with working(harness):
        harness.add(*(make_pod(f"early-{number}") for number in range(WAITING)))
        await turns()
        harness.add(make_pod(HANGS), make_pod("other", namespace="sound"))
        await turns()
        await harness.clock.advance(0.5)
        assert gates.bound == ["other"], "the one that hangs is late, and its namespace is slow"
        gates.early.set()
        await turns()
        assert gates.bound == ["other"], "they wait for turns of their namespace"
        gates.hanging.set()
        await turns(500)
        assert not harness.workers.work_slots.slow, "so many were on time that the namespace has recovered"
        assert len(gates.bound) == 2 + TURNS
        harness.add(make_pod("late", namespace="sound"))
        await turns()
        gates.last.set()
        await turns(500)
    assert len(gates.bound) == 3 + WAITING
    assert gates.bound[-1] == "late"


class HangsAgain(Plugin):
    """The first pod hangs in its Binding, and so does each that comes after those who show that all is well again."""

    name = "HangsAgain"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.bound = 0

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        if not self.gate.is_set():
            await self.gate.wait()
        elif self.bound > TURNS:
            await asyncio.get_running_loop().create_future()
        self.bound += 1
        return SUCCESS


async def test_pods_that_are_called_back_stand_in_line_again_if_their_namespace_is_slow_again() -> None:
    """They are not decided before they have a turn, so that they hold no room that others could use."""
    hangs = HangsAgain()
    harness = SchedulerHarness(profile(hangs), cluster("node"), workers=2, limit=1)
    pods = [make_pod(f"p{number}") for number in range(3 * TURNS)]
    async with working(harness):
        harness.add(*pods)
        await turns()
        await harness.clock.advance(0.5)
        assert len(harness.workers.standing) > TURNS
        hangs.gate.set()
        await turns(500)
        assert (hangs.bound, len(harness.workers.standing)) == (TURNS + 1, 0), "all others are called back"
        await harness.clock.advance(0.5)
        await turns(500)
        held = sum(harness.cache.is_assumed(pod.metadata.uid) for pod in pods) - hangs.bound
        assert held + len(harness.workers.standing) == len(pods) - hangs.bound
        assert held <= 2
