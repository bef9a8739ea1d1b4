"""Preemption decisions per second in process: one scheduler, default plugins, no API server.

    python benchmarks/preemption.py [--nodes 5000] [--pods-per-node 4] [--decisions 500] [--scenario TEXT] [--cpu]

A decision is one attempt of a pod that fits on no node and finds victims: PreFilter, Filter over every node, and the
search for victims over the share of the nodes that DefaultPreemption tries out (`minCandidateNodesPercentage`, 10).
Then the victims go and the preemptor takes the room, as the watch would tell: outside the measured time. The nodes are
full of pods of low priority, all of one size. Where a plugin counts pods across nodes (spread, affinity), rows with
such pods are tried out one by one. What is kept of the rows' pods is worked out before, as in a service that has run a
while.
"""

import argparse
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.assembly import profiles_over
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.decide import scenario_ports
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.state.cache import Cache

NAME = "kscheduler"
# Decisions that are not counted; they begin at different places of the ring, so all rows are seen.
WARM_UP = 100
Tree = dict[str, Any]

SPREAD: Tree = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 5,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "new"}},
        }
    ]
}
AFFINITY: Tree = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "old"}}}
            ]
        }
    }
}


@dataclass(frozen=True)
class Workload:
    """Who wants in."""

    name: str
    spec: Tree = field(default_factory=dict)
    """Of the preemptor."""
    budgets: int = 0


WORKLOADS = (
    Workload("own rows decide"),
    Workload("own rows decide, 10 disruption budgets", budgets=10),
    Workload("hard zone spread, victims are not counted", SPREAD),
    Workload("anti-affinity to the victims", AFFINITY),
)


@dataclass(frozen=True)
class Cluster:
    """How large."""

    nodes: int
    pods_per_node: int

    def made(self) -> Cache:
        """Nodes in three zones, full."""
        cache = Cache()
        for number in range(self.nodes):
            cache.add_node(self._node(number))
            for pod in self._pods(number):
                cache.add_pod(pod)
        return cache

    def _node(self, number: int) -> Node:
        name = f"node-{number:05}"
        allocatable = {"cpu": str(self.pods_per_node), "memory": "512Gi", "pods": "110"}
        labels = {"zone": f"zone-{number % 3}", "host": name}
        return convert({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}, Node)

    def _pods(self, number: int) -> Iterator[Pod]:
        for place in range(self.pods_per_node):
            name = f"old-{number:05}-{place:03}"
            metadata = {"labels": {"app": "old", "shard": str(number % 10)}}
            start = {"startTime": f"2026-01-01T{place % 24:02}:{number % 60:02}:00Z"}
            yield pod_of(name, metadata, {"nodeName": f"node-{number:05}", "priority": 0}, start)


def pod_of(name: str, metadata: Tree, spec: Tree, status: Tree | None = None) -> Pod:
    container = {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    tree = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata},
        "spec": {"schedulerName": NAME, "containers": [container], **spec},
        "status": status or {},
    }
    return convert(tree, Pod)


def budgets(count: int) -> tuple[PodDisruptionBudget, ...]:
    """One per shard of the victims, half of them spent."""
    return tuple(
        convert(
            {
                "metadata": {"name": f"shard-{number}", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"shard": str(number)}}},
                "status": {"disruptionsAllowed": number % 2},
            },
            PodDisruptionBudget,
        )
        for number in range(count)
    )


def measure(workload: Workload, cluster: Cluster, decisions: int, *, by_cpu: bool) -> list[float]:
    """Microseconds of each decision, sorted."""
    cache = cluster.made()
    ports = scenario_ports(ClusterObjects(poddisruptionbudgets=budgets(workload.budgets)))
    profile = profiles_over(cache, default_configuration(NAME), registry(), ports)[NAME]
    for number in range(WARM_UP):
        schedule(profile, preemptor(f"warm-{number:05}", {}), cache)
    gc.collect()
    taken: list[float] = []
    number = 0
    while len(taken) < decisions:
        number += 1
        pod = preemptor(f"new-{number:05}", workload.spec)
        start = time.perf_counter(), time.process_time()
        record = schedule(profile, pod, cache)
        ended = time.perf_counter(), time.process_time()
        search = record.state.find(PreemptionSearch)
        if search is not None:
            for victim in search.chosen.victims:
                cache.remove_pod(victim.uid)
            taken.append((ended[by_cpu] - start[by_cpu]) * 1e6)
        elif not record.node_name:
            raise SystemExit(f"no victims were found: {record.message}")
        cache.assume_pod(pod, record.node_name or record.nominated_node_name or "")
    return sorted(taken)


def preemptor(name: str, spec: Tree) -> PodInfo:
    return PodInfo(pod_of(name, {"labels": {"app": "new"}}, {"priority": 100, **spec}))


def main() -> None:
    parser = argparse.ArgumentParser(description="Preemption decisions per second, in process.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=4)
    parser.add_argument("--decisions", type=int, default=500)
    parser.add_argument("--scenario", default="", help="only scenarios with this text in their name")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of the clock's, for a busy machine")
    args = parser.parse_args()
    if min(args.nodes, args.pods_per_node, args.decisions) < 1:
        parser.error("--nodes, --pods-per-node and --decisions must be at least 1")
    cluster = Cluster(args.nodes, args.pods_per_node)
    print(f"{args.nodes} nodes of {args.pods_per_node} pods, {args.decisions} preemptions, default plugins")
    print(f"{'':<44} {'decisions/s':>12} {'p50 us':>8} {'p99 us':>8}")
    for workload in WORKLOADS:
        if args.scenario in workload.name:
            taken = measure(workload, cluster, args.decisions, by_cpu=args.cpu)
            p50, p99 = (taken[int(len(taken) * share)] for share in (0.5, 0.99))
            print(f"{workload.name:<44} {len(taken) / sum(taken) * 1e6:>12,.0f} {p50:>8,.0f} {p99:>8,.0f}")


if __name__ == "__main__":
    main()
