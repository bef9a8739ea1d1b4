"""What is seen of a cluster at one moment, and the mean over the moments of a run.

The moments of a recording are a minute apart at first; each time 200 have been taken they come half as often, so that a
week takes about a thousand. A moment counts for as long as it lasts until the next one.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.fragments.typical_requests import pods_on_nodes
from kscheduler.fragments.unusable import finished, fragments
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.recorder.alternatives.run_measurements import nodes_in_use
from kscheduler.state.cache import Cache

FIRST_INTERVAL_SECONDS: Final = 60.0
_BEFORE_RARER: Final = 200
_RESOURCES: Final = ("cpu", "memory")


class Moment(msgspec.Struct, frozen=True):
    """Shares are in percent; `None`: no node has any of it."""

    nodes_used: float
    zone_skew: float
    price: float | None
    cpu_allocated: float | None
    memory_allocated: float | None
    gpu_allocated: float | None
    cpu_unusable: float | None
    memory_unusable: float | None
    gpu_unusable: float | None
    gpus_free: float | None
    gpus_unusable: float | None


def moment_of(cache: Cache, pods: Iterable[Pod], gpu: str) -> Moment:
    """`pods`: those that wait, perhaps among others; `gpu`: the extended resource that counts GPUs."""
    waiting = [PodInfo(pod) for pod in pods if not pod.spec.node_name]
    in_use, nodes, rows = nodes_in_use(cache), cache.nodes, cache.nodes.rows()
    computation = fragments(cache, None, lambda: pods_on_nodes(cache), lambda: waiting)
    found = {each.resource: each for each in finished(computation)}
    allocated, unusable = dict[str, float | None](), dict[str, float | None]()
    free_gpus: float | None = None
    for resource in (*_RESOURCES, gpu):
        has = int(nodes.amounts(nodes.allocatable, resource, rows).sum())
        asked = int(nodes.amounts(nodes.requested, resource, rows).sum())
        allocated[resource] = 100 * asked / has if has else None
        of_resource = found.get(resource)
        lost = of_resource.unusable if of_resource is not None else 0
        free = of_resource.free if of_resource is not None else max(0, has - asked)
        unusable[resource] = (100 * lost / free if free else 0.0) if has else None
        if resource == gpu and has:
            free_gpus = float(free)
    share = unusable[gpu]
    return Moment(
        nodes_used=in_use.in_use,
        zone_skew=in_use.zone_skew,
        price=in_use.price,
        cpu_allocated=allocated["cpu"],
        memory_allocated=allocated["memory"],
        gpu_allocated=allocated[gpu],
        cpu_unusable=unusable["cpu"],
        memory_unusable=unusable["memory"],
        gpu_unusable=share,
        gpus_free=free_gpus,
        gpus_unusable=None if free_gpus is None or share is None else free_gpus * share / 100,
    )


class Moments:
    """The moments of a run, in its own time."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, Moment]] = []
        self._next: float | None = None

    def are_due(self, now: float) -> bool:
        """Whether one should be taken before what happens now, in seconds since the epoch."""
        if self._next is None:  # what there is at the beginning comes in one go
            self._next = now + FIRST_INTERVAL_SECONDS
        return now >= self._next

    def take(self, moment: Moment, now: float) -> None:
        """Keep it."""
        self._taken.append((now, moment))
        self._next = now + FIRST_INTERVAL_SECONDS * 2.0 ** (len(self._taken) // _BEFORE_RARER)

    def mean(self) -> dict[str, float | None]:
        """By field. At least one must have been taken."""
        times = [now for now, _ in self._taken]
        lasting = [later - now for now, later in zip(times, [*times[1:], times[-1]], strict=True)]
        if not sum(lasting):
            lasting = [1.0] * len(lasting)
        return {name: self._mean(name, lasting) for name in Moment.__struct_fields__}

    def _mean(self, name: str, lasting: list[float]) -> float | None:
        values = [(getattr(moment, name), weight) for (_, moment), weight in zip(self._taken, lasting, strict=True)]
        known = [(value, weight) for value, weight in values if value is not None and weight]
        total = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / total if total else None
