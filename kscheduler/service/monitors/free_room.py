"""What the nodes have, what is requested, and how much of what is free is of no use: for dashboards.

What the nodes have of resources is added up at each scrape: two columns a resource. What is of no use takes a walk over
pods and nodes: it begins with a scrape, runs in slices between decisions, and the next one begins no earlier than its
cost allows. Between walks a scrape has the devices counted that have changed. So a scrape shows what was found after
the one before it, and nobody who does not scrape pays for it.

Names of resources, drivers and pools come from nodes and drivers, so there is a bound for each. What is gone stays at
zero, so that lines in graphs fall instead of ending.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import BackgroundService, Slicer, run_in_slices
from kscheduler.api.core import Pod
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.fragments.fragmentation import OTHERS, ResourceFragmentation
from kscheduler.fragments.typical_requests import Ignores, ignores_nothing, pods_on_nodes
from kscheduler.fragments.unusable import fragments
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU, PODS
from kscheduler.server.pages.pod_resources import unit_of
from kscheduler.state.cache import Cache
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.samples import Sample, gauge
from kscheduler.telemetry.series import LabelValues, MetricSeries

_log = get_logger("kscheduler")

SHORTEST_PAUSE_SECONDS: Final = 60.0
LONGEST_PAUSE_SECONDS: Final = 600.0
# Between two looks at devices that have changed, which mostly are few.
DEVICES_PAUSE_SECONDS: Final = 1.0
# Of the loop's time that walks may take; others' turns between slices count as cost: a busy scheduler walks less.
PART_OF_TIME: Final = 1 / 250
# Resources with series of their own, those of Kubernetes first; further ones are `other`.
MAX_NAMES: Final = 32
# Reasons, by resource or group of devices, that stay at zero when they are gone.
MAX_REASONS: Final = 512
_SLICE_SECONDS: Final = 0.002
CORDONED: Final = "cordoned"
# In place of a pool's name: devices that one node reaches.
OF_NODES: Final = "(nodes)"

NODE_RESOURCES: Final = MetricSeries(
    "kscheduler_node_resources",
    "Resources of all nodes: allocatable, and requested by the pods on them.",
    ("resource", "unit", "state"),
)
CLASS_DEVICES: Final = MetricSeries(
    "kscheduler_class_devices",
    "Devices by class, driver and pool that several nodes reach: free, taken (claims have them or shares of them), "
    "tainted (free, but claims without a toleration get none, or counters are used up).",
    ("device_class", "driver", "pool", "state"),
)
UNUSABLE_RESOURCES: Final = MetricSeries(
    "kscheduler_unusable_resources",
    "What is free on nodes where no pod like those that run or wait could use it, by reason: cordoned, or the resource "
    "that most of these pods lack there.",
    ("resource", "unit", "reason"),
)
UNUSABLE_DEVICES: Final = MetricSeries(
    "kscheduler_unusable_devices",
    "Free devices that no pod like those that run or wait could use, by reason, as kscheduler_unusable_resources.",
    ("device_class", "driver", "pool", "reason"),
)

Values = dict[LabelValues, float]


class PendingPodSource(msgspec.Struct, frozen=True):
    """Where the monitor reads the pods that wait."""

    keys: Callable[[], Iterable[str]]
    pod: Callable[[str], Pod | None]


class _PacedWork:
    """Work that a scrape asks for; the next one begins no earlier than its cost allows."""

    def __init__(
        self, work: Callable[[], Awaitable[None]], shortest: float, clock: Clock, has_synced: Callable[[], bool]
    ) -> None:
        self._work, self._shortest = work, shortest
        self._clock, self._has_synced = clock, has_synced
        self.asked = asyncio.Event()
        self.pause_seconds = shortest
        """Until the next one may begin."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.asked.wait()
            self.asked.clear()
            if not self._has_synced():
                continue
            try:
                began = time.perf_counter()
                await self._work()
                cost = time.perf_counter() - began
                self.pause_seconds = min(max(cost / PART_OF_TIME, self._shortest), LONGEST_PAUSE_SECONDS)
            except Exception:  # noqa: BLE001  gauges must not end who schedules
                count_caught(Boundary.HTTP)
                _log.exception("free_room_not_measured")
                self.pause_seconds = LONGEST_PAUSE_SECONDS
            await self._clock.sleep(self.pause_seconds)


class FreeRoom:
    """The gauges; `services` must run for those to change that are not read from columns."""

    def __init__(
        self,
        cache: Cache,
        devices: ClassDevices,
        waiting: PendingPodSource,
        clock: Clock,
        has_synced: Callable[[], bool],
        ignores: Ignores = ignores_nothing,
    ) -> None:
        """`ignores`: by the profiles in force."""
        self._cache, self._devices, self._waiting, self._ignores = cache, devices, waiting, ignores
        self.walks = _PacedWork(self._walk, SHORTEST_PAUSE_SECONDS, clock, has_synced)
        self._counts = _PacedWork(self._count, DEVICES_PAUSE_SECONDS, clock, has_synced)
        self._found: tuple[ResourceFragmentation, ...] = ()
        self._resources: dict[str, None] = {}
        self._unusable = _StayingAtZero(), _StayingAtZero()

    def services(self) -> tuple[BackgroundService, ...]:
        """What measures."""
        return (
            BackgroundService("free room", self.walks.run),
            BackgroundService("devices by class", self._counts.run),
        )

    async def _walk(self) -> None:
        running = partial(pods_on_nodes, self._cache)
        walk = fragments(self._cache, self._devices, running, self._waiting_pods, self._ignores)
        self._found = await run_in_slices(walk, Slicer(_SLICE_SECONDS))

    async def _count(self) -> None:
        await run_in_slices(self._devices.follow(), Slicer(_SLICE_SECONDS))

    def _waiting_pods(self) -> Iterator[PodInfo]:
        for key in self._waiting.keys():  # noqa: SIM118  no dict
            pod = self._waiting.pod(key)
            if pod is not None:
                yield PodInfo(pod)

    def fragments(self) -> Sequence[ResourceFragmentation]:
        """As the last walk has found it; whoever asks has another one begin when it may."""
        self.walks.asked.set()
        return self._found

    # --- series -------------------------------------------------------------------------------------------------------

    def samples(self) -> Iterable[Sample]:
        """A `Source`."""
        self.walks.asked.set()
        self._counts.asked.set()
        of_resources, of_devices = self._unusable
        return [
            gauge(NODE_RESOURCES, self._node_resources()),
            gauge(CLASS_DEVICES, self._class_devices()),
            gauge(UNUSABLE_RESOURCES, of_resources.values(self._unusable_resources())),
            gauge(UNUSABLE_DEVICES, of_devices.values(self._unusable_devices())),
        ]

    def _node_resources(self) -> Values:
        nodes, rows = self._cache.nodes, self._cache.nodes.rows()
        values: Values = {}
        if nodes.resources.keys() != self._resources.keys():
            for name in sorted(nodes.resources, key=lambda name: ("/" in name, name)):
                if len(self._resources) < MAX_NAMES:
                    self._resources.setdefault(name)
        for name in {**self._resources, **nodes.resources}:
            for state, column in (("allocatable", nodes.allocatable), ("requested", nodes.requested)):
                amount = _in_unit(name, nodes.total(column, name, rows))
                labels = (*self._named(name), state)
                values[labels] = values.get(labels, 0.0) + amount
        return values

    def _named(self, resource: str) -> tuple[str, str]:
        """The resource and its unit."""
        return (resource, unit_of(resource)) if resource in self._resources else (OTHERS, "")

    def _class_devices(self) -> Values:
        values: Values = {}
        for group in self._devices.groups:
            sums, names = self._devices.sums(group), (group.device_class, group.driver, group.pool or OF_NODES)
            values[*names, "free"], values[*names, "taken"] = float(sums.free), float(sums.taken)
            values[*names, "tainted"] = float(sums.there - sums.taken - sums.free)
        return values

    def _unusable_resources(self) -> Iterator[tuple[LabelValues, float]]:
        for each in self._found:
            if not each.device_class:
                for reason, amount in _reasons(each):
                    is_known = reason in (CORDONED, PODS) or reason.startswith(IMPLICIT_EXTENDED_RESOURCE)
                    lacked = reason if is_known else self._named(reason)[0]
                    yield (*self._named(each.resource), lacked), _in_unit(each.resource, amount)

    def _unusable_devices(self) -> Iterator[tuple[LabelValues, float]]:
        for each in self._found:
            if each.device_class:
                for reason, amount in _reasons(each):
                    yield (each.device_class, each.driver, each.pool or OF_NODES, reason), float(amount)


class _StayingAtZero:
    """Values by labels, of which those that are gone stay at zero, as many as there is room for."""

    def __init__(self) -> None:
        self._known: dict[LabelValues, None] = {}

    def values(self, found: Iterable[tuple[LabelValues, float]]) -> Mapping[LabelValues, float]:
        """What was found, added up by labels."""
        values: Values = dict.fromkeys(self._known, 0.0)
        for labels, amount in found:
            values[labels] = values.get(labels, 0.0) + amount
        for labels in values:
            if len(self._known) < MAX_REASONS:
                self._known.setdefault(labels)
        return values


def _reasons(found: ResourceFragmentation) -> Iterator[tuple[str, int]]:
    """Also those that are 0: the series is there before anything is of no use."""
    yield CORDONED, found.cordoned
    yield found.resource, found.lacking.get(found.resource, 0)
    yield from ((lacked, amount) for lacked, amount in found.lacking.items() if lacked != found.resource)


def _in_unit(resource: str, amount: int) -> float:
    """CPU in cores, all else as it is."""
    return amount / 1000 if resource == CPU else float(amount)
