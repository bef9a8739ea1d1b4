"""A store that has lost an event, against the embedded API server: found, told, repaired by one list; no alarms."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import structlog

from kscheduler.aio import BackgroundService, RealClock, VirtualClock, running
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.meta import ObjectMeta
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.pod_writes import PodWriter
from kscheduler.client.rest import APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.informers import Informer, InformerFactory
from kscheduler.informers.audit import (
    AUDIT_SECONDS,
    FOUND_SECONDS,
    GRACE_SECONDS,
    LOOK_SECONDS,
    Difference,
    StoreAudit,
    StoreAudits,
    _decoder,
    reaches,
)
from tests.builders import node_tree
from tests.client.scripted import reply, scripted_server

SECONDS = 20.0


class HastyClock(RealClock):
    """Sleeps a hundredth of what it is asked to: what waits for HTTP is real, the test is short."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


class Stack:
    """An informer of pods that an audit watches over, and a server that can lose events."""

    def __init__(self, server: EmbeddedAPIServer, client: APIClient) -> None:
        self.server, self.client = server, client
        self.clock = HastyClock()
        self.factory = InformerFactory(client, (PODS,), clock=self.clock)
        self.informer = self.factory[PODS]
        self.audit = StoreAudit(client, self.informer, lambda: self.factory.relist(PODS, "drift"), self.clock)

    async def create(self, name: str, **spec: object) -> None:
        metadata = {"name": name, "namespace": "default"}
        body = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        await self.client.post("/api/v1/namespaces/default/pods", json.dumps(body).encode())

    async def delete(self, name: str) -> None:
        pod = await PodWriter(self.client).get_pod("default", name)
        await PodWriter(self.client).delete_pod("default", name, pod.metadata.uid, grace_period_seconds=0)

    async def label(self, name: str, value: str) -> None:
        body = json.dumps({"metadata": {"labels": {"app": value}}}).encode()
        await self.client.patch(f"/api/v1/namespaces/default/pods/{name}", body)

    def lose_next_event(self) -> None:
        self.server.faults.add(InjectedFault("lose_event", path="/api/v1/pods", count=1))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110  # a store tells nobody of what it holds
                await asyncio.sleep(0.002)

    def names(self) -> set[str]:
        return {key.removeprefix("default/") for key in self.informer.store.keys()}  # noqa: SIM118  # a store is no dict


@asynccontextmanager
async def stack() -> AsyncIterator[Stack]:
    async with (
        EmbeddedAPIServer(seed=1, bookmark_seconds=0.05) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        harness = Stack(server, client)
        for name in ("a", "b"):
            await harness.create(name)
        async with running(BackgroundService("informers", harness.factory.run)):
            assert await harness.factory.wait_for_sync(1_000) == ()
            yield harness


def keys_and_kinds(differences: list[Difference]) -> list[tuple[str, str]]:
    return [(difference.key, difference.kind) for difference in differences]


async def test_a_deletion_that_the_watch_has_lost_is_found_and_repaired() -> None:
    async with stack() as harness:
        harness.lose_next_event()
        await harness.delete("a")
        await harness.create("c")
        await harness.until(lambda: "c" in harness.names())
        assert harness.names() == {"a", "b", "c"}, "the watch is alive and has lost an event"
        assert keys_and_kinds(await harness.audit.audit()) == [("default/a", "redundant")]
        await harness.until(lambda: harness.names() == {"b", "c"})
        assert harness.audit.statistics().drift == {"redundant": 1}
        assert harness.informer.statistics().relists == {"start": 1, "drift": 1}
        assert harness.informer.statistics().restarts == {"drift": 1}
        assert await harness.audit.audit() == []
        assert harness.audit.statistics().audits == {"different": 1, "equal": 1}


async def test_a_change_and_a_creation_that_the_watch_has_lost_are_found_and_repaired() -> None:
    async with stack() as harness:
        harness.lose_next_event()
        await harness.label("a", "new")
        harness.lose_next_event()
        await harness.create("c")
        assert sorted(keys_and_kinds(await harness.audit.audit())) == [("default/a", "stale"), ("default/c", "missing")]
        await harness.until(lambda: harness.names() == {"a", "b", "c"})
        stored = harness.informer.store.get("default/a")
        assert stored is not None
        assert stored.metadata.labels == {"app": "new"}


async def test_a_node_that_the_watch_has_lost_is_found_as_pods_are() -> None:
    async with (
        EmbeddedAPIServer(seed=1, bookmark_seconds=0.05) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        clock = HastyClock()
        factory = InformerFactory(client, (NODES,), clock=clock)
        audit = StoreAudit(client, factory[NODES], lambda: factory.relist(NODES, "drift"), clock)
        async with running(BackgroundService("informers", factory.run)):
            assert await factory.wait_for_sync(1_000) == ()
            server.faults.add(InjectedFault("lose_event", path="/api/v1/nodes", count=1))
            for name in ("lost", "seen"):
                server.store.put("nodes", node_tree(name))
            assert keys_and_kinds(await audit.audit()) == [("lost", "missing")]


async def test_pods_that_have_ended_are_not_missed() -> None:
    """The audit asks with the informer's own field selector."""
    async with stack() as harness:
        body = json.dumps({"status": {"phase": "Succeeded"}}).encode()
        await harness.client.patch("/api/v1/namespaces/default/pods/a/status", body)
        await harness.until(lambda: harness.names() == {"b"})
        assert await harness.audit.audit() == []
        assert harness.audit.statistics().audits == {"equal": 1}


async def test_what_changes_while_it_is_listed_is_no_difference() -> None:
    async with stack() as harness:
        harness.server.faults.add(InjectedFault("delay", method="GET", path="/api/v1/pods", seconds=0.05, count=1))
        auditing = asyncio.ensure_future(harness.audit.audit())
        for number in range(20):
            await harness.create(f"new-{number}")
            await harness.label("b", str(number))
            await harness.delete(f"new-{number}")
        assert await auditing == []


async def test_a_list_of_many_pages_is_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.informers.audit.PAGE_SIZE", 2)
    async with stack() as harness:
        for number in range(5):
            await harness.create(f"p{number}")
        await harness.until(lambda: len(harness.names()) == 7)
        assert await harness.audit.audit() == []
        harness.lose_next_event()
        await harness.delete("p3")
        assert keys_and_kinds(await harness.audit.audit()) == [("default/p3", "redundant")]


async def test_a_watch_that_does_not_get_as_far_as_the_list_is_reported_and_not_judged() -> None:
    async with stack() as harness:
        harness.server.faults.stall_watches()
        await harness.delete("a")
        assert await harness.audit.audit() == []
        assert harness.audit.statistics().audits == {"behind": 1}
        assert harness.informer.statistics().relists == {"start": 1}
        harness.server.faults.resume_watches()


async def test_an_audit_that_the_server_refuses_has_no_consequences() -> None:
    async with stack() as harness:
        harness.server.faults.add(InjectedFault("answer", method="GET", path="/api/v1/pods", code=403, count=1))
        assert await harness.audit.audit() == []
        assert harness.audit.statistics().audits == {"failed": 1}
        assert harness.names() == {"a", "b"}


@pytest.mark.parametrize(("code", "levels"), [(401, []), (403, ["warning"]), (429, ["warning"]), (500, ["warning"])])
async def test_what_fails_every_request_alike_is_not_reported_by_audits_too(code: int, levels: list[str]) -> None:
    async with stack() as harness:
        harness.server.faults.add(InjectedFault("answer", method="GET", path="/api/v1/pods", code=code))
        with structlog.testing.capture_logs() as lines:
            assert await harness.audit.audit() == []
        assert harness.audit.statistics().audits == {"failed": 1}
    levels_logged = [line["log_level"] for line in lines if line["event"] == "store_audit_failed"]
    assert [level for level in levels_logged if level != "debug"] == levels


async def test_an_informer_that_has_not_synced_is_skipped() -> None:
    async with (
        EmbeddedAPIServer(seed=1) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        harness = Stack(server, client)
        assert await harness.audit.audit() == []
        assert harness.audit.statistics().audits == {"not synced": 1}


class Counting(StoreAudit):
    """Counts instead of auditing."""

    def __init__(self) -> None:
        self.times = 0

    async def audit(self) -> list[Difference]:
        self.times += 1
        return []


@pytest.mark.parametrize(
    ("period", "expected"), [pytest.param(AUDIT_SECONDS, 10, id="on"), pytest.param(0, 0, id="off")]
)
async def test_audits_come_each_period_with_jitter_and_at_once_when_queried(period: float, expected: int) -> None:
    clock, audit = VirtualClock(), Counting()
    task = asyncio.ensure_future(StoreAudits((audit,), clock, period_seconds=period).run())
    await clock.advance(0)
    for _ in range(expected):
        before = clock.monotonic()
        async with asyncio.timeout(SECONDS):
            await clock.run_to_next()
        assert 0.8 * period <= clock.monotonic() - before <= 1.2 * period
    assert audit.times == expected
    task.cancel()
    await asyncio.wait({task})


class Slow(Counting):
    """As long as an audit takes at most, whose watch shows the list's version with the next bookmark."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock
        self.began: list[float] = []
        self.ended: list[float] = []

    async def audit(self) -> list[Difference]:
        self.began.append(self.clock.monotonic())
        await self.clock.sleep(65.0 + LOOK_SECONDS + GRACE_SECONDS)
        self.ended.append(self.clock.monotonic())
        return await super().audit()


async def test_whatever_is_lost_just_after_a_list_is_found_within_eight_minutes_of_each_kind() -> None:
    """Pods waited for the audit of nodes, and each period began when the last audit had ended: 12 minutes."""
    clock = VirtualClock()
    nodes, pods = Slow(clock), Slow(clock)
    task = asyncio.ensure_future(StoreAudits((nodes, pods), clock).run())
    async with asyncio.timeout(SECONDS):
        while pods.times < 20:
            await clock.run_to_next()
    task.cancel()
    await asyncio.wait({task})
    for audit in (nodes, pods):
        waits = [ended - began for began, ended in zip(audit.began, audit.ended[1:], strict=False)]
        assert max(waits) <= FOUND_SECONDS <= 8 * 60


async def test_an_audit_that_is_switched_off_is_still_done_when_queried() -> None:
    clock, audit = VirtualClock(), Counting()
    audits = StoreAudits((audit,), clock, period_seconds=0)
    task = asyncio.ensure_future(audits.run())
    await clock.advance(100 * AUDIT_SECONDS)
    audits.ask()
    await clock.advance(0)
    assert audit.times == 1
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize(
    ("seen", "wanted", "expected"),
    [
        pytest.param("10", "9", True, id="as numbers, not as text"),
        pytest.param("9", "10", False, id="not yet"),
        pytest.param("x9", "x9", True, id="opaque and equal"),
        pytest.param("x9", "x10", False, id="opaque and different"),
        pytest.param("", "1", False, id="nothing seen"),
    ],
)
def test_versions_are_compared_as_numbers_or_for_equality(seen: str, wanted: str, expected: bool) -> None:
    assert reaches(seen, wanted) is expected


def test_a_page_of_five_hundred_pods_is_read_within_a_slice() -> None:
    """What is skipped costs next to nothing: a page with labels, annotations and managed fields of 2 KB a pod."""
    item = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u",
            "resourceVersion": "1",
            "annotations": {"k": "v" * 500},
            "managedFields": [{"manager": "m", "fieldsV1": {f"f:{number}": {} for number in range(100)}}],
        }
    }
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [item] * 500}).encode()
    seconds = []
    for _ in range(5):
        began = time.process_time()
        assert len(_decoder.decode(body).items or ()) == 500
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.02


# --- what the watch need not have shown -------------------------------------------------------------------------------


def metadata_of(name: str, version: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version}}


def stored_pod(name: str, version: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", resource_version=version))


@asynccontextmanager
async def audited(*items: object, **body: object) -> AsyncIterator[tuple[StoreAudit, Informer[Pod], VirtualClock]]:
    """An audit of a store with the pod "a" at version 10, by a list of these items at version 20."""
    page = {"metadata": {"resourceVersion": "20"}, "items": items, **body}
    async with (
        scripted_server(reply(json.dumps(page))) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        clock = VirtualClock()
        informer: Informer[Pod] = Informer(PODS, clock=clock)
        await informer.replace([stored_pod("a", "10")], [])
        informer.resource_version = "10"
        yield StoreAudit(client, informer, lambda: None, clock), informer, clock


@pytest.mark.parametrize("when", ["while the watch is waited for", "in the time of grace"])
async def test_pods_that_came_and_went_before_a_list_of_the_informer_are_not_missing(when: str) -> None:
    """The watch backs off from 410: what it has not shown it need not have shown."""
    async with audited(metadata_of("a", "10"), metadata_of("short", "15")) as (audit, informer, clock):
        auditing = asyncio.ensure_future(audit.audit())
        await clock.next_sleep()
        if when == "in the time of grace":
            informer.resource_version = "21"
            await clock.advance(10.0)
        await informer.replace([stored_pod("a", "10")], [])
        informer.relists["expired"] = 1
        informer.resource_version = "30"
        while not auditing.done():
            await clock.run_to_next()
        assert auditing.result() == []
        assert audit.statistics().audits == {"listed anew": 1}
        assert audit.statistics().drift == {}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"items": [{"metadata": {"name": "a", "namespace": "ns"}}]}, id="no uid and no version"),
        pytest.param({"items": [metadata_of("a", "10"), {"metadata": {}}]}, id="no name"),
    ],
)
async def test_what_is_garbled_on_its_way_to_the_audit_is_no_lost_event(body: dict[str, object]) -> None:
    async with audited(**body) as (audit, informer, _):
        informer.resource_version = "20"
        assert await audit.audit() == []
        assert audit.statistics().audits == {"equal": 1}


async def test_an_answer_that_is_no_list_is_not_an_empty_cluster() -> None:
    async with (
        scripted_server(reply('{"metadata":{"resourceVersion":"20"}}')) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        informer: Informer[Pod] = Informer(PODS)
        await informer.replace([stored_pod("a", "10")], [])
        informer.resource_version = "20"
        audit = StoreAudit(client, informer, lambda: None, VirtualClock())
        assert await audit.audit() == []
        assert audit.statistics().audits == {"failed": 1}


async def test_pages_that_lead_back_to_themselves_end_the_audit() -> None:
    async with audited(metadata={"resourceVersion": "20", "continue": "t"}) as (audit, _, _):
        assert await audit.audit() == []
        assert audit.statistics().audits == {"failed": 1}
