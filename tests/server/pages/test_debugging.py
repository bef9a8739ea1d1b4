"""`/debug`: dumps, stacks, samples and the verbosity; nothing of it where profiling is off."""

import asyncio
import json
import threading

import aiohttp
import pytest

from kscheduler.config.loader import default_configuration
from kscheduler.config.overrides import with_settings
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.pages.debugging import sample
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from kscheduler.telemetry.logs import verbosity
from tests.builders import node_tree, pod_tree
from tests.server.secure_site import READER, secure_site, token_of
from tests.service.running import alone, answer, put, running, until

PATHS = ("/debug/cache", "/debug/queue", "/debug/stacks", "/debug/profile?seconds=0.1")


async def test_a_dump_has_nodes_and_waiting_pods_as_lines_of_json() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="1"))
        put(server, "pods", pod_tree("big", requests={"cpu": "9"}))
        await until(server, lambda: bool(server.store.get("pods", "default", "big")))
        queue: list[dict[str, object]] = []
        while len(queue) < 2:
            queue = [json.loads(line) for line in (await answer(app, "/debug/queue"))[1].splitlines()]
        cache = [json.loads(line) for line in (await answer(app, "/debug/cache"))[1].splitlines()]
        assert queue[1]["pod"] == "default/big"
        assert [line["msg"] for line in cache] == ["Dump of cached NodeInfo", "Cached NodeInfo"]
        assert cache[1]["node"] == "node"


async def test_stacks_name_threads_and_tasks() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        status, text = await answer(app, "/debug/stacks")
        assert status == 200
        assert "thread MainThread\n" in text
        assert "task informers\n" in text


async def test_a_profile_is_lines_of_stacks_with_counts() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        status, text = await answer(app, "/debug/profile?seconds=0.2")
        assert status == 200
        assert all(line.rpartition(" ")[2].isdecimal() for line in text.splitlines())
        assert sum(int(line.rpartition(" ")[2]) for line in text.splitlines()) >= 1
        for wrong in ("0", "-1", "61", "nan", "x"):
            assert (await answer(app, f"/debug/profile?seconds={wrong}"))[0] == 400
        both = await asyncio.gather(*(answer(app, "/debug/profile?seconds=0.3") for _ in range(2)))
        assert sorted(status for status, _ in both) == [200, 429]


def test_a_thread_that_is_gone_has_no_samples() -> None:
    gone = threading.Thread(target=lambda: None)
    gone.start()
    gone.join()
    assert gone.ident is not None
    assert sum(sample(gone.ident, 0.01).values()) <= 1


async def test_without_profiling_there_is_none_of_it() -> None:
    config = with_settings(alone(), {"enableProfiling": False}, "test")
    options = Options(config, serving=HTTPServing.plain_on_loopback())
    async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
        for path in PATHS:
            assert (await answer(app, path))[0] == 404, path


@pytest.mark.parametrize(("gate", "path"), [("ComponentStatusz", "/statusz"), ("ComponentFlagz", "/flagz")])
async def test_a_gate_takes_its_page_away(gate: str, path: str) -> None:
    from kscheduler.config.feature_gates import parse_feature_gates

    for is_on in (True, False):
        gates = parse_feature_gates(f"{gate}={str(is_on).lower()}")
        options = Options(default_configuration(gates=gates), serving=HTTPServing.plain_on_loopback())
        async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
            assert (await answer(app, path))[0] == (200 if is_on else 404)


async def test_the_verbosity_is_set_by_who_may_put_and_not_over_the_plain_port() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/debug/*", verbs=("put",))
        before = verbosity.verbose(7)
        assert (await site.get("/debug/flags/v", token_of(READER), method="PUT"))[0] in (400, 404)
        assert verbosity.verbose(7) == before
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        described = json.loads((await answer(app, "/openapi.json"))[1])["paths"]["/debug/flags/v"]["put"]["summary"]
        address = f"http://127.0.0.1:{app.server.port}/debug/flags/v"
        async with aiohttp.ClientSession() as session, session.put(address, data="7") as refused:
            assert (refused.status, "HTTPS only" in described) == (404, True)
    assert verbosity.verbose(7) == before
