"""A running pod whose resize waits for room: lower pods on its node go, nobody else, and nothing is written to it."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import App
from tests.builders import Tree, node_tree, pod_tree
from tests.service.preemption_stage import Seen, events, options, pod, victim, watched
from tests.service.running import SECONDS, put, running, until

GATE = "InPlacePodVerticalScalingSchedulerPreemption=true"
DEFERRED: Tree = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
SCHEDULED: Tree = {"type": "PodScheduled", "status": "True"}


def growing(name: str = "growing", *, wants: str = "3", has: str = "1", deferred: bool = True, **spec: Any) -> Tree:
    """A pod on the node `node` that has so many cpu and wants more."""
    resources = {"requests": {"cpu": has}}
    status: Tree = {
        "phase": "Running",
        "conditions": [SCHEDULED, DEFERRED] if deferred else [SCHEDULED],
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": has}, "resources": resources}],
    }
    return pod_tree(name, node="node", requests={"cpu": wants}, status=status, **{"priority": 100, **spec})


@asynccontextmanager
async def cluster(gates: str = GATE, **node: Any) -> AsyncIterator[tuple[EmbeddedAPIServer, App, Seen]]:
    """A node of three cpu, one of them taken by a pod of priority 0, and another node like it."""
    async with EmbeddedAPIServer(seed=1) as server:
        for name in ("node", "other"):
            put(server, "nodes", node_tree(name, cpu="3", **(node if name == "node" else {})))
            put(server, "pods", victim(f"low-on-{name}", node=name))
        with watched(server) as seen:
            async with running(server, options(gates=gates, version="1.37")) as (app, _, _):
                await app.parts.informers.wait_for_sync(SECONDS)
                yield server, app, seen
                assert not app.parts.observations.plugin_failures


def waits(app: App, name: str = "growing") -> bool:
    """Whether the pod has been judged and is parked, with nothing under way for it."""
    queue = app.parts.assembly.queue
    found = queue.find(f"default/{name}")
    return found is not None and found[0] == "unschedulable" and not queue.is_in_flight(f"uid-of-{name}")


async def settled(app: App, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  # a queue tells nobody
            await asyncio.sleep(0.005)


def change(server: EmbeddedAPIServer, tree: Tree) -> None:
    """The pod as it is now, with another spec and status."""
    current = pod(server, tree["metadata"]["name"])
    assert current is not None
    put(server, "pods", {**copy.deepcopy(current), "spec": tree["spec"], "status": tree["status"]})


async def test_lower_pods_on_its_node_go_and_nothing_is_written_to_the_pod() -> None:
    async with cluster() as (server, app, seen):
        put(server, "pods", growing())
        await until(server, lambda: "low-on-node" in seen.deleted)
        await settled(app, lambda: waits(app) and len(app.parts.assembly.evictions) == 0)
        await settled(app, lambda: bool(events(server, "Preempted")))  # sent beside everything else
        grown = pod(server, "growing")
        assert grown is not None
        assert grown["status"]["conditions"] == [SCHEDULED, DEFERRED]
        assert seen.deleted == ["low-on-node"], "the pod on the other node is no help"
        assert seen.nominations["growing"] == [""]
        assert not events(server, "FailedScheduling")
        (event,) = events(server, "Preempted")
        assert event["message"] == "Preempted by pod uid-of-growing on node node"


async def test_a_pod_that_is_put_off_later_is_judged_then() -> None:
    async with cluster() as (server, app, seen):
        put(server, "pods", growing(wants="1", deferred=False))
        put(server, "pods", pod_tree("else", requests={"cpu": "1"}))
        await until(server, lambda: (pod(server, "else") or {})["spec"]["nodeName"] != "")
        assert app.parts.assembly.queue.find("default/growing") is None
        change(server, growing())
        await until(server, lambda: "low-on-node" in seen.deleted)
        change(server, growing(has="3", deferred=False))
        await settled(app, lambda: app.parts.assembly.queue.find("default/growing") is None)


async def test_where_there_is_room_nobody_goes_until_the_resize_grows() -> None:
    async with cluster() as (server, app, seen):
        put(server, "pods", growing(wants="2"))
        await settled(app, lambda: waits(app))
        assert not seen.deleted
        change(server, growing(wants="3"))
        await until(server, lambda: "low-on-node" in seen.deleted)


async def test_pods_of_its_own_priority_stay() -> None:
    async with cluster() as (server, app, seen):
        put(server, "pods", growing(priority=0))
        await settled(app, lambda: waits(app))
        assert not seen.deleted


@pytest.mark.parametrize("spec", [{"preemptionPolicy": "Never"}, {"schedulerName": "another"}], ids=["never", "theirs"])
async def test_nobody_goes_for_it(spec: dict[str, Any]) -> None:
    async with cluster() as (server, app, seen):
        put(server, "pods", growing(**spec))
        put(server, "pods", growing("sign", wants="1", has="1"))  # judged after it
        await settled(app, lambda: waits(app, "sign"))
        assert not seen.deleted


async def test_a_node_may_forbid_it_and_allow_it_again() -> None:
    forbids = {"podPreemptionPolicy": {"disableResizePreemption": ["somebody"]}}
    async with cluster(spec=forbids) as (server, app, seen):
        put(server, "pods", growing())
        await settled(app, lambda: waits(app))
        assert not seen.deleted
        put(server, "nodes", node_tree("node", cpu="3"))
        await until(server, lambda: "low-on-node" in seen.deleted)


async def test_without_the_gate_nobody_goes() -> None:
    async with cluster(gates="") as (server, app, seen):
        put(server, "pods", growing())
        put(server, "pods", pod_tree("else", requests={"cpu": "1"}))
        await until(server, lambda: (pod(server, "else") or {})["spec"]["nodeName"] == "other")
        assert app.parts.assembly.queue.find("default/growing") is None
        assert not seen.deleted
