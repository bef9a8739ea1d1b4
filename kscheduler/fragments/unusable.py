"""What is free on each node against what typical pods request.

A piece is what one node has free. It can be used if some typical pod that asks for the resource finds all that it
requests on that node. Only requests are compared, not where a pod may run. A device of which somebody has a share
counts as taken. Resources that no node has are counted together (`OTHERS`), as pods name them freely.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.fragments.class_devices import ClassDevices, DeviceGroup
from kscheduler.fragments.fragmentation import OTHERS, ResourceFragmentation, class_in
from kscheduler.fragments.typical_requests import Ignores, Pods, Requests, ignores_nothing, typical_requests
from kscheduler.framework.nodes.exact_sums import exact_sum
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.state.cache import Cache

_PODS: Final = "pods"
# Resources with a row of their own; each takes a table of all nodes by all of them.
MAX_RESOURCES: Final = 32


def fragments(
    cache: Cache, devices: ClassDevices | None, running: Pods, waiting: Pods, ignores: Ignores = ignores_nothing
) -> Generator[None, None, tuple[ResourceFragmentation, ...]]:
    """By resource that a typical pod requests. `cache`: with the running pods on their nodes; `devices`: of the same.

    What is free is read at once, after the pods; at the pauses others may run. Without `devices` those that claims ask
    for, or that stand for a resource, are left out.
    """
    if devices is None:
        mix = yield from typical_requests(running, waiting, None, ignores)
        mix = _without_devices(mix, cache)
    else:
        yield from devices.follow()
        mix = yield from typical_requests(running, waiting, cache.devices.claims, ignores)
    free = _FreeAmounts(cache, devices, _known(cache, mix))
    for requests, count in mix.items():
        free.judge(requests, count)
        yield
    found: list[ResourceFragmentation] = []
    for index in range(len(free.names)):
        found += free.of_resource(index)
        yield
    return tuple(found)


def used_up(devices: ClassDevices, found: Sequence[ResourceFragmentation]) -> Iterator[ResourceFragmentation]:
    """The groups of devices that `found` lacks, as none of them is free, of the classes that it has.

    With them, shares are of all devices of a class.
    """
    names = {each.device_class for each in found}
    seen = {(each.device_class, each.driver, each.pool) for each in found}
    for group in devices.groups:
        if group.device_class in names and group not in seen and (there := devices.sums(group).there):
            yield ResourceFragmentation(
                resource=f"{IMPLICIT_EXTENDED_RESOURCE}{group.device_class}",
                free=0,
                cordoned=0,
                lacking={},
                allocatable=there,
                driver=group.driver,
                pool=group.pool,
            )


def _without_devices(mix: Mapping[Requests, int], cache: Cache) -> dict[Requests, int]:
    left: Counter[Requests] = Counter()
    for requests, count in mix.items():
        left[tuple(each for each in requests if cache.devices.class_of_resource(each[0]) is None)] += count
    return left


def _known(cache: Cache, mix: Iterable[Requests]) -> list[str]:
    """The resources that are asked for and that there are; of too many those of Kubernetes itself, and the first."""
    asked = {name for requests in mix for name, _ in requests}
    devices = cache.devices
    there = [
        name
        for name in asked
        if name in cache.nodes.resources
        or devices.class_of_resource(name) is not None
        or devices.device_class(class_in(name)) is not None
    ]
    return sorted(sorted(there, key=lambda name: ("/" in name, name))[:MAX_RESOURCES])


class _FreeAmounts:
    """What is free on the nodes at one moment, and which of it the requests that were judged can use."""

    def __init__(self, cache: Cache, devices: ClassDevices | None, names: Sequence[str]) -> None:
        nodes, rows = cache.nodes, cache.nodes.rows()
        self.names = names
        self._lacked = [*names, OTHERS, _PODS]
        self._place = {name: index for index, name in enumerate(names)}
        self._cordoned = nodes.unschedulable[rows].copy()
        columns = [_column(cache, devices, name, rows) for name in names]
        self._allocatable = [there for there, _ in columns]
        pods = nodes.allowed_pods[rows] - nodes.pod_count[rows]
        self._free = np.maximum(np.stack([*(free for _, free in columns), np.zeros_like(pods), pods]), 0)
        """int64 [resource, node], as `_lacked`."""
        self._devices = {
            index: [(group, *devices.of_group(group, rows)) for group in devices.groups if group.device_class == name]
            for index, name in enumerate(map(class_in, names))
            if name and devices is not None
        }
        self._usable = np.zeros((len(names), len(rows)), dtype=np.bool_)
        self._asked = [0] * len(names)
        """By resource, how many of the pods ask for it."""
        self._unfit = np.zeros((len(names), len(rows)), dtype=np.int64)
        """By resource and node, how many of these do not find there all that they request."""
        self._short = np.zeros((len(names), len(self._lacked), len(rows)), dtype=np.int32)
        """By resource, what lacks and node: how many of the pods that ask for the resource find too little."""

    def judge(self, requests: Requests, count: int) -> None:
        """These requests, of so many pods."""
        asked = np.zeros((len(self._free), 1), dtype=np.int64)
        asked[-1] = 1
        for name, amount in requests:
            asked[self._place.get(name, -2)] = amount
        lacks = asked > self._free
        fits = ~lacks.any(axis=0)
        short = lacks.astype(np.int32) * count
        for index in [self._place[name] for name, _ in requests if name in self._place]:
            self._usable[index] |= fits
            self._asked[index] += count
            self._unfit[index] += ~fits * count
            self._short[index] += short

    def of_resource(self, index: int) -> Iterator[ResourceFragmentation]:
        """Of devices of a class an entry for each group; nothing where nothing is free."""
        if index not in self._devices:
            yield from self._entry(index, self._allocatable[index], self._free[index])
            return
        for group, there, free in self._devices[index]:
            if group.pool:
                yield from self._shared_pool(index, group, there, free)
            else:
                yield from self._entry(index, there, free, group.driver)

    def _entry(
        self, index: int, there: NDArray[np.int64], free: NDArray[np.int64], driver: str = ""
    ) -> Iterator[ResourceFragmentation]:
        if not free.any():
            return
        wasted = ~self._usable[index] & ~self._cordoned & (free > 0)
        scarcest = self._short[index].argmax(axis=0)
        amounts = {
            self._lacked[each]: exact_sum(free[wasted & (scarcest == each)]) for each in np.unique(scarcest[wasted])
        }
        yield ResourceFragmentation(
            resource=self.names[index],
            allocatable=exact_sum(there),
            free=exact_sum(free),
            cordoned=exact_sum(free[self._cordoned]),
            fragmented=self._fragmented(index, free),
            lacking=amounts,
            driver=driver,
        )

    def _fragmented(self, index: int, free: NDArray[np.int64]) -> int:
        unfit = np.where(self._cordoned, 1.0, self._unfit[index] / self._asked[index])
        return round(float((free * unfit).sum()))

    def _best_share(self, index: int, nodes: NDArray[np.bool_]) -> float:
        """Of the pods that ask for the resource those that do not fit on the node, of these, on which most do."""
        return float(self._unfit[index][nodes].min()) / self._asked[index] if nodes.any() else 1.0

    def _shared_pool(
        self, index: int, group: DeviceGroup, there: NDArray[np.int64], free: NDArray[np.int64]
    ) -> Iterator[ResourceFragmentation]:
        """Devices that several nodes reach: each once, and of use if it is on one of the nodes."""
        most = int(there.argmax()) if len(there) else 0
        if not there.any() or not free[most]:
            return
        amount, reaching = int(free[most]), there > 0
        open_nodes = reaching & ~self._cordoned
        lacking: dict[str, int] = {}
        if open_nodes.any() and not (self._usable[index] & open_nodes).any():
            scarcest = int(self._short[index][:, open_nodes].sum(axis=1).argmax())
            lacking[self._lacked[scarcest]] = amount
        yield ResourceFragmentation(
            resource=self.names[index],
            allocatable=int(there[most]),
            free=amount,
            cordoned=0 if open_nodes.any() else amount,
            fragmented=round(amount * self._best_share(index, open_nodes)),
            lacking=lacking,
            driver=group.driver,
            pool=group.pool,
        )


def _column(
    cache: Cache, devices: ClassDevices | None, name: str, rows: Rows
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What each row has of a resource, and what is free of it. Where no row lists it, devices may stand for it."""
    nodes = cache.nodes
    there = nodes.amounts(nodes.allocatable, name, rows)
    free = there - nodes.amounts(nodes.requested, name, rows)
    stands = cache.devices.class_of_resource(name)
    device_class = class_in(name) or ("" if stands is None else stands.metadata.name)
    if devices is None or not device_class:
        return there, free
    is_listed = there > 0
    reached, _, left = devices.reached(device_class, rows)
    return np.where(is_listed, there, reached), np.where(is_listed, free, left)
