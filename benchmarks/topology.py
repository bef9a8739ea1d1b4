"""Decisions per second of pods that care where other pods are, in process, at 5,000 nodes and 20,000 running pods.

    python benchmarks/topology.py [--nodes 5000] [--running 20000] [--pods 2000]

A decision is a whole cycle of the default plugins over every node, and the assume that makes the counters follow. No
pod is left out; each is an object of its own, as in the service, and the class engine is on. Running pods are of 100
Deployments in ten namespaces.
"""

import argparse
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Node, Pod
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
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
NAMESPACES, DEPLOYMENTS = 10, 100


def term(key: str, app: str, **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def weighted(key: str, app: str) -> dict[str, Any]:
    return {"weight": 10, "podAffinityTerm": term(key, app)}


@dataclass(frozen=True)
class Workload:
    """Pods of one Deployment that come, and what the running ones hold."""

    name: str
    floor: int
    """Decisions per second that it must reach; 0 where none is promised."""
    affinity: dict[str, Any]
    spread: tuple[dict[str, Any], ...] = ()
    holders: int = 0
    """How many of the running pods are of the same Deployment, with the same affinity."""


SPREAD_TERMS = tuple(
    {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "new"}},
    }
    for key, skew in ((ZONE, 1), (HOST, 5))
)
SOFT_SPREAD_TERMS = tuple({**one, "whenUnsatisfiable": "ScheduleAnyway"} for one in SPREAD_TERMS)
IN_TWO_ZONES = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-0", "zone-1"]}]}
WORKLOADS = (
    Workload("plain pods", 6000, {}),
    Workload("required node affinity", 6000, {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [IN_TWO_ZONES]}}}),
    Workload("required affinity by zone", 4000, {"podAffinity": {REQUIRED: [term(ZONE, "new")]}}, holders=500),
    Workload("required anti-affinity by host", 4000, {"podAntiAffinity": {REQUIRED: [term(HOST, "new")]}}, holders=500),
    Workload("preferred affinity by host", 3000, {"podAffinity": {PREFERRED: [weighted(HOST, "new")]}}, holders=500),
    Workload(
        "preferred, both ways, all namespaces",
        3000,
        {
            "podAffinity": {
                PREFERRED: [{"weight": 5, "podAffinityTerm": term(ZONE, "app-1", namespaceSelector={})}],
            },
            "podAntiAffinity": {PREFERRED: [weighted(HOST, "new")]},
        },
        holders=500,
    ),
    Workload("zone spread", 5000, {}, SPREAD_TERMS[:1], holders=500),
    Workload("zone and host spread", 4000, {}, SPREAD_TERMS, holders=500),
    Workload("zone spread, preferred", 4000, {}, SOFT_SPREAD_TERMS[:1], holders=500),
    Workload("zone and host spread, preferred", 3000, {}, SOFT_SPREAD_TERMS, holders=500),
)


def nodes(count: int) -> Iterator[Node]:
    for number in range(count):
        name = f"node-{number:05}"
        labels = {ZONE: f"zone-{number % 3}", HOST: name}
        gives = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        tree: dict[str, Any] = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": gives}}
        yield convert(tree, Node)


def pod(name: str, namespace: str, app: str, workload: Workload | None, node: str = "") -> Pod:
    container = {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    spec: dict[str, Any] = {"schedulerName": NAME, "containers": [container], "nodeName": node}
    if workload is not None:
        spec |= {"affinity": workload.affinity, "topologySpreadConstraints": workload.spread}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "labels": {"app": app, "pod-template-hash": "5d8f", "tier": "web"},
    }
    return convert({"metadata": metadata, "spec": spec}, Pod)


def running_cluster(workload: Workload, node_count: int, running: int) -> Cache:
    cache = Cache()
    for number in range(NAMESPACES):
        cache.counters.set_namespace(convert({"metadata": {"name": f"ns-{number}"}}, Namespace))
    for node in nodes(node_count):
        cache.add_node(node)
    for number in range(running):
        where = f"node-{number * 7919 % node_count:05}"
        if number < workload.holders:
            cache.add_pod(pod(f"new-{number}", "ns-0", "new", workload, where))
        else:
            app = number % DEPLOYMENTS
            cache.add_pod(pod(f"run-{number}", f"ns-{app % NAMESPACES}", f"app-{app}", None, where))
    return cache


def default_profile(cache: Cache) -> Profile:
    handle = handle_over(cache, ClusterObjects())
    return build_profiles(default_configuration(NAME).configuration, registry(), handle)[NAME]


@dataclass(frozen=True)
class Measured:
    """What one workload took."""

    placed: int
    seconds: float
    cpu_seconds: float
    microseconds: list[float]
    """Of each decision, sorted."""


def measure(workload: Workload, node_count: int, running: int, pods: int) -> Measured:
    cache = running_cluster(workload, node_count, running)
    profile = default_profile(cache)
    engine = ClassEngine(profile, cache)
    waiting = [pod(f"pod-{number}", "ns-0", "new", workload) for number in range(pods)]
    placed, taken = 0, []
    gc.collect()
    began, cpu_began = time.perf_counter(), time.process_time()
    for one in waiting:
        start = time.perf_counter()
        info = PodInfo(one)
        record = schedule(profile, info, cache, engine=engine)
        if record.node_name:
            cache.assume_pod(info, record.node_name)
            placed += 1
        taken.append((time.perf_counter() - start) * 1e6)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    return Measured(placed, seconds, cpu_seconds, sorted(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description="Decisions per second of pods that care about other pods.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--running", type=int, default=20000)
    parser.add_argument("--pods", type=int, default=2000)
    args = parser.parse_args()
    if min(args.nodes, args.running, args.pods) < 1:
        parser.error("--nodes, --running and --pods must be at least 1")
    print(f"{args.nodes} nodes, {args.running} running pods, {args.pods} come; default plugins, every node scored")
    print(f"{'':<40} {'placed':>8} {'decisions/s':>12} {'goal':>8} {'p50 us':>8} {'p99 us':>8} {'CPU us':>8}")
    for workload in WORKLOADS:
        took = measure(workload, args.nodes, args.running, args.pods)
        p50, p99 = (took.microseconds[int(args.pods * share)] for share in (0.5, 0.99))
        goal = f"{workload.floor:,}" if workload.floor else ""
        rate, cpu = args.pods / took.seconds, took.cpu_seconds / args.pods * 1e6
        print(f"{workload.name:<40} {took.placed:>8} {rate:>12,.0f} {goal:>8} {p50:>8.0f} {p99:>8.0f} {cpu:>8.0f}")


if __name__ == "__main__":
    main()
