"""What it costs to find the smallest changes that make a pod fit: `python -m benchmarks.whatif.suggestions`.

A cluster in process, so full that no pod of 4 CPUs fits, and pods that wait for several reasons. Each is asked about
many times, after a first time that fills what the plugins keep. Milliseconds of CPU time.
"""

import argparse
import json
import time
from typing import Any, Final

import numpy as np

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.whatif.budgets import listed_budgets
from kscheduler.whatif.decide import decide
from kscheduler.whatif.scenario import parse_scenario
from kscheduler.whatif.suggestions.search import suggestions

Tree = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_APP: Final = {"matchLabels": {"app": "a1"}}
_ANTI_AFFINITY: Final = {"podAntiAffinity": {_REQUIRED: [{"topologyKey": "zone", "labelSelector": _APP}]}}
_SPREAD: Final = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _APP}]
QUESTIONS: Final[dict[str, Tree]] = {
    "no room": {},
    "no room, and a label": {"nodeSelector": {"disk": "ssd"}},
    "no room, and anti-affinity": {"affinity": _ANTI_AFFINITY},
    "no room, labels, and spread": {
        "topologySpreadConstraints": _SPREAD,
        "nodeSelector": {"zone": "z0", "disk": "ssd"},
    },
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
                    "labels": {"kubernetes.io/hostname": f"n{number}", "zone": f"z{number % 3}", "disk": "hdd"},
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


def main() -> None:
    """Print a line per question."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    objects = cluster(args.nodes, args.pods)
    print(f"{args.nodes} nodes, {args.pods} pods, {args.rounds} times each; ms of CPU")
    for name, spec in QUESTIONS.items():
        line = json.dumps({"config": None, "objects": objects, "pod": pod_tree("new", "4", 1, **spec)})
        decision = decide(parse_scenario(line.encode(), "benchmark:1"))
        assert decision.profile is not None and decision.cache is not None  # noqa: PT018
        times = []
        for _ in range(args.rounds + 1):
            began = time.process_time()
            found = suggestions(
                decision.profile,
                PodInfo(decision.scenario.pod),
                decision.cache,
                listed_budgets(decision.scenario.objects),
            )
            times.append((time.process_time() - began) * 1e3)
        half, most = np.percentile(times[1:], [50, 99])
        kinds = ", ".join("+".join(step.kind.value for step in each.steps) for each in found) or "nothing"
        print(f"{name:28}  first {times[0]:6.1f}  p50 {half:6.1f}  p99 {most:6.1f}  {kinds}")


if __name__ == "__main__":
    main()
