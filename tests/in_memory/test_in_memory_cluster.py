"""The in-memory cluster: requests are answered as an API server does, changes are shown as an informer does, and each
fault has a place.
"""

import asyncio
from typing import Any

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.meta import Condition
from kscheduler.assembly import Assembly
from kscheduler.client.errors import UnknownOutcomeError
from kscheduler.config.loader import default_configuration
from kscheduler.framework.status import Fault, Status, error
from kscheduler.in_memory.at_work import at_work, turns, workers_over
from kscheduler.in_memory.cluster import APIRequest, InMemoryCluster
from kscheduler.plugins.in_tree import registry
from tests.builders import make_node, make_pod

CONDITION = Condition(type="PodScheduled", status="False", message="no room")


class Heard:
    """Implements `informers.Handler`."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str]] = []

    def on_add(self, obj: Any, initial: bool) -> None:
        self.changes.append(("added", obj.metadata.uid, "first list" if initial else ""))

    def on_update(self, old: Any, new: Any) -> None:
        self.changes.append(("updated", new.metadata.uid, new.spec.node_name))

    def on_delete(self, obj: Any) -> None:
        self.changes.append(("deleted", obj.metadata.uid, obj.spec.node_name))


def watched(*pods: Pod) -> tuple[InMemoryCluster, Heard]:
    """A cluster with pods that nobody has heard of, and who hears of what comes."""
    cluster, heard = InMemoryCluster(), Heard()
    for pod in pods:
        cluster.put(PODS, pod)
    cluster.listeners[PODS].add_handler(heard)
    return cluster, heard


def test_an_object_of_another_uid_is_a_deletion_and_an_addition() -> None:
    cluster, heard = watched()
    cluster.put(PODS, make_pod("p", uid="1"), initial=True)
    cluster.put(PODS, make_pod("p", uid="1", node="n"))
    cluster.put(PODS, make_pod("p", uid="2"))
    cluster.remove(PODS, "default/p")
    cluster.remove(PODS, "default/p")
    assert heard.changes == [
        ("added", "1", "first list"), ("updated", "1", "n"), ("deleted", "1", "n"), ("added", "2", ""),
        ("deleted", "2", ""),
    ]  # fmt: skip


async def test_requests_about_a_pod_that_is_gone_change_nothing() -> None:
    """Also where another pod has its name by now."""
    gone = make_pod("p", uid="1")
    cluster, heard = watched(make_pod("p", uid="2"))
    assert (await cluster.bind(gone, "n")).fault is Fault.GONE
    assert not await cluster.evict_pod(gone, CONDITION)
    assert await cluster.patch_status(gone, CONDITION, "n") is gone
    assert heard.changes == []


async def test_a_status_that_is_there_already_is_not_shown_again() -> None:
    pod = make_pod("p")
    cluster, heard = watched(pod)
    patched = await cluster.patch_status(pod, CONDITION, "n")
    assert (patched.status.conditions, patched.status.nominated_node_name) == ((CONDITION,), "n")
    assert await cluster.patch_status(pod, CONDITION, None) is patched
    assert len(heard.changes) == 1


async def test_a_hook_refuses_delays_or_loses_the_answer() -> None:
    pod = make_pod("p")
    cluster, heard = watched(pod)
    opened = asyncio.Event()

    async def refuse(request: APIRequest, _: Pod) -> Status | None:
        return error("refused") if request is APIRequest.BIND else None

    async def delay(_: APIRequest, __: Pod) -> None:
        await opened.wait()

    async def lose(_: APIRequest, __: Pod) -> None:
        raise UnknownOutcomeError("lost")

    cluster.before = refuse
    assert (await cluster.bind(pod, "n")).message == "refused"
    cluster.before = delay
    binding = asyncio.ensure_future(cluster.bind(pod, "n"))
    await turns(3)
    assert heard.changes == []
    opened.set()
    assert (await binding).is_success
    cluster.after = lose
    with pytest.raises(UnknownOutcomeError):
        await cluster.evict_pod(pod, CONDITION)
    assert heard.changes == [("updated", "uid-of-p", "n"), ("deleted", "uid-of-p", "n")]


async def test_a_scheduler_over_its_ports_places_preempts_and_nominates() -> None:
    cluster, clock = InMemoryCluster(), VirtualClock()
    assembly = Assembly(default_configuration("kscheduler"), registry(), cluster.ports(), clock)
    assembly.listen_to(cluster.listeners)
    workers = workers_over(assembly, cluster)
    cluster.put(NODES, make_node("node", cpu="2"), initial=True)
    async with at_work(assembly, workers, assembly.evictions.run()):
        cluster.put(PODS, make_pod("low", requests={"cpu": "2"}))
        await turns(60)
        assert [pod.spec.node_name for pod in cluster.pods()] == ["node"]
        cluster.put(PODS, make_pod("high", requests={"cpu": "2"}, priority=100))
        await turns(60)
        (left,) = cluster.pods()
        assert (left.metadata.name, left.status.nominated_node_name) == ("high", "node")
        await clock.advance(10.0)
        await turns(60)
    (left,) = cluster.pods()
    assert left.spec.node_name == "node"
