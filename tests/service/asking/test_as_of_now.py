"""An answer is about the state after its question: of the pod, the nodes, the configuration and who leads."""

import json
import re
from typing import Any

import aiohttp
import pytest

from kscheduler.api.kinds import PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import App
from tests.builders import node_tree, pod_tree
from tests.service.asking.test_questions import explained, simulated, until_true
from tests.service.running import answer, node_of, put, running, until


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


async def test_each_query_has_a_copy_which_is_counted() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        for path in ("/nodes", "/pending?suggestions=true", "/explain?pod=default/nobody", "/explain?pod=default/big"):
            assert (await raw(app, path))[0] in (200, 404)
        metrics = (await answer(app, "/metrics"))[1]
        assert "kscheduler_question_copies_total 4.0" in metrics


async def test_a_pod_that_is_new_that_changes_or_that_goes_is_queried_about_as_it_is() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        await explained(app, "default/big")
        await parked(server, app, "second")
        assert (await explained(app, "default/second"))["outcome"] == "Unschedulable"
        put(server, "pods", pod_tree("second", requests={"cpu": "9"}, labels={"team": "blue"}))
        await until_true(lambda: _known(app, "second").metadata.labels == {"team": "blue"})
        await explained(app, "default/second")
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


async def test_after_a_reload_or_another_leader_the_answer_says_so() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        assembly = app.parts.assembly
        assert (await explained(app, "default/big"))["situation"]["inService"]["leads"]
        assembly.apply(assembly.draft(assembly.config), lambda kind: app.parts.informers.informer(kind).store.list())
        assert (await explained(app, "default/big"))["situation"]["inService"]["leads"]
        app.http_app.is_scheduling = False
        assert not (await explained(app, "default/big"))["situation"]["inService"]["leads"]


async def test_an_answer_says_as_of_when_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.service.asking.answers_in_copy._REPORTED_AGE_SECONDS", -1.0)
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        status, text, age = await raw(app, "/explain?pod=default/big", "text/plain")
        assert (status, age) == (200, "0")
        assert re.search(r"\nnote: as of \d\d:\d\d:\d\dZ, 0 s before this answer\n$", text)
        tree = await explained(app, "default/big")
        as_of = tree["situation"]["inService"]["asOf"].partition("T")[2]
        assert tree["notes"][-1] == f"as of {as_of}, 0 s before this answer"
        nodes = json.loads((await raw(app, "/nodes"))[1])
        assert nodes["notes"][-1].startswith("as of ")


async def test_an_answer_says_by_whose_rules_and_why_not_by_the_api_servers() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        text = (await raw(app, "/explain?pod=default/big", "text/plain"))[1]
        assert "\n\nby the rules of kube-scheduler 1.36\n" in text
        assert "but 1.36's rules apply" not in text
        app.parts.server_version.not_followed = "1.38, but 1.36's rules apply: a gate"
        reported = "the API server runs 1.38, but 1.36's rules apply: a gate"
        assert f"\nnote: {reported}\n" in (await raw(app, "/explain?pod=default/big", "text/plain"))[1]
        for tree in (await explained(app, "default/big"), json.loads((await raw(app, "/nodes"))[1])):
            assert tree["emulationVersion"] == "1.36"
            assert reported in tree["notes"]


async def test_an_answer_that_came_soon_does_not_speak_of_its_age() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await parked(server, app)
        app.parts.clock = _StandingClock(app.parts.clock)
        text = (await raw(app, "/explain?pod=default/big", "text/plain"))[1]
        assert "as of" not in text


class _StandingClock:
    """A clock whose wall time stands."""

    def __init__(self, clock: Any) -> None:
        self._clock, self._now = clock, clock.time()

    def time(self) -> float:
        now: float = self._now
        return now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)
