"""The checks of truth in the whole scheduler: SIGUSR2, a corrupted cache, a lost event; all repaired while it runs."""

import asyncio
import os
import signal
from typing import Any

import pytest
import structlog

from kscheduler.client.access.connection import plain_connection
from kscheduler.config.loader import default_configuration
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.scheduling.drift.drift_check import Periods
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from kscheduler.service import service as app_module
from tests.builders import node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.running import SECONDS, answer, node_of, put, running, until


def options(**periods: float) -> Options:
    return Options(default_configuration(), serving=HTTPServing.plain_on_loopback(), periods=Periods(**periods))


async def until_true(condition: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  # a log and a cache tell nobody
            await asyncio.sleep(0.005)


async def test_sigusr2_dumps_cache_and_queue_and_compares_them(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[app_module.App] = []

    class Kept(app_module.App):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            built.append(self)

    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("p", requests={"cpu": "1"}))
        put(server, "pods", pod_tree("big", requests={"cpu": "100"}))

        async def connection(**_: object) -> object:
            return plain_connection(server.url)

        monkeypatch.setattr(app_module, "load_connection", connection)
        monkeypatch.setattr(app_module, "App", Kept)
        with structlog.testing.capture_logs() as lines:
            serving = asyncio.ensure_future(app_module.run(options(cache_check=0)))
            await until(server, lambda: node_of(server, "p") == "node")
            os.kill(os.getpid(), signal.SIGUSR2)
            await until_true(lambda: built[0].parts.drift_detection.check.statistics().checks == 1)
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(SECONDS):
                await serving
    by_event = {str(line["event"]): line for line in lines}
    assert by_event["Cached NodeInfo"]["node"] == "node"
    assert by_event["Pod in scheduling queue"]["pod"] == "default/big"
    assert not any(event.startswith("cache_drift") for event in by_event)


async def test_a_corrupted_cache_is_mended_and_counted() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("p", node="node", requests={"cpu": "1"}))
        with_hasty_clock = Options(
            default_configuration(), serving=HTTPServing.plain_on_loopback(), clock=HastyClock(), periods=Periods()
        )
        async with running(server, with_hasty_clock) as (app, _, _):
            await until_true(lambda: app.parts.assembly.cache.statistics().pods == 1)
            app.parts.assembly.cache.remove_pod("uid-of-p")
            await until_true(lambda: app.parts.assembly.cache.statistics().pods == 1)
            text = (await answer(app, "/metrics"))[1]
            assert 'kscheduler_cache_drift_objects_total{kind="pods",what="missing"} 1.0' in text


async def test_a_lost_deletion_gives_its_room_back_while_the_scheduler_runs() -> None:
    """Else the next pod would wait forever for room that is there."""
    async with EmbeddedAPIServer(seed=1, bookmark_seconds=0.05) as server:
        put(server, "nodes", node_tree("node", cpu="1"))
        put(server, "pods", pod_tree("old", node="node", requests={"cpu": "1"}))
        with_hasty_clock = Options(
            default_configuration(), serving=HTTPServing.plain_on_loopback(), clock=HastyClock(), periods=Periods()
        )
        async with running(server, with_hasty_clock) as (app, _, _):
            await until_true(lambda: app.parts.assembly.cache.statistics().pods == 1)
            server.faults.add(InjectedFault("lose_event", path="/api/v1/pods", count=1))
            server.store.remove("pods", ("default", "old"))
            put(server, "pods", pod_tree("new", requests={"cpu": "1"}))
            await until(server, lambda: node_of(server, "new") == "node")
            text = (await answer(app, "/metrics"))[1]
            assert 'kscheduler_store_drift_objects_total{resource="pods",what="redundant"} 1.0' in text
