"""Reflector and factory against a real HTTP server whose answers the test writes."""

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from kscheduler.aio import Slicer, VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NAMESPACES, NODES, PODS, Kind
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import NotSentError
from kscheduler.client.outage_cause import TABLE, Cause
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import Undecodable
from kscheduler.informers import Informer, InformerFactory, Reflector, reflector
from kscheduler.informers.factory import DISCOVERY_SECONDS, FIRST_DISCOVERY_SECONDS, SURE_SECONDS
from kscheduler.informers.progress import Progress
from kscheduler.informers.reflector import INACTIVITY_SECONDS, LONGEST_WAIT_SECONDS, AbsentError
from kscheduler.informers.resource_troubles import ResourceTroubles
from tests.client.scripted import Explanation, ScriptedServer, lines, reply, scripted_server, stall, vanish


def pod(name: str, version: str = "1", **spec: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": version}
    return {"metadata": metadata, "spec": spec}


def pod_list(*pods: object, version: str = "10", token: str = "") -> Explanation:
    return reply(json.dumps({"items": pods, "metadata": {"resourceVersion": version, "continue": token}}))


def event(kind: str, obj: object) -> str:
    return json.dumps({"type": kind, "object": obj}) + "\n"


def bookmark(version: str, *, ends_initial: bool = False) -> str:
    annotations = {"k8s.io/initial-events-end": "true"} if ends_initial else {}
    return event("BOOKMARK", {"metadata": {"resourceVersion": version, "annotations": annotations}})


def failure(code: int, reason: str = "") -> str:
    return event("ERROR", {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "m"})


def refusal(code: int, reason: str = "", **headers: str) -> Explanation:
    return reply(json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "m"}), code, **headers)


class Bench:
    """A reflector on a scripted server."""

    def __init__(self, server: ScriptedServer, client: APIClient, *, watch_list: bool, inactivity: float) -> None:
        self.server = server
        self.clock = VirtualClock()
        self.informer: Informer[Pod] = Informer(PODS, clock=self.clock)
        self.reflector = Reflector(
            client,
            self.informer,
            clock=self.clock,
            rng=random.Random(1),
            watch_list=watch_list,
            inactivity_seconds=inactivity,
        )

    async def reasons(self, steps: int) -> list[str]:
        return [(await self.reflector.step()).reason for _ in range(steps)]

    def names(self) -> set[str]:
        return {one.metadata.name for one in self.informer.store.list()}

    def versions_queried(self) -> list[str | None]:
        return [request.query.get("resourceVersion") for request in self.server.requests]


@asynccontextmanager
async def bench(*answers: Explanation, watch_list: bool = False, inactivity: float = 5.0) -> AsyncIterator[Bench]:
    async with (
        scripted_server(*answers) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        yield Bench(server, client, watch_list=watch_list, inactivity=inactivity)


async def test_lists_all_pages_and_then_watches_from_the_lists_version() -> None:
    answers = (
        pod_list(pod("a"), version="", token="t"),
        pod_list(pod("b"), version="10"),
        lines(event("ADDED", pod("c", "11")), event("DELETED", pod("a", "12")), bookmark("20")),
        lines(),
    )
    async with bench(*answers) as harness:
        assert await harness.reasons(3) == ["listed", "ended", "very short watch"]
        assert harness.names() == {"b", "c"}
        assert harness.informer.has_synced
        assert harness.server.requests[0].query["fieldSelector"] == PODS.field_selector
        assert harness.server.requests[1].query["continue"] == "t"
        assert harness.versions_queried() == [None, None, "10", "20"]
        assert harness.informer.statistics().relists == {"start": 1}


async def test_history_expired_lists_again_and_deletes_what_was_missed() -> None:
    answers = (
        pod_list(pod("a"), pod("b"), version="10"),
        lines(event("MODIFIED", pod("a", "11")), failure(410, "Expired")),
        refusal(410, "Expired"),
        pod_list(pod("b"), version="30"),
    )
    async with bench(*answers) as harness:
        assert await harness.reasons(4) == ["listed", "expired", "expired", "listed"]
        assert harness.names() == {"b"}
        assert harness.versions_queried() == [None, "10", "11", None]
        assert harness.informer.statistics().relists == {"start": 1, "expired": 1}


async def test_a_bad_line_in_a_chunk_costs_only_its_own_object() -> None:
    unreadable = {"metadata": {"name": "bad", "namespace": "ns", "uid": "u", "resourceVersion": "12"}, "spec": 7}
    events = event("ADDED", pod("a", "11")), event("ADDED", unreadable), event("MODIFIED", pod("a", "13"))
    async with bench(pod_list(version="10"), lines("".join((*events, event("ADDED", pod("b", "14")))))) as harness:
        assert await harness.reasons(2) == ["listed", "ended"]
        assert harness.names() == {"a", "b"}
        assert harness.informer.is_unreadable("ns/bad")
        assert harness.reflector.progress.resource_version == "14"


async def test_what_follows_an_error_in_its_chunk_is_not_applied_and_comes_again() -> None:
    chunk = event("ADDED", pod("a", "11")) + failure(500) + event("ADDED", pod("b", "12"))
    again = lines(event("ADDED", pod("b", "12")))
    async with bench(pod_list(version="10"), lines(chunk), again) as harness:
        assert await harness.reasons(2) == ["listed", "server error"]
        assert harness.names() == {"a"}
        await harness.reasons(1)
        assert harness.names() == {"a", "b"}
        assert harness.versions_queried() == [None, "10", "11"]


async def test_a_watch_that_is_ended_in_the_middle_of_a_chunk_goes_on_with_what_was_not_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OneEvent(Slicer):
        """Each event takes a slice."""

        def __init__(self) -> None:
            super().__init__(0.0)

    monkeypatch.setattr(reflector, "Slicer", OneEvent)
    chunk = "".join(event("ADDED", pod(f"p{number}", str(10 + number))) for number in range(1, 9))
    async with bench(pod_list(version="10"), lines(chunk)) as harness:

        class Stops(Silent):
            def on_add(self, obj: Pod, initial: bool) -> None:
                if obj.metadata.name == "p3":
                    harness.reflector.relist("enough")

        harness.informer.add_handler(Stops())
        assert await harness.reasons(2) == ["listed", "enough"]
        applied = max(int(name[1:]) for name in harness.names())
        assert 3 <= applied < 8, "it ends at the next turn of the loop"
        assert harness.names() == {f"p{number}" for number in range(1, applied + 1)}
        assert harness.reflector.progress.resource_version == str(10 + applied)


class Silent:
    """A handler that does nothing."""

    def on_add(self, obj: Pod, initial: bool) -> None:
        pass

    def on_update(self, old: Pod, new: Pod) -> None:
        pass

    def on_delete(self, obj: Pod) -> None:
        pass


async def test_a_cut_connection_is_resumed_without_a_list() -> None:
    answers = (pod_list(version="10"), lines(event("ADDED", pod("a", "11")), '{"type":"ADD', cut=True), lines())
    async with bench(*answers) as harness:
        assert await harness.reasons(3) == ["listed", "broken", "very short watch"]
        assert harness.versions_queried() == [None, "10", "11"]


async def test_a_silent_watch_is_opened_again_where_it_stopped() -> None:
    silent = lines(bookmark("15"), then=asyncio.Event().wait)
    async with bench(pod_list(version="10"), silent, lines(), inactivity=0.5) as harness:
        assert await harness.reasons(3) == ["listed", "stalled", "very short watch"]
        assert harness.versions_queried() == [None, "10", "15"]
        assert int(harness.server.requests[2].query["timeoutSeconds"]) < INACTIVITY_SECONDS
        assert harness.informer.statistics().down_text == "", "it may be quiet"


async def test_a_quiet_watch_that_the_server_ends_in_order_was_alive() -> None:
    """kube-apiserver sends no bookmark where nothing is newer than what was asked for."""

    async def until_its_time() -> None:
        await harness.clock.advance(38.0)

    silent = lines("\n", then=asyncio.Event().wait)
    quiet = lines("\n", then=until_its_time)
    async with bench(pod_list(version="10"), silent, quiet, quiet, inactivity=0.05) as harness:
        assert await harness.reasons(4) == ["listed", "stalled", "quiet", "quiet"]
        assert harness.informer.statistics().last_event_age_seconds == 0.0
        assert harness.versions_queried() == [None, "10", "10", "10"]
        assert harness.informer.statistics().relists == {"start": 1}


async def test_a_watch_list_is_invisible_until_it_is_complete_and_goes_on_as_the_watch() -> None:
    seen: list[tuple[str, bool]] = []
    complete = asyncio.Event()

    class Handler:
        def on_add(self, obj: Pod, initial: bool) -> None:
            seen.append((obj.metadata.name, initial))

        def on_update(self, old: Pod, new: Pod) -> None:
            raise AssertionError

        def on_delete(self, obj: Pod) -> None:
            raise AssertionError

    async def until_checked() -> None:
        await complete.wait()

    initial = [event("ADDED", pod("a", "5")), event("ADDED", pod("b", "3")), event("DELETED", pod("b", "6"))]

    first = lines(*initial, bookmark("9", ends_initial=True), event("ADDED", pod("c", "10")), then=until_checked)
    async with bench(first, lines(), watch_list=True) as harness:
        harness.informer.add_handler(Handler())
        stepping = asyncio.create_task(harness.reasons(2))
        await harness.informer.wait_until_synced()
        complete.set()
        assert await stepping == ["ended", "very short watch"]
        assert seen == [("a", True), ("c", False)]
        assert harness.versions_queried() == ["", "10"]
        assert harness.server.requests[0].query["sendInitialEvents"] == "true"


async def test_a_watch_list_that_is_cut_leaves_the_store_alone_and_lists() -> None:
    answers = (lines(event("ADDED", pod("a", "5")), cut=True), pod_list(pod("b"), version="10"))
    async with bench(*answers, watch_list=True) as harness:
        assert (await harness.reflector.step()).back_off
        assert harness.names() == set()
        assert await harness.reasons(1) == ["listed"]
        assert harness.names() == {"b"}


@pytest.mark.parametrize("watch_list", [pytest.param(False, id="list"), pytest.param(True, id="watch list")])
async def test_objects_that_have_not_changed_are_the_same_after_another_list(watch_list: bool) -> None:
    """And so they are while it is read: a cluster is never in memory twice."""
    if watch_list:
        initial = (event("ADDED", pod("a", "5")), bookmark("9", ends_initial=True))
        answers: tuple[Explanation, ...] = (lines(*initial, failure(410, "Expired")), lines(*initial))
    else:
        answers = (pod_list(pod("a", "5"), version="9"), refusal(410, "Expired"), pod_list(pod("a", "5"), version="9"))
    async with bench(*answers, watch_list=watch_list) as harness:
        await harness.reflector.step()
        stored = harness.informer.store.list()
        listed: list[Pod] = []
        harness.informer.replace = seen_by(listed, harness.informer)  # type: ignore[method-assign,assignment]
        await harness.reasons(len(answers) - watch_list)
        assert len(listed) == 1
        assert listed[0] is stored[0]


def seen_by(listed: list[Pod], informer: Informer[Pod]) -> Callable[..., Awaitable[None]]:
    replace = informer.replace

    async def replace_and_tell(objects: Iterable[Pod], unreadable: Sequence[Undecodable]) -> None:
        listed.extend(objects)
        await replace(objects, unreadable)

    return replace_and_tell


async def test_an_object_that_became_unreadable_in_a_watch_list_is_not_what_it_was_before() -> None:
    bad = event("MODIFIED", {**pod("a", "6"), "spec": {"containers": 7}})
    initial = (event("ADDED", pod("a", "5")), event("ADDED", pod("b", "5")), bad, bookmark("9", ends_initial=True))
    async with bench(lines(*initial), watch_list=True) as harness:
        await harness.reflector.step()
        assert harness.names() == {"b"}
        assert harness.informer.is_unreadable("ns/a")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(422, "Invalid"), id="refused"),
        pytest.param(lines(event("ADDED", pod("a", "5")), bookmark("6")), id="taken for a plain watch"),
    ],
)
async def test_a_server_without_watch_list_is_listed(answer: Explanation) -> None:
    async with bench(answer, pod_list(pod("b"), version="10"), watch_list=True) as harness:
        assert await harness.reasons(2) == ["watch-list unsupported", "listed"]
        assert harness.names() == {"b"}


async def test_an_unreadable_object_stops_neither_the_list_nor_the_watch() -> None:
    answers = (
        pod_list(pod("a"), pod("bad", priority="high"), version="10"),
        lines(event("ADDED", pod("worse", "11", containers=7)), event("ADDED", pod("c", "12")), bookmark("13")),
        lines(),
    )
    async with bench(*answers) as harness:
        await harness.reasons(3)
        assert harness.names() == {"a", "c"}
        assert set(harness.informer.statistics().undecodable) == {"ns/bad", "ns/worse"}
        assert harness.versions_queried()[-1] == "13"


async def test_a_line_that_is_no_event_leads_to_a_new_list() -> None:
    answers = (pod_list(version="10"), lines("<html>\n"), pod_list(pod("a"), version="12"))
    async with bench(*answers) as harness:
        assert await harness.reasons(3) == ["listed", "garbled", "listed"]
        assert harness.informer.statistics().relists == {"start": 1, "garbled": 1}


async def test_a_large_page_is_read_in_slices_to_the_same_end() -> None:
    pods = [pod(f"p{number}", schedulerName="x" * 2500) for number in range(1000)]
    async with bench(pod_list(*pods, pod("bad", priority="high"), version="10")) as harness:
        assert await harness.reasons(1) == ["listed"]
        assert len(harness.informer.store) == 1000
        assert set(harness.informer.statistics().undecodable) == {"ns/bad"}


async def test_failures_are_waited_out_longer_each_time_and_at_least_as_long_as_queried() -> None:
    answers = (refusal(500), refusal(500), refusal(429, Retry_After="20"), refusal(500), pod_list(pod("a")), stall)
    async with bench(*answers) as harness:
        running = asyncio.create_task(harness.reflector.run())
        waits = [await harness.clock.run_to_next() for _ in range(4)]
        await harness.informer.wait_until_synced()
        running.cancel()
    assert 0.8 <= waits[0] < 1.6 <= waits[1] < 3.2
    assert 20.0 <= waits[2] < 24.0
    assert 6.4 <= waits[3] < 12.8


async def test_forbidden_is_reported_with_the_rule_that_is_missing_and_backs_off_to_half_a_minute() -> None:
    async def run(reflector: Reflector[Pod]) -> None:
        """As the factory does for a kind that discovery knows."""
        while True:
            with suppress(AbsentError):
                await reflector.run()

    async with bench(refusal(403, "Forbidden")) as harness:
        running = asyncio.create_task(run(harness.reflector))
        waits = [await harness.clock.run_to_next() for _ in range(9)]
        running.cancel()
        assert "forbidden" in harness.informer.statistics().problem
    assert max(waits) <= LONGEST_WAIT_SECONDS
    assert waits[-1] >= 30.0


async def test_a_server_that_comes_back_is_noticed_long_before_the_delay_is_over() -> None:
    async with bench(pod_list(pod("a"))) as harness:
        for _ in range(6):
            harness.reflector._backoff.next()
        waiting = asyncio.create_task(
            harness.reflector._wait(harness.reflector.progress.watch_broke(NotSentError("refused"), 0.0))
        )
        waited = await harness.clock.run_to_next()
        await waiting
    assert waited <= 1.0


# --- factory ----------------------------------------------------------------------------------------------------------


def by_path(**answers: Explanation) -> Explanation:
    """Answer by the path's last part."""

    async def answer(request: object) -> object:
        last = request.path.rpartition("/")[2]  # type: ignore[attr-defined]
        return await answers[last](request)  # type: ignore[arg-type]

    return answer  # type: ignore[return-value]


@asynccontextmanager
async def running_factory(answer: Explanation, *kinds: Kind) -> AsyncIterator[tuple[InformerFactory, VirtualClock]]:
    clock = VirtualClock()
    async with scripted_server(answer) as server, APIClient(plain_connection(server.url)) as client:
        factory = InformerFactory(client, kinds, clock=clock, rng=random.Random(1), watch_list=False)
        task = asyncio.create_task(factory.run())
        try:
            yield factory, clock
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def list_or_watch(listed: Explanation) -> Explanation:
    async def answer(request: object) -> object:
        watching = "watch" in request.query  # type: ignore[attr-defined]
        return await (lines(then=asyncio.Event().wait) if watching else listed)(request)  # type: ignore[arg-type]

    return answer  # type: ignore[return-value]


async def test_all_kinds_sync_and_the_statistics_report() -> None:
    answers = by_path(pods=list_or_watch(pod_list(pod("a"))), nodes=list_or_watch(pod_list()))
    async with running_factory(answers, PODS, NODES) as (factory, _):
        assert await factory.wait_for_sync(60) == ()
        assert [(one.resource, one.synced, one.objects) for one in factory.statistics()] == [
            ("pods", True, 1),
            ("nodes", True, 0),
        ]
        assert factory[PODS].store.get("ns/a") is not None


async def test_the_kind_that_does_not_sync_is_named_with_its_problem() -> None:
    answers = by_path(pods=list_or_watch(pod_list()), nodes=refusal(403, "Forbidden"))
    async with running_factory(answers, PODS, NODES) as (factory, clock):
        await factory[PODS].wait_until_synced()
        await clock.next_sleep()  # the nodes have been refused, and are waited for
        waiting = asyncio.create_task(factory.wait_for_sync(5))
        while not waiting.done():
            await clock.run_to_next()
        (culprit,) = await waiting
    assert culprit.startswith("nodes: forbidden: 403 Forbidden")


async def test_a_resource_that_does_not_exist_rests_and_starts_when_it_appears() -> None:
    exists = False
    gadgets = Kind("example.io", "v1", "gadgets", "Gadget", NAMESPACES.type)

    async def discovery(request: object) -> object:
        found = reply(json.dumps({"resources": [{"name": "gadgets"}]})) if exists else refusal(404, "NotFound")
        return await found(request)  # type: ignore[arg-type]

    answers = by_path(v1=discovery, gadgets=list_or_watch(pod_list(pod("a"))))  # type: ignore[arg-type]
    appeared = asyncio.Event()

    class Handler:
        def on_add(self, obj: Pod, initial: bool) -> None:
            appeared.set()

        def on_update(self, old: Pod, new: Pod) -> None:
            raise AssertionError

        def on_delete(self, obj: Pod) -> None:
            raise AssertionError

    async with running_factory(answers, gadgets) as (factory, clock):
        factory[gadgets].add_handler(Handler())
        assert await factory.wait_for_sync(60) == ()
        assert factory.statistics()[0].resting
        assert not factory[gadgets].has_list
        exists = True
        assert await clock.run_to_next() == FIRST_DISCOVERY_SECONDS
        await asyncio.wait_for(appeared.wait(), 5)
        assert not factory.statistics()[0].resting
        await until_listed(factory, gadgets)


async def test_absent_resources_are_queried_for_at_once_when_the_server_was_upgraded_and_soon_again() -> None:
    """Another API server of the same cluster may have answered: the next question comes soon, not in five minutes."""
    gadgets = Kind("example.io", "v1", "gadgets", "Gadget", NAMESPACES.type)
    exists, queried = False, list[float]()

    async def discovery(request: object) -> object:
        queried.append(clock.monotonic())
        resources = [{"name": "gadgets"}] if exists else []
        return await reply(json.dumps({"resources": resources}))(request)  # type: ignore[arg-type]

    answers = by_path(v1=discovery, gadgets=list_or_watch(pod_list(pod("a"))))  # type: ignore[arg-type]
    async with running_factory(answers, gadgets) as (factory, clock):
        assert await factory.wait_for_sync(60) == ()
        for _ in range(5):
            await clock.run_to_next()  # by now it would be asked for each five minutes
        before, count = clock.monotonic(), len(queried)
        factory.look_for_absent()
        while len(queried) == count:  # noqa: ASYNC110  a request over a real connection
            await asyncio.sleep(0.001)
        assert queried[-1] == before
        exists = True
        await clock.run_to_next()
        assert clock.monotonic() == before + FIRST_DISCOVERY_SECONDS
        await asyncio.wait_for(until_awake(factory), 5)


async def until_listed(factory: InformerFactory, kind: Kind) -> None:
    while not factory[kind].has_list:  # noqa: ASYNC110  likewise
        await asyncio.sleep(0.001)


async def until_awake(factory: InformerFactory) -> None:
    while factory.statistics()[0].resting:  # noqa: ASYNC110  a state that tells nobody
        await asyncio.sleep(0.001)


async def test_a_resource_that_does_not_exist_rests_where_rights_are_refused_first_and_discovery_came_late() -> None:
    """As of a static pod, which is there before the API server, under a role that does not know the kind."""
    gadgets = Kind("example.io", "v1", "gadgets", "Gadget", NAMESPACES.type)
    queried: list[str] = []

    async def discovery(request: object) -> object:
        queried.append("discovery")
        found = refusal(503, "ServiceUnavailable") if len(queried) == 1 else reply(json.dumps({"resources": []}))
        return await found(request)  # type: ignore[arg-type]

    answers = by_path(v1=discovery, gadgets=refusal(403, "Forbidden"))  # type: ignore[arg-type]
    async with running_factory(answers, gadgets) as (factory, clock):
        await clock.run_to_next()
        await asyncio.wait_for(factory[gadgets].wait_until_synced(), 5)
        assert factory.statistics()[0].resting


async def test_a_403_of_a_resource_that_exists_stays_a_403() -> None:
    gadgets = Kind("example.io", "v1", "gadgets", "Gadget", NAMESPACES.type)
    refused = True

    async def listing(request: object) -> object:
        found = refusal(403, "Forbidden") if refused else list_or_watch(pod_list(pod("a")))
        return await found(request)  # type: ignore[arg-type]

    discovery = reply(json.dumps({"resources": [{"name": "gadgets"}]}))
    async with running_factory(by_path(v1=discovery, gadgets=listing), gadgets) as (factory, clock):  # type: ignore[arg-type]
        for _ in range(4):
            await clock.run_to_next()
        assert factory.statistics()[0].problem.startswith("forbidden: 403")
        assert not factory.statistics()[0].resting
        await clock.next_sleep()
        refused = False
        await clock.run_to_next()
        await factory[gadgets].wait_until_synced()
        assert factory.statistics()[0].objects == 1


async def test_a_lost_request_does_not_end_the_informer() -> None:
    answers = (vanish, pod_list(pod("a")), stall)
    async with bench(*answers) as harness:
        running = asyncio.create_task(harness.reflector.run())
        await harness.clock.run_to_next()
        await harness.informer.wait_until_synced()
        assert not running.done()
        running.cancel()


async def test_a_404_that_discovery_contradicts_empties_nothing() -> None:
    gadgets = Kind("example.io", "v1", "gadgets", "Gadget", NAMESPACES.type)
    answers_sent: list[str] = []

    async def listing(request: object) -> object:
        answers_sent.append("asked")
        found = refusal(404, "NotFound") if len(answers_sent) == 1 else list_or_watch(pod_list(pod("a")))
        return await found(request)  # type: ignore[arg-type]

    discovery = reply(json.dumps({"resources": [{"name": "gadgets"}]}))
    answers = by_path(v1=discovery, gadgets=listing)  # type: ignore[arg-type]
    async with running_factory(answers, gadgets) as (factory, clock):
        assert 0.8 <= await clock.run_to_next() < 1.6
        await factory[gadgets].wait_until_synced()
        assert (factory.statistics()[0].resting, factory.statistics()[0].objects) == (False, 1)


@pytest.mark.parametrize("fault_seconds", [3.0, 25.0, 1_000.0])
async def test_objects_are_given_up_only_when_a_kind_stays_absent(fault_seconds: float) -> None:
    """Without its budgets or claims the scheduler would decide wrongly, because of one answer of a proxy."""
    gadgets = Kind("example.io", "v1", "gadgets", "Gadget", NAMESPACES.type)
    fault = False

    async def listing(request: object) -> object:
        watching = "watch" in request.query  # type: ignore[attr-defined]
        found = lines(failure(410)) if watching else pod_list(pod("a"))
        return await (refusal(404, "NotFound") if fault else found)(request)  # type: ignore[arg-type]

    async def discovery(request: object) -> object:
        found = reply(json.dumps({"resources": [{"name": "gadgets"}]}))
        return await (refusal(404, "NotFound") if fault else found)(request)  # type: ignore[arg-type]

    answers = by_path(v1=discovery, gadgets=listing)  # type: ignore[arg-type]
    async with running_factory(answers, gadgets) as (factory, clock):
        await factory[gadgets].wait_until_synced()
        fault = True
        until = clock.monotonic() + fault_seconds
        while clock.monotonic() < until:
            await clock.run_to_next()
        gave_up = factory.statistics()[0].objects == 0
        assert gave_up == (fault_seconds > SURE_SECONDS)
        fault = False
        until = clock.monotonic() + DISCOVERY_SECONDS + 1.0
        while factory.statistics()[0].objects == 0 and clock.monotonic() < until:
            await clock.run_to_next()
            await asyncio.sleep(0.05)
        assert factory.statistics()[0].objects == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(reply("{}"), id="an empty object"),
        pytest.param(reply("[]"), id="a list"),
        pytest.param(reply("<html>"), id="html"),
        pytest.param(reply("<html><title>Not here</title></html>", 404), id="a page of a proxy"),
        pytest.param(reply(""), id="nothing"),
    ],
)
async def test_a_discovery_that_cannot_be_read_says_nothing_about_a_kind(answer: Explanation) -> None:
    gadgets = Kind("example.io", "v1", "gadgets", "Gadget", NAMESPACES.type)
    answers = by_path(v1=answer, gadgets=list_or_watch(pod_list(pod("a"))))
    async with running_factory(answers, gadgets) as (factory, _):
        await factory[gadgets].wait_until_synced()
        assert (factory.statistics()[0].resting, factory.statistics()[0].objects) == (False, 1)


# --- what a server may do for as long as it likes ---------------------------------------------------------------------


@pytest.mark.parametrize("seconds", ["3600", "9" * 40, "1e400", "-1", "nan", "Sat, 28 Nov 2099 12:00:00 GMT"])
@pytest.mark.parametrize("is_list", [True, False], ids=["list", "watch"])
async def test_no_answer_keeps_a_kind_away_for_longer_than_half_a_minute(seconds: str, is_list: bool) -> None:
    queried = refusal(429, Retry_After=seconds)
    answers = (queried, pod_list(pod("a")), stall) if is_list else (pod_list(pod("a")), queried, stall)
    async with bench(*answers) as harness:
        running = asyncio.create_task(harness.reflector.run())
        waited = await harness.clock.run_to_next()
        await harness.informer.wait_until_synced()
        running.cancel()
    assert 0.8 <= waited <= LONGEST_WAIT_SECONDS


async def test_the_first_try_after_a_long_fault_comes_within_the_longest_wait() -> None:
    async with bench(refusal(500)) as harness:
        running = asyncio.create_task(harness.reflector.run())
        waits = [await harness.clock.run_to_next() for _ in range(30)]
        running.cancel()
    assert max(waits) <= LONGEST_WAIT_SECONDS


async def test_while_it_waits_it_says_since_when_why_and_until_when() -> None:
    async with bench(pod_list(pod("a")), refusal(429, Retry_After="20"), refusal(429, Retry_After="20")) as harness:
        running = asyncio.create_task(harness.reflector.run())
        await harness.clock.next_sleep()
        await harness.clock.advance(5.0)
        statistics = harness.informer.statistics()
        running.cancel()
    assert statistics.view.age_seconds == 5.0
    assert statistics.view.retry_seconds is not None
    assert 15.0 <= statistics.view.retry_seconds <= 19.0
    assert statistics.down_text.startswith("no watch for 5 s: too many requests: 429")
    assert "tried again in 1" in statistics.down_text


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lines(), id="an empty body"),
        pytest.param(lines(bookmark("10")), id="a bookmark of the version that is known"),
        pytest.param(lines(event("BOOKMARK", {"metadata": {}})), id="a bookmark without a version"),
        pytest.param(lines(event("MODIFIED", pod("a", "10"))), id="the same event each time"),
        pytest.param(lines("\n\n\n"), id="empty lines"),
        pytest.param(lines(bookmark("10"), cut=True), id="cut"),
    ],
)
async def test_a_watch_that_brings_nothing_new_and_ends_is_not_a_hot_loop(answer: Explanation) -> None:
    async with bench(pod_list(pod("a", "10"), version="10"), answer) as harness:
        assert await harness.reasons(1) == ["listed"]
        for _ in range(3):
            assert (await harness.reflector.step()).back_off
        assert harness.informer.statistics().relists == {"start": 1}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([pod_list(pod("a"), token="t")], id="the same token"),
        pytest.param([pod_list(token=f"t{number}") for number in range(30)], id="empty pages"),
    ],
)
async def test_a_list_that_does_not_end_is_given_up(answers: list[Explanation]) -> None:
    async with bench(*answers) as harness:
        verdict = await harness.reflector.step()
        assert (verdict.reason, verdict.back_off) == ("garbled", True)
        assert "does not end" in verdict.detail
        assert len(harness.server.requests) <= 25
        assert not harness.informer.has_synced


async def test_a_list_whose_pages_go_on_for_ten_minutes_is_given_up() -> None:
    number = 0

    async def page(request: object) -> object:
        nonlocal number
        number += 1
        await harness.clock.advance(30.0)
        return await pod_list(pod(f"p{number}"), token=f"t{number}")(request)  # type: ignore[arg-type]

    async with bench(page) as harness:  # type: ignore[arg-type]
        verdict = await harness.reflector.step()
        assert verdict.reason == "garbled"
        assert len(harness.server.requests) <= 22


async def test_a_line_without_an_end_leads_to_a_list_and_not_to_the_same_line_again() -> None:
    endless = lines(*[b"x" * (1 << 20)] * 17, then=asyncio.Event().wait)
    async with bench(pod_list(version="10"), endless, pod_list(pod("a"), version="12")) as harness:
        assert await harness.reasons(3) == ["listed", "garbled", "listed"]
        assert harness.names() == {"a"}


async def test_initial_events_that_end_without_a_version_are_listed_instead() -> None:
    """A watch from no version would begin now, and what happened in between would be missed."""
    first = lines(event("ADDED", pod("a", "5")), bookmark("", ends_initial=True))
    async with bench(first, pod_list(pod("b"), version="10"), watch_list=True) as harness:
        assert (await harness.reflector.step()).back_off
        assert await harness.reasons(1) == ["listed"]
        assert harness.names() == {"b"}


async def test_a_watch_list_that_is_garbled_is_followed_by_a_plain_list() -> None:
    async with bench(lines("<html>\n"), pod_list(pod("b"), version="10"), watch_list=True) as harness:
        assert await harness.reasons(2) == ["garbled", "listed"]
        assert "watch" not in harness.server.requests[1].query


async def test_a_watch_that_is_accepted_and_never_answered_is_given_up_long_before_a_silent_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The next watch must open within it.
    monkeypatch.setattr("kscheduler.client.http.watch_pool.WATCH_OPEN_SECONDS", 0.5)
    async with bench(pod_list(version="10"), stall, lines(), inactivity=60.0) as harness:
        assert await harness.reasons(3) == ["listed", "stalled", "very short watch"]


async def test_a_watch_that_is_not_answered_is_reported_before_it_is_given_up_and_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kscheduler.client.http.watch_pool.WATCH_OPEN_SECONDS", 0.3)
    worked = lines(event("ADDED", pod("a", "11")))
    is_queried = asyncio.Event()

    async def silence(request: web.Request) -> web.StreamResponse:
        is_queried.set()
        return await stall(request)

    async with bench(pod_list(version="10"), worked, silence, lines(), inactivity=60.0) as harness:
        assert await harness.reasons(2) == ["listed", "ended"]
        querying = asyncio.create_task(harness.reflector.step())
        await is_queried.wait()
        assert harness.informer.statistics().problem == "", "an answer may take a moment"
        await harness.clock.advance(3.0)
        assert harness.informer.statistics().down_text == "no watch for 3 s: no answer: a watch was asked for 3 s ago"
        assert (await querying).back_off
        assert harness.informer.statistics().problem.startswith("stalled: ")
        assert await harness.reasons(1) == ["very short watch"]


async def test_a_list_of_which_nothing_more_comes_is_given_up_long_before_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kscheduler.informers.reflector._LIST_SILENCE_SECONDS", 0.05)
    half = lines('{"kind":"PodList",', then=asyncio.Event().wait)
    async with bench(stall, half, pod_list(pod("a"))) as harness:
        assert await harness.reasons(3) == ["stalled", "stalled", "listed"]


async def test_a_page_without_an_end_is_given_up_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.informers.reflector._LARGEST_PAGE_BYTES", 100_000)
    endless = lines(*[b" " * 10_000] * 20, then=asyncio.Event().wait)
    async with bench(endless, pod_list(pod("a"))) as harness:
        assert await harness.reasons(2) == ["malformed_http", "listed"]
        assert "more than 100000 bytes" in str(harness.informer.problem) or harness.names() == {"a"}


async def test_one_unreadable_object_of_a_page_keeps_the_rest_whatever_is_wrong_with_it() -> None:
    odd = [
        {"metadata": {"namespace": "ns", "uid": "u", "resourceVersion": "1"}},
        {"metadata": {"name": "x", "namespace": "ns", "resourceVersion": "1"}},
        {"metadata": {"name": "y", "uid": "u", "resourceVersion": "1"}},
        None,
        7,
    ]
    async with bench(pod_list(pod("a"), *odd, pod("b"), version="10")) as harness:
        assert await harness.reasons(1) == ["listed"]
        assert harness.names() == {"a", "b"}
        assert set(harness.informer.statistics().undecodable) == {"(unnamed)", "ns/x", "y"}


async def test_a_list_of_another_kind_is_no_list() -> None:
    nodes = reply(json.dumps({"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": []}))
    async with bench(pod_list(pod("a"), version="10"), lines(failure(410)), nodes) as harness:
        assert await harness.reasons(3) == ["listed", "expired", "garbled"]
        assert harness.names() == {"a"}
        assert "NodeList" in harness.informer.problem


async def test_a_watch_that_is_forbidden_and_then_allowed_goes_on_without_a_list_and_forgets_its_back_off() -> None:
    async def open_for_six_seconds() -> None:
        await asyncio.sleep(0.05)
        await harness.clock.advance(6.0)

    good = lines(event("ADDED", pod("b", "11")), then=open_for_six_seconds)
    forbidden = [refusal(403, "Forbidden")] * 6
    async with bench(pod_list(pod("a"), version="10"), *forbidden, good, forbidden[0], stall) as harness:
        running = asyncio.create_task(harness.reflector.run())
        waits = [await harness.clock.run_to_next() for _ in range(6)]
        assert waits[-1] >= 30.0
        assert await harness.clock.next_sleep() <= 1.2, "another mistake in RBAC, an hour later"
        running.cancel()
        assert harness.names() == {"a", "b"}
        assert harness.versions_queried() == [None, *["10"] * 7, "11"]
        assert harness.informer.statistics().relists == {"start": 1}


async def test_a_watch_that_expires_again_and_again_does_not_list_each_time_at_once() -> None:
    """Each works for six seconds; a list of all pods after each of them would load the API server forever."""

    async def expired(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(bookmark("10").encode())
        await asyncio.sleep(0.02)
        await harness.clock.advance(6.0)
        await response.write(failure(410, "Expired").encode())
        return response

    rounds = [answer for _ in range(8) for answer in (pod_list(pod("a"), version="10"), expired)]
    async with bench(*rounds, stall) as harness:
        running = asyncio.create_task(harness.reflector.run())
        waits = [await harness.clock.run_to_next() for _ in range(8)]
        running.cancel()
    assert waits[0] < 1.6
    assert min(waits[5:]) >= 15.0
    assert max(waits) <= LONGEST_WAIT_SECONDS


async def test_after_a_watch_that_worked_the_next_failure_is_waited_out_shortly() -> None:
    """A fault each minute must not make every one of them last as long as the sixth of a long outage."""
    failed = [refusal(500)] * 6

    async def open_for_six_seconds() -> None:
        await asyncio.sleep(0.05)
        await harness.clock.advance(6.0)

    good = lines(event("ADDED", pod("b", "11")), then=open_for_six_seconds)
    async with bench(*failed, pod_list(pod("a"), version="10"), good, refusal(500), stall) as harness:
        running = asyncio.create_task(harness.reflector.run())
        waits = [await harness.clock.run_to_next() for _ in range(6)]
        assert waits[-1] >= 15.0
        await harness.informer.wait_until_synced()
        assert await harness.clock.next_sleep() < 1.6
        running.cancel()


def page(status: int, **headers: str) -> Explanation:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"<html>log in</html>", status=status, content_type="text/html", headers=headers)

    return answer


@pytest.mark.parametrize("of", ["list", "watch"])
@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param(page(200), Cause.PROXY, id="a page"),
        pytest.param(page(502), Cause.PROXY, id="a page of 502"),
        pytest.param(page(302, Location="https://login.example.com"), Cause.REDIRECT, id="a redirect"),
        pytest.param(reply("{}", 200, Content_Encoding="br"), Cause.ENCODED, id="compressed"),
        pytest.param(vanish, Cause.BROKEN, id="cut"),
    ],
)
async def test_a_list_and_a_watch_fail_by_the_word_of_the_table_of_causes(
    of: str, answer: Explanation, cause: Cause
) -> None:
    """A page was `garbled` in the log and in `/readyz`, `proxy` in the table that says what to do about it."""
    async with bench(*([] if of == "list" else [pod_list()]), answer) as harness:
        if of == "watch":
            await harness.reflector.step()
        assert (await harness.reflector.step()).reason == cause
        problem = harness.informer.statistics().problem
        assert problem.startswith(f"{cause}: ")
        troubles, retries = ResourceTroubles(), dict[str, float]()
        troubles.lines({"pods": problem}, retries, 0.0, is_all_in_trouble=False)
        (line,) = troubles.lines({"pods": problem}, retries, 9.0, is_all_in_trouble=False)
        advised = {row.advice for row in TABLE if row.cause is cause}
        assert (line.fields["reason"], line.fields["advice"] in advised) == (cause, True)


async def test_a_host_without_a_name_is_not_reported_as_one_that_refuses() -> None:
    failure = NotSentError("GET /api: no such host")
    failure.__cause__ = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    progress = Progress(random.Random(1))
    verdict = progress.watch_broke(failure, 0.0)
    assert (verdict.reason, verdict.is_unreached) == (Cause.NAME, True)
