"""A scheduler with HTTP extenders, on the embedded API server: what they say is done, what they break is bounded."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import structlog

from kscheduler.config.loader import from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from tests.builders import Tree, node_tree, pod_tree
from tests.extender_program import extender_program, leaves, prefers
from tests.service.preemption_stage import victim
from tests.service.running import answer, node_of, put, running, until

GPU = "example.com/gpu"
GPUS: Tree = {GPU: "4"}
MANAGES: Tree = {"managedResources": [{"name": GPU}]}
NAMES: Tree = {"nodeCacheCapable": True}


@dataclass
class World:
    """A scheduler with extenders, and its API server."""

    server: EmbeddedAPIServer
    app: App
    lines: list[dict[str, Any]]
    """What it has logged."""

    def pod(self, name: str, **fields: Any) -> None:
        put(self.server, "pods", pod_tree(name, **fields))

    async def bound(self, name: str) -> str:
        """The node of a pod, once it has one."""
        await until(self.server, lambda: node_of(self.server, name) != "")
        return node_of(self.server, name)

    async def rejected(self, name: str) -> str:
        """The text of the pod's condition, once it has one."""
        await until(self.server, lambda: self.message(name) != "")
        return self.message(name)

    def message(self, name: str) -> str:
        record = self.server.store.get("pods", "default", name)
        conditions = record.value.get("status", {}).get("conditions", []) if record is not None else []
        return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

    async def until_true(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  an extender in another thread tells nobody
                await asyncio.sleep(0.005)

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


@asynccontextmanager
async def scheduling(*extenders: Tree, nodes: tuple[Tree, ...] = (), **settings: Any) -> AsyncIterator[World]:
    tree = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "kscheduler"}],
        "extenders": list(extenders),
        **settings,
    }
    options = Options(from_tree(tree, "test"), serving=HTTPServing.plain_on_loopback())
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server:
            for node in nodes or [node_tree(name, **GPUS) for name in "abc"]:
                put(server, "nodes", node)
            async with running(server, options) as (app, _, _):
                yield World(server, app, lines)  # type: ignore[arg-type]


@pytest.mark.parametrize("knows_nodes", [False, True], ids=["whole nodes", "names"])
async def test_a_pod_goes_where_extenders_let_it_and_like_it_best(knows_nodes: bool) -> None:
    with extender_program({"filter": leaves("b", "c"), "prioritize": prefers("c")}) as program:
        async with scheduling(program.settings(nodeCacheCapable=knows_nodes)) as world:
            world.pod("pod")
            assert await world.bound("pod") == "c"
        assert [verb for verb, _ in program.queried] == ["filter", "prioritize"]
        (_, filtering), (_, scoring) = program.queried
        field = "NodeNames" if knows_nodes else "Nodes"
        assert (filtering["NodeNames"] is None) is not knows_nodes
        assert len(filtering[field] if knows_nodes else filtering[field]["items"]) == 3
        assert len(scoring[field] if knows_nodes else scoring[field]["items"]) == 2


async def test_a_pod_that_an_extender_rejects_says_who_and_comes_back_when_something_changes() -> None:
    with extender_program({"filter": leaves(reason="no token left")}) as program:
        async with scheduling(program.settings(**NAMES)) as world:
            world.pod("pod")
            message = await world.rejected("pod")
            assert "3 no token left" in message
            assert program.url not in message, "as kube-scheduler, the condition names nobody"
            explained = json.loads((await answer(world.app, "/explain?pod=default/pod"))[1])
            assert [(each["url"], each["verbs"]) for each in explained["extenders"]] == [(program.url, ["filter"])]
            page = (await answer(world.app, "/ui/pods/default/pod"))[1]
            assert f"rejected by HTTP extender <code>{program.url}</code>" in page
            program.answers = {"filter": leaves("d")}
            put(world.server, "nodes", node_tree("d"))
            assert await world.bound("pod") == "d"


async def test_pods_without_a_managed_resource_are_not_queried_about() -> None:
    with extender_program({"filter": leaves("c")}) as program:
        async with scheduling(program.settings(**NAMES, **MANAGES)) as world:
            world.pod("plain")
            world.pod("special", requests={GPU: "1"})
            await world.bound("plain")
            assert await world.bound("special") == "c"
        assert program.queried_about("filter") == ["special"]


async def test_an_extender_binds() -> None:
    async with aiohttp.ClientSession() as session:
        loop = asyncio.get_running_loop()
        base = ""

        async def post(tree: Tree) -> Tree:
            path = f"/api/v1/namespaces/{tree['PodNamespace']}/pods/{tree['PodName']}/binding"
            metadata = {"name": tree["PodName"], "uid": tree["PodUID"]}
            target = {"kind": "Node", "name": tree["Node"]}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
            async with session.post(base + path, json=body) as response:
                return {"Error": "" if response.status == 201 else await response.text()}

        def bind(tree: Tree) -> Tree:
            return asyncio.run_coroutine_threadsafe(post(tree), loop).result(10)

        with extender_program({"filter": leaves("a"), "bind": bind}) as program:
            async with scheduling(program.settings(**NAMES)) as world:
                base = world.server.url
                world.pod("pod")
                assert await world.bound("pod") == "a"
                attempts = world.app.parts.observations.schedule_attempts
                await world.until_true(lambda: attempts["scheduled", "kscheduler"] == 1)
            assert [verb for verb, _ in program.queried] == ["filter", "bind"]


async def test_an_extender_that_cannot_bind_holds_no_room() -> None:
    with extender_program({"bind": lambda _: {"Error": "the device is gone"}}) as program:
        async with scheduling(program.settings(**MANAGES)) as world:
            world.pod("special", requests={GPU: "1"})
            assert await world.rejected("special") == "the device is gone"
            await world.until_true(lambda: not world.app.parts.assembly.cache.statistics().assumed_pods)


@pytest.mark.parametrize("is_ignorable", [False, True], ids=["needed", "ignorable"])
async def test_an_extender_that_does_not_answer(is_ignorable: bool) -> None:
    with extender_program({"filter": leaves("c")}, is_open=False) as program:
        settings = program.settings(**NAMES, httpTimeout="50ms", ignorable=is_ignorable)
        async with scheduling(settings) as world:
            world.pod("pod")
            if is_ignorable:
                assert await world.bound("pod") in "abc"
            else:
                message = await world.rejected("pod")
                assert message == f"failed filter with extender at URL {program.url}: no answer within 0.05 s"
                assert world.app.parts.assembly.queue.find("default/pod") is not None
                (line,) = world.said("extender_failing")
                assert (line["then"], line["pod"]) == ("its pods are tried again later", "default/pod")
                code, text = await answer(world.app, "/readyz?verbose")
                assert code == 200
                assert f"extender {program.url} has failed " in text


async def test_a_slow_extender_delays_its_own_pods_only() -> None:
    with extender_program({"filter": leaves("a")}, is_open=False) as program:
        async with scheduling(program.settings(**NAMES, **MANAGES)) as world:
            for number in range(40):
                world.pod(f"special-{number}", requests={GPU: "1", "cpu": "1m"})
            await world.until_true(lambda: len(program.queried) == 16)
            for number in range(40):
                world.pod(f"plain-{number}")
            for number in range(40):
                await world.bound(f"plain-{number}")
            assert not any(node_of(world.server, f"special-{number}") for number in range(40))
            _, metrics = await answer(world.app, "/metrics")
            for state, pods in (("asked", 16), ("waiting", 24)):
                wanted = f'kscheduler_extender_pods{{extender="{program.url}",state="{state}"}} {pods}.0'
                assert wanted in metrics
            dumped = [
                line async for _, line in world.app.parts.drift_detection.dump.queue_entries() if "extender" in line
            ]
            assert len(dumped) == 24
            program.opened.set()
            names = [f"special-{number}" for number in range(40)]
            await until(world.server, lambda: sum(node_of(world.server, name) == "a" for name in names) == 4)


@pytest.mark.parametrize("another", ["second", "foreign"])
async def test_a_pod_may_name_another_scheduler_while_it_is_queried_about(another: str) -> None:
    """The old annotation can be changed at any time; kube-scheduler has no way to change a pod's scheduler."""
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}]
    with extender_program({"filter": leaves("a")}, is_open=False) as program:
        settings: dict[str, Any] = {"profiles": profiles, "honorSchedulerNameAnnotation": True}
        async with scheduling(program.settings(**NAMES), **settings) as world:
            world.pod("pod", schedulerName="default-scheduler")
            await world.until_true(lambda: program.queried)
            named = {"annotations": {"scheduler.alpha.kubernetes.io/name": another}}
            world.pod("pod", schedulerName="default-scheduler", metadata=named)
            pod_of = world.app.parts._pod
            await world.until_true(lambda: (pod := pod_of("default/pod")) and pod.spec.scheduler_name == another)
            program.opened.set()
            attempts, queue = world.app.parts.observations.schedule_attempts, world.app.parts.assembly.queue
            if another == "second":
                assert await world.bound("pod") == "a"
                await world.until_true(lambda: attempts["scheduled", "second"] == 1)
            await world.until_true(lambda: not queue.statistics().in_flight)
            assert attempts["scheduled", "default-scheduler"] == 0
            assert bool(node_of(world.server, "pod")) is (another == "second")


async def test_an_extender_that_says_it_has_bound_holds_the_room_until_that_is_seen() -> None:
    answers = {"filter": leaves("a"), "bind": lambda _: {}}
    with extender_program(answers) as program:
        async with scheduling(program.settings(**NAMES)) as world:
            world.pod("pod")
            await world.until_true(lambda: program.queried_about("bind") == ["pod"])
            cache, attempts = world.app.parts.assembly.cache, world.app.parts.observations.schedule_attempts
            assert cache.is_assumed("uid-of-pod")
            assert attempts["scheduled", "kscheduler"] == 0, "nobody has seen it on its node"
            put(world.server, "pods", pod_tree("pod", nodeName="a"))
            await world.until_true(lambda: attempts["scheduled", "kscheduler"] == 1)


async def test_an_extender_has_a_say_in_who_is_evicted() -> None:
    def spares_a(tree: Tree) -> Tree:
        named = tree["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: victims for name, victims in named.items() if name == "b"}}

    full = [victim(f"low-{node}", node=node, cpu="4") for node in "abc"]
    with extender_program({"preempt": spares_a}) as program:
        async with scheduling(program.settings(**NAMES)) as world:
            for low in full:
                put(world.server, "pods", low)
            await world.until_true(lambda: world.app.parts.assembly.cache.statistics().pods == 3)
            world.pod("high", requests={"cpu": "4"}, priority=10)
            assert await world.bound("high") == "b"
        assert program.queried_about("preempt") == ["high"]
        (_, request), *_ = program.queried
        assert set(request["NodeNameToMetaVictims"]) == set("abc")
        assert request["NodeNameToMetaVictims"]["b"] == {"Pods": [{"UID": "uid-of-low-b"}], "NumPDBViolations": 0}


async def test_what_scheduling_does_not_read_is_sent_all_the_same() -> None:
    env = [{"name": "MODEL", "value": "llama"}]
    containers = [{"name": "main", "image": "app", "env": env, "resources": {}}]
    managed: Tree = {"managedFields": [{"manager": "kubectl"}]}
    addresses = [{"type": "InternalIP", "address": "10.0.0.7"}]
    node = node_tree("a", metadata=managed, status={"addresses": addresses})
    with extender_program({"filter": leaves("a")}) as program:
        async with scheduling(program.settings(), nodes=(node,)) as world:
            world.pod("pod", containers=containers, metadata=managed)
            assert await world.bound("pod") == "a"
            changed = [{"type": "InternalIP", "address": "10.0.0.8"}]
            put(world.server, "nodes", node_tree("a", status={"addresses": changed}, labels={"moved": "yes"}))
            parts = world.app.parts
            await world.until_true(lambda: (found := parts._node("a")) and "moved" in found.metadata.labels)
            world.pod("next")
            assert await world.bound("next") == "a"
        (_, first), (_, second) = program.queried
    assert first["Pod"]["spec"]["containers"][0]["env"] == env
    assert "managedFields" not in first["Pod"]["metadata"]
    (sent,) = first["Nodes"]["items"]
    assert (sent["status"]["addresses"], "managedFields" in sent["metadata"]) == (addresses, False)
    assert second["Nodes"]["items"][0]["status"]["addresses"] == changed
