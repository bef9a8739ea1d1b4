"""What nodes have and what of it is of no use: walked when somebody scrapes, with a bound for every name."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog

from kscheduler.aio import VirtualClock
from kscheduler.aio.tasks import running
from kscheduler.api.core import Pod
from kscheduler.client.access.connection import plain_connection
from kscheduler.config.loader import from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from kscheduler.service.monitors.free_room import (
    DEVICES_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MAX_NAMES,
    SHORTEST_PAUSE_SECONDS,
    FreeRoom,
    PendingPodSource,
)
from kscheduler.telemetry.logs.caught import Boundary, caught
from kscheduler.telemetry.samples import Numbers
from tests.builders import make_node, make_pod
from tests.plugins.dynamic_resources.stage import DRIVER, Stage, allocation, claim, device_class, devices_of, user

GPU = "nvidia.com/gpu"


class Scene:
    """A cluster with a GPU node whose CPU is spent, and a pod that waits for GPUs."""

    def __init__(self) -> None:
        self.stage = Stage(device_class(), devices_of("n0", "a", "b"), nodes=0)
        self.stage.cache.add_node(make_node("n0", cpu="4", **{GPU: "8"}))
        self.stage.cache.add_pod(make_pod("busy", node="n0", uid="busy", requests={"cpu": "3500m", GPU: "2"}))
        self.stage.put(claim("c"))
        self.pods: dict[str, Pod] = {}
        self.wait(make_pod("waits", requests={"cpu": "1", GPU: "1"}), user("c", name="drawn", requests={"cpu": "1"}))
        self.clock, self.walks, self.has_synced, self.fails = VirtualClock(), 0, True, False
        devices = ClassDevices(self.stage.cache, lambda: self.stage.plugin)
        self.monitor = FreeRoom(
            self.stage.cache, devices, PendingPodSource(self._keys, self.pods.get), self.clock, lambda: self.has_synced
        )

    def wait(self, *pods: Pod) -> None:
        self.pods |= {pod.key: pod for pod in pods}

    def _keys(self) -> Iterable[str]:
        self.walks += 1
        if self.fails:
            raise RuntimeError("a bug")
        return list(self.pods)

    def scrape(self) -> dict[str, dict[tuple[str, ...], float]]:
        """By name of the series, without the prefix, and labels."""
        found: dict[str, Any] = {}
        for sample in self.monitor.samples():
            assert isinstance(sample, Numbers)
            found[sample.series.name.removeprefix("kscheduler_")] = dict(sample.values)
        return found

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(*self.monitor.services()):
            await settled()
            yield


async def settled() -> None:
    """Let a walk come to its end: a slice ends after 2 ms at the earliest."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_the_series_say_how_much_is_there_and_what_is_of_no_use() -> None:
    scene = Scene()
    async with scene.running():
        scene.scrape()
        await settled()
        found = scene.scrape()
    resources = found["node_resources"]
    assert (resources["cpu", "cores", "allocatable"], resources["cpu", "cores", "requested"]) == (4, 3.5)
    assert resources["memory", "bytes", "allocatable"] == 8 * 2**30
    assert (resources[GPU, "", "allocatable"], resources[GPU, "", "requested"]) == (8, 2)
    assert found["unusable_resources"][GPU, "", "cpu"] == 6
    assert found["unusable_resources"]["cpu", "cores", "cpu"] == 0.5
    assert found["unusable_resources"][GPU, "", "cordoned"] == 0
    group = "gpu", DRIVER, "(nodes)"
    assert [found["class_devices"][*group, state] for state in ("free", "taken", "tainted")] == [2, 0, 0]
    assert found["unusable_devices"][*group, "cpu"] == 2


async def test_requests_that_together_are_more_than_an_int64_are_not_below_zero() -> None:
    scene = Scene()
    for number in range(2):
        scene.stage.cache.add_node(make_node(f"m{number}", **{"a.b/c": "8E"}))
        pod = make_pod(f"p{number}", node=f"m{number}", uid=f"p{number}", requests={"a.b/c": "9E"})
        scene.stage.cache.add_pod(pod)
    resources = scene.scrape()["node_resources"]
    assert (resources["a.b/c", "", "allocatable"], resources["a.b/c", "", "requested"]) == (16e18, 18e18)


async def test_a_class_of_devices_that_lacks_is_a_reason() -> None:
    scene = Scene()
    scene.pods.clear()
    scene.stage.put(claim("c", allocated=allocation("n0", "a", "b")))
    scene.stage.put(claim("d"))
    scene.stage.cache.remove_pod("busy")
    scene.wait(user("d", name="drawn", requests={"cpu": "1"}))
    async with scene.running():
        scene.scrape()
        await settled()
        found = scene.scrape()["unusable_resources"]
    assert found["cpu", "cores", "deviceclass.resource.kubernetes.io/gpu"] == 4


async def test_nobody_walks_for_nobody_and_a_walk_waits_for_its_turn() -> None:
    scene = Scene()
    async with scene.running():
        assert scene.walks == 0
        scene.scrape()
        await settled()
        assert scene.walks == 1
        await scene.clock.advance(scene.monitor.walks.pause_seconds)
        await settled()
        assert scene.walks == 1, "nobody has scraped since"
        scene.scrape()
        scene.scrape()
        await settled()
        assert scene.walks == 2
        scene.scrape()
        await settled()
        assert scene.walks == 2, "its pause is not over"
        assert SHORTEST_PAUSE_SECONDS <= scene.monitor.walks.pause_seconds <= LONGEST_PAUSE_SECONDS


async def test_devices_that_are_taken_between_two_walks_are_counted() -> None:
    scene, group = Scene(), ("gpu", DRIVER, "(nodes)")
    async with scene.running():
        scene.scrape()
        await settled()
        scene.stage.put(claim("c", allocated=allocation("n0", "a")))
        await scene.clock.advance(DEVICES_PAUSE_SECONDS)
        scene.scrape()
        await settled()
        assert scene.walks == 1
        found = scene.scrape()["class_devices"]
    assert [found[*group, state] for state in ("free", "taken")] == [1, 1]


async def test_before_the_cluster_is_read_nothing_is_walked() -> None:
    scene = Scene()
    scene.has_synced = False
    async with scene.running():
        scene.scrape()
        await settled()
        assert scene.walks == 0


async def test_what_is_gone_stays_at_zero() -> None:
    scene = Scene()
    async with scene.running():
        scene.scrape()
        await settled()
        assert scene.scrape()["unusable_resources"][GPU, "", "cpu"] == 6
        scene.pods.clear()
        scene.stage.cache.remove_node("n0")
        await scene.clock.advance(scene.monitor.walks.pause_seconds)
        scene.scrape()
        await settled()
        found = scene.scrape()
    assert found["unusable_resources"][GPU, "", "cpu"] == 0
    assert set(found["node_resources"].values()) == {0}


async def test_there_is_a_bound_for_names_of_resources() -> None:
    scene = Scene()
    scene.stage.cache.add_node(make_node("n1", **{f"a.b/r{number}": "2" for number in range(MAX_NAMES + 5)}))
    scene.wait(*(make_pod(f"p{number}", requests={f"a.b/r{number}": "3"}) for number in range(MAX_NAMES + 5)))
    async with scene.running():
        scene.scrape()
        await settled()
        found = scene.scrape()
    for series in ("node_resources", "unusable_resources"):
        assert len({labels[0] for labels in found[series]}) <= MAX_NAMES + 1
    assert found["node_resources"]["other", "", "allocatable"] > 0
    assert ("cpu", "cores", "allocatable") in found["node_resources"]


async def test_a_bug_costs_the_gauges_alone() -> None:
    scene = Scene()
    before = caught()[Boundary.HTTP]
    async with scene.running():
        scene.scrape()
        await settled()
        scene.fails = True
        await scene.clock.advance(scene.monitor.walks.pause_seconds)
        with structlog.testing.capture_logs() as lines:
            scene.scrape()
            await settled()
        assert [line["event"] for line in lines] == ["free_room_not_measured"]
        assert scene.monitor.walks.pause_seconds == LONGEST_PAUSE_SECONDS
        assert scene.scrape()["unusable_resources"][GPU, "", "cpu"] == 6
    assert caught()[Boundary.HTTP] == before + 1


async def test_the_service_leaves_out_what_the_profiles_ignore() -> None:
    """No node has the licence that the pod asks for, and its profile does not look at it."""
    pod = make_pod("p", node="n", requests={"cpu": "1", "a.b/licence": "1"}, schedulerName="mine")
    assert [each.lacking for each in await found_by_the_service("c.d/other", pod)] == [{"other": 3000}]
    assert [each.lacking for each in await found_by_the_service("a.b/licence", pod)] == [{}]


async def found_by_the_service(ignored: str, pod: Pod) -> Sequence[ResourceFragmentation]:
    """Of a service that never starts, with one node."""
    args = {"name": "NodeResourcesFit", "args": {"ignoredResources": [ignored]}}
    profiles = [{"schedulerName": "mine", "pluginConfig": [args]}]
    config = from_tree({"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}, "test")
    app = App(Options(config, serving=HTTPServing.plain_on_loopback()), plain_connection("http://127.0.0.1:1"))
    try:
        cache, room = app.parts.assembly.cache, app.http_app.free_room
        cache.add_node(make_node("n", cpu="4"))
        cache.add_pod(pod)
        await room._walk()
        return [each for each in room.fragments() if each.resource == "cpu"]
    finally:
        app.http_app.exposition.close()
