"""Listers for plugins: of watched kinds a view of their store, of other kinds an informer that lives as they do."""

import asyncio
import gc
import math
from typing import Any

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.api.meta import CustomObject
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import WatchEvent
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.cluster.lister import KeptListers, nothing_listed
from kscheduler.framework.events import ActionType, ClusterEvent
from kscheduler.informers.factory import InformerFactory
from kscheduler.informers.plugin_listers import LOOK_SECONDS, PluginListers
from tests.builders import make_node

# A kind that the scheduler does not watch, and the embedded API server has.
JOBS = Kind("batch", "v1", "jobs", "Job", CustomObject, namespaced=True)
# One that no server has.
WIDGETS = Kind("example.com", "v1", "widgets", "Widget", CustomObject, namespaced=True)


class Listening:
    """A plugin that listens."""

    def __init__(self, lister: Any) -> None:
        self.lister = lister
        self.heard: list[tuple[str, str]] = []
        lister.on_change(self.changed)

    def changed(self, old: Any, new: Any) -> None:
        self.heard.append((old.metadata.name if old else "", new.metadata.name if new else ""))


def job(server: EmbeddedAPIServer, name: str, parallelism: int = 1) -> None:
    tree = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default", "uid": name}}
    server.store.put("jobs.batch", {**tree, "spec": {"parallelism": parallelism}})


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  a store tells nobody
            await asyncio.sleep(0.002)


def test_of_a_watched_kind_it_is_a_view_of_the_store_and_dies_with_its_plugin() -> None:
    clock = VirtualClock()
    client = APIClient(plain_connection("http://127.0.0.1:1"), clock=clock)
    watched = InformerFactory(client, [NODES], clock=clock)
    listers = PluginListers(client, watched, clock)
    events: list[ClusterEvent] = []
    listers.on_event = lambda event, *_: events.append(event)
    first, second = Listening(listers.lister(NODES)), Listening(listers.lister(NODES))
    watched[NODES].apply(WatchEvent("ADDED", make_node("a")))
    assert first.heard == second.heard == [("", "a")]
    assert first.lister.get("a") is not None
    assert [node.metadata.name for node in first.lister.list()] == ["a"]
    assert not first.lister.has_synced
    late = Listening(listers.lister(NODES))
    assert late.heard == [("", "a")]

    heard = second.heard
    del second
    gc.collect()
    watched[NODES]._delete("a")
    assert first.heard == late.heard == [("", "a"), ("a", "")]
    assert heard == [("", "a")]
    assert not events, "the scheduler's own handlers wake pods"
    with pytest.raises(KeyError):
        listers.lister(PODS)


async def test_of_its_own_kind_an_informer_begins_and_ends_with_the_last_lister() -> None:
    clock = VirtualClock()
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        job(server, "one", 3)
        listers = PluginListers(client, InformerFactory(client, []), clock)
        plugin = Listening(listers.lister(JOBS))
        events: list[str] = []
        heard = plugin.heard
        listers.on_event = lambda event, _old, _new: events.append(f"{event.label} {heard[-1][1]}")
        assert listers.unsynced() == ("jobs.batch: listing",)
        running = asyncio.create_task(listers.run())
        assert await listers.wait_for_sync(math.inf) == ()
        assert plugin.lister.get("default/one").spec == {"parallelism": 3}

        job(server, "two")
        await until(lambda: len(heard) == 2)
        assert plugin.heard == [("", "one"), ("", "two")]
        assert events == ["jobs.v1.batchAdd one", "jobs.v1.batchAdd two"], "the plugin hears of it first"
        other = Listening(listers.lister(Kind("batch", "v1", "jobs", "Job", CustomObject, namespaced=True)))
        assert other.heard == [("", "one"), ("", "two")], "an equal kind has the same informer"
        assert len(list(listers.statistics())) == 1

        del plugin, other
        listers.on_event = lambda *_: None
        gc.collect()
        await clock.advance(LOOK_SECONDS)
        assert not list(listers.statistics())
        await until(lambda: not client.statistics().watches)
        running.cancel()
        await asyncio.wait({running})


def test_who_asks_again_each_time_gets_the_lister_that_is_filled() -> None:
    """A plugin need not keep it: its Handle does."""
    clock = VirtualClock()
    client = APIClient(plain_connection("http://127.0.0.1:1"), clock=clock)
    listers = PluginListers(client, InformerFactory(client, [], clock=clock), clock)
    give = KeptListers(listers.lister)
    assert give(JOBS) is give(JOBS)
    gc.collect()
    listers.look()
    assert len(list(listers.statistics())) == 1
    del give
    gc.collect()
    listers.look()
    assert not list(listers.statistics())


async def test_a_call_that_fails_keeps_nobody_from_hearing() -> None:
    clock = VirtualClock()
    client = APIClient(plain_connection("http://127.0.0.1:1"), clock=clock)
    watched = InformerFactory(client, [NODES], clock=clock)
    listers = PluginListers(client, watched, clock)

    class Failing(Listening):
        def changed(self, old: Any, new: Any) -> None:
            raise KeyError("a bug")

    failing, good = Failing(listers.lister(NODES)), Listening(listers.lister(NODES))
    with structlog.testing.capture_logs() as lines:
        watched[NODES].apply(WatchEvent("ADDED", make_node("a")))
    assert good.heard == [("", "a")]
    assert not failing.heard
    assert [(line["event"], line["object"], line["call"].rpartition(".")[2]) for line in lines] == [
        ("lister_call_failed", "a", "changed")
    ]


async def test_a_kind_that_the_server_does_not_have_keeps_nobody_waiting() -> None:
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        listers = PluginListers(client, InformerFactory(client, []), VirtualClock())
        lister = listers.lister(WIDGETS)
        running = asyncio.create_task(listers.run())
        await until(lambda: lister.has_synced)
        assert lister.list() == []
        running.cancel()
        await asyncio.wait({running})


def test_what_is_no_method_is_refused() -> None:
    """A closure over the plugin would keep it, and be called, long after a reload has replaced it."""
    client = APIClient(plain_connection("http://127.0.0.1:1"), clock=VirtualClock())
    lister = PluginListers(client, InformerFactory(client, [NODES]), VirtualClock()).lister(NODES)
    with pytest.raises(TypeError, match="give a method of the plugin"):
        lister.on_change(lambda _old, _new: None)


def test_what_is_no_kind_is_refused() -> None:
    of_dicts: Any = dict
    for wrong in ("nodes", CustomObject, Kind("a.b", "v1", "as", "A", of_dicts)):
        with pytest.raises(TypeError):
            nothing_listed(wrong)  # type: ignore[arg-type]
    assert nothing_listed(WIDGETS).list() == []


def test_events_of_own_kinds_match_by_their_name() -> None:
    registered = ClusterEvent(WIDGETS.event_resource, ActionType.ADD | ActionType.DELETE)
    assert registered.matches(ClusterEvent("widgets.v1.example.com", ActionType.ADD))
    assert not registered.matches(ClusterEvent("widgets.v1.example.com", ActionType.UPDATE))
    assert not registered.matches(ClusterEvent("gadgets.v1.example.com", ActionType.ADD))
    assert registered.label == "widgets.v1.example.comAdd|Delete"
    with pytest.raises(ValueError, match="'nodes' is no resource"):
        ClusterEvent("nodes", ActionType.ADD)
