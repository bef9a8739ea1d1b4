"""What pods request together, and which of these requests are typical: `plugins.packing.typical_pods` says which.

Devices that claims ask for count as a resource named after their class, as kube-scheduler names it where pods request
devices without a claim. Of a request for all devices one counts. A resource that the profile of a pod ignores keeps it
off no node, and does not count.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator

from kscheduler.api.devices import ALL, IMPLICIT_EXTENDED_RESOURCE
from kscheduler.api.quantity import MAX_INT64, QuantityError
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.packing.claimed_requests import claimed_requests
from kscheduler.plugins.packing.typical_pods import most_frequent, trimmed
from kscheduler.state.cache import Cache

# Amounts by resource, in the order of the names.
Requests = tuple[tuple[str, int], ...]
# Pods, read when the computation comes to them.
Pods = Callable[[], Iterable[PodInfo]]
# `ignores(scheduler_name, resource)`: whether the profile of these pods leaves the resource out.
Ignores = Callable[[str, str], bool]


def ignores_nothing(scheduler_name: str, resource: str) -> bool:
    """No profile ignores anything: an `Ignores`."""
    del scheduler_name, resource
    return False


def typical_requests(
    running: Pods, waiting: Pods, claims: Claims | None, ignores: Ignores = ignores_nothing
) -> Generator[None, None, dict[Requests, int]]:
    """The most frequent ones, and those of all pods that wait, with their numbers. Pauses after each pod.

    `claims`: `None` leaves out what claims ask for.
    """
    waits = yield from _counted(waiting, claims, ignores)
    runs = yield from _counted(running, claims, ignores)
    mix = yield from most_frequent(runs + waits, always=waits)
    return mix


def pods_on_nodes(cache: Cache) -> Iterator[PodInfo]:
    """The pods that count on a node, assumed ones included. What changes meanwhile may be in it or not."""
    nodes = cache.nodes
    for row in nodes.rows().tolist():
        info = nodes.infos[row]
        if info is not None:
            yield from tuple(info.pods.values())


def _counted(pods: Pods, claims: Claims | None, ignores: Ignores) -> Generator[None, None, Counter[Requests]]:
    counts: Counter[Requests] = Counter()
    for pod in pods():
        if not (pod.pod.is_terminal or pod.pod.belongs_to_node):
            try:
                counts[_requests_of(pod, claims, ignores)] += 1
                counts = trimmed(counts)
            except QuantityError:
                continue  # its decision says so
        yield
    return counts


def _requests_of(pod: PodInfo, claims: Claims | None, ignores: Ignores) -> Requests:
    """Raises `QuantityError`."""
    by = pod.pod.spec.scheduler_name
    amounts = {name: amount for name, amount in pod.accounted.items() if not ignores(by, name)}
    if pod.pod.spec.resource_claims and claims is not None:
        for wanted in claimed_requests(pod.pod, claims, with_devices=True):
            name = f"{IMPLICIT_EXTENDED_RESOURCE}{wanted.class_name}"
            # Columns of nodes are int64, and the counts of several requests may come to more.
            amounts[name] = min(amounts.get(name, 0) + (1 if wanted.mode == ALL else wanted.count), MAX_INT64)
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0))
