"""Bugs that are caught are counted by the boundary that caught them."""

import asyncio
import errno
from collections.abc import Callable

import aiohttp
import pytest
import structlog

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import App
from kscheduler.service.service import _on_forgotten_failure
from kscheduler.telemetry.logs.caught import Boundary, caught
from tests.builders import node_tree, pod_tree
from tests.service.running import SECONDS, answer, node_of, put, running, until


def explode(*_: object, **__: object) -> None:
    raise RuntimeError("a bug")


def in_the_decision(app: App) -> None:
    app.parts.workers._scheduler.decide = explode  # type: ignore[method-assign]


def in_the_binding(app: App) -> None:
    app.parts.workers._scheduler.bind = explode  # type: ignore[assignment,method-assign]


def in_the_event_recorder(app: App) -> None:
    app.parts.recorder._create = explode  # type: ignore[assignment,method-assign]


@pytest.mark.parametrize(
    ("spoil", "boundary"),
    [
        pytest.param(in_the_decision, Boundary.WORKER, id="worker"),
        pytest.param(in_the_binding, Boundary.POD_TASK, id="pod-task"),
        pytest.param(in_the_event_recorder, Boundary.EVENT_RECORDER, id="event-recorder"),
    ],
)
async def test_a_bug_about_one_pod_counts_and_ends_nothing(spoil: Callable[[App], None], boundary: Boundary) -> None:
    before = caught()[boundary]
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with running(server) as (app, _, task):
            spoil(app)
            put(server, "pods", pod_tree("p"))
            async with asyncio.timeout(SECONDS):
                while caught()[boundary] == before:  # noqa: ASYNC110  # a count tells nobody
                    await asyncio.sleep(0.005)
            assert not task.done()
            name = f'kscheduler_unexpected_errors_total{{boundary="{boundary}"}}'
            (line,) = [line for line in (await answer(app, "/metrics"))[1].splitlines() if line.startswith(name)]
            assert float(line.split()[-1]) > before


async def test_a_bug_in_an_answer_counts() -> None:
    before = caught()[Boundary.HTTP]
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with running(server) as (app, _, _):
            put(server, "pods", pod_tree("p"))
            await until(server, lambda: node_of(server, "p") == "node")
            app.http_app.exposition._begin = explode  # type: ignore[assignment,method-assign]
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{app.server.port}/metrics") as response,
            ):
                assert response.status == 500
    assert caught()[Boundary.HTTP] == before + 1


async def test_a_task_that_fails_alone_counts(caplog: pytest.LogCaptureFixture) -> None:
    before = caught()[Boundary.TASK]
    with structlog.testing.capture_logs():
        _on_forgotten_failure(
            asyncio.get_running_loop(), {"message": "task failed", "exception": RuntimeError("a bug")}
        )
    assert caught()[Boundary.TASK] == before + 1
    assert "task failed" in caplog.text


async def test_a_process_without_file_descriptors_is_a_line_a_minute_and_no_bug() -> None:
    """Asyncio fails to accept connections each second then, and its own line blames nobody."""
    loop, before = asyncio.get_running_loop(), caught()[Boundary.TASK]
    failure = OSError(errno.EMFILE, "Too many open files")
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            _on_forgotten_failure(loop, {"message": "socket.accept() out of system resource", "exception": failure})
    (line,) = lines
    assert (line["event"], line["cause"], line["err"]) == (
        "out_of_resources",
        "no_file_descriptors",
        "too many open files",
    )
    assert "ulimit -n" in line["advice"]
    assert caught()[Boundary.TASK] == before
