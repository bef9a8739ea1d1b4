"""The API server goes and comes back: readiness says so, the log says so in few lines, liveness is untouched."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import structlog

from kscheduler.aio import VirtualClock
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from tests.builders import node_tree, pod_tree
from tests.service.running import alone, answer, node_of, put, running

LOUD = {"warning", "error", "critical"}


async def second(clock: VirtualClock) -> None:
    """A second of the scheduler's time, with what loopback needs of ours for a few requests."""
    await clock.advance(1.0)
    for _ in range(20):  # a refused connection and its consequences are a few turns of the loop
        await asyncio.sleep(0)
    await asyncio.sleep(0.005)  # and a thread looks the address up


async def until_ready(app: App, clock: VirtualClock, status: int) -> str:
    """The answer of `/readyz?verbose` once it has this status, at most ninety virtual seconds later."""
    for _ in range(90):
        found, text = await answer(app, "/readyz?verbose")
        if found == status:
            return text
        await second(clock)
    raise AssertionError(f"/readyz is not {status}: {text}")


async def until_bound(server: EmbeddedAPIServer, name: str, clock: VirtualClock) -> None:
    """Time goes on meanwhile: a pod that was tried too early backs off."""
    for _ in range(120):
        if node_of(server, name):
            return
        await second(clock)
    raise AssertionError(f"{name} is not bound")


def virtual() -> tuple[VirtualClock, Options]:
    clock = VirtualClock()
    return clock, Options(alone(), serving=HTTPServing.plain_on_loopback(), clock=clock)


Spoil = Callable[[EmbeddedAPIServer], None]


async def test_away_for_135_seconds_and_back() -> None:
    clock, options = virtual()
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        with structlog.testing.capture_logs() as lines:
            async with running(server, options) as (app, _, _):
                put(server, "pods", pod_tree("before"))
                await until_bound(server, "before", clock)
                assert "[+]api-server ok\n" in await until_ready(app, clock, 200)
                address = urlsplit(server.url)
                del lines[:]
                await server.aclose()
                went = clock.monotonic()
                text = await until_ready(app, clock, 500)
                assert clock.monotonic() - went <= 35, "30 s after the last success, which may be a little older"
                assert f"[-]api-server failed: no request to {address.netloc} has succeeded" in text
                assert "[+]sched-handler-sync ok\n" in text
                while clock.monotonic() - went < 135:
                    assert (await answer(app, "/livez"))[0] == 200
                    await second(clock)
                _, metrics = await answer(app, "/metrics")
                (sample,) = [line for line in metrics.splitlines() if line.startswith("kscheduler_api_server_unreach")]
                assert float(sample.split()[-1]) > 120
                assert f'kscheduler_api_server_outages_total{{cause="refused",host="{address.netloc}"}} 1.0' in metrics
                await server.start(address.hostname or "", address.port or 0)
                await until_ready(app, clock, 200)
                put(server, "pods", pod_tree("after"))
                await until_bound(server, "after", clock)
                events = [line["event"] for line in lines if line["log_level"] != "debug"]
                # On a busy machine the virtual clock runs ahead of a write that is on its way to the new server.
                unrelated = {"summary", "writes_hang", "writes_hang_no_more"}
                assert [event for event in events if event not in unrelated] == [
                    "api_server_unreachable",
                    "api_server_still_unreachable",
                    "api_server_still_unreachable",
                    "api_server_reachable_again",
                ], "and not a line more"
                began = next(line for line in lines if line["event"] == "api_server_unreachable")
                assert began["server"] == address.netloc
                assert "refused" in began["err"] or "Connect call failed" in began["err"]


@pytest.mark.parametrize(
    ("fault", "message", "words"),
    [
        pytest.param(InjectedFault("answer", code=503), "api_server_unreachable", "etcd", id="503"),
        pytest.param(InjectedFault("answer", code=401), "credentials_refused", "token", id="401"),
        pytest.param(InjectedFault("reset"), "api_server_unreachable", "cut", id="reset"),
        pytest.param(InjectedFault("answer", code=429), "api_server_throttles", "priority levels", id="429"),
    ],
)
async def test_what_fails_all_requests_is_one_clear_line_and_unready(
    fault: InjectedFault, message: str, words: str
) -> None:
    clock, options = virtual()
    async with EmbeddedAPIServer(seed=1) as server:
        with structlog.testing.capture_logs() as lines:
            async with running(server, options) as (app, _, _):
                await until_ready(app, clock, 200)
                del lines[:]
                server.faults.add(fault)
                server.faults.drop_watches()
                await until_ready(app, clock, 500)
                loud = [line for line in lines if line["log_level"] in LOUD]
                assert [line["event"] for line in loud] == [message]
                assert words in loud[0]["advice"]
                server.faults.clear()
                await until_ready(app, clock, 200)


@pytest.mark.parametrize(("code", "words"), [(403, "RBAC must grant"), (500, "APIService")])
async def test_one_resource_that_fails_is_named_and_leaves_the_rest_ready(code: int, words: str) -> None:
    clock, options = virtual()
    async with EmbeddedAPIServer(seed=1) as server:
        with structlog.testing.capture_logs() as lines:
            async with running(server, options) as (app, _, _):
                await until_ready(app, clock, 200)
                del lines[:]
                server.faults.add(InjectedFault("answer", path="*/csinodes", code=code))
                server.faults.drop_watches()
                for _ in range(50):
                    await second(clock)
                (line,) = [line for line in lines if line["log_level"] in LOUD]
                assert line["event"] == "list_or_watch_fails"
                assert line["resources"] == ["csinodes.storage.k8s.io"]
                assert words in line["advice"]
                assert "[i]csinodes.storage.k8s.io: list or watch fails" in await until_ready(app, clock, 200)
                server.faults.clear()
                for _ in range(70):
                    await second(clock)
                assert "list_or_watch_works_again" in [line["event"] for line in lines]


async def test_before_the_first_contact_too_there_is_one_line_and_not_one_per_resource() -> None:
    clock, options = virtual()
    async with EmbeddedAPIServer(seed=1) as server:
        await server.aclose()
        with structlog.testing.capture_logs() as lines:
            async with running(server, options) as (app, _, _):
                for _ in range(40):
                    await second(clock)
                text = await until_ready(app, clock, 500)
                assert "[-]api-server failed" in text
        assert [line["event"] for line in lines if line["log_level"] in LOUD] == ["api_server_unreachable"]


async def test_without_any_rights_at_the_start_one_line_a_minute_names_all_resources() -> None:
    clock, options = virtual()
    async with EmbeddedAPIServer(seed=1) as server:
        server.faults.add(InjectedFault("answer", path="/api*", code=403))
        with structlog.testing.capture_logs() as lines:
            async with running(server, options) as (app, _, _):
                for _ in range(65):
                    await second(clock)
                assert (await answer(app, "/readyz"))[0] == 500
        events = [line["event"] for line in lines if line["log_level"] in LOUD]
        assert events.count("list_or_watch_fails") <= 2
        assert events.count("waiting_for_sync") <= 2
        assert len(events) == events.count("list_or_watch_fails") + events.count("waiting_for_sync")
        first = next(line for line in lines if line["event"] == "list_or_watch_fails")
        assert {"nodes", "pods"} <= set(first["resources"])
        assert "RBAC must grant" in first["advice"]
