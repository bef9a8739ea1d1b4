"""Samples of a cluster's state during a run, and their mean over time.

Samples are a minute apart at first; after each 200 the interval doubles, so that a week takes about a thousand. In the
mean, a sample has the weight of the time until the next one.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from kscheduler.aio.tasks import finished
from kscheduler.api.core import Pod
from kscheduler.assembly import Assembly
from kscheduler.fragments.typical_requests import pods_on_nodes
from kscheduler.fragments.unusable import fragments
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.recorder.alternatives.run_measurements import nodes_in_use
from kscheduler.scheduling.profile import ignores_resource

FIRST_INTERVAL_SECONDS: Final = 60.0
_SAMPLES_PER_INTERVAL: Final = 200
_RESOURCES: Final = ("cpu", "memory")


class ClusterSample(msgspec.Struct, frozen=True):
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


def sample_of(assembly: Assembly, pods: Iterable[Pod], gpu: str) -> ClusterSample:
    """`pods`: those that wait, perhaps among others; `gpu`: the extended resource that counts GPUs."""
    waiting = [PodInfo(pod) for pod in pods if not pod.spec.node_name]
    cache, ignores = assembly.cache, partial(ignores_resource, assembly.profiles)
    in_use, nodes, rows = nodes_in_use(cache), cache.nodes, cache.nodes.rows()
    computation = fragments(cache, None, lambda: pods_on_nodes(cache), lambda: waiting, ignores)
    found = {each.resource: each for each in finished(computation)}
    allocated, unusable = dict[str, float | None](), dict[str, float | None]()
    free_gpus: float | None = None
    for resource in (*_RESOURCES, gpu):
        has = nodes.total(nodes.allocatable, resource, rows)
        asked = nodes.total(nodes.requested, resource, rows)
        allocated[resource] = 100 * asked / has if has else None
        of_resource = found.get(resource)
        lost = of_resource.unusable if of_resource is not None else 0
        free = of_resource.free if of_resource is not None else max(0, has - asked)
        unusable[resource] = (100 * lost / free if free else 0.0) if has else None
        if resource == gpu and has:
            free_gpus = float(free)
    share = unusable[gpu]
    return ClusterSample(
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


class SampleSeries:
    """The samples of a run, in virtual time."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, ClusterSample]] = []
        self._next: float | None = None

    def is_due(self, now: float) -> bool:
        """Whether to sample before the change at this time, in seconds since the epoch."""
        if self._next is None:  # all initial objects arrive at once
            self._next = now + FIRST_INTERVAL_SECONDS
        return now >= self._next

    def add(self, sample: ClusterSample, now: float) -> None:
        self._samples.append((now, sample))
        self._next = now + FIRST_INTERVAL_SECONDS * 2.0 ** (len(self._samples) // _SAMPLES_PER_INTERVAL)

    def mean(self) -> dict[str, float | None]:
        """By field. There must be at least one sample."""
        times = [now for now, _ in self._samples]
        durations = [later - now for now, later in zip(times, [*times[1:], times[-1]], strict=True)]
        if not sum(durations):
            durations = [1.0] * len(durations)
        return {name: self._mean(name, durations) for name in ClusterSample.__struct_fields__}

    def _mean(self, name: str, durations: list[float]) -> float | None:
        values = [(getattr(sample, name), weight) for (_, sample), weight in zip(self._samples, durations, strict=True)]
        known = [(value, weight) for value, weight in values if value is not None and weight]
        total = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / total if total else None
