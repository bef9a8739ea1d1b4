"""Decisions per second in process: one scheduler, default plugins, every node scored, no API server.

    python benchmarks/decisions.py [--nodes 5000] [--pods 5000]

A decision is what a worker does between taking a pod and sending its binding: the cycle (PreFilter to the choice of a
node) and `assume`, which changes the row that the next decision reads. Pods arrive as objects; what is derived from
them is worked out inside the measured time. Two clusters: all nodes alike; and a mixed one, where taints and cordons
turn a tenth of the nodes down, whose pods ask for labels as well in one workload.
"""

import argparse
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.config.loader import default_configuration
from kscheduler.framework.pod_info import PodInfo
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.class_engine import ClassEngine
from kscheduler.scheduling.cycle import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import build_profiles
from kscheduler.state.cache import Cache
from kscheduler.whatif.decide import handle_over
from kscheduler.whatif.scenario import ClusterObjects

NAME = "kscheduler"
REQUESTS = (("100m", "128Mi"), ("250m", "256Mi"), ("500m", "1Gi"), ("1", "512Mi"))
SIZES = ((8, 32), (16, 64), (16, 32), (32, 128), (64, 256))


@dataclass(frozen=True)
class Workload:
    """A cluster and the pods that come to it."""

    name: str
    goal: int = 0
    """Decisions per second; 0 where none is set."""
    classes: int = 4
    """So many sizes of pods, in turn."""
    mixed_nodes: bool = False
    selects_disk: bool = False

    def nodes(self, count: int) -> Iterator[Node]:
        """Nodes in three zones; of mixed ones a twentieth is cordoned and another tainted."""
        for number in range(count):
            cpu, memory = SIZES[number % len(SIZES)] if self.mixed_nodes else SIZES[1]
            spec: dict[str, Any] = {"unschedulable": self.mixed_nodes and number % 20 == 0}
            if self.mixed_nodes and number % 20 == 10:
                spec["taints"] = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
            labels = {"zone": f"zone-{number % 3}", "disk": "ssd" if number % 2 else "hdd"}
            tree: dict[str, Any] = {
                "metadata": {"name": f"node-{number:05}", "labels": labels},
                "spec": spec,
                "status": {"allocatable": {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}},
            }
            yield convert(tree, Node)

    def pods(self, count: int) -> Iterator[Pod]:
        """Pods of a few sizes, in turn."""
        for number in range(count):
            cpu, memory = self._size(number % self.classes)
            container = {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            spec: dict[str, Any] = {"schedulerName": NAME, "containers": [container]}
            if self.selects_disk:
                spec["nodeSelector"] = {"disk": "ssd"}
            name = f"pod-{number:06}"
            yield convert({"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}, Pod)

    def _size(self, number: int) -> tuple[str, str]:
        return REQUESTS[number] if number < len(REQUESTS) else (f"{100 + number}m", f"{128 + number}Mi")


WORKLOADS = (
    Workload("plain pods of one class, equal nodes", goal=10_000, classes=1),
    Workload("plain pods of four classes, equal nodes"),
    Workload("plain pods of 100 classes, equal nodes", goal=6_000, classes=100),
    Workload("plain pods, mixed nodes", mixed_nodes=True),
    Workload("pods with a nodeSelector, mixed nodes", mixed_nodes=True, selects_disk=True),
)


@dataclass(frozen=True)
class Measured:
    """What one workload took."""

    decided: int
    seconds: float
    cpu_seconds: float
    microseconds: list[float]
    """Of each decision, sorted."""


def default_profile(cache: Cache) -> Profile:
    handle = handle_over(cache, ClusterObjects())
    return build_profiles(default_configuration(NAME).configuration, registry(), handle)[NAME]


def measure(workload: Workload, nodes: int, pods: int) -> Measured:
    cache = Cache()
    for node in workload.nodes(nodes):
        cache.add_node(node)
    profile = default_profile(cache)
    engine = ClassEngine(profile, cache)
    waiting = list(workload.pods(pods))
    gc.collect()
    taken = []
    began, cpu_began = time.perf_counter(), time.process_time()
    for pod in waiting:
        start = time.perf_counter()
        info = PodInfo(pod)
        record = schedule(profile, info, cache, engine=engine)
        if record.node_name:
            cache.assume_pod(info, record.node_name)
        taken.append((time.perf_counter() - start) * 1e6)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    audit(cache)
    return Measured(cache.statistics().assumed_pods, seconds, cpu_seconds, sorted(taken))


def audit(cache: Cache) -> None:
    """No node may be over what it has."""
    table, rows = cache.nodes, cache.nodes.rows()
    over = (table.requested[:, rows] > table.allocatable[:, rows]).any(axis=0) | (
        table.pod_count[rows] > table.allowed_pods[rows]
    )
    if over.any():
        raise SystemExit(f"{int(np.count_nonzero(over))} nodes are over their allocatable")


def main() -> None:
    parser = argparse.ArgumentParser(description="Decisions per second, in process.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    args = parser.parse_args()
    if args.nodes < 1 or args.pods < 1:
        parser.error("--nodes and --pods must be at least 1")
    print(f"{args.nodes} nodes, {args.pods} pods, default plugins, every node scored, decision = cycle + assume")
    print(f"{'':<40} {'placed':>8} {'decisions/s':>12} {'goal':>8} {'p50 us':>8} {'p99 us':>8} {'CPU us':>8}")
    for workload in WORKLOADS:
        took = measure(workload, args.nodes, args.pods)
        p50, p99 = (took.microseconds[int(args.pods * share)] for share in (0.5, 0.99))
        rate, cpu = args.pods / took.seconds, took.cpu_seconds / args.pods * 1e6
        goal = f"{workload.goal:,}" if workload.goal else ""
        print(f"{workload.name:<40} {took.decided:>8} {rate:>12,.0f} {goal:>8} {p50:>8.0f} {p99:>8.0f} {cpu:>8.0f}")


if __name__ == "__main__":
    main()
