"""What it costs to find the smallest changes that make a pod fit: `python -m benchmarks.explain.suggestions`.

A cluster in process, so full that no pod of 4 CPUs fits, and pods that wait for several reasons: of each kind many
different ones, each with other requests, labels, selectors and terms, and each asked about once. The cycle has judged
the pod before, as the service has. Milliseconds of CPU time; `first` is the first pod of all, which fills what plugins
keep.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np

from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.search import suggestions
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import Decision, decide
from kscheduler.scenario.listed_kinds import listed_budgets
from kscheduler.scenario.scenario import parse_scenario
from kscheduler.scheduling.cycle.schedule import schedule

Tree = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
# The spec of the pod of a number.
ExplainQuery = Callable[[int], Tree]
QUERIES: Final[dict[str, ExplainQuery]] = {
    "no room": lambda _: {},
    "no room, and a label": lambda number: {"nodeSelector": {"disk": f"ssd-{number}"}},
    "no room, and anti-affinity": lambda number: {"affinity": _apart_from(number)},
    "no room, labels, and spread": lambda number: {
        "topologySpreadConstraints": [_spread(number)],
        "nodeSelector": {"zone": f"z{number % 3}", "disk": f"ssd-{number}"},
    },
    "labels that no node has": lambda number: {"nodeSelector": {"disk": f"ssd-{number}", "pool": "x"}, "cpu": "10m"},
    "a taint, and a port": lambda number: {
        "nodeSelector": {"zone": "tainted"},
        "cpu": "10m",
        "hostPort": 8000 + number % 3,
    },
    "anti-affinity": lambda number: {"affinity": _apart_from(number), "cpu": "10m"},
    "spread": lambda number: {"topologySpreadConstraints": [_spread(number)], "cpu": "10m"},
    "seven reasons": lambda number: {
        "nodeSelector": {"disk": f"ssd-{number}", "zone": f"z{number % 3}"},
        "affinity": {**_apart_from(number), **_near(number)},
        "topologySpreadConstraints": [_spread(number)],
        "hostPort": 8000,
        "memory": "100Gi",
    },
}


def _apart_from(number: int) -> Tree:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{number % 20}"}}}
    return {"podAntiAffinity": {_REQUIRED: [term]}}


def _near(number: int) -> Tree:
    """Pods that there are nowhere."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"none-{number}"}}}
    return {"podAffinity": {_REQUIRED: [term]}}


def _spread(number: int) -> Tree:
    """More domains than there are, so that the least number of pods in any counts as 0."""
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [f"a{number % 20}", f"b{number}"]}]}
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "minDomains": 10,
    }


def cluster(nodes: int, pods: int, cpu: str = "") -> Tree:
    """Nodes of 16 CPUs in three zones, a tenth tainted, and pods that leave no node 4 CPUs, or of so much `cpu`."""
    taint = [{"key": "gpu", "effect": "NoSchedule"}]
    share = cpu or f"{max(16_000 * nodes // max(pods, 1) - 200, 100)}m"
    return {
        "nodes": [
            {
                "metadata": {
                    "name": f"n{number}",
                    "labels": {
                        "kubernetes.io/hostname": f"n{number}",
                        "zone": "tainted" if number % 10 == 0 else f"z{number % 3}",
                        "disk": "hdd",
                    },
                },
                "spec": {"taints": taint} if number % 10 == 0 else {},
                "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
            }
            for number in range(nodes)
        ],
        "pods": [pod_tree(f"p{number}", share, number % 20, nodeName=f"n{number % nodes}") for number in range(pods)],
    }


def pod_tree(name: str, cpu: str, app: int, **spec: Any) -> Tree:
    """A pod of one of twenty applications."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": f"a{app}"}}
    return {"metadata": metadata, "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec}}


def querying_tree(number: int, query: ExplainQuery) -> Tree:
    """A pod that waits; `cpu`, `memory` and `hostPort` of the question are its container's."""
    spec = {"cpu": f"{4_000 + number}m", **query(number)}
    cpu, memory, port = spec.pop("cpu"), spec.pop("memory", ""), spec.pop("hostPort", 0)
    tree = pod_tree(f"new-{number}", cpu, number % 20, **spec)
    (container,) = tree["spec"]["containers"]
    if memory:
        container["resources"]["requests"]["memory"] = memory
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    return tree


def main() -> None:
    """Print a line per question."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=100, help="different pods of each kind")
    args = parser.parse_args()
    line = json.dumps({"config": None, "objects": cluster(args.nodes, args.pods), "pod": pod_tree("new", "4", 1)})
    decision = decide(parse_scenario(line.encode(), "benchmark:1"))
    gc.freeze()
    print(f"{args.nodes} nodes, {args.pods} pods, {args.rounds} different pods of each kind; ms of CPU")
    every: list[float] = []
    for name, query in QUERIES.items():
        times, kinds = _queried(decision, query, args.rounds)
        every += times[1:]
        half, most = np.percentile(times[1:], [50, 99])
        print(f"{name:28}  first {times[0]:6.1f}  p50 {half:6.1f}  p99 {most:6.1f}  {', '.join(kinds) or 'nothing'}")
    half, most = np.percentile(every, [50, 99])
    print(f"{'all':28}  {'':12}  p50 {half:6.1f}  p99 {most:6.1f}")


def _queried(decision: Decision, query: ExplainQuery, rounds: int) -> tuple[list[float], dict[str, None]]:
    """Milliseconds of each pod, and the kinds of suggestions that there were."""
    assert decision.profile is not None and decision.cache is not None  # noqa: PT018
    budgets = listed_budgets(decision.scenario.objects)
    times: list[float] = []
    kinds: dict[str, None] = {}
    for number in range(rounds + 1):
        pod = PodInfo(msgspec.convert(querying_tree(number, query), Pod))
        schedule(decision.profile, pod, decision.cache)
        gc.collect()
        gc.disable()  # as in a copy of the service
        began = time.process_time()
        found = suggestions(decision.profile, pod, decision.cache, budgets)
        times.append((time.process_time() - began) * 1e3)
        gc.enable()
        kinds |= dict.fromkeys("+".join(step.facts.kind for step in each.steps) for each in found)
    return times, kinds


if __name__ == "__main__":
    main()
