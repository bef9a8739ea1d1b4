"""Points for how full a node would be: the arithmetic that the resource plugins share.

A strategy turns each resource's use into points and takes their weighted mean (noderesources/least_allocated.go,
most_allocated.go and requested_to_capacity_ratio.go upstream).

Upstream computes in int64 and overflows where a node claims exabytes; here no input overflows. Three ways lead to the
same integers, the fastest that is exact is taken: float64 while `100 * amount` is below 2^53 (the quotient of two such
integers never rounds up to the next integer, so cutting off its fraction is integer division), int64 below 2^63, and
Python's integers beyond.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import MAX_INT64
from kscheduler.framework.node_table import NodeTable, Rows, Scores
from kscheduler.framework.requests import CPU, MEMORY, is_scalar

Amounts = NDArray[np.int64]
"""Amounts of one resource, one per row, in 0..2^63 - 1."""

_MAX: Final = 100
_EXACT_AS_FLOAT: Final = 2**46
"""Below this, a hundred times the amount is an integer that float64 holds exactly."""
_EXACT_AS_INT64: Final = 2**56


@dataclass(slots=True)  # freezing would cost as much as an array operation
class Usage:
    """One resource over the rows, for one pod. Not to be changed."""

    allocatable: Amounts
    requested: Amounts
    """By the pods that are there."""
    request: int
    """By the pod that is to be placed, 0..2^63 - 1."""
    weight: int = 1

    @property
    def is_everywhere(self) -> bool:
        """Whether each row has some of the resource; where a row has none, the resource is left out of its mean."""
        return bool(np.count_nonzero(self.allocatable) == len(self.allocatable))

    @property
    def left(self) -> Amounts:
        """What would be left with the pod there; 0 where it does not fit."""
        free = self.allocatable - self.requested
        left: Amounts = np.maximum(free, self.request) - self.request  # the other way round could wrap
        return left

    @property
    def taken(self) -> Amounts:
        """What would be taken with the pod there, at most all."""
        return self.allocatable - self.left

    @property
    def requested_both_ways(self) -> Amounts:
        """[with the pod | without it, row]: the sum over the row's pods, with this one saturated."""
        more = np.array([[self.request], [0]], dtype=np.int64)
        return np.minimum(self.requested, MAX_INT64 - more) + more


def usage(nodes: NodeTable, rows: Rows, resource: str, request: int, *, weight: int = 1, nonzero: bool) -> Usage | None:
    """A resource's columns at the rows, or `None` where it does not count for this pod.

    An extended resource that the pod does not ask for says nothing about it. With `nonzero`, cpu and memory count what
    scoring presumes of pods that request nothing.
    """
    if request <= 0 and is_scalar(resource):
        return None
    index = nodes.resources.get(resource)
    if index is None:
        return None
    where = compact(rows)
    presumed = nonzero and resource in (CPU, MEMORY)
    requested = values_at((nodes.nonzero_requested if presumed else nodes.requested)[index], where)
    return Usage(values_at(nodes.allocatable[index], where), requested, max(request, 0), weight)


def compact(rows: Rows) -> slice | Rows:
    """The same rows as an index that copies nothing for 0, 1, 2 ... without a gap, or one row. Views: do not write."""
    size = len(rows)
    if size == 1:
        row = rows.item()
        return slice(row, row + 1)
    return slice(0, size) if size and rows[-1] == size - 1 else rows


def values_at(column: NDArray[np.int64], where: slice | Rows) -> NDArray[np.int64]:
    """A column at what `compact` gave: `take` is twice as fast as an index."""
    return column[where] if isinstance(where, slice) else column.take(where)


def percent(part: Amounts, whole: Amounts) -> Amounts:
    """`part * 100 / whole` as Go's int64 division, for 0 <= part <= whole; 0 where `whole` is 0."""
    divisor = np.maximum(whole, 1)
    largest = int(divisor.max()) if divisor.size else 1
    if largest < _EXACT_AS_FLOAT:
        return (part * float(_MAX) / divisor).astype(np.int64)
    if largest < _EXACT_AS_INT64:
        return part * _MAX // divisor
    exact: Amounts = (part.astype(object) * _MAX // divisor.astype(object)).astype(np.int64)
    return exact


# --- strategies -------------------------------------------------------------------------------------------------------


def least_allocated(usages: Sequence[Usage], size: int) -> Scores:
    """The emptier the node would be, the more points: mean of `left * 100 / allocatable`. One score per row."""
    return _mean(usages, [percent(one.left, one.allocatable) for one in usages], size)


def most_allocated(usages: Sequence[Usage], size: int) -> Scores:
    """The fuller the node would be, the more points: mean of `taken * 100 / allocatable`. One score per row."""
    return _mean(usages, [percent(one.taken, one.allocatable) for one in usages], size)


def by_shape(usages: Sequence[Usage], size: int, points_at: Scores) -> Scores:
    """RequestedToCapacityRatio: `points_at[utilization]`, 101 entries from `points_by_utilization`. One score per row.

    A resource that earns nothing leaves its weight out of the mean as well (Q11), and the mean is rounded, halves up.
    """
    total = np.zeros(size, dtype=np.int64)
    weights = np.zeros(size, dtype=np.int64)
    for one in usages:
        points = np.where(one.allocatable > 0, points_at[percent(one.taken, one.allocatable)], 0)
        total += points * one.weight
        weights += np.where(points > 0, one.weight, 0)
    return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)


def points_by_utilization(shape: Sequence[tuple[int, int]]) -> Scores:
    """A shape's points (0..100) at each whole utilization from 0 to 100.

    `shape` is (utilization, score 0..10) in rising order: straight lines between the corners, flat outside, and every
    division cut towards zero as in Go, falling lines included.
    """
    corners = [(utilization, score * 10) for utilization, score in shape]
    return np.array([_on_line(corners, utilization) for utilization in range(_MAX + 1)], dtype=np.int64)


def _on_line(corners: Sequence[tuple[int, int]], utilization: int) -> int:
    x0, y0 = corners[0]
    for x, y in corners:
        if utilization <= x:
            rise = (y - y0) * (utilization - x0)
            return y if x == x0 else y0 + truncated(rise, x - x0)
        x0, y0 = x, y
    return y0


def truncated(dividend: int, divisor: int) -> int:
    """Integer division that cuts towards zero, as Go's, where Python's `//` rounds down. `divisor` is positive."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def _mean(usages: Sequence[Usage], points: Sequence[Scores], size: int) -> Scores:
    """The weighted mean over the resources that a row has; 0 where it has none of them."""
    total = np.zeros(size, dtype=np.int64)
    weights: Scores | int = 0
    for one, its_points in zip(usages, points, strict=True):
        total += its_points if one.weight == 1 else its_points * one.weight
        weights = weights + (one.weight if one.is_everywhere else np.where(one.allocatable > 0, one.weight, 0))
    return total // (max(weights, 1) if isinstance(weights, int) else np.maximum(weights, 1))
