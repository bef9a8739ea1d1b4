"""Bindings of one namespace that hang, or are refused again and again: pods of other namespaces are bound as before."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from statistics import quantiles

import pytest

from kscheduler.api.core import Pod
from kscheduler.client.errors import APIError, APIStatus
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.scheduling.attempt.binding import BindingWriter
from tests.builders import make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.attempt.test_workers import turns, working
from tests.scheduling.plugins_for_tests import cluster, profile

THOUSANDS = pytest.mark.slow("a thousand hostile pods beside sound ones")

HOSTILE = "hostile"
SOUND_SECONDS = 0.02


class Server:
    """Binds sound pods in 20 ms, and treats those of one namespace as told. Implements `PodBinder`."""

    def __init__(self, harness_clock: SchedulerHarness, way: str) -> None:
        self.clock = harness_clock.clock
        self.way = way
        self.bound_at: dict[str, float] = {}
        self.queried: Counter[str] = Counter()
        self.under_way: set[str] = set()
        self.most = 0
        """Bindings under way at the same time, at most."""

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS
    ) -> None:
        assert uid not in self.under_way, "a Binding is never sent twice at the same time"
        self.under_way.add(uid)
        self.most = max(self.most, len(self.under_way))
        try:
            if namespace.startswith(HOSTILE):
                await self._treat(name)
            else:
                await self.clock.sleep(SOUND_SECONDS)
        finally:
            self.under_way.discard(uid)
        self.bound_at[name] = self.clock.monotonic()

    async def _treat(self, name: str) -> None:
        self.queried[name] += 1
        if self.way == "never answered":
            await asyncio.get_running_loop().create_future()
        if self.way == "ten seconds, then 500":
            await self.clock.sleep(10.0)
            raise APIError(APIStatus(kind="Status", code=500, message="failed calling webhook"))
        if self.way in ("as others", "five seconds"):
            await self.clock.sleep(5.0 if self.way == "five seconds" else SOUND_SECONDS)
            return
        await self.clock.sleep(0.01)
        if self.way == "500 at once":
            raise APIError(APIStatus(kind="Status", code=500, message="failed calling webhook"))
        raise APIError(APIStatus(kind="Status", code=429, message="not now"), retry_after_seconds=1.0)

    async def get_pod(self, namespace: str, name: str) -> Pod:
        await self.clock.sleep(0.005)
        return make_pod(name, namespace=namespace)


class Binds(Plugin):
    name = "Bind"

    def __init__(self) -> None:
        self.writer: BindingWriter | None = None

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        assert self.writer is not None
        return await self.writer.bind(pod.pod, node_name)


async def latencies(
    way: str, hostile: int, *, seconds: int = 30, namespaces: int = 1
) -> tuple[list[float], SchedulerHarness, Server]:
    """How long twenty sound pods a second took from creation to Binding, in virtual seconds."""
    plugin = Binds()
    harness = SchedulerHarness(profile(plugin), cluster("node"), workers=64, limit=16)
    server = Server(harness, way)
    plugin.writer = BindingWriter(
        server,
        harness.clock,
        harness.observations,
        lambda namespace, _: harness.limit.refused_for(namespace, harness.clock.monotonic()),
        on_pause=harness.workers.pauses,
    )
    created: dict[str, float] = {}
    async with working(harness):
        flushing = asyncio.create_task(harness.workers.keep_flushing())
        for number in range(20 * seconds):
            if number == 100:
                names = [HOSTILE, *(f"{HOSTILE}-{each}" for each in range(1, namespaces))]
                harness.add(*(make_pod(f"h{each}", namespace=names[each % namespaces]) for each in range(hostile)))
            name = f"s{number}"
            created[name] = harness.clock.monotonic()
            harness.add(make_pod(name, namespace=f"team-{number % 3}"))
            await turns(5)
            await harness.clock.advance(0.05)
        await harness.clock.advance(2.0)
        flushing.cancel()
    waited = [server.bound_at[name] - at for name, at in created.items() if name in server.bound_at]
    assert len(waited) == len(created), "every sound pod is bound"
    return waited, harness, server


@THOUSANDS
@pytest.mark.parametrize("way", ["never answered", "ten seconds, then 500", "500 at once", "429, Retry-After 1"])
async def test_sound_pods_are_bound_as_before_beside_a_thousand_of_a_hostile_namespace(way: str) -> None:
    alone, _, _ = await latencies(way, 0, seconds=15)
    beside, harness, _ = await latencies(way, 1000)
    assert quantiles(beside, n=100)[98] <= 2 * quantiles(alone, n=100)[98]
    assert max(beside) <= 1.1, "until those that hang are found to be late"
    statistics = harness.limit.statistics()
    assert statistics.limit == 16, "a namespace's refusals say nothing of the server"


@pytest.mark.parametrize(("namespaces", "percentile"), [(2, 98), (12, 98), (40, 94)])
@pytest.mark.parametrize("way", ["never answered", "ten seconds, then 500"])
async def test_sound_pods_are_bound_as_before_beside_several_hostile_namespaces(
    way: str, namespaces: int, percentile: int
) -> None:
    """Several that hang are no slow server, each has its turns, and they do not hold all places one after the other."""
    alone, _, _ = await latencies(way, 0, seconds=15)
    beside, _, _ = await latencies(way, 1000, namespaces=namespaces)
    assert quantiles(beside, n=100)[percentile] <= 2 * quantiles(alone, n=100)[percentile]
    assert max(beside) <= 1.1, "until those that hang are found to be late"


class BusyServer(Server):
    """Works on four Bindings at a time, a second each, whosever they are; the others wait in it."""

    def __init__(self, harness_clock: SchedulerHarness) -> None:
        super().__init__(harness_clock, "")
        self.at_work = asyncio.Semaphore(4)
        self.seconds = 1.0

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS
    ) -> None:
        self.under_way.add(uid)
        self.most = max(self.most, len(self.under_way))
        async with self.at_work:
            await self.clock.sleep(self.seconds)
        self.under_way.discard(uid)
        self.bound_at[name] = self.clock.monotonic()


@pytest.mark.parametrize("namespaces", [1, 3, 30])
async def test_a_server_that_is_slow_for_everybody_gets_no_more_than_the_limit_allows(namespaces: int) -> None:
    plugin = Binds()
    harness = SchedulerHarness(profile(plugin), cluster("node"), workers=64, limit=16)
    server = BusyServer(harness)
    plugin.writer = BindingWriter(
        server, harness.clock, harness.observations, lambda *_: None, on_pause=harness.workers.pauses
    )
    async with working(harness):
        flushing = asyncio.create_task(harness.workers.keep_flushing())
        harness.add(*(make_pod(f"p{each}", namespace=f"team-{each % namespaces}") for each in range(300)))
        await turns()
        await harness.clock.advance(20.0)
        assert server.most <= 4 * 16, "while it is found out"
        server.most = 0
        await harness.clock.advance(30.0)
        assert server.most <= 2 * 16 + 2, "in places and beside them, and a probe"
        assert namespaces > 2 * 8 or harness.limit.statistics().limit < 16, "the limit hears of late answers"
        assert len(server.bound_at) > 0.85 * 50 * 4, "and the server is never idle"
        server.seconds = 0.001
        await harness.clock.advance(30.0)
        flushing.cancel()
        assert len(server.bound_at) == 300
        assert (len(harness.workers.standing), harness.workers.binding, harness.workers.work_slots.beside) == (0, 0, 0)


async def test_a_hostile_namespace_holds_room_for_few_of_its_pods() -> None:
    """Those that stand in line are not decided yet: the nodes' room is for others meanwhile."""
    _, harness, _ = await latencies("never answered", 1000, seconds=10)
    held = sum(harness.cache.is_assumed(f"uid-of-h{number}") for number in range(1000))
    assert held <= 16 + 32
    assert len(harness.workers.standing) == 1000 - held


async def test_a_namespace_that_is_well_again_is_bound_to_the_last_pod() -> None:
    plugin = Binds()
    harness = SchedulerHarness(profile(plugin), cluster("node"), workers=64, limit=16)
    server = Server(harness, "ten seconds, then 500")
    plugin.writer = BindingWriter(
        server, harness.clock, harness.observations, lambda *_: None, on_pause=harness.workers.pauses
    )
    async with working(harness):
        flushing = asyncio.create_task(harness.workers.keep_flushing())
        harness.add(*(make_pod(f"h{number}", namespace=HOSTILE) for number in range(300)))
        await harness.clock.advance(15.0)
        server.way = "as others"
        await harness.clock.advance(60.0)
        flushing.cancel()
        assert len(server.bound_at) == 300
        assert (len(harness.workers.standing), harness.workers.binding, harness.workers.work_slots.beside) == (0, 0, 0)
        assert not harness.workers.work_slots.slow


async def test_a_drain_waits_for_bindings_that_are_late() -> None:
    """Their outcome is unknown until they are answered."""
    plugin = Binds()
    harness = SchedulerHarness(profile(plugin), cluster("node"), workers=4, limit=2)
    server = Server(harness, "five seconds")
    plugin.writer = BindingWriter(
        server, harness.clock, harness.observations, lambda *_: None, on_pause=harness.workers.pauses
    )
    async with working(harness):
        harness.add(*(make_pod(f"h{number}", namespace=HOSTILE) for number in range(6)), make_pod("sound"))
        await turns()
        await harness.clock.advance(1.0)
        assert "sound" in server.bound_at
        assert harness.workers.binding > 2
        stopping = asyncio.create_task(harness.workers.stop(20.0))
        await turns()
        await harness.clock.advance(15.0)
        assert await stopping
        assert harness.workers.binding == 0
