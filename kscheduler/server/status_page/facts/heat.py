"""The nodes by zone, and how full each is: a letter per node, for pages and for browsers that follow.

The problem: five thousand nodes are five thousand links if each is an element, which no browser shows at once. The
idea: a node is a cell, cells stand in an order that changes only with the nodes themselves, and how full they are is a
text with a letter per cell. A picture is drawn from it with one path per letter (`drawing`), and a browser that has
the text of a moment ago needs only the letters that have changed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.answers.scarce_resources import ScarceResource, scarcest
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.api.well_known import ZONE
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.framework.nodes.node_table import CPU_INDEX, MEMORY_INDEX, NodeTable, Rows
from kscheduler.framework.pods.requests import is_extended

# Blocks of their own, the largest; the nodes of all further zones stand together.
MAX_ZONES: Final = 24
# Extended resources and classes of devices that a picture can be drawn by.
MAX_CHOICES: Final = 12
# What a picture of any cluster can show, by its name in the address; extended resources and classes of devices stand
# beside it.
BY: Final = {"use": "the higher of CPU and memory", "cpu": "CPU", "memory": "memory", "pods": "number of pods"}
# Letters: nothing requested, more than 90 %, more than all, unschedulable, nothing there to request. Between the first
# two 1 to 9, tenths rounded up.
EMPTY, FULL, OVER, CORDONED, NONE = "0", "a", "o", "c", "n"
LEVELS: Final = "0123456789aocn"

_LETTERS: Final = np.frombuffer(LEVELS.encode(), dtype=np.uint8)
_OVER_AT, _CORDONED_AT, _NONE_AT = LEVELS.index(OVER), LEVELS.index(CORDONED), LEVELS.index(NONE)

# Per row requested / allocatable: 1.0 is full; 2.0 where something is requested of nothing.
Shares = NDArray[np.float64]


class ZoneBlock(msgspec.Struct, frozen=True):
    """The nodes of a zone: cells `first` to `first + count`."""

    name: str
    """Empty: nodes without a zone."""
    first: int
    count: int
    is_rest: bool = False
    """Several zones that have no block of their own."""


class Cells(msgspec.Struct, frozen=True, eq=False):
    """Which node is which cell; the same object until nodes come, go or change zones."""

    zones: tuple[ZoneBlock, ...]
    names: tuple[str, ...]
    """By cell."""
    rows: Rows
    """The rows in the order of the cells."""
    version: int
    """Another one with other cells: a browser with an older one must fetch the page again."""


class Summary(msgspec.Struct, frozen=True):
    """All nodes in numbers."""

    nodes: int
    cordoned: int
    overcommitted: int
    cpu: float
    """Share of all CPU that is requested; 0 if there is none."""
    memory: float
    pods: int


class HeatMap:
    """Reads the node table; keeps the order of the cells while the nodes stay the same."""

    def __init__(self, nodes: NodeTable, devices: ClassDevices | None = None) -> None:
        """`devices`: on the same nodes, as whoever reads the map has brought them up to date."""
        self._nodes, self._devices = nodes, devices
        self._cells = Cells((), (), nodes.rows(), 0)
        self._names: tuple[str, ...] | None = None
        self._zone_ids: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

    def cells(self) -> Cells:
        """The cells now. Sorts all names if nodes have come, gone or changed zones, otherwise compares two columns."""
        names, rows = self._nodes.names(), self._nodes.rows()
        ids, values = self._nodes.label_values(ZONE, rows)
        if names is not self._names or not np.array_equal(ids, self._zone_ids):
            self._names, self._zone_ids = names, ids.copy()
            by_zone: dict[str, list[tuple[str, int]]] = {}
            for row, number in zip(rows.tolist(), ids.tolist(), strict=True):
                by_zone.setdefault(values[number] or "", []).append((names[row], row))
            self._cells = _cells_of(by_zone, self._cells.version + 1)
        return self._cells

    def choices(self) -> dict[str, str]:
        """What a picture can show: `BY`, and what few nodes have, the scarcest first; by name, with its words."""
        return BY | {each.name: each.words for each in scarcest(self.scarce(), MAX_CHOICES)}

    def letters(self, by: str) -> str:
        """How full each cell is. `by`: of `choices`; of a resource that no node has, no cell has anything."""
        nodes, rows = self._nodes, self.cells().rows
        requested, there = self.amounts(by, rows) if by not in _SHARES else (None, None)
        share = _SHARES[by](nodes, rows) if requested is None or there is None else share_of(requested, there)
        tenths = np.clip(np.ceil(share * 10 - 1e-9), 0, 10).astype(np.intp)
        tenths[share > 1] = _OVER_AT
        if there is not None:
            tenths[(share == 0) & (there == 0)] = _NONE_AT
        tenths[nodes.unschedulable[rows]] = _CORDONED_AT
        return _LETTERS[tenths].tobytes().decode()

    def amounts(self, name: str, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How much is requested of an extended resource, or taken of a class of devices, and how much there is."""
        if name.startswith(IMPLICIT_EXTENDED_RESOURCE) and self._devices is not None:
            there, taken, _ = self._devices.reached(name.removeprefix(IMPLICIT_EXTENDED_RESOURCE), rows)
            return taken, there
        nodes = self._nodes
        return nodes.amounts(nodes.requested, name, rows), nodes.amounts(nodes.allocatable, name, rows)

    def scarce(self) -> Iterator[ScarceResource]:
        """What few nodes have, in no order; each has a picture."""
        yield from self.extended()
        yield from self._by_class()

    def extended(self) -> Iterator[ScarceResource]:
        """The extended resources that nodes have; those that devices alone stand for are of no node."""
        nodes, rows = self._nodes, self._nodes.rows()
        for name in filter(is_extended, nodes.resources):
            there = nodes.total(nodes.allocatable, name, rows)
            if there:
                yield ScarceResource(name, nodes.total(nodes.requested, name, rows), there)

    def _by_class(self) -> Iterator[ScarceResource]:
        devices = self._devices
        for name in () if devices is None else devices.class_names:
            sums = [devices.sums(group) for group in devices.groups if group.device_class == name] if devices else []
            there = sum(each.there for each in sums)
            if there:
                taken = sum(each.taken for each in sums)
                yield ScarceResource(f"{IMPLICIT_EXTENDED_RESOURCE}{name}", taken, there, name)

    def drivers_of_classes(self) -> set[str]:
        """The drivers whose devices are counted by class."""
        return set() if self._devices is None else {group.driver for group in self._devices.groups}

    def find(self, name: str) -> ScarceResource | None:
        """What few nodes have of this name."""
        return next((each for each in self.scarce() if each.name == name), None)

    def summary(self) -> Summary:
        """All nodes in numbers."""
        nodes, rows = self._nodes, self._nodes.rows()
        return Summary(
            nodes=len(rows),
            cordoned=int(np.count_nonzero(nodes.unschedulable[rows])),
            overcommitted=int(np.count_nonzero(share_of_use(nodes, rows) > 1)),
            cpu=_whole_share(nodes, CPU_INDEX, rows),
            memory=_whole_share(nodes, MEMORY_INDEX, rows),
            pods=int(nodes.pod_count[rows].sum()),
        )


def _cells_of(by_zone: dict[str, list[tuple[str, int]]], version: int) -> Cells:
    largest = sorted(by_zone, key=lambda zone: (-len(by_zone[zone]), zone))[:MAX_ZONES]
    blocks: list[ZoneBlock] = []
    ordered: list[tuple[str, int]] = []
    for zone in sorted(largest, key=lambda name: (not name, name)):  # those without a zone come last
        blocks.append(ZoneBlock(zone, len(ordered), len(by_zone[zone])))
        ordered += sorted(by_zone[zone])
    rest = sorted(cell for zone, cells in by_zone.items() if zone not in largest for cell in cells)
    if rest:
        blocks.append(ZoneBlock("", len(ordered), len(rest), is_rest=True))
        ordered += rest
    rows = np.array([row for _, row in ordered], dtype=np.intp)
    return Cells(tuple(blocks), tuple(name for name, _ in ordered), rows, version)


def share_of(requested: NDArray[np.int64], allocatable: NDArray[np.int64]) -> Shares:
    """Of what there is on each row."""
    share = np.full(len(requested), 2.0)
    share[requested <= 0] = 0.0
    np.divide(requested, allocatable, out=share, where=allocatable > 0)
    return share


def share_of_cpu(nodes: NodeTable, rows: Rows) -> Shares:
    """Of CPU."""
    return share_of(nodes.requested[CPU_INDEX][rows], nodes.allocatable[CPU_INDEX][rows])


def share_of_memory(nodes: NodeTable, rows: Rows) -> Shares:
    return share_of(nodes.requested[MEMORY_INDEX][rows], nodes.allocatable[MEMORY_INDEX][rows])


def share_of_pods(nodes: NodeTable, rows: Rows) -> Shares:
    """Of the number of pods that the kubelet takes."""
    return share_of(nodes.pod_count[rows], nodes.allowed_pods[rows])


def share_of_use(nodes: NodeTable, rows: Rows) -> Shares:
    """The higher of CPU and memory."""
    return np.maximum(share_of_cpu(nodes, rows), share_of_memory(nodes, rows))


_SHARES: Final[dict[str, Callable[[NodeTable, Rows], Shares]]] = {
    "use": share_of_use,
    "cpu": share_of_cpu,
    "memory": share_of_memory,
    "pods": share_of_pods,
}


def _whole_share(nodes: NodeTable, index: int, rows: Rows) -> float:
    total = float(nodes.allocatable[index][rows].sum(dtype=np.float64))
    return float(nodes.requested[index][rows].sum(dtype=np.float64)) / total if total else 0.0


def changes(before: str, after: str) -> Sequence[tuple[int, str]]:
    """The cells whose letters differ, with the new letters. Both texts are of the same cells."""
    old, new = np.frombuffer(before.encode(), dtype=np.uint8), np.frombuffer(after.encode(), dtype=np.uint8)
    return [(at, after[at]) for at in np.flatnonzero(old != new).tolist()]
