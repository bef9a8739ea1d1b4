"""How old an answer of the service may be, whom a change of the pod lets ask again, and that the answer says its
age.
"""

import json
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
import pytest

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import App
from kscheduler.service.asking import live_copy
from kscheduler.service.asking.answering_fork import MAX_FACTS_BYTES
from kscheduler.service.asking.forked_service import ForkedService
from tests.builders import node_tree, pod_tree
from tests.service.asking.test_questions import Tree, explained, simulated, until_true
from tests.service.running import answer, node_of, put, running, until

pytestmark = pytest.mark.usefixtures("_long_lived")


@pytest.fixture
def _long_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_copy, "life_after", lambda *_, **__: 600.0)


async def parked(server: EmbeddedAPIServer, app: App, name: str = "big") -> None:
    """A pod that fits nowhere, and has been told so."""
    put(server, "pods", pod_tree(name, requests={"cpu": "9"}))
    await until_true(lambda: bool(_known(app, name) and _known(app, name).status.conditions))


def _known(app: App, name: str) -> Any:
    return app.parts.informers.informer(PODS).store.get(f"default/{name}")


async def raw(app: App, path: str, accept: str = "application/json") -> tuple[int, str, str]:
    """Status, text and age."""
    url = f"http://127.0.0.1:{app.server.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers={"Accept": accept}) as response:
        return response.status, await response.text(), response.headers.get("Age", "")


async def test_queries_about_pods_that_stay_as_they_are_share_a_copy() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        first = await explained(app, "default/big")
        assert (await explained(app, "default/big"))["situation"] == first["situation"]
        for path in ("/nodes", "/pending?suggestions=true", "/explain?pod=default/nobody", "/explain?pod=default/big"):
            assert (await raw(app, path))[0] in (200, 404)
        await simulated(app)
        assert app.http_app.live_copy.forks == 1
        metrics = (await answer(app, "/metrics"))[1]
        assert "kscheduler_question_copies_total 1.0" in metrics


async def test_a_pod_that_is_new_that_changes_or_that_goes_is_queried_about_as_it_is() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        await explained(app, "default/big")
        await parked(server, app, "second")
        assert (await explained(app, "default/second"))["outcome"] == "Unschedulable"
        put(server, "pods", pod_tree("second", requests={"cpu": "9"}, labels={"team": "blue"}))
        await until_true(lambda: _known(app, "second").metadata.labels == {"team": "blue"})
        before = app.http_app.live_copy.forks
        await explained(app, "default/second")
        await explained(app, "default/big")
        assert app.http_app.live_copy.forks == before + 1
        put(server, "nodes", node_tree("larger", cpu="16"))
        await until(server, lambda: bool(node_of(server, "big")))
        await until_true(lambda: bool(_known(app, "big").spec.node_name))
        assert (await explained(app, "default/big"))["outcome"] == "Bound"
        server.store.remove("pods", ("default", "second"))
        await until_true(lambda: _known(app, "second") is None)
        assert (await raw(app, "/explain?pod=default/second"))[0] == 404


async def test_a_node_that_is_new_is_known_to_queries_that_name_it() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        await explained(app, "default/big")
        put(server, "nodes", node_tree("new", cpu="2"))
        await until_true(lambda: app.parts.assembly.cache.has_node("new"))
        assert (await simulated(app, drain=["new"]))["complete"]
        assert (await simulated(app, 400, drain=["none"]))["message"].startswith("drain[0]: there is no node none")
        put(server, "nodes", node_tree("newer", cpu="2"))
        await until_true(lambda: app.parts.assembly.cache.has_node("newer"))
        assert (await explained(app, "default/big&against=newer"))["against"]["node"] == "newer"


async def test_who_takes_no_answer_of_before_gets_none() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        await explained(app, "default/big")
        put(server, "nodes", node_tree("new", cpu="2"))
        await until_true(lambda: app.parts.assembly.cache.has_node("new"))
        live, base = app.http_app.live_copy, f"http://127.0.0.1:{app.server.port}"
        async with aiohttp.ClientSession(headers={"Cache-Control": "max-age=9, No-Cache"}) as session:
            for number, path in enumerate(("/nodes", "/explain?pod=default/big"), 2):
                async with session.get(f"{base}{path}") as response:
                    text = await response.text()
                assert ("new" in text, live.forks) == (True, number)
            async with session.post(f"{base}/simulate", json={}) as response:
                assert (response.status, live.forks) == (200, 4)


async def test_after_a_reload_or_another_leader_a_new_copy_answers() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        assembly = app.parts.assembly
        assert (await explained(app, "default/big"))["situation"]["inService"]["leads"]
        assembly.apply(assembly.draft(assembly.config), app.parts.informers.informer(PODS).store.list())
        await explained(app, "default/big")
        assert app.http_app.live_copy.forks == 2
        app.http_app.is_scheduling = False
        assert not (await explained(app, "default/big"))["situation"]["inService"]["leads"]
        assert app.http_app.live_copy.forks == 3


async def test_nodes_that_change_make_a_copy_old_sooner_and_pods_that_come_and_go_do_not() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        before = _slow_mark(app)
        put(server, "pods", pod_tree("small", requests={"cpu": "1"}))
        await until(server, lambda: bool(node_of(server, "small")))
        server.store.remove("pods", ("default", "small"))
        await until_true(lambda: _known(app, "small") is None)
        assert _slow_mark(app) == before
        put(server, "nodes", node_tree("node", cpu="2", labels={"disk": "ssd"}))
        await until_true(lambda: _slow_mark(app) != before)


def _slow_mark(app: App) -> object:
    return ForkedService(app.parts, lambda: True).slow_mark()


async def test_an_answer_says_as_of_when_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.service.asking.query_functions._REPORTED_AGE_SECONDS", -1.0)
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        tree = await explained(app, "default/big")
        as_of = tree["situation"]["inService"]["asOf"]
        status, text, age = await raw(app, "/explain?pod=default/big", "text/plain")
        assert (status, int(age) >= 0) == (200, True)
        assert f"note: as of {as_of.partition('T')[2]}, " in text
        assert text.endswith(" s before this answer\n")
        for path in ("/explain?pod=default/big", "/nodes"):
            notes = json.loads((await raw(app, path))[1])["notes"]
            assert notes[-1].startswith(f"as of {as_of.partition('T')[2]}, ")


async def test_a_young_answer_does_not_speak_of_its_age() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        app.parts.clock = _LoggedTrouble(app.parts.clock)
        text = (await raw(app, "/explain?pod=default/big", "text/plain"))[1]
        assert "as of" not in text


class _LoggedTrouble:
    """A clock whose wall time stands."""

    def __init__(self, clock: Any) -> None:
        self._clock, self._now = clock, clock.time()

    def time(self) -> float:
        now: float = self._now
        return now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


_UNTOLD: dict[str, Callable[[Pod], Pod]] = {
    "its version": lambda pod: msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, resource_version="99999")
    ),
    "the counts in its condition": lambda pod: msgspec.structs.replace(
        pod,
        status=msgspec.structs.replace(
            pod.status,
            conditions=tuple(msgspec.structs.replace(each, message="0/7 nodes") for each in pod.status.conditions),
        ),
    ),
}


@pytest.mark.parametrize("change", _UNTOLD.values(), ids=_UNTOLD)
async def test_what_every_attempt_changes_does_not_cost_a_copy(change: Callable[[Pod], Pod]) -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        service = ForkedService(app.parts, lambda: True)
        facts = service.facts(["default/big"])
        store = app.parts.informers.informer(PODS).store
        store.put("default/big", change(_known(app, "big")))
        found = app.parts.assembly.queue.find("default/big")
        assert found is not None
        found[1].attempts += 5
        found[1].timestamp += 60.0
        assert service.knows(facts)
        found[1].last_error = "the API server has refused it"
        assert not service.knows(facts)


async def test_a_template_that_has_been_read_is_a_fact_however_large_it_is() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        service = ForkedService(app.parts, lambda: True)
        facts = service.facts(["default/big"])
        large = ResourceClaimTemplate()
        large.metadata.annotations = {"notes": "x" * MAX_FACTS_BYTES}
        app.parts.claim_templates["default/big"] = {"gpus": large}
        assert not service.knows(facts)
        assert len(service.facts(["default/big"])) < MAX_FACTS_BYTES / 32, "so many pods fit into one question"


def test_facts_are_about_so_many_pods_at_most() -> None:
    queried: Tree = {}

    class Counting(ForkedService):
        def _of_pod(self, key: str) -> tuple[Any, ...]:
            queried[key] = True
            return ()

    class Parts:
        assembly = None

    Counting(Parts(), lambda: True).facts(f"default/{number}" for number in range(1000))  # type: ignore[arg-type]
    assert len(queried) == 32
