"""Whatever a plugin does at any extension point: the service stays up, no pod is lost, and the plugin is named."""

import asyncio
from typing import Any

import pytest
import structlog

from kscheduler.framework.events import NODE_ADD, ClusterEventWithHint
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unschedulable
from tests.builders import make_node, make_pod
from tests.scheduling.runtime.hostile_plugin import VICTIM, WAYS, hostile
from tests.scheduling.runtime.plugin_cluster import PluginCluster

BACKOFF, GATED, BOUND, PARKED = "backoff", "gated", "bound", "unschedulable"

POINTS = {
    # method: (extension point as users read it, where the victim is afterwards)
    "pre_enqueue": ("PreEnqueue", GATED),
    "sort_key": ("QueueSort", BOUND),
    "pre_filter": ("PreFilter", BACKOFF),
    "filter": ("filter", BACKOFF),
    "status": ("cannot tell what its code 1 means", PARKED),
    "post_filter": ("PostFilter", PARKED),
    "pre_score": ("PreScore", BOUND),
    "score": ("Score", BOUND),
    "normalize": ("Normalize", BOUND),
    "reserve": ("Reserve", BACKOFF),
    "unreserve": ("Unreserve", PARKED),
    "permit": ("Permit", BACKOFF),
    "pre_bind_pre_flight": ("PreBindPreFlight", BACKOFF),
    "pre_bind": ("PreBind", BACKOFF),
    "bind": ("Bind", BACKOFF),
    "post_bind": ("PostBind", BOUND),
}
# Who gives no points costs the pod nothing, and only the log tells.
PLACED_BY_THE_OTHERS = {"pre_score", "score", "normalize"}
RIGHT_ANSWERS = {
    ("filter", "none"),  # nothing against any node
    *((method, way) for method in ("unreserve", "post_bind") for way in ("none", "garbage", "true")),  # nobody looks
    ("sort_key", "true"),  # compares like any number
}
CASES = [(method, way) for method in POINTS for way in WAYS if (method, way) not in RIGHT_ANSWERS]


@pytest.mark.parametrize(("method", "way"), CASES, ids=["-".join(case) for case in CASES])
async def test_a_plugin_that_misbehaves_costs_its_pod_an_attempt_and_nobody_anything_else(
    method: str, way: str
) -> None:
    point, place = POINTS[method]
    plugin = hostile(method, way)
    cluster = PluginCluster(plugin, sorts=method == "sort_key")
    asks_for = {"cpu": "100"} if method == "post_filter" else {"cpu": "100m"}
    with structlog.testing.capture_logs() as lines:
        cluster.add(make_pod("before"), make_pod(VICTIM, requests=asks_for), make_pod("after"))
        async with cluster.at_work():
            assert cluster.place_of("before") == cluster.place_of("after") == "bound"
            assert cluster.place_of(VICTIM) == place
            reported = [*cluster.reported.notes, *cluster.recorded.notes]
            if method not in PLACED_BY_THE_OTHERS:
                assert any("Hostile" in text and point in text for text in reported), reported
            (line,) = [one for one in lines if one["event"] == "plugin_failed"]
            assert (line["plugin"], line["pod"], line["log_level"]) == ("Hostile", "default/victim", "error")
            assert line["exc_info"] is not None
            label = line["extension_point"]
            assert cluster.observations.plugin_failures["Hostile", label] >= 1
            assert cluster.cache.statistics().assumed_pods == len(cluster.bound), "room is kept for nobody"
            plugin.is_sound = True
            await cluster.advance(61.0)
            if method not in {"post_filter", "status", "unreserve"}:  # there it was rejected by right
                assert cluster.place_of(VICTIM) == "bound"


UNLIKE_ERRORS = ["is cancelled", "exits", "interrupts", "closes"]


@pytest.mark.parametrize("way", ["raises", *UNLIKE_ERRORS])
async def test_a_signature_that_fails_leaves_the_pod_to_be_judged_by_itself(way: str) -> None:
    cluster = PluginCluster(hostile("sign", way))
    with structlog.testing.capture_logs() as lines:
        cluster.add(make_pod(VICTIM), make_pod("other"))
        async with cluster.at_work():
            assert cluster.place_of(VICTIM) == cluster.place_of("other") == "bound"
    assert [(one["plugin"], one["extension_point"]) for one in lines if one["event"] == "plugin_failed"] == [
        ("Hostile", "Sign")
    ]


class _Hinting(Plugin):
    """Rejects everybody until there is a node of this name, and answers as it likes whether that may help."""

    name = "Hostile"

    def __init__(self, way: str) -> None:
        self._way = WAYS[way]

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(NODE_ADD, lambda *_: self._way())]

    def pre_filter(self, cycle: Any, pod: PodInfo, nodes: Any) -> Any:
        from kscheduler.framework.plugin import PreFilterResult

        return PreFilterResult(SUCCESS if nodes.row_of("wanted") >= 0 else unschedulable("no wanted node"))

    async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return Status(Status().code.SKIP)


@pytest.mark.parametrize("way", list(WAYS))
async def test_a_hint_that_is_none_queues_the_pod(way: str) -> None:
    cluster = PluginCluster(_Hinting(way))
    with structlog.testing.capture_logs() as lines:
        cluster.add(make_pod(VICTIM))
        async with cluster.at_work():
            assert cluster.place_of(VICTIM) == PARKED
            node = make_node("wanted")
            cluster.cache.add_node(node)
            cluster.queue.move_all(NODE_ADD, None, node, cluster.clock.time())
            await cluster.advance(3.0)
            assert cluster.place_of(VICTIM) == BOUND
    assert {one["extension_point"] for one in lines if one["event"] == "plugin_failed"} == {"QueueingHint"}


async def test_a_bind_whose_future_was_cancelled_gives_the_room_back() -> None:
    """As it happens in practice: a connection pool cancels what it was asked for."""

    class Awaits(Plugin):
        name = "Hostile"

        async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
            queried: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(queried.cancel)
            return await queried

    cluster = PluginCluster(Awaits())
    with structlog.testing.capture_logs() as lines:
        cluster.add(*(make_pod(f"pod-{number}") for number in range(10)))
        async with cluster.at_work():
            assert cluster.queue.statistics().backoff == 10
            assert cluster.cache.statistics().pods == 0
    assert cluster.observations.plugin_failures["Hostile", "Bind"] == 10
    assert [one["extension_point"] for one in lines if one["event"] == "plugin_failed"] == ["Bind"]


async def test_a_plugin_that_cancels_the_task_it_runs_in_ends_no_worker() -> None:
    class Cancels(Plugin):
        name = "Hostile"

        async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
            if pod.name.startswith(VICTIM):
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            return Status(Status().code.SKIP)

        def pre_filter(self, cycle: Any, pod: PodInfo, nodes: Any) -> Any:
            from kscheduler.framework.plugin import PreFilterResult

            task = asyncio.current_task()
            if pod.name.startswith("early") and task is not None:
                task.cancel()
            return PreFilterResult(SUCCESS)

    cluster = PluginCluster(Cancels())
    with structlog.testing.capture_logs():
        pods = [make_pod(f"{kind}-{number}") for number in range(6) for kind in (VICTIM, "early", "good")]
        cluster.add(*pods)
        async with cluster.at_work():
            await cluster.settle()
            assert [cluster.place_of(f"good-{number}") for number in range(6)] == [BOUND] * 6
            places = [cluster.place_of(pod.metadata.name) for pod in pods]
            assert set(places) == {BOUND, BACKOFF}, "nobody is lost"
            assert cluster.cache.statistics().assumed_pods == len(cluster.bound)


@pytest.mark.parametrize("way", ["raises", *UNLIKE_ERRORS])
async def test_a_pre_enqueue_that_fails_is_not_queried_at_each_event(way: str) -> None:
    """It registered nothing, so every event is for it; who failed is asked again within 30 s, as the pod is told."""
    plugin = hostile("pre_enqueue", way)
    cluster = PluginCluster(plugin)
    with structlog.testing.capture_logs():
        cluster.add(make_pod(VICTIM))
        async with cluster.at_work():
            for number in range(60):
                node = make_node(f"more-{number}")
                cluster.cache.add_node(node)
                cluster.queue.move_all(NODE_ADD, None, node, cluster.clock.time())
                await cluster.advance(1.0)
            assert cluster.place_of(VICTIM) == GATED
            assert cluster.observations.plugin_failures["Hostile", "PreEnqueue"] <= 3
            plugin.is_sound = True
            await cluster.advance(31.0)
            assert cluster.place_of(VICTIM) == BOUND


async def test_the_own_update_of_a_pod_whose_pre_enqueue_failed_is_a_reason_to_ask() -> None:
    plugin = hostile("pre_enqueue", "raises")
    cluster = PluginCluster(plugin)
    with structlog.testing.capture_logs():
        before = make_pod(VICTIM)
        cluster.add(before)
        async with cluster.at_work():
            plugin.is_sound = True
            after = make_pod(VICTIM, uid=before.metadata.uid, labels={"mended": "yes"})
            cluster.add(after)
            await cluster.advance(2.0)
            assert cluster.place_of(VICTIM) == BOUND


async def test_a_thousand_equal_failures_are_one_line_and_a_count() -> None:
    plugin = hostile("score", "raises")
    cluster = PluginCluster(plugin)
    victims = [make_pod(VICTIM, namespace=f"ns-{number}", uid=f"uid-{number}") for number in range(50)]
    with structlog.testing.capture_logs() as lines:
        cluster.add(*victims)
        async with cluster.at_work():
            reported = [one for one in lines if one["event"] == "plugin_failed"]
            assert len(reported) == 1
            assert cluster.observations.plugin_failures["Hostile", "Score"] == 50
            assert len(cluster.bound) == 50
            await cluster.advance(61.0)
            cluster.add(make_pod(VICTIM, namespace="late", uid="late"))
            cluster.workers.wake()
            await cluster.settle()
    reported = [one for one in lines if one["event"] == "plugin_failed"]
    assert len(reported) == 2
    assert reported[1]["times_since"] == 49


async def test_the_traceback_shows_the_user_s_line() -> None:
    cluster = PluginCluster(hostile("reserve", "raises"))
    with structlog.testing.capture_logs() as lines:
        cluster.add(make_pod(VICTIM))
        async with cluster.at_work():
            pass
    (line,) = [one for one in lines if one["event"] == "plugin_failed"]
    trace = line["exc_info"].__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_name == "_raises"


async def test_workers_do_not_spin_on_a_queue_that_fails() -> None:
    cluster = PluginCluster(hostile("pre_enqueue", "none"))
    pops = 0

    def pop_next(now: float) -> None:
        nonlocal pops
        pops += 1
        raise RuntimeError("no pod today")

    cluster.queue.pop_next = pop_next  # type: ignore[method-assign]
    cluster.queue.has_ready = lambda: True  # type: ignore[method-assign]
    with structlog.testing.capture_logs():
        async with cluster.at_work():
            await cluster.settle()
            assert pops <= 4
            await cluster.advance(10.0)
            assert pops <= 4 * 11
