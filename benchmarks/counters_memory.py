"""What the topology counters hold: 10,000 distinct selectors on 20,000 nodes with 100,000 pods.

    python benchmarks/counters_memory.py [--nodes 20000] [--pods 100000] [--selectors 10000]

Each selector is of one Deployment, in one of 50 namespaces; each is asked twice. Growth is of the process's resident
memory (Linux) from before the pods came, so it holds the pods' places in the cache as well.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.core import LabelSelector, Node, Pod
from kscheduler.api.selectors import parse_label_selector
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.state.cache import Cache

NAMESPACES = 50
LIMIT_MIB = 1024


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def make_node(number: int) -> Node:
    gives = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return convert({"metadata": {"name": f"node-{number}"}, "status": {"allocatable": gives}}, Node)


def make_pod(number: int, app: int, node: int) -> Pod:
    labels = {"app": f"app-{app}", "tier": "web", "pod-template-hash": "5d8f"}
    metadata: dict[str, Any] = {
        "name": f"pod-{number}",
        "namespace": f"ns-{app % NAMESPACES}",
        "uid": f"uid-{number}",
        "labels": labels,
    }
    return convert({"metadata": metadata, "spec": {"nodeName": f"node-{node}", "containers": [{"name": "c"}]}}, Pod)


def query(app: int) -> PodMatch:
    selector = parse_label_selector(LabelSelector(match_labels={"app": f"app-{app}"}))
    return PodMatch(frozenset((f"ns-{app % NAMESPACES}",)), None, (selector,))


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory of the topology counters.")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--selectors", type=int, default=10_000)
    args = parser.parse_args()
    cache = Cache()
    for number in range(args.nodes):
        cache.add_node(make_node(number))
    pods = [make_pod(number, number % args.selectors, number * 7919 % args.nodes) for number in range(args.pods)]
    before = resident_mib()
    for pod in pods:
        cache.add_pod(pod)
    print(f"{args.pods:,} pods counted in: {resident_mib() - before:.0f} MiB")
    queries = [query(app) for app in range(args.selectors)]
    for ask in ("first", "second"):
        began = time.perf_counter()
        counted = sum(int(cache.counters.matching(one).sum()) for one in queries)
        each = (time.perf_counter() - began) / len(queries) * 1e6
        print(f"{args.selectors:,} selectors, {ask} time: {each:.0f} us each, {resident_mib() - before:.0f} MiB")
        if counted != args.pods:
            raise SystemExit(f"{counted} pods were counted, not {args.pods}")
    if resident_mib() - before > LIMIT_MIB:
        raise SystemExit(f"more than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
