"""Client and informers against the embedded API server: the whole way over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from kscheduler.aio import BackgroundService, RealClock, VirtualClock, running
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.meta import Condition
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError, UnknownOutcomeError
from kscheduler.client.events.recorder import EventRecorder
from kscheduler.client.pod_writes import PodWriter
from kscheduler.client.rest import APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.informers import InformerFactory


class Seen:
    """Lets a test wait until the store looks as it should."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def on_add(self, obj: Pod, initial: bool) -> None:
        self._changed.set()

    def on_update(self, old: Pod, new: Pod) -> None:
        self._changed.set()

    def on_delete(self, obj: Pod) -> None:
        self._changed.set()

    async def until(self, factory: InformerFactory, expected: dict[str, str]) -> None:
        """Until the pods are exactly these, on these nodes."""
        async with asyncio.timeout(10):
            while {one.metadata.name: one.spec.node_name for one in factory[PODS].store.list()} != expected:
                self._changed.clear()
                await self._changed.wait()


class HastyClock(RealClock):
    """Sleeps a fiftieth of what it is asked to: the delays are real, the test is short."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 50)


class Stack:
    def __init__(self, server: EmbeddedAPIServer, client: APIClient, *, watch_list: bool) -> None:
        self.server = server
        self.client = client
        self.factory = InformerFactory(client, (PODS, NODES), clock=HastyClock(), watch_list=watch_list)
        self.seen = Seen()
        self.factory[PODS].add_handler(self.seen)

    async def create_pod(self, name: str) -> Pod:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"schedulerName": "kscheduler", "containers": [{"name": "c", "image": "i"}]},
        }
        await self.client.post("/api/v1/namespaces/default/pods", json.dumps(body).encode())
        return await PodWriter(self.client).get_pod("default", name)

    async def create_node(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}}
        await self.client.post("/api/v1/nodes", json.dumps(body).encode())


@asynccontextmanager
async def stack(*, watch_list: bool = True) -> AsyncIterator[Stack]:
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        harness = Stack(server, client, watch_list=watch_list)
        await harness.create_node("n1")
        await harness.create_pod("first")
        async with running(BackgroundService("informers", harness.factory.run)):
            assert await harness.factory.wait_for_sync(10) == ()
            yield harness


@pytest.mark.parametrize("watch_list", [pytest.param(True, id="WatchList"), pytest.param(False, id="list and watch")])
async def test_objects_arrive_are_bound_and_go(watch_list: bool) -> None:
    async with stack(watch_list=watch_list) as harness:
        writer = PodWriter(harness.client)
        node: Node | None = harness.factory[NODES].store.get("n1")
        assert node is not None
        second = await harness.create_pod("second")
        await harness.seen.until(harness.factory, {"first": "", "second": ""})
        await writer.bind("default", "second", second.metadata.uid, "n1")
        await harness.seen.until(harness.factory, {"first": "", "second": "n1"})
        first = await writer.get_pod("default", "first")
        await writer.delete_pod("default", "first", first.metadata.uid, grace_period_seconds=0)
        await harness.seen.until(harness.factory, {"second": "n1"})
        assert harness.factory[PODS].statistics().relists == {"start": 1}


async def test_a_binding_for_another_uid_and_a_second_binding_are_conflicts() -> None:
    async with stack() as harness:
        writer, pod = PodWriter(harness.client), await harness.create_pod("a")
        with pytest.raises(APIError) as wrong:
            await writer.bind("default", "a", "00000000-0000-4000-8000-000000000000", "n1")
        assert wrong.value.is_conflict
        await writer.bind("default", "a", pod.metadata.uid, "n1")
        with pytest.raises(APIError) as twice:
            await writer.bind("default", "a", pod.metadata.uid, "n1")
        assert twice.value.is_conflict


async def test_a_condition_is_merged_by_type_and_its_time_is_kept() -> None:
    async with stack() as harness:
        writer, pod = PodWriter(harness.client), await harness.create_pod("a")
        rejected = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
        assert await writer.patch_pod_status(pod, rejected, "n1")
        after = await writer.get_pod("default", "a")
        (condition,) = [one for one in after.status.conditions if one.type == "PodScheduled"]
        assert (condition.reason, condition.message) == ("Unschedulable", "0/1 nodes")
        assert after.status.nominated_node_name == "n1"
        assert not await writer.patch_pod_status(after, rejected, "n1")
        assert await writer.patch_pod_status(after, None, "")
        assert (await writer.get_pod("default", "a")).status.nominated_node_name == ""


async def test_dropped_watches_are_resumed_without_a_list() -> None:
    async with stack() as harness:
        harness.server.faults.drop_watches()
        await harness.create_pod("second")
        await harness.seen.until(harness.factory, {"first": "", "second": ""})
        assert harness.factory[PODS].statistics().relists == {"start": 1}


async def test_expired_history_is_repaired_by_a_list() -> None:
    async with stack() as harness:
        outage = harness.server.faults.add(InjectedFault("reset", method="GET", path="/api/v1/pods"))
        harness.server.faults.drop_watches()
        first = await PodWriter(harness.client).get_pod("default", "first")
        await PodWriter(harness.client).delete_pod("default", "first", first.metadata.uid, grace_period_seconds=0)
        await harness.create_pod("second")
        harness.server.faults.expire_history()
        outage.count = 0
        await harness.seen.until(harness.factory, {"second": ""})
        assert harness.factory[PODS].statistics().relists == {"start": 1, "expired": 1}


async def test_a_binding_whose_answer_is_lost_is_settled_by_reading_the_pod() -> None:
    async with stack() as harness:
        writer, pod = PodWriter(harness.client), await harness.create_pod("a")
        harness.server.faults.add(InjectedFault("apply_then_reset", method="POST", path="*/binding", count=1))
        with pytest.raises(UnknownOutcomeError):
            await writer.bind("default", "a", pod.metadata.uid, "n1")
        assert (await writer.get_pod("default", "a")).spec.node_name == "n1"


async def test_events_reach_the_server_and_repetitions_are_a_series() -> None:
    async with stack() as harness:
        pod = await harness.create_pod("a")
        recorder = EventRecorder(harness.client, reporting_instance="kscheduler-test")
        async with running(BackgroundService("events", recorder.run)):
            for _ in range(3):
                recorder.record(
                    pod,
                    type="Warning",
                    reason="FailedScheduling",
                    action="Scheduling",
                    note="0/1 nodes are available",
                    reporting_controller="kscheduler",
                )
                assert await recorder.flush(5)
        events = json.loads(await harness.client.get("/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
        (event,) = [one for one in events if one["regarding"]["name"] == "a"]
        assert (event["note"], event["series"]["count"]) == ("0/1 nodes are available", 2)
        assert recorder.statistics().failed == 0


async def test_what_goes_on_from_an_earlier_informer_is_as_old_as_that_one_until_its_watch_is_open() -> None:
    """A leader that loses its lease to a frozen API server: no watch of the next term would be down otherwise."""
    clock = VirtualClock()
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        earlier = InformerFactory(client, (NODES,), clock=clock)
        async with running(BackgroundService("informers", earlier.run)):
            assert await earlier.wait_for_sync(10) == ()
            heard = clock.monotonic()
            await clock.advance(20.0)  # of a quiet watch, or of one whose server is frozen
        server.faults.add(InjectedFault("delay", seconds=600.0))
        later = InformerFactory(client, (NODES,), clock=clock, views=earlier.views())
        async with running(BackgroundService("informers", later.run)):
            assert await later.wait_for_sync(10) == ()
            assert later[NODES].statistics().view.age_seconds == 0.0, "it may be open again at once"
            await clock.advance(50.0)
            (found,) = later.statistics()
            assert found.view.age_seconds == clock.monotonic() - heard == 70.0
            assert found.down_text.startswith("no watch for 70 s: no answer")
            assert later.old_views() is not None


async def test_all_kinds_are_listed_again_where_one_shows_that_the_store_went_back_in_time() -> None:
    """Etcd was restored: the watch of pods goes on at a version that the new history has used for something else."""
    async with EmbeddedAPIServer(seed=1) as first, APIClient(plain_connection(first.url)) as client:
        harness = Stack(first, client, watch_list=False)
        await harness.create_pod("lost")
        async with running(BackgroundService("informers", harness.factory.run)):
            assert await harness.factory.wait_for_sync(10) == ()
            for number in range(30):
                await harness.create_node(f"n{number}")
            async with asyncio.timeout(10):
                while len(harness.factory[NODES].store) < 30:  # noqa: ASYNC110  of nodes nobody tells here
                    await asyncio.sleep(0.01)
            port = int(first.url.rpartition(":")[2])
            second = EmbeddedAPIServer(seed=2)
            await first.aclose()
            await second.start(port=port)
            try:
                with structlog.testing.capture_logs() as lines:
                    for name in ("a", "b"):
                        await harness.create_pod(name)
                    await harness.seen.until(harness.factory, {"a": "", "b": ""})
                    assert harness.factory[NODES].store.list() == []
                (told,) = [line for line in lines if line["event"] == "api_server_store_older"]
                assert (told["resource"], int(told["version"]) < int(told["before"])) == ("nodes", True)
            finally:
                await second.aclose()
