"""The API server's version: outside of the tested range a warning names both versions, and scheduling goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kscheduler import __version__
from kscheduler.aio.clock import VirtualClock
from kscheduler.api.releases import NEWEST_SERVER, OLDEST_SERVER, RELEASE, minor_of
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import UNKNOWN_VERSION, APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer, discovery
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.service.server_version import UNTOLD_AGAIN_SECONDS, ServerVersion, skew_of
from tests.builders import node_tree, pod_tree
from tests.service.log.reading import log_at
from tests.service.running import answer, node_of, put, running, until
from tests.service.test_api_server_away import second, until_ready, virtual

NOT_TESTED = "server_version_not_tested"


def server_version() -> ServerVersion:
    return ServerVersion(APIClient(plain_connection("http://127.0.0.1:1")), VirtualClock())


def warnings(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["msg"] == NOT_TESTED]


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("v1.36.3", (1, 36)),
        ("v1.35.2-gke.1000", (1, 35)),
        ("v1.34.1+k3s1", (1, 34)),
        ("1.37", (1, 37)),
        ("v1.100.0", (1, 100)),
        ("unknown", None),
        ("", None),
        ("v1", None),
        ("v1.99999999", None),
    ],
)
def test_the_minor_version_is_read_as_providers_write_it(text: str, minor: tuple[int, int] | None) -> None:
    assert minor_of(text) == minor


@pytest.mark.parametrize("text", [f"v{OLDEST_SERVER}.0", RELEASE, f"v{NEWEST_SERVER}.99-eks-1", "unknown", "", "v0"])
def test_the_ends_of_the_range_belong_to_it_and_what_cannot_be_read_is_not_complained_about(text: str) -> None:
    assert skew_of(text) is None


@pytest.mark.parametrize(("text", "word"), [("v1.34.13", "older"), ("v1.39.0", "newer"), ("v2.0.0", "newer")])
def test_outside_of_the_range_it_says_on_which_side(text: str, word: str) -> None:
    problem = skew_of(text)
    assert problem is not None
    assert word in problem[0]


def test_each_version_outside_is_warned_of_once_and_noted_as_long_as_it_lasts() -> None:
    version = server_version()
    with log_at(0) as log:
        for answer in ("v1.33.1", "v1.33.1", "unknown", "v1.39.0", "v1.33.1"):
            version.learn(answer)
            assert [version.text in note for note in version.notes()] == [True]
        version.learn(RELEASE)
        assert list(version.notes()) == []
    assert [line["server_version"] for line in warnings(log.lines())] == ["v1.33.1", "v1.39.0"]


def test_an_upgrade_is_logged_and_a_failed_query_forgets_nothing() -> None:
    version = server_version()
    with log_at(0) as log:
        for answer in ("unknown", f"v{OLDEST_SERVER}.0", "unknown", f"v{OLDEST_SERVER}.0", RELEASE):
            version.learn(answer)
    changes = [(line["before"], line["server_version"]) for line in log.lines()]
    assert changes == [(f"v{OLDEST_SERVER}.0", RELEASE)]
    assert version.text == RELEASE


def test_a_server_with_a_new_version_in_each_answer_fills_neither_log_nor_memory() -> None:
    version = server_version()
    with log_at(0) as log:
        for number in range(1000):
            version.learn(f"v1.{number + 40}.0")
    assert len(warnings(log.lines())) == 100


async def test_a_service_on_a_server_that_is_too_new_says_so_and_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_of = discovery.version_info
    monkeypatch.setattr(discovery, "version_info", lambda _release: answer_of("v1.99.0"))
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("node"))
            async with running(server) as (app, _, _):
                line = await log.until(NOT_TESTED)
                put(server, "pods", pod_tree("web"))
                await until(server, lambda: node_of(server, "web") == "node")
                assert "v1.99.0" in (await answer(app, "/readyz?verbose"))[1]
    reported = {field: line[field] for field in ("server_version", "version", "decides_as", "tested", "level")}
    assert reported == {
        "server_version": "v1.99.0",
        "version": __version__,
        "decides_as": "1.38",
        "tested": f"{OLDEST_SERVER} to {NEWEST_SERVER}",
        "level": "warning",
    }


async def test_a_server_that_does_not_answer_is_queried_again_soon() -> None:
    clock = VirtualClock()
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        server.faults.add(InjectedFault("answer", path="/version", code=500, count=1))
        version = ServerVersion(client, clock)
        querying = asyncio.create_task(version.run())
        await until_it_is(version, UNKNOWN_VERSION)
        await clock.advance(0)  # so that it waits
        await clock.advance(UNTOLD_AGAIN_SECONDS - 1)
        assert version.text == UNKNOWN_VERSION
        await clock.advance(1)
        await until_it_is(version, RELEASE)
        querying.cancel()
        await asyncio.wait({querying})


@asynccontextmanager
async def asked_once() -> AsyncIterator[tuple[EmbeddedAPIServer, ServerVersion]]:
    """A server whose version is known, ten minutes before the next regular question."""
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        version = ServerVersion(client, VirtualClock())
        querying = asyncio.create_task(version.run())
        await until_it_is(version, RELEASE)
        yield server, version
        querying.cancel()
        await asyncio.wait({querying})


def upgrade(server: EmbeddedAPIServer, release: str) -> None:
    """The server says from now on that it is of this release."""
    server.registry.kinds.release = release
    server.registry.kinds.generation += 1  # its documents are made anew


async def test_who_asks_does_not_wait_for_the_next_regular_question() -> None:
    with log_at(0) as log:
        async with asked_once() as (server, version):
            upgrade(server, "v1.38.0")
            version.ask()
            await until_it_is(version, "v1.38.0")
    assert [line["msg"] for line in log.lines()] == ["server_version_changed"], "no line about the question"


async def test_an_answer_that_a_person_has_asked_for_is_logged_also_where_it_is_not_new() -> None:
    with log_at(0) as log:
        async with asked_once() as (server, version):
            version.ask(is_reported=True)
            line = await log.until("server_version_asked")
            assert (line["server_version"], line["before"]) == (RELEASE, RELEASE)
            server.faults.add(InjectedFault("answer", path="/version", code=500, count=1))
            version.ask(is_reported=True)
            line = await log.until("server_version_asked", server_version=UNKNOWN_VERSION)
            assert line["before"] == RELEASE
            upgrade(server, "v1.38.0")
            version.ask()
            await until_it_is(version, "v1.38.0")
    assert len(log.named("server_version_asked")) == 2, "the last question was not a person's"


async def test_a_server_that_answers_again_is_asked_within_seconds() -> None:
    """It may have been away for its upgrade."""
    clock, options = virtual()
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with running(server, options) as (app, _, _):
            await until_ready(app, clock, 200)
            await until_it_is(app.parts.server_version, RELEASE)
            server.faults.add(InjectedFault("reset"))
            server.faults.drop_watches()
            for _ in range(5):
                await second(clock)
            upgrade(server, "v1.38.0")
            server.faults.clear()
            began = clock.monotonic()
            while app.parts.server_version.text != "v1.38.0":
                await second(clock)
                assert clock.monotonic() - began < 60


async def until_it_is(version: ServerVersion, text: str) -> None:
    async with asyncio.timeout(20):
        while version.text != text:  # noqa: ASYNC110  # nobody waits for it
            await asyncio.sleep(0)
