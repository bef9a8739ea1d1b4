"""A plugin that is slow for some pods: they wait, and their healthy neighbours are bound."""

from typing import Any

import structlog

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.framework.per_node import PerNodeFactory
from kscheduler.framework.plugin_results import FILE_MODULES
from tests.builders import make_pod
from tests.scheduling.runtime.plugin_cluster import PluginCluster

SLOW_FOR_SOME = """
import time

def filter(pod, node):
    end = time.perf_counter() + {"slow": 0.05, "loop": 9.0}.get(pod.labels.get("mode", ""), 0.0)
    while time.perf_counter() < end:
        pass
"""


def written_in_a_file() -> Any:
    """The function, as if the service had loaded it from slow.py."""
    module: dict[str, Any] = {"__name__": f"{FILE_MODULES}slow", "__file__": "/plugins/slow.py"}
    exec(compile(SLOW_FOR_SOME, "/plugins/slow.py", "exec"), module)
    return module["filter"]


def cluster_of() -> PluginCluster:
    plugin: Any = PerNodeFactory("Hostile", written_in_a_file())(None, None)  # type: ignore[arg-type]
    return PluginCluster(plugin, settings={"timeBudget": "2ms"})


def pod_of(name: str, mode: str = "") -> Pod:
    return make_pod(name, namespace="a", uid=f"uid-of-{name}", labels={"mode": mode} if mode else {})


def delete(cluster: PluginCluster, pod: Pod) -> None:
    cluster.remove(PODS, pod.key)


async def test_a_healthy_pod_is_bound_beside_slow_ones_of_its_namespace() -> None:
    cluster = cluster_of()
    with structlog.testing.capture_logs() as lines:
        async with cluster.at_work():
            cluster.add(pod_of("slow", "slow"), pod_of("loop", "loop"))
            for _ in range(60):
                await cluster.advance(1.0)
            cluster.add(pod_of("good"))
            cluster.workers.wake()
            await cluster.settle()
            assert "a/good" in cluster.bound
            found = cluster.queue.find("a/loop")
            assert found is not None
            overruns = sum(cluster.observations.plugin_overruns.values())
            assert overruns <= 2 * 4, "1, 10, 20, 40 s between the calls for each"
            message = [condition.message for key, condition, _ in cluster.reported.reports if key == "a/loop"][-1]
            assert 'plugin "Hostile" is held back from pod a/loop until 20' in message
            assert "(slow.py:" in message
            notes = list(cluster.assembly.circuits.held_pods.notes())
    assert any("held back from pod a/loop until 20" in note and "(slow.py:" in note for note in notes)
    reported = [line for line in lines if line["event"] == "plugin_held_back"]
    assert {pod for line in reported for pod in line["pods"]} == {"a/slow", "a/loop"}
    assert not any(line["whole_namespace"] for line in reported)


async def test_when_the_slow_pods_are_deleted_those_that_waited_for_the_hold_are_bound_at_once() -> None:
    cluster = cluster_of()
    hostile = [pod_of(f"h{number}", "loop") for number in range(8)]
    async with cluster.at_work():
        cluster.add(*hostile)
        await cluster.advance(5.0)
        cluster.add(pod_of("good"))
        cluster.workers.wake()
        await cluster.settle()
        assert "a/good" not in cluster.bound
        message = [condition.message for key, condition, _ in cluster.reported.reports if key == "a/good"][-1]
        assert 'plugin "Hostile" is held back from all pods of namespace a until 20' in message
        assert "a/h" in message
        for pod in hostile:
            delete(cluster, pod)
        await cluster.settle()
        assert "a/good" in cluster.bound, "without any time"
        assert list(cluster.assembly.circuits.held_pods.notes()) == []


async def test_when_a_slow_pod_is_edited_it_is_bound_at_once() -> None:
    cluster = cluster_of()
    async with cluster.at_work():
        pod = pod_of("loop", "loop")
        cluster.add(pod)
        for _ in range(20):
            await cluster.advance(1.0)
        assert cluster.queue.find("a/loop") is not None
        mended = make_pod("loop", namespace="a", uid="uid-of-loop", labels={"mode": "fine"})
        cluster.add(mended)
        await cluster.settle()
        assert "a/loop" in cluster.bound


async def test_a_pod_that_waited_for_a_hold_is_tried_when_it_runs_out_and_has_no_back_off_of_its_own() -> None:
    cluster = cluster_of()
    async with cluster.at_work():
        cluster.add(*[pod_of(f"h{number}", "loop") for number in range(5)])
        await cluster.settle()
        cluster.add(pod_of("good"))
        cluster.workers.wake()
        await cluster.settle()
        found = cluster.queue.find("a/good")
        assert found is not None
        assert found[1].attempts == 1
        assert found[1].consecutive_errors_count == 0
        for _ in range(12):
            await cluster.advance(1.0)
        assert "a/good" in cluster.bound
