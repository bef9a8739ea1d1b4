"""What a pod shows after a failure, and when it is tried again, on the embedded API server."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.service import App
from tests.builders import Tree, node_tree, pod_tree
from tests.service.running import SECONDS, answer, node_of, put, running, until


def status_of(server: EmbeddedAPIServer, name: str) -> Tree:
    """A pod's status."""
    record = server.store.get("pods", "default", name)
    assert record is not None
    status: Tree = record.value["status"]
    return status


def condition_of(server: EmbeddedAPIServer, name: str) -> tuple[str, str]:
    """Reason and message of PodScheduled, or two empty texts."""
    for one in status_of(server, name).get("conditions", []):
        if one["type"] == "PodScheduled":
            return one.get("reason", ""), one.get("message", "")
    return "", ""


def version_of(server: EmbeddedAPIServer, name: str) -> str:
    """A pod's resourceVersion."""
    record = server.store.get("pods", "default", name)
    assert record is not None
    version: str = record.value["metadata"]["resourceVersion"]
    return version


def queued(app: App, name: str) -> tuple[str, QueuedPodInfo]:
    """Where the queue has a pod."""
    found = app.parts.assembly.queue.find(f"default/{name}")
    assert found is not None
    return found


async def test_a_pod_that_a_webhook_refuses_gives_its_node_back_and_waits_longer_each_time() -> None:
    """Another pod that needs the same room does not wait for it; a changed pod is tried again soon."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node", cpu="1"))
        server.faults.add(InjectedFault("answer", method="POST", path="*/pods/refused/binding", code=403))
        async with running(server) as (app, _, _):
            put(server, "pods", pod_tree("refused", requests={"cpu": "1"}, priority=10))
            await until(server, lambda: condition_of(server, "refused")[0] == "SchedulerError")
            assert "injected fault: 403" in condition_of(server, "refused")[1]
            assert condition_of(server, "refused")[1].startswith('running Bind plugin "DefaultBinder": ')
            place, pod = queued(app, "refused")
            assert (place, pod.refusals) == ("backoff", 1)
            assert 9 <= pod.backoff_expiration - pod.timestamp <= 10
            put(server, "pods", pod_tree("other", requests={"cpu": "1"}))
            await until(server, lambda: node_of(server, "other") == "node")
            assert server.faults.happened["answer"] == 1
            server.faults.clear()
            put(server, "nodes", node_tree("second", cpu="1"))
            put(server, "pods", pod_tree("refused", requests={"cpu": "1"}, labels={"allowed": "yes"}))
            await until(server, lambda: node_of(server, "refused") == "second")


async def test_our_own_condition_wakes_nobody_and_is_written_once() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("small", cpu="1"))
        async with running(server) as (app, _, _):
            put(server, "pods", pod_tree("big", requests={"cpu": "2"}))
            await until(server, lambda: condition_of(server, "big")[0] == "Unschedulable")
            version = version_of(server, "big")
            put(server, "pods", pod_tree("fits", requests={"cpu": "1"}))
            await until(server, lambda: node_of(server, "fits") == "small")
            assert queued(app, "big")[1].attempts == 1
            assert version_of(server, "big") == version
            _, metrics = await answer(app, "/metrics")
            assert 'kscheduler_status_patches_total{outcome="sent"} 1.0' in metrics
            assert "kscheduler_status_patches_pending 0.0" in metrics


@pytest.mark.parametrize(
    "fault",
    [
        InjectedFault("answer", code=429),
        InjectedFault("answer", code=429, retry_after_seconds=1),
        InjectedFault("answer", code=500),
        InjectedFault("answer", code=409),
        InjectedFault("reset"),
        InjectedFault("apply_then_reset"),
    ],
    ids=["429", "429 with its time", "500", "409", "a cut line", "done, and a cut line"],
)
async def test_a_condition_survives_a_server_in_trouble(fault: InjectedFault) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("small", cpu="1"))
        server.faults.add(msgspec.structs.replace(fault, method="PATCH", path="*/pods/big/status", count=2))
        async with running(server) as (app, _, _):
            put(server, "pods", pod_tree("big", requests={"cpu": "2"}))
            await until(server, lambda: condition_of(server, "big")[0] == "Unschedulable")
            await holds(
                lambda: (
                    app.parts.status_writer.statistics().sending == app.parts.status_writer.statistics().pending == 0
                )
            )
            assert app.parts.status_writer.statistics().retried >= 1
            assert app.parts.status_writer.statistics().dropped == 0


async def test_a_bind_is_not_overtaken_by_an_older_condition() -> None:
    """A patch that says False must not land on a pod that is bound."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("small", cpu="1"))
        server.faults.add(InjectedFault("delay", method="PATCH", path="*/pods/big/status", seconds=2.5, count=1))
        async with running(server) as (app, _, _):
            put(server, "pods", pod_tree("big", requests={"cpu": "2"}))
            await holds(lambda: "delay" in server.faults.happened)
            put(server, "nodes", node_tree("large", cpu="8"))
            await until(server, lambda: node_of(server, "big") == "large")
            await app.parts.status_writer.settled("uid-of-big")
            shown = {one["type"]: one["status"] for one in status_of(server, "big")["conditions"]}
            assert shown["PodScheduled"] == "True"


async def holds(condition: Callable[[], bool]) -> None:
    """Wait for something that tells nobody."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  # nothing to wait for but the loop
            await asyncio.sleep(0)
