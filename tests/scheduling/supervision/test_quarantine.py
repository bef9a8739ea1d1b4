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
from kscheduler.scheduling.supervision.circuit_breaker import CircuitState
from tests.builders import make_pod
from tests.effort import sampled
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
    places = ([found[0]] if found is not None else []) + (["bound"] if key in cluster.bound else [])
    return " and ".join(places)


def lost(cluster: PluginCluster) -> list[str]:
    """Pods that are in no place, or in two."""
    return [pod.key for pod in cluster.pods() if place_of(cluster, pod.key) not in PLACES]


def quarantined(cluster: PluginCluster) -> list[tuple[str, str]]:
    return [(found.profile, found.plugin) for found in cluster.assembly.circuits.quarantines()]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("method", sampled(METHODS, 6, "from the first failure to the end of a quarantine"))
async def test_who_answers_nobody_is_quarantined_by_its_policy_and_heals_by_itself(method: str, policy: str) -> None:
    plugin = hostile(method, "raises", to_all=True)
    cluster = PluginCluster(plugin, sorts=method == "sort_key", settings={"onFailure": policy})
    asks_for = {"cpu": "100"} if method == "post_filter" else {"cpu": "100m"}
    with structlog.testing.capture_logs() as lines:
        async with cluster.at_work():
            cluster.add(*(victim(f"n{number}", **asks_for) for number in range(4)))
            cluster.workers.wake()
            await cluster.settle()
            for _ in range(5):
                if not quarantined(cluster):
                    await cluster.advance(31.0)
            assert lost(cluster) == []
            assert quarantined(cluster) == [("kscheduler", "Hostile")]
            (found,) = cluster.assembly.circuits.quarantines()
            assert found.state is CircuitState.OPEN
            cluster.add(make_pod("theirs", schedulerName="other"), victim("n0-too", **asks_for))
            cluster.workers.wake()
            await cluster.settle()
            assert lost(cluster) == []
            assert cluster.place_of("theirs") == "bound", "another profile goes on"
            calls = plugin.calls
            for _ in range(20):
                await cluster.advance(31.0)
            assert quarantined(cluster) == [("kscheduler", "Hostile")]
            assert plugin.calls - calls < 60, "tried again, ever more seldom"
            assert lost(cluster) == []
            if method not in {"sign", "status"}:
                _is_dealt_with(cluster, method, policy)
            plugin.is_sound = True
            for _ in range(12):
                await cluster.advance(31.0)
                cluster.add(make_pod(f"late-{_}"))
                cluster.workers.wake()
                await cluster.settle()
            assert quarantined(cluster) == []
            assert cluster.place_of("late-1") == "bound"
            assert lost(cluster) == []
    opened = [line for line in lines if line["event"] == "plugin_quarantined"]
    assert {(line["plugin"], line["profile"], line["on_failure"]) for line in opened} == {
        ("Hostile", "kscheduler", policy)
    }
    assert {line["log_level"] for line in opened} == {"error"}
    assert [line["event"] for line in lines if line["event"].startswith("plugin_answers_again")]
    changes = cluster.observations.plugin_circuit_changes
    assert changes["Hostile", "kscheduler", "closed"] == 1
    assert changes["Hostile", "kscheduler", "open"] == changes["Hostile", "kscheduler", "half-open"] >= 1


def _is_dealt_with(cluster: PluginCluster, method: str, policy: str) -> None:
    if policy != "Fail" or method in {"post_filter", "unreserve"}:
        return
    key = f"n0-too/{VICTIM}"
    if key in cluster.bound:
        return  # a score or a PostBind, before it was quarantined
    (condition, *_) = [condition for of, condition, _ in reversed(cluster.reported.reports) if of == key]
    assert condition.reason == "SchedulerError"
    assert 'plugin "Hostile"' in condition.message


async def test_a_pod_of_a_namespace_that_has_not_failed_ends_a_quarantine_at_once() -> None:
    """Two namespaces alone cannot stop a third one."""
    cluster = PluginCluster(hostile("filter", "raises"), settings={"onFailure": "Fail"})
    with structlog.testing.capture_logs():
        cluster.add(*(victim(f"n{number}") for number in range(4)))
        async with cluster.at_work():
            assert quarantined(cluster) == [("kscheduler", "Hostile")]
            cluster.add(make_pod("late"))
            cluster.workers.wake()
            await cluster.settle()
            await cluster.advance(1.5)
            assert cluster.place_of("late") == "bound"
            assert quarantined(cluster) == []


async def test_pods_of_one_namespace_quarantine_nothing() -> None:
    cluster = PluginCluster(hostile("filter", "raises", to_all=True), settings={"onFailure": "Fail"})
    with structlog.testing.capture_logs():
        cluster.add(*(make_pod(f"p{number}") for number in range(100)))
        async with cluster.at_work():
            for _ in range(60):
                await cluster.advance(10.0)
            assert quarantined(cluster) == []


async def test_a_reload_lifts_a_quarantine_at_once() -> None:
    plugin = hostile("filter", "raises", to_all=True)
    cluster = PluginCluster(plugin, settings={})
    with structlog.testing.capture_logs():
        cluster.add(*(victim(f"n{number}") for number in range(4)))
        async with cluster.at_work():
            assert quarantined(cluster) == [("kscheduler", "Hostile")]
            plugin.is_sound = True
            cluster.reload()
            assert quarantined(cluster) == []
            await cluster.advance(2.0)
            assert len(cluster.bound) == 4


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
        self._result = answer
        self.calls = 0

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        self.calls += 1
        return self._result(rows)

    async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return SKIP


WRONG_POINTS = {
    "nan": (_full(np.nan, np.float64), "array of float64"),
    "shape": (lambda rows: np.zeros(len(rows) + 1, dtype=np.int64), "array of shape"),
    "out of range": (_full(101), "101 points"),
    "nothing": (lambda _rows: None, "returned None"),
    "loops": (_loops, "ended at its time budget of 100ms"),
    "sleeps": (_sleeps, "ended at its time budget of 100ms"),
}


@pytest.mark.parametrize("way", WRONG_POINTS)
async def test_wrong_points_and_endless_calls_are_failures(way: str) -> None:
    answer, cause = WRONG_POINTS[way]
    plugin = Scores(answer)
    cluster = PluginCluster(plugin, settings={"timeBudget": "100ms", "onFailure": "Ignore"})
    cluster.add(*(make_pod("p", namespace=f"n{number}", uid=f"u{number}") for number in range(10)))
    async with cluster.at_work():
        await cluster.advance(5.0)
        assert len(cluster.bound) == 10, "without the plugin"
        (found,) = cluster.assembly.circuits.quarantines()
        assert found.extension_point == "Score"
        assert cause in found.cause
        overruns = cluster.observations.plugin_overruns
        assert overruns == ({("Hostile", "Score"): 3} if way in {"loops", "sleeps"} else {})
        calls = plugin.calls
        cluster.add(make_pod("late"))
        cluster.workers.wake()
        await cluster.settle()
        assert plugin.calls == calls, "it is no longer called"


class Refuses(Plugin):
    """Returns an Error: an answer, as kube-scheduler's plugins give it while something is away."""

    name = "Hostile"

    def reserve(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return error("the store of licenses does not answer")

    def unreserve(self, cycle: Any, pod: PodInfo, node_name: str) -> None:
        pass

    async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return SKIP


async def test_an_error_that_a_plugin_returns_is_no_failure() -> None:
    cluster = PluginCluster(Refuses(), settings={})
    cluster.add(make_pod("p"))
    async with cluster.at_work():
        for _ in range(10):
            await cluster.advance(31.0)
        assert quarantined(cluster) == []


async def test_two_strikes_are_forgotten_at_a_reload() -> None:
    plugin = hostile("filter", "raises")
    cluster = PluginCluster(plugin, settings={})
    cluster.add(victim("a"), victim("b"))
    async with cluster.at_work():
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
        supervisor.failed("Hostile", "Bind", PodInfo(victim(f"n{_}")), ValueError("late"))
    assert cluster.assembly.draft_quarantines() is None
    assert quarantined(cluster) == []


async def test_a_profile_without_plugins_of_users_has_no_supervisor() -> None:
    """In-tree plugins pay nothing: they are called as they are."""
    cluster = PluginCluster(hostile("filter", "raises"))
    other = cluster.profiles["other"]
    assert other.supervisor is None
    assert all(type(plugin).__module__.startswith("kscheduler.plugins.") for plugin in other.instances)


async def test_a_trial_moves_one_pod_of_each_namespace_and_the_others_stay_parked() -> None:
    """A hundred thousand pods behind a broken plugin must not be tried, and told, each time that it is."""
    plugin = hostile("filter", "raises", to_all=True)
    cluster = PluginCluster(plugin, settings={"onFailure": "Fail"})
    pods = [make_pod(f"p{number}", namespace=f"n{number % 4}", uid=f"u{number}") for number in range(200)]
    with structlog.testing.capture_logs():
        cluster.add(*pods)
        async with cluster.at_work():
            await cluster.advance(2.0)
            attempts = _attempts(cluster)
            for _ in range(8):  # 10, 20, 40, 80 s
                await cluster.advance(20.0)
            assert lost(cluster) == []
            trials = cluster.observations.plugin_circuit_changes["Hostile", "kscheduler", "half-open"]
            assert trials >= 3
            assert _attempts(cluster) - attempts <= 12 * trials
            plugin.is_sound = True
            for _ in range(20):
                await cluster.advance(31.0)
            assert len(cluster.bound) == 200


def _attempts(cluster: PluginCluster) -> int:
    found = [cluster.queue.find(pod.key) for pod in cluster.pods()]
    return sum(each[1].attempts for each in found if each is not None)


async def test_a_quarantine_is_reported_once_and_says_when_it_is_tried() -> None:
    """Each failed trial was another `plugin_quarantined` and Event; new pods made the time that was told untrue."""
    plugin = hostile("filter", "raises", to_all=True)
    cluster = PluginCluster(plugin, settings={"onFailure": "Fail"})
    with structlog.testing.capture_logs() as lines:
        cluster.add(*(victim(f"n{number}") for number in range(4)))
        async with cluster.at_work():
            for number in range(30):  # a pod of a new namespace brings the next trial forward
                cluster.add(victim(f"late{number}"))
                cluster.workers.wake()
                await cluster.settle()
                (found,) = cluster.assembly.circuits.quarantines()
                if found.state is CircuitState.OPEN:
                    assert found.brought_forward_by.endswith(f"/{VICTIM}")
                    assert found.tried_again_at == pytest.approx(cluster.clock.time() + _seconds_to_trial(cluster))
                await cluster.advance(5.0)
            assert found.failed_trials >= 10
            plugin.is_sound = True
            for _ in range(12):
                await cluster.advance(31.0)
            assert quarantined(cluster) == []
    reported = [note.split(":")[0] for note in cluster.recorded.notes if " Plugin" in note.split(":")[0]]
    assert reported == ["Warning PluginQuarantined", "Warning PluginTriedAgain", "Normal PluginAnswersAgain"]
    (opened,) = [line for line in lines if line["event"] == "plugin_quarantined"]
    assert opened["tried_again_by"] >= "1970"
    tried = [line for line in lines if line["event"] == "plugin_tried_again"]
    failed = [line for line in lines if line["event"] == "plugin_trial_failed"]
    assert 1 <= len(failed) <= len(tried) <= 12, "a line a minute"
    assert all(line["pod"].endswith(f"/{VICTIM}") for line in tried if "a pod came" in line["because"])
    assert tried[0]["pod"]
    assert all(line["pod"].endswith(f"/{VICTIM}") and "boom" in line["err"] for line in failed)
    (closed,) = [line for line in lines if line["event"] == "plugin_answers_again"]
    assert closed["failed_trials"] >= found.failed_trials > len(failed)


def _seconds_to_trial(cluster: PluginCluster) -> float:
    supervisor = cluster.profiles["kscheduler"].supervisor
    assert supervisor is not None
    return supervisor.circuits["Hostile"].seconds_to_trial()
