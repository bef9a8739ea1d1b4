"""The queue, the loop and its end."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.api.machinery.api_errors import conflict
from kscheduler.api.machinery.resources import DAEMON_SETS, NODES, PODS, ServedResource
from kscheduler.embedded.controllers import catalogue
from kscheduler.embedded.controllers.engine.loop import Engine, WorkQueue, running_controllers
from kscheduler.embedded.controllers.engine.plan import Concerned, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import itself
from kscheduler.embedded.demo.cluster import ClusterOptions, embedded_cluster
from kscheduler.embedded.objects.registry import ObjectRegistry
from kscheduler.embedded.objects.store import Key, ObjectStore
from tests.embedded.controllers.miniature import Miniature, template, workload

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ITEM = ("some-controller", ("default", "web"))


def test_an_object_waits_once_however_often_it_is_concerned() -> None:
    queue = WorkQueue()
    queue.add(ITEM)
    queue.add(ITEM)
    assert queue.pop() == ITEM
    assert queue.pop() is None


def test_only_the_earliest_moment_counts() -> None:
    queue = WorkQueue()
    queue.add_after(ITEM, NOW + timedelta(seconds=60))
    queue.add_after(ITEM, NOW + timedelta(seconds=5))
    queue.add_after(ITEM, NOW + timedelta(seconds=30))
    assert queue.next_due() == NOW + timedelta(seconds=5)
    queue.wake(NOW + timedelta(seconds=5))
    assert queue.pop() == ITEM
    assert queue.next_due() is None


def test_failures_wait_longer_each_time_and_are_forgotten_after_success() -> None:
    queue = WorkQueue()
    delays = []
    for _ in range(15):
        queue.failed(ITEM, NOW)
        due = queue.next_due()
        assert due is not None
        delays.append((due - NOW).total_seconds())
        queue.wake(due)
        queue.pop()
    assert delays[:3] == [0.01, 0.02, 0.04]
    assert delays[-1] == 60.0
    queue.succeeded(ITEM)
    queue.failed(ITEM, NOW)
    assert queue.next_due() == NOW + timedelta(seconds=0.01)


class Stubborn:
    """Fails for one node, and counts how often it is asked."""

    name = "stubborn"

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.reconciled: list[str] = []

    def watched(self) -> Mapping[ServedResource, Concerned]:
        return {NODES: itself}

    def reconcile(self, view: View, key: Key) -> Plan:
        self.reconciled.append(key[1])
        if key[1] == "bad":
            raise self.error
        return Plan()


@pytest.mark.parametrize("error", [ValueError("a bug"), conflict("nodes", "", "bad", "no")], ids=["bug", "refusal"])
def test_an_object_that_fails_does_not_keep_the_others_waiting(error: Exception) -> None:
    mini = Miniature("")
    stubborn = Stubborn(error)
    engine = Engine(mini.registry, [stubborn])
    engine.start()
    mini.add_node("bad")
    mini.add_node("good")
    engine.settle()
    assert stubborn.reconciled == ["node-0", "node-1", "node-2", "bad", "good"]
    mini.time += timedelta(seconds=1)
    engine.settle()
    assert stubborn.reconciled[-1] == "bad"


def test_controllers_that_undo_each_other_are_found_out() -> None:
    class Endless(Stubborn):
        def reconcile(self, view: View, key: Key) -> Plan:
            return Plan(again_seconds=0)

    engine = Engine(Miniature("").registry, [Endless(ValueError())])
    engine.start()
    with pytest.raises(RuntimeError, match="undo each other's work"):
        engine.settle()


def test_a_stopped_engine_follows_the_store_no_longer() -> None:
    mini = Miniature()
    mini.engine.stop()
    assert mini.registry.store.statistics().watchers == 0


async def test_the_loop_works_when_something_happens_and_rests_otherwise() -> None:
    clock = VirtualClock()
    registry = ObjectRegistry(ObjectStore(), lambda: NOW)
    stubborn = Stubborn(ValueError())
    async with running_controllers(registry, [stubborn], clock):
        registry.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}})
        await clock.advance(0.1)
        assert stubborn.reconciled == ["one"]
        await clock.advance(10)
        assert stubborn.reconciled == ["one"]
    assert registry.store.statistics().watchers == 0


async def test_the_embedded_cluster_runs_them_beside_the_server() -> None:
    async with embedded_cluster(ClusterOptions(nodes=2, port=0)) as server:
        ran = asyncio.Event()

        def look(_: object) -> None:
            pods = server.store.collection(PODS.collection).records.values()
            if len([pod for pod in pods if pod.value["status"]["phase"] == "Running"]) == 1:
                ran.set()

        server.store.subscribe(PODS.collection, look)
        name = next(iter(server.store.collection(NODES.collection).records))[1]
        tolerant = template(nodeName=name, tolerations=[{"operator": "Exists"}])
        server.registry.create(DAEMON_SETS, "default", workload("DaemonSet", template=tolerant))
        async with asyncio.timeout(20):
            await ran.wait()


async def test_without_controllers_nothing_happens() -> None:
    async with embedded_cluster(ClusterOptions(nodes=1, port=0, controllers="", kubelets=False)) as server:
        server.registry.create(DAEMON_SETS, "default", workload("DaemonSet"))
        assert not server.store.collection(PODS.collection).records
        assert server.store.statistics().watchers == 0


def test_each_controller_is_called_what_the_catalogue_calls_it() -> None:
    assert [controller.name for controller in catalogue.make()] == list(catalogue.CONTROLLERS)
