"""Devices as amounts of a resource: for each node how many a class has there, and how many are taken.

A class of devices may stand for an extended resource, and scoring by such a resource counts devices
(noderesources/resource_allocation.go). They are kept in columns: a *part* is the devices of one slice that are for the
same nodes; it adds its sums to the rows of these nodes. When a claim takes or gives back, the parts of its pools are
counted again; when a slice changes, its parts; when a node changes, its row. Nothing is counted for a decision.

What counts is wider than what DynamicResources would allocate, as upstream: slices of older generations, incomplete
pools and tainted devices, too. Where a selector fails for one of a node's devices, none of the class count there.
Upstream keeps the first answer about a device or node forever, under its name; here it lasts as long as they do.
Limit: a selector whose evaluation costs more than BUDGET_COST counts as failing, as scoring cannot wait for it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import NodeSelector
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE, Device, DeviceClass, ResourceSlice
from kscheduler.api.selector_errors import SelectorCompileError, SelectorRuntimeError
from kscheduler.api.selectors import NodeTerm, parse_node_term
from kscheduler.devices.ids import DeviceID, PoolID
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.requests import is_extended

if TYPE_CHECKING:  # imported for the first selector
    from kscheduler.api.device_selectors import CompiledSelector, Release, SelectorCompiler

BUDGET_STEPS: Final = 20_000
# What compiling a selector and evaluating it about one device may take: some milliseconds.
BUDGET_COST: Final = 2_000

# Of `device` in a selector, besides its driver.
_OTHER_FIELDS: Final = ("attributes", "capacity", "allowMultipleAllocations")
_NAMED: Final = "named"
_EVERYWHERE: Final = "everywhere"
_SELECTED: Final = "selected"
_Where = tuple[Literal["named"], str] | tuple[Literal["everywhere"]] | tuple[Literal["selected"], NodeSelector]
Column = NDArray[np.int64]
_Key = TypeVar("_Key")


@dataclass(slots=True)
class _Part:
    """The devices of a slice that are for the same nodes, as far as they pass the class."""

    where: _Where
    devices: list[DeviceID]
    failed: int
    """1: a selector fails for one of the slice's devices there."""
    taken: int = 0
    mask: NDArray[np.bool_] | None = None
    """Of a part that is selected: its rows, bool [capacity]."""
    terms: Sequence[NodeTerm] = ()


def device_amounts(
    resources: Iterable[str],
    devices: Devices | None,
    nodes: Callable[[], NodeTable],
    features: Collection[str],
    version: str,
) -> "DeviceAmounts | None":
    """For a plugin that scores by these resources; `None` if devices stand for none of them, whatever classes come."""
    if devices is None or "DRAExtendedResource" not in features:
        return None
    if not any(is_extended(name) or name.startswith(IMPLICIT_EXTENDED_RESOURCE) for name in resources):
        return None
    has_lists = "DRAListTypeAttributes" in features
    return DeviceAmounts(devices, nodes(), cast("Release", version), has_lists=has_lists)


class DeviceAmounts:
    """The columns of the classes that were asked for."""

    def __init__(self, devices: Devices, nodes: NodeTable, version: "Release", *, has_lists: bool) -> None:
        """`has_lists`: gate DRAListTypeAttributes."""
        self._devices, self._nodes = devices, nodes
        self._version, self._has_lists = version, has_lists
        self._compiler: SelectorCompiler | None = None
        self._compiled: dict[str, CompiledSelector | SelectorCompileError] = {}
        """The selectors of the classes with columns, and why one has none."""
        self._columns: dict[str, _Columns] = {}
        """By name of the class."""

    def of_all(self, demands: Iterable[tuple[str, int, int]], rows: Rows) -> dict[str, tuple[Column, Column]]:
        """By name, `on` of each requested resource that devices back. `demands`: name, request, what is scored."""
        requested = [name for name, request, _ in demands if request > 0]
        return {name: found for name in requested if (found := self.on(name, rows)) is not None}

    def on(self, resource: str, rows: Rows) -> tuple[Column, Column] | None:
        """How many devices stand for the resource on each row, and how many of these are taken: int64, like `rows`.

        `None`: none do, anywhere.
        """
        stands = self._devices.class_of_resource(resource)
        if stands is None:
            return None
        columns = self._columns.get(stands.metadata.name)
        if columns is None or columns.device_class.spec.selectors != stands.spec.selectors:
            self._forget_others()
            columns = self._columns[stands.metadata.name] = _Columns(stands, self)
        try:
            columns.follow(self._devices, self._nodes)
        except BaseException:  # it may be half changed: counted from the beginning by who asks next
            del self._columns[stands.metadata.name]
            raise
        total = np.where(columns.failed[rows] > 0, 0, columns.total[rows])
        return total, columns.taken[rows]

    def _forget_others(self) -> None:
        """Drop the columns of classes that are gone, and all compiled selectors."""
        self._compiled.clear()
        for name in [name for name in self._columns if self._devices.device_class(name) is None]:
            del self._columns[name]

    def passes_by_driver(self, device_class: DeviceClass) -> bool:
        """Whether the selectors answer alike for all devices of a driver: they name no other field of `device`."""
        expressions = [each.cel.expression for each in device_class.spec.selectors if each.cel is not None]
        return not any(field in expression for expression in expressions for field in _OTHER_FIELDS)

    def passes(self, device_class: DeviceClass, driver: str, device: Device) -> bool:
        """Whether the device is of the class. Raises `SelectorCompileError`, `SelectorRuntimeError`."""
        for selector in device_class.spec.selectors:
            if selector.cel is None:
                continue
            if not self._selector(selector.cel.expression).evaluate(driver, device, BUDGET_COST)[0]:
                return False
        return True

    def _selector(self, expression: str) -> "CompiledSelector":
        known = self._compiled.get(expression)
        if known is None:
            if self._compiler is None:  # its environment takes milliseconds
                from kscheduler.api.device_selectors import SelectorCompiler

                self._compiler = SelectorCompiler(self._version, self._has_lists)
            try:
                known = self._compiler.compile_again(expression, BUDGET_STEPS)
            except SelectorCompileError as problem:
                known = problem
            self._compiled[expression] = known
        if isinstance(known, SelectorCompileError):
            raise known
        return known


class _Columns:
    """One class."""

    def __init__(self, device_class: DeviceClass, amounts: DeviceAmounts) -> None:
        self.device_class = device_class
        self._passes = amounts.passes
        self._is_by_driver = amounts.passes_by_driver(device_class)
        self._answers: dict[str, bool | None] = {}
        """Of selectors that only read the driver, by its name; `None`: they fail."""
        self._slices: Sequence[ResourceSlice] = ()
        self._parts: dict[str, tuple[ResourceSlice, list[_Part]]] = {}
        """By name of the slice."""
        self._wide: dict[int, _Part] = {}
        """By identity those that are not for one named node."""
        self._on_node: dict[str, dict[int, _Part]] = {}
        """The others, by that node."""
        self._in_pool: dict[PoolID, dict[int, _Part]] = {}
        self._claims_at = -1
        self._nodes_at = -1
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        self.total: Column = np.zeros(capacity, dtype=np.int64)
        self.taken: Column = np.zeros(capacity, dtype=np.int64)
        self.failed: Column = np.zeros(capacity, dtype=np.int64)

    def follow(self, devices: Devices, nodes: NodeTable) -> None:
        """Take over what has changed since the last call."""
        self._follow_nodes(nodes)
        self._follow_slices(devices, nodes)
        self._follow_claims(devices, nodes)

    # --- what changes -------------------------------------------------------------------------------------------------

    def _follow_nodes(self, nodes: NodeTable) -> None:
        position, capacity = nodes.node_changes.position, nodes.capacity
        if position == self._nodes_at and len(self.total) == capacity:
            return
        changed = nodes.node_changes.since(self._nodes_at) if self._nodes_at >= 0 else None
        self._nodes_at = position
        if changed is None or len(self.total) != capacity:
            self._allocate(capacity)
            for part in self._all_parts():
                part.mask = None
                self._add(part, nodes, 1)
            return
        for row in changed.tolist():
            self._count_row(row, nodes)

    def _count_row(self, row: int, nodes: NodeTable) -> None:
        """The row again: its node is another one, is gone, or has other labels."""
        self.total[row] = self.taken[row] = self.failed[row] = 0
        is_live = bool(nodes.is_live[row])
        this_row = np.array([row], dtype=np.intp)
        for part in self._wide.values():
            is_here = is_live
            if part.mask is not None:
                is_here = is_live and bool(nodes.matches_any(part.terms, this_row)[0])
                part.mask[row] = is_here
            if is_here:
                self._add_at(part, row, 1)
        if is_live:
            for part in self._on_node.get(nodes.name_of(row), {}).values():
                self._add_at(part, row, 1)

    def _follow_slices(self, devices: Devices, nodes: NodeTable) -> None:
        slices = devices.slices()
        if slices is self._slices:
            return
        self._slices = slices
        now = {piece.metadata.name: piece for piece in slices}
        for name, (piece, parts) in tuple(self._parts.items()):
            if now.get(name) is not piece:
                del self._parts[name]
                for part in parts:
                    self._unfile(piece, part)
                    self._add(part, nodes, -1)
        for name, piece in now.items():
            if name not in self._parts:
                parts = self._parts_of(piece)
                self._parts[name] = piece, parts
                for part in parts:
                    self._count_taken(part, devices)
                    self._file(piece, part)
                    self._add(part, nodes, 1)

    def _follow_claims(self, devices: Devices, nodes: NodeTable) -> None:
        claims = devices.claims
        if claims.revision == self._claims_at:
            return
        pools = claims.pools_changed_since(self._claims_at) if self._claims_at >= 0 else None
        self._claims_at = claims.revision
        for pool in self._in_pool if pools is None else pools:
            for part in self._in_pool.get(pool, {}).values():
                before = part.taken
                self._count_taken(part, devices)
                if part.taken != before:
                    self.taken[self._rows(part, nodes)] += part.taken - before

    # --- parts --------------------------------------------------------------------------------------------------------

    def _parts_of(self, piece: ResourceSlice) -> list[_Part]:
        parts: dict[_Where, _Part] = {}
        spec = piece.spec
        of_all = None if spec.per_device_node_selection else _nodes_of_slice(piece)
        for device in spec.devices:
            where = _nodes_of_device(device) if spec.per_device_node_selection else of_all
            if where is None:
                continue
            part = parts.get(where)
            if part is None:
                part = parts[where] = _Part(where, [], 0)
                if where[0] == _SELECTED:
                    part.terms = [parse_node_term(term) for term in where[1].node_selector_terms]
            if part.failed:
                continue
            passes = self._result(spec.driver, device)
            if passes is None:
                part.failed = 1
            elif passes:
                part.devices.append(DeviceID(spec.driver, spec.pool.name, device.name))
        return list(parts.values())

    def _result(self, driver: str, device: Device) -> bool | None:
        """Whether the device is of the class; `None`: a selector fails."""
        if self._is_by_driver and driver in self._answers:
            return self._answers[driver]
        answer: bool | None
        try:
            answer = self._passes(self.device_class, driver, _as_scored(device))
        except (SelectorCompileError, SelectorRuntimeError):
            answer = None
        if self._is_by_driver:
            self._answers[driver] = answer
        return answer

    def _file(self, piece: ResourceSlice, part: _Part) -> None:
        self._in_pool.setdefault(_pool(piece), {})[id(part)] = part
        if part.where[0] == _NAMED:
            self._on_node.setdefault(part.where[1], {})[id(part)] = part
        else:
            self._wide[id(part)] = part

    def _unfile(self, piece: ResourceSlice, part: _Part) -> None:
        _drop(self._in_pool, _pool(piece), part)
        if part.where[0] == _NAMED:
            _drop(self._on_node, part.where[1], part)
        else:
            del self._wide[id(part)]

    def _all_parts(self) -> Iterator[_Part]:
        for _, parts in self._parts.values():
            yield from parts

    @staticmethod
    def _count_taken(part: _Part, devices: Devices) -> None:
        has = devices.claims.allocated_state().has
        part.taken = sum(map(has, part.devices))

    def _rows(self, part: _Part, nodes: NodeTable) -> "NDArray[np.bool_] | Rows":
        """The rows of the part's nodes, as an index of the columns."""
        if part.where[0] == _NAMED:
            row = nodes.row_of(part.where[1])
            return np.array([row] if row >= 0 else [], dtype=np.intp)
        if part.where[0] == _EVERYWHERE:
            return nodes.rows()
        if part.mask is None:
            part.mask = np.zeros(nodes.capacity, dtype=np.bool_)
            part.mask[nodes.rows()] = nodes.matches_any(part.terms, nodes.rows())
        return part.mask

    def _add(self, part: _Part, nodes: NodeTable, sign: int) -> None:
        self._add_at(part, self._rows(part, nodes), sign)

    def _add_at(self, part: _Part, rows: "NDArray[np.bool_] | Rows | int", sign: int) -> None:
        self.total[rows] += sign * len(part.devices)
        self.taken[rows] += sign * part.taken
        self.failed[rows] += sign * part.failed


def _pool(piece: ResourceSlice) -> PoolID:
    return PoolID(piece.spec.driver, piece.spec.pool.name)


def _nodes_of_slice(piece: ResourceSlice) -> _Where:
    """A slice without any choice of nodes counts everywhere, as upstream; the API server refuses such slices."""
    spec = piece.spec
    if spec.all_nodes or not (spec.node_name or spec.node_selector):
        return (_EVERYWHERE,)
    return (_SELECTED, spec.node_selector) if spec.node_selector is not None else (_NAMED, spec.node_name or "")


def _nodes_of_device(device: Device) -> _Where | None:
    if device.all_nodes:
        return (_EVERYWHERE,)
    if device.node_name:
        return _NAMED, device.node_name
    return None if device.node_selector is None else (_SELECTED, device.node_selector)


def _as_scored(device: Device) -> Device:
    """What selectors see of a device here: upstream leaves out whether several claims may have it."""
    return (
        msgspec.structs.replace(device, allow_multiple_allocations=None)
        if device.allow_multiple_allocations
        else device
    )


def _drop(filed: dict[_Key, dict[int, _Part]], key: _Key, part: _Part) -> None:
    of_key = filed[key]
    del of_key[id(part)]
    if not of_key:
        del filed[key]
