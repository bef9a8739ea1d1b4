"""What one hostile pod costs: its own decision, and each decision about others' pods once it is on a node.

    python -m benchmarks.bombs [--nodes 1000] [--running 10000]

Each bomb is a pod as large as the API server takes it (a request of 3 MiB, an object of 1.5 MiB), in a namespace of its
own. In process, with the real handlers, queue, cache and cycle; CPU time, of one attempt each. What is left behind is
measured as the median of attempts for plain pods of another namespace, each of which is new to the scheduler.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import default_configuration
from kscheduler.plugins.in_tree import registry

NAME: Final = "kscheduler"
TERMS: Final = 3000
PLAIN: Final = 9

Spec = Mapping[str, Any]


def _term(number: int, operator: str, *, crosses: bool) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": f"key-{number}", "operator": operator, "values": ["x"]}
    elsewhere: dict[str, Any] = {"namespaceSelector": {}} if crosses else {}
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": [expression]}, **elsewhere}


def _anti(operator: str, *, crosses: bool) -> dict[str, Any]:
    terms = [_term(number, operator, crosses=crosses) for number in range(TERMS)]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _preferred(*, crosses: bool) -> dict[str, Any]:
    terms = [{"weight": 1, "podAffinityTerm": _term(number, "NotIn", crosses=crosses)} for number in range(TERMS)]
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def _node_affinity(expressions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    terms = [{"matchExpressions": [expression]} for expression in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _spread(number: int) -> dict[str, Any]:
    selector = {"matchLabels": {f"key-{number}": "x"}}
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}


BOMBS: Final[Mapping[str, Spec]] = {
    "plain": {},
    "20,000 labels": {"labels": {f"key-{number}": "a value" for number in range(20_000)}},
    "10,000 tolerations": {"tolerations": [{"key": f"key-{number}", "operator": "Exists"} for number in range(10_000)]},
    "3,000 extended resources": {"requests": {f"example.com/r{number}": "1" for number in range(TERMS)}},
    "3,000 terms of node affinity": _node_affinity(
        [{"key": f"key-{number}", "operator": "Exists"} for number in range(TERMS)]
    ),
    "50,000 values of node affinity": _node_affinity(
        [{"key": "zone", "operator": "In", "values": [f"v{number}" for number in range(50_000)]}]
    ),
    "3,000 spread constraints": {"topologySpreadConstraints": [_spread(number) for number in range(TERMS)]},
    "3,000 required anti-affinity terms, own namespace": _anti("In", crosses=False),
    "3,000 preferred terms, own namespace": _preferred(crosses=False),
    "3,000 required anti-affinity terms, all namespaces": _anti("In", crosses=True),
    "3,000 preferred terms, all namespaces": _preferred(crosses=True),
}


def pod(name: str, namespace: str, node: str = "", **given: Any) -> Pod:
    spec = dict(given)
    labels, requests = spec.pop("labels", {}), spec.pop("requests", {"cpu": "10m"})
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "labels": labels}
    whole = {"schedulerName": NAME, "containers": [container], "nodeName": node, **spec}
    return convert({"metadata": metadata, "spec": whole, "status": {}}, Pod)


def cluster(nodes: int, running: int) -> Assembly:
    assembly = Assembly(default_configuration(NAME), registry(), Ports(), VirtualClock())
    room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    for number in range(nodes):
        labels = {"zone": f"zone-{number % 3}", "kubernetes.io/hostname": f"node-{number}"}
        metadata = {"name": f"node-{number}", "uid": f"node-{number}", "labels": labels}
        status = {"allocatable": room, "capacity": room}
        assembly.node_handler.on_add(convert({"metadata": metadata, "spec": {}, "status": status}, Node), initial=True)
    for number in range(running):
        one = pod(f"running-{number}", "shop", f"node-{number % nodes}", labels={"app": f"app-{number % 100}"})
        assembly.pod_handler.on_add(one, initial=True)
    return assembly


def attempt_milliseconds(assembly: Assembly, one: Pod) -> float:
    """CPU of one attempt, from the pod's arrival to the decision."""
    began = time.process_time()
    assembly.pod_handler.on_add(one, initial=False)
    queued = assembly.queue.pop_nowait(assembly.clock.time())
    assert queued is not None
    assert queued.pod.key == f"{one.metadata.namespace}/{one.metadata.name}"
    assembly.scheduler.decide(queued)
    return (time.process_time() - began) * 1000


def play(bomb: Spec, nodes: int, running: int) -> tuple[float, float]:
    """Milliseconds of the bomb's own attempt, and of a plain one when the bomb is on a node."""
    assembly = cluster(nodes, running)
    attempt_milliseconds(assembly, pod("first", "shop"))
    own = attempt_milliseconds(assembly, pod("bomb", "hostile", **bomb))
    assembly = cluster(nodes, running)
    assembly.pod_handler.on_add(pod("bomb", "hostile", "node-0", **bomb), initial=False)
    # Labels of their own: what is known of one of them is known of no other.
    plain = [pod(f"plain-{number}", "shop", labels={"app": f"new-{number}"}) for number in range(PLAIN + 1)]
    _, *times = (attempt_milliseconds(assembly, one) for one in plain)
    return own, sorted(times)[PLAIN // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--running", type=int, default=10_000)
    args = parser.parse_args()
    print("| a pod with | its own attempt | afterwards, a plain pod of another namespace |\n|---|---|---|")
    for name, bomb in BOMBS.items():
        own, others = play(bomb, args.nodes, args.running)
        print(f"| {name} | {own:.1f} ms | {others:.2f} ms |", flush=True)


if __name__ == "__main__":
    main()
