"""A plugin that fails for one node, one label or one namespace, again and again, is there for all others.

What a profile keeps of its answers does not make it look as if it answered nobody: where they are kept, a plugin is
asked about what has changed and about what it failed for, and these may be the only calls for hours.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import structlog

from kscheduler.api.core import Pod
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import PerNodeFactory
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from tests.builders import make_node, make_pod
from tests.scheduling.runtime.plugin_cluster import PluginCluster

BAD_NODE, NODES = "node-0", 5
# Longer than a right answer counts for. In minutes in which the plugin answers nobody it may be taken out.
PAUSES = (61.0, 330.0, 0.0)
SOON_SECONDS = 11.0


def fails_for(pod: PodInfo, node: NodeInfo) -> int:
    """0, unless something is odd about the pod or the node."""
    odd = pod.labels.get("rank", "1"), node.annotations.get("cost", "1"), pod.namespace.replace("odd", "x")
    return 0 * sum(int(text) for text in odd if text != pod.namespace)


class Scores(Plugin):
    name = "Hostile"

    def __init__(self) -> None:
        self.calls = 0

    def _each(self, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        self.calls += 1
        return np.array([fails_for(pod, nodes.info(row)) for row in rows.tolist()], dtype=np.int64)

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        return self._each(pod, nodes, rows)


class Filters(Scores):
    score = None  # type: ignore[assignment]

    def filter(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        return self._each(pod, nodes, rows)


def signed(kind: type, *sources: Source) -> type:
    """One whose answers are kept: they depend on the namespace, the label and the node."""
    return type(f"Kept{kind.__name__}", (kind,), {"depends_on": sources, "sign": lambda _self, pod: rank_of(pod)})


def rank_of(pod: PodInfo) -> Any:
    return pod.namespace, pod.labels.get("rank")


def function(name: str, sign: Callable[[PodInfo], Any] | None) -> Any:
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return fails_for(pod, node)

    def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001  the name is the contract
        return "no" if fails_for(pod, node) else None

    written = score if name == "score" else filter
    return PerNodeFactory("Hostile", written, sign)(None, None)  # type: ignore[arg-type]


PLUGINS: dict[str, Callable[[], Any]] = {
    "score": Scores,
    "filter": Filters,
    "kept score": signed(Scores, Source.ROW),
    "kept filter": signed(Filters, Source.ROW),
    "score that is kept for good": signed(Scores),
    "filter that is kept for good": signed(Filters),
    "score function": lambda: function("score", None),
    "filter function": lambda: function("filter", None),
    "kept score function": lambda: function("score", rank_of),
    "kept filter function": lambda: function("filter", rank_of),
}


def cluster_of(kind: str, **settings: Any) -> PluginCluster:
    cluster = PluginCluster(PLUGINS[kind](), nodes=0, settings={"onFailure": "Fail"} | settings)
    for number in range(NODES):
        cluster.cache.add_node(make_node(f"node-{number}"))
    return cluster


def pods_of(number: int, *, odd: str) -> tuple[list[Pod], list[Pod]]:
    """Pods of a minute: sound ones, and those that the plugin fails for."""
    sound = [pod_of(f"s{number}", f"n{n}") for n in range(2)]
    if odd == "label":
        return sound, [pod_of(f"o{number}", f"n{n}", rank=f"abc{number}") for n in range(4)]
    if odd == "namespace":
        return sound, [pod_of(f"o{number}", f"odd-{n}") for n in range(4)]
    return sound, []


def pod_of(name: str, namespace: str, **labels: str) -> Pod:
    return make_pod(name, namespace=namespace, uid=f"{namespace}/{name}", labels=labels, requests={"cpu": "1m"})


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        *((kind, "node") for kind in PLUGINS),
        *((kind, odd) for kind in PLUGINS if "filter" in kind for odd in ("label", "namespace")),
    ],
)
async def test_who_answers_somebody_places_every_pod_that_it_answers_for(kind: str, odd: str) -> None:
    cluster = cluster_of(kind)
    if odd == "node":
        cluster.cache.update_node(make_node(BAD_NODE, metadata={"annotations": {"cost": "free"}}))
    with structlog.testing.capture_logs() as lines:
        async with cluster.at_work():
            for number, pause in enumerate(PAUSES):
                # Sound pods come first: those that the plugin fails for are the last that it is asked about.
                sound, failing = pods_of(number, odd=odd)
                for pods in (sound, failing):
                    cluster.add(*pods)
                    cluster.workers.wake()
                    await cluster.settle()
                await cluster.advance(SOON_SECONDS)
                assert [pod.key for pod in sound if pod.key not in cluster.bound] == []
                assert cluster.assembly.circuits.quarantines() == [], f"in minute {number}"
                await cluster.advance(pause)
    if odd == "node":
        assert [line for line in lines if line["event"] in {"plugin_quarantined", "plugin_held_back"}] == []
        assert BAD_NODE not in cluster.bound.values() or "score" in kind
    assert cluster.observations.plugin_failures, "it does fail"


@pytest.mark.parametrize("by_class", [False, True], ids=["plain", "kept"])
async def test_a_filter_that_raises_for_thousands_of_nodes_is_queried_a_few_times_for_each_pod(by_class: bool) -> None:
    """Also where it raises for some of them only, and pod after pod."""
    cluster = cluster_of("kept filter" if by_class else "filter")
    plugin = cluster.profiles["kscheduler"].filter[-1]
    for number in range(NODES, 2000):
        cost = "free" if number % 500 == 7 else "1"
        cluster.cache.add_node(make_node(f"node-{number}", metadata={"annotations": {"cost": cost}}))
    with structlog.testing.capture_logs():
        async with cluster.at_work():
            cluster.add(pod_of("first", "n0"))
            cluster.workers.wake()
            await cluster.settle()
            calls = plugin.calls  # type: ignore[attr-defined]
            assert 0 < calls <= 140
            cluster.add(pod_of("none", "n0", rank="abc"))
            cluster.workers.wake()
            await cluster.settle()
            of_none = plugin.calls - calls  # type: ignore[attr-defined]
            assert of_none <= 16, "it fails for the pod, which few calls show"
            if by_class:
                calls = plugin.calls  # type: ignore[attr-defined]
                cluster.add(pod_of("second", "n0"))
                cluster.workers.wake()
                await cluster.settle()
                assert plugin.calls - calls <= 12, "those for which it answers are known"  # type: ignore[attr-defined]


async def test_a_node_that_takes_too_long_holds_the_namespace_back_and_quarantines_nothing() -> None:
    """Its answers for the other nodes are kept, but the time is lost to everybody, pod after pod."""

    def score(pod: PodInfo, node: NodeInfo) -> int:
        end = time.perf_counter() + (5.0 if node.annotations.get("cost") else 0.0)
        while time.perf_counter() < end:
            pass
        return 1

    plugin = PerNodeFactory("Hostile", score, lambda pod: pod.namespace)(None, None)  # type: ignore[arg-type]
    cluster = PluginCluster(plugin, nodes=NODES, settings={"timeBudget": "20ms"})
    with structlog.testing.capture_logs():
        async with cluster.at_work():
            for number in range(30):
                if number == 1:
                    cluster.cache.update_node(make_node(BAD_NODE, metadata={"annotations": {"cost": "1"}}))
                cluster.add(pod_of(f"p{number}", "n0"))
                cluster.workers.wake()
                await cluster.settle()
            assert len(cluster.bound) == 30
            assert sum(cluster.observations.plugin_overruns.values()) < 10
            assert cluster.assembly.circuits.quarantines() == []
