"""Policies in the whole service, on the embedded API server: what changes in the cluster or beside it is followed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from kscheduler.config.loader import from_tree
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.scenario.decide import prepare
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from kscheduler.testing import make_node, make_pod
from tests.builders import Tree, node_tree, pod_tree
from tests.plugins.policies.servers import http_server
from tests.plugins.policies.worlds import HEAD
from tests.service.running import answer, node_of, put, running, until

COST: Final = "hightower.com/cost"


def config(policy: str, args: dict[str, Any] | None = None) -> Tree:
    profile = {
        "schedulerName": "kscheduler",
        "plugins": {
            "multiPoint": {"enabled": [{"name": policy}]},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": policy}]},
        },
        "pluginConfig": [] if args is None else [{"name": policy, "args": args}],
    }
    return {**HEAD, "leaderElection": {"leaderElect": False}, "profiles": [profile]}


def node(name: str, **annotations: str) -> Tree:
    return node_tree(name, metadata={"annotations": annotations})


@asynccontextmanager
async def service(server: EmbeddedAPIServer, policy: str, args: dict[str, Any] | None = None) -> AsyncIterator[App]:
    options = Options(from_tree(config(policy, args), "test"), serving=HTTPServing.plain_on_loopback())
    async with running(server, options) as (app, _, _):
        yield app


async def place(server: EmbeddedAPIServer, name: str, **fields: Any) -> str:
    put(server, "pods", pod_tree(name, **fields))
    await until(server, lambda: bool(node_of(server, name)))
    return node_of(server, name)


def policy_of(app: App) -> Any:
    (profile,) = app.parts.assembly.profiles.values()
    return next(plugin for plugin in profile.instances if hasattr(plugin, "refresh"))


async def test_round_robin_gives_turns_to_pods_that_arrive_together() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        for name in "abc":
            put(server, "nodes", node(name))
        async with service(server, "RoundRobin"):
            for number in range(9):
                put(server, "pods", pod_tree(f"p{number}"))
            names = [f"p{number}" for number in range(9)]
            await until(server, lambda: all(node_of(server, name) for name in names))
            assert sorted(node_of(server, name) for name in names) == [*"aaabbbccc"]


async def test_node_cost_follows_the_annotation() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node("a", **{COST: "2"}))
        put(server, "nodes", node("b", **{COST: "3"}))
        async with service(server, "NodeCost") as app:
            assert await place(server, "first") == "a"
            put(server, "nodes", node("b", **{COST: "1"}))
            number = 0
            while await place(server, f"next-{number}") != "b":  # until the watch has brought it
                number += 1
                assert number < 100
            status, text = await answer(app, "/metrics")
            assert status == 200
            assert "kscheduler_" in text


async def test_annotation_match_parks_a_pod_until_a_node_says_so() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node("a"))
        async with service(server, "AnnotationMatch", {"keys": [{"key": "cluster.type"}]}):
            wanting = {"annotations": {"cluster.type": "raspberry"}}
            put(server, "pods", pod_tree("pi", metadata=wanting))
            await until(server, lambda: "didn't match the Pod's annotations" in condition_of(server, "pi"))
            put(server, "nodes", node("a", **{"cluster.type": "raspberry"}))
            await until(server, lambda: node_of(server, "pi") == "a")


def condition_of(server: EmbeddedAPIServer, name: str) -> str:
    record = server.store.get("pods", "default", name)
    assert record is not None
    return str(record.value["status"].get("conditions", ""))


async def test_pods_that_wait_for_an_external_source_wake_when_it_answers() -> None:
    numbers: dict[str, float] = {}

    async def reported(_: web.Request) -> web.Response:
        return web.json_response(numbers) if numbers else web.Response(status=503)

    async with EmbeddedAPIServer(seed=1) as server, http_server(reported) as url:
        for name in "ab":
            put(server, "nodes", node(name))
        args = {"url": url, "whenStale": "Fail", "refreshInterval": "10m", "staleAfter": "10m"}
        async with service(server, "ExternalScore", args) as app:
            put(server, "pods", pod_tree("waits"))
            await until(server, lambda: "had no current number" in condition_of(server, "waits"))
            status, text = await answer(app, "/readyz?verbose")
            assert status == 200
            assert 'data of plugin "ExternalScore" of profile "kscheduler": none yet' in text
            numbers.update(a=1, b=2)
            await policy_of(app).refresh()
            await until(server, lambda: node_of(server, "waits") == "b")


async def test_load_aware_without_metrics_server_says_so_and_schedules_by_requests() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        for name in "ab":
            put(server, "nodes", node(name))
        async with service(server, "LoadAware") as app:
            assert await place(server, "first", requests={"cpu": "2"}) in ("a", "b")
            assert await place(server, "second") != node_of(server, "first")
            text = (await answer(app, "/readyz?verbose"))[1]
            assert 'data of plugin "LoadAware"' in text


async def test_explain_fetches_the_numbers_and_names_the_node_that_the_service_takes() -> None:
    async def reported(_: web.Request) -> web.Response:
        return web.json_response({"a": 1, "b": 2})

    async with http_server(reported) as url:
        loaded = from_tree(config("ExternalScore", {"url": url}), "test")
        objects = ClusterObjects(nodes=(make_node("a"), make_node("b")))
        prepared = prepare(Scenario(objects, make_pod("web"), loaded))
        await prepared.fetch()
        record = prepared.decide().record
    assert record is not None
    assert record.node_name == "b"
    unfetched = prepare(Scenario(objects, make_pod("web"), loaded)).decide()
    assert unfetched.notes == ("plugin ExternalScore: data of its own were not fetched",)


async def test_a_source_that_is_away_is_a_note_of_the_explanation() -> None:
    loaded = from_tree(config("ExternalScore", {"url": "http://127.0.0.1:1"}), "test")
    prepared = prepare(Scenario(ClusterObjects(nodes=(make_node("a"),)), make_pod("web"), loaded))
    await prepared.fetch()
    (note,) = prepared.decide().notes
    assert note.startswith("plugin ExternalScore: no data of its own: http://127.0.0.1:1: ")
