"""One pod for which a user's plugin raises, answers nonsense or does not end: nobody but that pod notices.

The table has every call of a plugin that is made for pods, in the service's own parts, with the plugin supervised as
by default. What is about groups, data and the start is tested where these are (`ELSEWHERE`).
"""

import time
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from kscheduler.api.core import Pod
from kscheduler.framework.events import NODE_ADD, ClusterEventWithHint
from kscheduler.framework.plugin import Plugin, PreFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Status, unschedulable
from kscheduler.scheduling.supervision.supervised import HINT, LABELS
from tests.builders import make_node, make_pod
from tests.scheduling.runtime.hostile_plugin import VICTIM, WAYS, Hostile, hostile
from tests.scheduling.runtime.plugin_cluster import PluginCluster

# On a busy machine a sound call may take as long: then it fails once, and is made again a second later.
BUDGET: Final = "30ms"
NAMESPACES: Final = ("a", "b", "c")
BOUND, FAILS, GATED, RIGHTLY_REJECTED = "bound", "fails", "gated", "rejected by right"
FATE_OF_THE_VICTIM: Final = {
    "pre_enqueue": GATED,
    "sort_key": BOUND,
    "pre_filter": FAILS,
    "filter": FAILS,
    "status": RIGHTLY_REJECTED,
    "post_filter": RIGHTLY_REJECTED,
    "pre_score": BOUND,
    "score": BOUND,
    "normalize": BOUND,
    "reserve": FAILS,
    "unreserve": RIGHTLY_REJECTED,
    "permit": FAILS,
    "pre_bind_pre_flight": FAILS,
    "pre_bind": FAILS,
    "bind": FAILS,
    "post_bind": BOUND,
    "sign": BOUND,
    "add_pod": RIGHTLY_REJECTED,
    "move_pods": RIGHTLY_REJECTED,
    "remove_pod": RIGHTLY_REJECTED,
    "may_let_in": RIGHTLY_REJECTED,
    "gating_objects": RIGHTLY_REJECTED,
    "changed_gating_objects": RIGHTLY_REJECTED,
}
ELSEWHERE: Final = {
    "details": "tests/scheduling/runtime/test_plugin_runtime.py",
    "refresh": "tests/scheduling/background/test_refreshed_plugins.py",
    "placement_feasible": "tests/scheduling/groups/test_hostile_groups.py",
    "generate_placements": "tests/scheduling/groups/test_hostile_groups.py",
    "score_placements": "tests/scheduling/groups/test_hostile_groups.py",
    "pod_group_post_filter": "tests/scheduling/groups/test_hostile_groups.py",
}
# Calls about a pod that is on a node, or expected there, while another one is decided.
EXPECTED_SOMEWHERE: Final = frozenset({"add_pod", "move_pods", "remove_pod"})
# Any answer will do.
NOBODY_LOOKS: Final = frozenset({("unreserve", "garbage"), ("post_bind", "garbage"), ("sign", "garbage")})


def _does_not_end() -> Any:
    end = time.perf_counter() + 5.0
    while time.perf_counter() < end:
        pass


WAYS_HERE: Final = {"raises": WAYS["raises"], "garbage": WAYS["garbage"], "does-not-end": _does_not_end}
CASES: Final = [
    (method, way)
    for method in FATE_OF_THE_VICTIM.keys() - EXPECTED_SOMEWHERE
    for way in WAYS_HERE
    if (method, way) not in NOBODY_LOOKS
]


def test_no_call_of_a_plugin_is_left_out() -> None:
    assert FATE_OF_THE_VICTIM.keys() | ELSEWHERE.keys() == LABELS.keys()
    for path in ELSEWHERE.values():
        assert (Path(__file__).parents[3] / path).exists()


def hostile_plugin(method: str, way: str) -> Hostile:
    plugin = hostile(method, "raises")
    plugin._way = WAYS_HERE[way]
    return plugin


def cluster_with(plugin: Plugin, **more: Any) -> PluginCluster:
    return PluginCluster(plugin, settings={"onFailure": "Fail", "timeBudget": BUDGET}, **more)


def sound(number: int, **fields: Any) -> Pod:
    namespace = NAMESPACES[number % len(NAMESPACES)]
    return make_pod(f"sound-{number}", namespace=namespace, uid=f"sound-{number}", requests={"cpu": "10m"}, **fields)


def victim(method: str = "") -> Pod:
    cpu = "100" if method == "post_filter" else "10m"
    return make_pod(VICTIM, namespace="evil", uid=VICTIM, requests={"cpu": cpu})


def is_bound(cluster: PluginCluster, *pods: Pod) -> bool:
    return all(pod.key in cluster.bound for pod in pods)


def reported(cluster: PluginCluster, pod: Pod) -> str:
    """What the pod's condition says last."""
    return next((one.message for key, one, _ in reversed(cluster.reported.reports) if key == pod.key), "")


@pytest.mark.parametrize(("method", "way"), sorted(CASES))
async def test_a_pod_that_makes_a_plugin_fail_is_the_only_one_to_suffer(method: str, way: str) -> None:
    plugin, pod = hostile_plugin(method, way), victim(method)
    cluster = cluster_with(plugin, sorts=method == "sort_key")
    before, after = [sound(number) for number in range(3)], [sound(number) for number in range(3, 6)]
    fate = FATE_OF_THE_VICTIM[method]
    with structlog.testing.capture_logs() as lines:
        cluster.add(*before, pod, *after)
        async with cluster.at_work():
            cluster.queue.move_all(NODE_ADD, None, make_node("node-0"), cluster.clock.time())
            await cluster.settle()
            if way == "does-not-end":
                await cluster.advance(3.0)
            assert is_bound(cluster, *before, *after), "pods of other namespaces, in the same moment"
            assert is_bound(cluster, pod) is (fate == BOUND)
            await cluster.advance(31.0)
            late = sound(6)
            cluster.add(late)
            cluster.workers.wake()
            await cluster.advance(3.0)
            assert is_bound(cluster, late)
            assert cluster.assembly.circuits.quarantines() == [], "one namespace stops nothing"
            failed = [line for line in lines if line["event"] == "plugin_failed"]
            points = {line["extension_point"] for line in failed if line["plugin"] == "Hostile"}
            assert LABELS[method] in points if way == "does-not-end" else points == {LABELS[method]}
            assert cluster.observations.plugin_failures["Hostile", LABELS[method]] >= 1
            _is_reported(cluster, pod, way, fate)
            plugin.is_sound = True
            for _ in range(12):
                if not is_bound(cluster, pod) and fate != RIGHTLY_REJECTED:
                    await cluster.advance(31.0)
            assert is_bound(cluster, pod) is (fate in {BOUND, FAILS, GATED}), "no restart, and no change of the pod"


def _is_reported(cluster: PluginCluster, pod: Pod, way: str, fate: str) -> None:
    """Plugin and line, in the condition of who is failed, or in the Event of who is gated."""
    if fate not in {FAILS, GATED}:
        return
    texts = [reported(cluster, pod)] if fate == FAILS else [*cluster.reported.notes, *cluster.recorded.notes]
    assert any('"Hostile"' in text or "plugin Hostile" in text for text in texts), texts
    if way == "raises":
        assert any("boom" in text and "mine.py:2" in text for text in texts), texts
    elif way == "does-not-end":
        assert any("its time budget" in text for text in texts), texts


class _Hinting(Plugin):
    """Rejects everybody, and its hint misbehaves when it is asked about the victim."""

    name = "Hostile"

    def __init__(self, way: str) -> None:
        self._way = WAYS_HERE[way]
        self.is_sound = False

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(NODE_ADD, self._hint)]

    def _hint(self, pod: PodInfo, _old: Any, _new: Any) -> Any:
        from kscheduler.framework.events import QueueingHint

        return self._way() if pod.name == VICTIM and not self.is_sound else QueueingHint.QUEUE

    def pre_filter(self, cycle: Any, pod: PodInfo, nodes: Any) -> PreFilterResult:
        return PreFilterResult(SUCCESS if nodes.row_of("wanted") >= 0 else unschedulable("no wanted node"))

    async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return SKIP


@pytest.mark.parametrize("way", WAYS_HERE)
async def test_a_hint_that_fails_for_one_pod_keeps_nobody_waiting(way: str) -> None:
    cluster = cluster_with(_Hinting(way))
    pods = [sound(number) for number in range(6)]
    with structlog.testing.capture_logs() as lines:
        cluster.add(*pods[:3], victim(), *pods[3:])
        async with cluster.at_work():
            assert not cluster.bound
            node = make_node("wanted")
            cluster.cache.add_node(node)
            cluster.queue.move_all(NODE_ADD, None, node, cluster.clock.time())
            await cluster.advance(11.0)
            assert is_bound(cluster, *pods)
            assert is_bound(cluster, victim()), "when in doubt it is queued"
            assert cluster.assembly.circuits.quarantines() == []
    assert {line["extension_point"] for line in lines if line["event"] == "plugin_failed"} == {HINT}


# --- a pod that is expected somewhere, or is there --------------------------------------------------------------------


@pytest.mark.parametrize("way", ["raises", "does-not-end"])
@pytest.mark.parametrize("method", ["add_pod", "move_pods"])
async def test_a_nominated_pod_that_cannot_be_counted_costs_its_node_and_not_the_others(method: str, way: str) -> None:
    """A preemptor whose victims have minutes to end is expected on its node for as long."""
    plugin = hostile_plugin(method, way)
    if method == "move_pods":  # asked at once for all nodes, and then for each: it fails for the same pod
        type(plugin).add_pod = lambda self, *arguments: self.answer("move_pods", arguments, None)  # type: ignore[attr-defined]
    cluster = cluster_with(plugin, nodes=4)
    cluster.cache.update_node(make_node("node-0", labels={"spot": "0"}))
    expected = PodInfo(make_pod(VICTIM, namespace="evil", uid=VICTIM, priority=10, requests={"cpu": "10m"}))
    cluster.cache.nominator.nominate(expected, "node-0")
    pods = [sound(number) for number in range(24)]
    with structlog.testing.capture_logs() as lines:
        cluster.add(*pods)
        async with cluster.at_work():
            for _ in range(4):
                await cluster.advance(1.0)
            assert is_bound(cluster, *pods), [reported(cluster, pod) for pod in pods]
            assert "node-0" not in cluster.bound.values()
            assert cluster.assembly.circuits.quarantines() == []
            assert "AddPod" in {line["extension_point"] for line in lines if line["event"] == "plugin_failed"}
            late = sum(cluster.observations.plugin_overruns.values())
            assert late <= 3 * 2 * len(NAMESPACES), "held back from these pods beside that one"
            there = make_pod("there", namespace="a", uid="there", nodeSelector={"spot": "0"})
            cluster.add(there)
            cluster.workers.wake()
            await cluster.settle()
            assert not is_bound(cluster, there)
            assert "plugin Hostile failed" in reported(cluster, there)
            plugin.is_sound = True
            for _ in range(12):
                if not is_bound(cluster, there):
                    await cluster.advance(31.0)
            assert is_bound(cluster, there), reported(cluster, there)


@pytest.mark.parametrize("way", ["raises", "does-not-end"])
async def test_a_bound_pod_that_cannot_be_taken_away_in_a_trial_keeps_no_preemptor_from_another_node(way: str) -> None:
    plugin = hostile_plugin("remove_pod", way)
    cluster = cluster_with(plugin, nodes=3)
    for number in range(3):
        name = VICTIM if number == 0 else f"low-{number}"
        low = make_pod(name, namespace="evil", uid=name, node=f"node-{number}", requests={"cpu": "3500m"})
        cluster.cache.add_pod(low)
    urgent = [
        make_pod(f"urgent-{number}", namespace="a", uid=f"u{number}", priority=9, requests={"cpu": "3"})
        for number in range(2)
    ]
    with structlog.testing.capture_logs():
        cluster.add(*urgent)
        async with cluster.at_work():
            for _ in range(3):
                await cluster.advance(2.0)
            assert set(cluster.reported.nominations) == {"node-1", "node-2"}, [reported(cluster, pod) for pod in urgent]
            assert cluster.assembly.circuits.quarantines() == []
