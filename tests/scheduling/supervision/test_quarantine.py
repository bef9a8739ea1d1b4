"""A plugin that fails three times is quarantined by its policy, at any extension point, and no pod is lost."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import structlog

from kscheduler.api.core import Pod
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, Status, error
from tests.builders import make_pod
from tests.scheduling.runtime.hostile_plugin import VICTIM, hostile
from tests.scheduling.runtime.plugin_cluster import PluginCluster

METHODS = (
    *("pre_enqueue", "sort_key", "pre_filter", "filter", "status", "post_filter", "pre_score", "score", "normalize"),
    *("reserve", "unreserve", "permit", "pre_bind_pre_flight", "pre_bind", "bind", "post_bind", "sign"),
)
POLICIES = ("Fail", "Ignore", "Fallback")
PLACES = {"active", "backoff", "unschedulable", "gated", "bound"}


def victim(namespace: str, **requests: str) -> Pod:
    """A pod towards which a hostile plugin misbehaves."""
    return make_pod(VICTIM, namespace=namespace, metadata={"uid": f"{VICTIM}-{namespace}"}, requests=requests)


def place_of(cluster: PluginCluster, key: str) -> str:
    found = cluster.queue.find(key)
    places = ([found[0]] if found is not None else []) + (["bound"] if key in cluster.writer.bound else [])
    return " and ".join(places)


def lost(cluster: PluginCluster) -> list[str]:
    """Pods that are in no place, or in two."""
    return [key for key in cluster.store if place_of(cluster, key) not in PLACES]


def quarantined(cluster: PluginCluster) -> list[tuple[str, str]]:
    return [(found.profile, found.plugin) for found in cluster.assembly.quarantines()]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("method", METHODS)
async def test_after_the_third_strike_the_policy_decides_and_a_reload_lifts_it(method: str, policy: str) -> None:
    plugin = hostile(method, "raises")
    cluster = PluginCluster(plugin, sorts=method == "sort_key", settings={"onFailure": policy})
    asks_for = {"cpu": "100"} if method == "post_filter" else {"cpu": "100m"}
    with structlog.testing.capture_logs() as lines:
        cluster.add(*(victim(f"n{number}", **asks_for) for number in range(4)))
        async with cluster.running():
            for _ in range(6):
                await cluster.advance(31.0)
                assert lost(cluster) == []
            assert quarantined(cluster) == [("kscheduler", "Hostile")]
            cluster.add(make_pod("late"), make_pod("theirs", schedulerName="other"))
            cluster.workers.wake()
            await cluster.settle()
            assert lost(cluster) == []
            assert cluster.place_of("theirs") == "bound", "another profile goes on"
            if policy == "Fail":
                assert cluster.place_of("late") == "unschedulable"
                (condition,) = cluster.conditions_of("late")
                assert condition.reason == "SchedulerError"
                assert 'plugin "Hostile" of profile "kscheduler" is quarantined since ' in condition.message
                assert "ValueError: boom" in condition.message or "failed 3 times" in condition.message
                assert "SIGHUP" in condition.message
                found = cluster.queue.find("default/late")
                assert found is not None
                attempts = found[1].attempts
                await cluster.advance(700.0)
                assert found[1].attempts == attempts, "what cannot succeed must not disturb the others"
            else:
                assert cluster.place_of("late") == "bound"
            plugin.is_sound = True
            cluster.reload()
            await cluster.advance(61.0)
            assert quarantined(cluster) == []
            assert cluster.place_of("late") == "bound"
            assert lost(cluster) == []
    (line,) = [line for line in lines if line["event"] == "plugin_quarantined"]
    assert (line["plugin"], line["profile"], line["on_failure"]) == ("Hostile", "kscheduler", policy)
    assert (line["log_level"], line["strikes"]) == ("error", 3)
    if method != "status":  # its failures are reported after the cycle, too, with the pod
        assert any("is quarantined since" in note for note in cluster.recorded.notes)


def _full(value: Any, kind: Any = np.int64) -> Callable[..., Any]:
    return lambda rows: np.full(len(rows), value, dtype=kind)


def _loops(rows: Any) -> Any:
    end = time.perf_counter() + 20.0
    while time.perf_counter() < end:
        pass
    return np.zeros(len(rows), dtype=np.int64)


def _sleeps(rows: Any) -> Any:
    time.sleep(20.0)
    return np.zeros(len(rows), dtype=np.int64)


class Scores(Plugin):
    """Scores as it is told to."""

    name = "Hostile"

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer
        self.calls = 0

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        self.calls += 1
        return self._answer(rows)

    async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return SKIP


WRONG_POINTS = {
    "nan": (_full(np.nan, np.float64), "array of float64"),
    "shape": (lambda rows: np.zeros(len(rows) + 1, dtype=np.int64), "array of shape"),
    "out of range": (_full(101), "101 points"),
    "nothing": (lambda _rows: None, "answered None"),
    "loops": (_loops, "ended at its time budget of 20ms"),
    "sleeps": (_sleeps, "ended at its time budget of 20ms"),
}


@pytest.mark.parametrize("way", WRONG_POINTS)
async def test_wrong_points_and_endless_calls_are_strikes(way: str) -> None:
    answer, cause = WRONG_POINTS[way]
    plugin = Scores(answer)
    cluster = PluginCluster(plugin, settings={"timeBudget": "20ms", "onFailure": "Ignore"})
    cluster.add(*(make_pod(f"p{number}") for number in range(10)))
    async with cluster.running():
        await cluster.advance(5.0)
        assert len(cluster.writer.bound) == 10, "without the plugin"
        (found,) = cluster.assembly.quarantines()
        assert found.extension_point == "Score"
        assert cause in found.cause
        overruns = cluster.observations.plugin_overruns
        assert overruns == ({("Hostile", "Score"): 3} if way in {"loops", "sleeps"} else {})
        calls = plugin.calls
        cluster.add(make_pod("late"))
        cluster.workers.wake()
        await cluster.settle()
        assert plugin.calls == calls, "it is called no more"


class Refuses(Plugin):
    """Returns an Error: an answer, as kube-scheduler's plugins give it while something is away."""

    name = "Hostile"

    def reserve(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return error("the store of licenses does not answer")

    def unreserve(self, cycle: Any, pod: PodInfo, node_name: str) -> None:
        pass

    async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return SKIP


async def test_an_error_that_a_plugin_returns_is_no_strike() -> None:
    cluster = PluginCluster(Refuses(), settings={})
    cluster.add(make_pod("p"))
    async with cluster.running():
        for _ in range(10):
            await cluster.advance(31.0)
        assert quarantined(cluster) == []


async def test_two_strikes_are_forgotten_at_a_reload() -> None:
    plugin = hostile("filter", "raises")
    cluster = PluginCluster(plugin, settings={})
    cluster.add(victim("a"), victim("b"))
    async with cluster.running():
        await cluster.settle()
        supervisor = cluster.profiles["kscheduler"].supervisor
        assert supervisor is not None
        assert supervisor.strikes("Hostile") == 2
        cluster.reload()
        assert cluster.profiles["kscheduler"].supervisor is not supervisor
        assert quarantined(cluster) == []


async def test_a_strike_of_a_profile_that_was_replaced_quarantines_nothing() -> None:
    """An attempt under way keeps its profile: its failures are about plugins that nobody else has."""
    cluster = PluginCluster(hostile("filter", "raises"), settings={})
    supervisor = cluster.profiles["kscheduler"].supervisor
    assert supervisor is not None
    cluster.reload()
    for _ in range(3):
        supervisor.failed("Hostile", "Bind", None, ValueError("late"))
    assert cluster.assembly.draft_quarantines() is None
    assert quarantined(cluster) == []


async def test_a_profile_without_plugins_of_users_has_no_supervisor() -> None:
    """In-tree plugins pay nothing: they are called as they are."""
    cluster = PluginCluster(hostile("filter", "raises"))
    other = cluster.profiles["other"]
    assert other.supervisor is None
    assert all(type(plugin).__module__.startswith("kscheduler.plugins.") for plugin in other.instances)
