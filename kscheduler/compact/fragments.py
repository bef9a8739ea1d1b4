"""How much of what is free is in pieces that no pod like those that run or wait could use, and what they lack.

A piece is what one node has free. It can be used if some typical pod that asks for the resource finds all that it
requests on that node. Typical are the most frequent requests, until they cover 95 % of the pods, and those of all pods
that wait. Only requests are compared, not where a pod may run; devices of claims are not counted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.compact.compaction_result import ResourceFragmentation
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.packing.typical_pods import most_frequent
from kscheduler.state.cache import Cache

_PODS: Final = "pods"

# Requests by resource, in the order of the names.
Shape = tuple[tuple[str, int], ...]


def fragments(cache: Cache, running: Iterable[Pod], waiting: Iterable[Pod]) -> tuple[ResourceFragmentation, ...]:
    """By resource that a typical pod requests. `cache`: with the running pods on their nodes."""
    nodes, rows = cache.nodes, cache.nodes.rows()
    waits = Counter(map(_shape, waiting))
    mix = most_frequent(Counter(map(_shape, running)) + waits, always=waits)
    asked_for = {name for shape in mix for name, _ in shape}
    names = sorted(name for name in asked_for if cache.devices.class_of_resource(name) is None)
    free = [nodes.amounts(nodes.allocatable, name, rows) - nodes.amounts(nodes.requested, name, rows) for name in names]
    free.append(nodes.allowed_pods[rows] - nodes.pod_count[rows])
    table = np.maximum(np.stack(free), 0)
    asked = np.array([[dict(shape).get(name, 0) for name in names] + [1] for shape in mix], dtype=np.int64)
    counts = np.array(list(mix.values()), dtype=np.int64)
    cordoned = nodes.unschedulable[rows]
    found = (
        _of_resource(
            name, index, [*names, _PODS], table, asked[asked[:, index] > 0], counts[asked[:, index] > 0], cordoned
        )
        for index, name in enumerate(names)
    )
    return tuple(each for each in found if each.free)


def typical_pods(pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
    """Those that run and those that wait, without those that go with their node."""
    left = [pod for pod in pods if not (pod.is_terminal or pod.belongs_to_node)]
    return [pod for pod in left if pod.spec.node_name], [pod for pod in left if not pod.spec.node_name]


def _shape(pod: Pod) -> Shape:
    return tuple(sorted((name, amount) for name, amount in PodInfo(pod).requests.items() if amount > 0))


def _of_resource(
    name: str,
    index: int,
    names: Sequence[str],
    free: NDArray[np.int64],
    asked: NDArray[np.int64],
    counts: NDArray[np.int64],
    cordoned: NDArray[np.bool_],
) -> ResourceFragmentation:
    """`asked`: the shapes that request the resource, a row each; `free`: a row for each resource, a column a node."""
    usable = np.zeros(free.shape[1], dtype=np.bool_)
    # By resource and node: how many of the pods find too little.
    short = np.zeros(free.shape, dtype=np.int64)
    for shape, count in zip(asked, counts, strict=True):
        lacks = shape[:, np.newaxis] > free
        usable |= ~lacks.any(axis=0)
        short += lacks * count
    there = free[index]
    wasted = ~usable & ~cordoned & (there > 0)
    scarcest = short.argmax(axis=0)
    amounts = {names[each]: int(there[wasted & (scarcest == each)].sum()) for each in range(len(names))}
    return ResourceFragmentation(
        resource=name,
        free=int(there.sum()),
        cordoned=int(there[cordoned].sum()),
        lacking={lacked: amount for lacked, amount in amounts.items() if amount},
    )
