"""A kind whose watch is down: pods are placed within a minute of the fault's end, and meanwhile it is said why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from kscheduler.aio import VirtualClock
from kscheduler.api.kinds import NODES, PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.informers.view_age import OLD_VIEW_SECONDS
from kscheduler.service import App
from tests.builders import node_tree, pod_tree
from tests.service.running import answer, node_of, put, running
from tests.service.test_api_server_away import second, until_bound, until_ready, virtual

MINUTE = 60


@asynccontextmanager
async def scheduling() -> AsyncIterator[tuple[EmbeddedAPIServer, App, VirtualClock]]:
    clock, options = virtual()
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with running(server, options) as (app, _, _):
            await until_ready(app, clock, 200)
            yield server, app, clock


async def played(server: EmbeddedAPIServer, clock: VirtualClock, fault: InjectedFault, seconds: int) -> None:
    """The fault, for so long, with all watches cut; pods are made meanwhile."""
    server.faults.add(fault)
    server.faults.drop_watches()
    for number in range(seconds):
        if number in (1, seconds // 2, seconds - 1):
            put(server, "pods", pod_tree(f"p{number}"))
        await second(clock)
    server.faults.clear()


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        pytest.param(InjectedFault("answer", path="/api*", code=429, retry_after_seconds=3600), 3, id="an hour"),
        pytest.param(InjectedFault("answer", path="/api*", code=429, retry_after_seconds=10**15), 3, id="for ever"),
        pytest.param(InjectedFault("answer", path="*/pods", code=403), 120, id="no rights"),
        pytest.param(InjectedFault("answer", path="/api*", code=500), 120, id="500"),
        pytest.param(InjectedFault("answer", path="/api*", code=404), 20, id="404"),
        pytest.param(InjectedFault("answer", path="*/pods", code=410), 20, id="410"),
        pytest.param(InjectedFault("reset", path="/api*"), 120, id="reset"),
    ],
)
async def test_pods_made_during_a_fault_are_bound_within_a_minute_of_its_end(
    fault: InjectedFault, seconds: int
) -> None:
    async with scheduling() as (server, app, clock):
        await played(server, clock, fault, seconds)
        names = [f"p{number}" for number in (1, seconds // 2, seconds - 1)]
        for _ in range(MINUTE):
            if all(node_of(server, name) for name in names):
                break
            await second(clock)
        assert [name for name in names if not node_of(server, name)] == []
        assert app.parts.informers.informer(NODES).store.keys() == ["node"]


async def test_a_watch_that_is_down_ends_readiness_when_its_view_is_old_and_only_then() -> None:
    async with scheduling() as (server, app, clock):
        with structlog.testing.capture_logs() as lines:
            server.faults.add(InjectedFault("answer", path="*/pods", code=429, retry_after_seconds=20))
            server.faults.drop_watches()
            went = clock.monotonic()
            for _ in range(5):
                await second(clock)
            code, text = await answer(app, "/readyz?verbose")
            assert code == 200
            assert "[i]pods: list or watch fails: no watch for" in text
            assert "too many requests: 429" in text
            assert "tried again in" in text
            text = await until_ready(app, clock, 500)
            assert OLD_VIEW_SECONDS <= clock.monotonic() - went <= OLD_VIEW_SECONDS + 5
            assert "[-]watches failed: decisions could rest on a view older than 60 s: pods (no watch for 6" in text
            assert "[+]api-server ok" in text
            _, metrics = await answer(app, "/metrics")
            assert 'kscheduler_watch_down_seconds{reason="too many requests",resource="pods"} 6' in metrics
            assert 'kscheduler_watch_retry_seconds{resource="pods"}' in metrics
        reported = [line for line in lines if line["event"] == "list_or_watch_fails"]
        assert 1 <= len(reported) <= 2
        assert (reported[0]["resources"], reported[0]["reason"]) == (["pods"], "too many requests")
        assert 0 < reported[0]["tried_again_in_seconds"] <= 24
        server.faults.clear()
        await until_ready(app, clock, 200)
        put(server, "pods", pod_tree("after"))
        await until_bound(server, "after", clock)
        _, metrics = await answer(app, "/metrics")
        assert 'kscheduler_watch_down_seconds{reason="",resource="pods"} 0.0' in metrics


async def test_a_pod_whose_event_was_garbled_is_placed_without_another_event() -> None:
    async with scheduling() as (server, app, clock):
        broken = pod_tree("odd")
        broken["spec"]["nodeSelector"] = 5
        put(server, "pods", broken)
        informer = app.parts.informers.informer(PODS)
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert informer.statistics().undecodable
        server.faults.add(InjectedFault("lose_event", path="/api/v1/pods", count=1))
        put(server, "pods", pod_tree("odd"))
        await until_bound(server, "odd", clock)
        assert informer.statistics().reread["read"] == 1
        assert informer.statistics().relists == {"start": 1}
