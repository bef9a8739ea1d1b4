"""Replicas of the whole service on the embedded API server: one schedules, the others are ready and write nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.config.durations import seconds
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.config.overrides import with_settings
from kscheduler.election import LeaseLostError, Role
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from tests.builders import node_tree, pod_tree
from tests.service.log.reading import log_at
from tests.service.running import SECONDS, answer, node_of, put, until

LEASES = "leases.coordination.k8s.io"


def config(**settings: object) -> LoadedConfig:
    return with_settings(
        default_configuration(), {f"leaderElection.{name}": it for name, it in settings.items()}, "test"
    )


@asynccontextmanager
async def replica(
    server: EmbeddedAPIServer, loaded: LoadedConfig | None = None
) -> AsyncIterator[tuple[App, asyncio.Event, "asyncio.Task[None]"]]:
    """A replica, until the block ends. What would end the process is noted instead."""
    ended: list[str] = []
    options = Options(loaded or config(), serving=HTTPServing.plain_on_loopback(), end_at_once=ended.append)
    app, stop = App(options, plain_connection(server.url)), asyncio.Event()
    task = asyncio.create_task(app.run(stop))
    try:
        yield app, stop, task
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({task})
        assert ended == []


async def until_role(app: App, role: Role) -> None:
    async with asyncio.timeout(SECONDS):
        while app.parts.election is None or app.parts.election.statistics().role is not role:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_ready(app: App) -> None:
    async with asyncio.timeout(SECONDS):
        while (await answer(app, "/readyz"))[0] != 200:  # noqa: ASYNC110  # a state that tells nobody, here and below
            await asyncio.sleep(0.005)


def holder(server: EmbeddedAPIServer) -> str:
    record = server.store.get(LEASES, "kube-system", "kscheduler")
    return "" if record is None else record.value["spec"].get("holderIdentity") or ""


async def test_the_follower_is_ready_knows_all_pods_and_has_tried_none() -> None:
    async with EmbeddedAPIServer(seed=1) as server, replica(server) as (leader, _, _):
        put(server, "nodes", node_tree("n", cpu="1"))
        await until_role(leader, Role.LEADING)
        async with replica(server) as (follower, _, _):
            await until_ready(follower)
            put(server, "pods", pod_tree("fits", requests={"cpu": "1"}))
            put(server, "pods", pod_tree("waits", requests={"cpu": "1"}))
            await until(server, lambda: bool(node_of(server, "fits") or node_of(server, "waits")))
            async with asyncio.timeout(SECONDS):
                while follower.parts.assembly.queue.statistics().active != 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            assert follower.parts.assembly.cache.statistics().pods == 1
            assert sum(follower.parts.observations.schedule_attempts.values()) == 0
            assert follower.parts.status_writer.statistics().pending == 0
            assert follower.parts.recorder.statistics().sent == 0
            sent = follower.parts.client.statistics().requests
            assert {method for (_, method), count in sent.items() if count} <= {"GET"}
            code, text = await answer(follower, "/readyz?verbose")
            assert (code, "[+]leaderElection ok" in text) == (200, True)
            assert f"{holder(server)} leads, this process follows" in text
            _, page = await answer(follower, "/metrics")
            assert 'leader_election_master_status{name="kscheduler"} 0.0' in page
            _, page = await answer(leader, "/metrics")
            assert 'leader_election_master_status{name="kscheduler"} 1.0' in page


async def test_after_an_orderly_end_the_follower_goes_on_with_all_that_the_old_leader_has_bound() -> None:
    """Room for one pod a node: a replica that has missed a Binding gives the same room away again."""
    async with EmbeddedAPIServer(seed=1) as server, replica(server) as (first, stop, ended):
        for number in range(10):
            put(server, "nodes", node_tree(f"n{number}", cpu="1"))
        await until_role(first, Role.LEADING)
        async with replica(server) as (second, _, _):
            await until_ready(second)
            for number in range(5):
                put(server, "pods", pod_tree(f"a{number}", requests={"cpu": "1"}))
            await until(server, lambda: all(node_of(server, f"a{number}") for number in range(5)))
            stop.set()
            for number in range(5):
                put(server, "pods", pod_tree(f"b{number}", requests={"cpu": "1"}))
            await ended
            await until(server, lambda: all(node_of(server, f"b{number}") for number in range(5)))
            nodes = [node_of(server, f"{letter}{number}") for letter in "ab" for number in range(5)]
            assert len(set(nodes)) == 10


async def test_a_stop_while_the_api_server_hangs_is_no_failure_although_the_lease_is_lost_before_its_release() -> None:
    """A Binding whose answer does not come is waited for longer than the lease may stay unrenewed."""
    short = config(leaseDuration=seconds(1.5), renewDeadline=seconds(1), retryPeriod=seconds(0.2))
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server, replica(server, short) as (app, stop, ended):
            put(server, "nodes", node_tree("n"))
            await until_role(app, Role.LEADING)
            await log.until("scheduling")
            server.faults.add(InjectedFault("delay", seconds=60))
            put(server, "pods", pod_tree("p"))
            async with asyncio.timeout(SECONDS):
                while not app.parts.workers.binding:  # noqa: ASYNC110  # a request that waits tells nobody
                    await asyncio.sleep(0.005)
            stop.set()
            async with asyncio.timeout(SECONDS):
                await ended  # raises nothing: the exit code is 0
            server.faults.clear()
    assert log.named("lease_lost")
    (line,) = log.named("stopped")
    assert line["level"] == "warning"
    assert line["not_done"] == (
        "lost the lease kube-system/kscheduler: it could not be renewed for 1 s; "
        "so it was not released, and writes that were sent were not waited for"
    )


async def test_a_lost_lease_ends_the_service_without_a_write_and_the_next_one_binds() -> None:
    """The lease's own requests fail, everything else works: only the fence keeps the old leader's writes in."""
    short = config(leaseDuration=seconds(3), renewDeadline=seconds(1), retryPeriod=seconds(0.3))
    async with EmbeddedAPIServer(seed=1) as server, replica(server, short) as (first, _, ended):
        put(server, "nodes", node_tree("n", cpu="9"))
        await until_role(first, Role.LEADING)
        server.faults.add(InjectedFault("answer", method="PUT", path="*/leases/*"))
        server.faults.add(InjectedFault("answer", method="GET", path="*/leases/*"))
        with pytest.raises(LeaseLostError, match="lost the lease kube-system/kscheduler"):
            async with asyncio.timeout(SECONDS):
                await ended
        put(server, "pods", pod_tree("p"))
        server.faults.clear()
        async with replica(server, short) as (second, _, _):
            await until(server, lambda: bool(node_of(server, "p")))
            assert second.parts.election is not None
            assert second.parts.election.statistics().role is Role.LEADING


async def test_without_the_namespace_of_the_lease_it_says_so_and_goes_on_trying() -> None:
    async with EmbeddedAPIServer(seed=1) as server, replica(server, config(resourceNamespace="absent")) as (app, _, _):
        async with asyncio.timeout(SECONDS):
            while "the namespace absent does not exist" not in (await answer(app, "/readyz?verbose"))[1]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        text = (await answer(app, "/readyz?verbose"))[1]
        assert "[-]leaderElection failed" in text
        assert (await answer(app, "/healthz"))[0] == 200
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "absent"}}
        server.store.put("namespaces", namespace)
        await until_role(app, Role.LEADING)
        await until_ready(app)


async def test_with_delayed_caches_nothing_is_watched_before_the_lease_is_there() -> None:
    delayed = with_settings(config(), {"delayCacheUntilActive": True}, "test")
    async with EmbeddedAPIServer(seed=1) as server, replica(server, delayed) as (first, stop, ended):
        await until_role(first, Role.LEADING)
        await until_ready(first)
        async with replica(server, delayed) as (second, _, _):
            async with asyncio.timeout(SECONDS):
                while not second.parts.election or not second.parts.election.statistics().leader:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            assert not any(informer.synced for informer in second.parts.informers.statistics())
            code, text = await answer(second, "/readyz")
            assert (code, "sched-handler-sync" in text) == (500, True)
            stop.set()
            await ended
            await until_role(second, Role.LEADING)
            await until_ready(second)


async def test_an_event_on_the_lease_reports_who_became_leader() -> None:
    async with EmbeddedAPIServer(seed=1) as server, replica(server) as (app, _, _):
        await until_role(app, Role.LEADING)

        def notes() -> list[str]:
            found = [record.value for _, record in server.store.namespaced_objects("kube-system")]
            return [one["message"] for one in found if one.get("reason") == "LeaderElection"]

        async with asyncio.timeout(SECONDS):
            while not notes():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert notes() == [f"{holder(server)} became leader"]
