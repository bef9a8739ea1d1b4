"""Points of nodes: how amounts of resources become a score, how scores are normalised, and how ties are broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import MAX_INT64
from kscheduler.api.well_known import MAX_NODE_SCORE
from kscheduler.config.types import FIRST_IN_ORDER, HASH
from kscheduler.framework.nodes.node_table import CPU_INDEX, MEMORY_INDEX, NodeTable, Rows, Scores
from kscheduler.framework.nodes.row_index import compact, side_by_side
from kscheduler.framework.pods.requests import is_scalar

# Normalisation that several plugins share (upstream's DefaultNormalizeScore).


def default_normalize(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scale scores to 0..100 by the largest score, in int64 division; `reverse` makes the smallest the best.

    Returns int64 in the shape of `scores`. If the largest score is 0, all rows get 0, or 100 in reverse.
    """
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // largest
    return MAX_NODE_SCORE - scaled if reverse else scaled


# Tie-breaking: a choice among equal nodes that looks random and is reproducible.

# What decides among equal nodes by each of a profile's tie rules, as explanations name it.
TIE_RULES: Final[Mapping[str, str]] = {HASH: "highest mix of pod UID and node name", FIRST_IN_ORDER: "first name"}

_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def folded(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The first step of `mix` for all seeds: as exclusive or and shift commute, it is taken once for each hash."""
    return hashes ^ (hashes >> _30)


def mix(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Mix 64-bit hashes with a seed (the finaliser of splitmix64): uint64, shape of `hashes`, the same everywhere."""
    return mix_of_folded(folded(hashes), seed)


def mix_of_folded(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """The same for hashes that are `folded`."""
    mixed = hashes ^ np.uint64(seed ^ seed >> 30)
    mixed *= _FIRST
    shifted = mixed >> _27
    mixed ^= shifted
    mixed *= _SECOND
    np.right_shift(mixed, _31, out=shifted)
    mixed ^= shifted
    return mixed


def highest_mix(hashes: NDArray[np.uint64], seed: int) -> int:
    """The index of the highest `mix` of hashes that are `folded`; -1 if several have it. The last shift of `mix` leaves
    the upper 31 bits as they are, so it is only taken where these do not decide.
    """
    mixed = hashes ^ np.uint64(seed ^ seed >> 30)  # hot: the body of `mix_of_folded`, without that shift
    mixed *= _FIRST
    mixed ^= mixed >> _27
    mixed *= _SECOND
    first = int(mixed.argmax())
    lowest_rival = mixed.item(first) >> 33 << 33
    mixed[first] = 0
    if mixed.item(mixed.argmax()) < lowest_rival:
        return first
    mixed = mix_of_folded(hashes, seed)
    first = int(mixed.argmax())
    return first if np.count_nonzero(mixed == mixed[first]) == 1 else -1


# Scores for the utilization of a node: the arithmetic that the resource plugins share.
#
# A strategy turns each resource's utilization into points and takes their weighted mean (least_allocated.go,
# most_allocated.go and requested_to_capacity_ratio.go in noderesources upstream).
#
# Upstream computes in int64 and overflows if a node claims exabytes; here no input overflows. There are three ways to
# the same integers, and the fastest exact one is used: float64 while `100 * amount` is below 2^53 (the quotient of two
# such integers never rounds up to the next integer, so truncation is integer division), int64 below 2^63, and Python's
# integers beyond.

# [resource, row], each in 0..2^63 - 1.
Amounts = NDArray[np.int64]
# A resource, how much of it the pod requests, and the weight of its points.
Demand = tuple[str, int, int]
# By a resource that devices stand for how many each row has, and how many are taken, int64 [rows].
Devices = Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]]

# Below this, a hundred times the amount is an integer that float64 holds exactly.
_EXACT_AS_FLOAT: Final = 2**46
_EXACT_AS_INT64: Final = 2**56


@dataclass(slots=True)  # freezing would cost as much as an array operation
class Usage:
    """Some resources over the rows, for one pod. Do not modify."""

    allocatable: Amounts
    requested: Amounts
    """[resource, row]: requested by the pods on the row."""
    requests: Amounts
    """[resource, 1]: requested by the pod to be scheduled."""
    weights: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.allocatable.shape[-1])

    @property
    def is_everywhere(self) -> bool:
        """Whether each row has some of each resource; if a row has none, the resource is left out of the row's mean."""
        return bool(np.count_nonzero(self.allocatable) == self.allocatable.size)

    @property
    def left(self) -> Amounts:
        """[resource, row]: what would be left with the pod there; 0 if it does not fit."""
        free = self.allocatable - self.requested
        left: Amounts = np.maximum(free, self.requests) - self.requests  # `free - requests` could overflow
        return left

    @property
    def taken(self) -> Amounts:
        """[resource, row]: what would be used with the pod there, at most all."""
        return self.allocatable - self.left

    @property
    def requested_both_ways(self) -> Amounts:
        """[resource, with the pod | without it, row]: the sum over the row's pods, with this one saturated."""
        both = np.empty((len(self), 2, self.size), dtype=np.int64)
        both[:, 0] = np.minimum(self.requested, MAX_INT64 - self.requests) + self.requests
        both[:, 1] = self.requested
        return both


def usage(
    nodes: NodeTable, rows: Rows, demands: Sequence[Demand], *, nonzero: bool, devices: Devices | None = None
) -> Usage:
    """The resources' columns at the rows, without the resources that do not count for this pod.

    Extended resources that the pod does not request do not count. With `nonzero`, cpu and memory include the defaults
    that scoring presumes for pods without requests. Where a row lists none of a resource of `devices`, these count.
    """
    if devices:
        wanted = [demand for demand in demands if demand[1] > 0 or not is_scalar(demand[0])]
        return _with_devices(nodes, rows, usage(nodes, rows, wanted, nonzero=nonzero), wanted, devices)
    counted = [
        demand for demand in demands if demand[0] in nodes.resources and (demand[1] > 0 or not is_scalar(demand[0]))
    ]
    requests = np.array([max(request, 0) for _, request, _ in counted], dtype=np.int64).reshape(-1, 1)
    where, weights = compact(rows), tuple([weight for _, _, weight in counted])
    at = [nodes.resources[name] for name, _, _ in counted]
    allocatable = side_by_side(nodes.allocatable, at, where)
    if nonzero and at == [CPU_INDEX, MEMORY_INDEX]:  # as by default
        return Usage(allocatable, side_by_side(nodes.nonzero_requested, at, where), requests, weights)
    requested = side_by_side(nodes.requested, at, where)
    if nonzero:
        presumed = [place for place, index in enumerate(at) if index in (CPU_INDEX, MEMORY_INDEX)]  # may repeat
        requested = requested.copy()  # it may be a view of the table's column
        requested[presumed] = nodes.nonzero_requested[[at[place] for place in presumed]][:, where]
    return Usage(allocatable, requested, requests, weights)


def _with_devices(nodes: NodeTable, rows: Rows, listed: Usage, demands: Sequence[Demand], devices: Devices) -> Usage:
    """What nodes list, and the devices of the resources that rows list none of, in the order of the demands: sums of
    floats depend on it. `listed`: of those of `demands` that some node lists.
    """
    none = np.zeros(len(rows), dtype=np.int64)
    places = iter(range(len(listed)))
    counted: list[tuple[Demand, Amounts, Amounts]] = []
    for demand in demands:
        name = demand[0]
        if name in nodes.resources:
            place = next(places)
            allocatable, requested = listed.allocatable[place], listed.requested[place]
        else:
            allocatable, requested = none, none
        if name in devices:
            total, taken = devices[name]
            has_devices = (allocatable == 0) & (total > 0)
            allocatable, requested = np.where(has_devices, total, allocatable), np.where(has_devices, taken, requested)
        elif allocatable is none:
            continue
        counted.append((demand, allocatable, requested))
    requests = np.array([[min(max(request, 0), MAX_INT64)] for (_, request, _), _, _ in counted], dtype=np.int64)
    return Usage(
        np.array([each for _, each, _ in counted]),
        np.array([each for _, _, each in counted]),
        requests,
        tuple(weight for (_, _, weight), _, _ in counted),
    )


def sum_over(nodes: NodeTable, rows: Rows, demands: Sequence[Demand]) -> Usage:
    """The rows as if they were one node, for pods that request so much together: a single column.

    Where a row has none of a resource, its pods' requests for it do not count.
    """
    each = usage(nodes, rows, demands, nonzero=True)
    requested = np.where(each.allocatable > 0, each.requested, 0)
    sums = each.allocatable.sum(axis=1, keepdims=True), requested.sum(axis=1, keepdims=True)
    return Usage(*sums, each.requests, each.weights)


def percent(part: Amounts, whole: Amounts) -> Amounts:
    """`part * 100 / whole` like Go's int64 division, for 0 <= part <= whole; 0 where `whole` is 0. Shape of `part`."""
    divisor = np.maximum(whole, 1)
    largest = int(divisor.max()) if divisor.size else 1
    if largest < _EXACT_AS_FLOAT:
        return (part * float(MAX_NODE_SCORE) / divisor).astype(np.int64)
    if largest < _EXACT_AS_INT64:
        return part * MAX_NODE_SCORE // divisor
    exact: Amounts = (part.astype(object) * MAX_NODE_SCORE // divisor.astype(object)).astype(np.int64)
    return exact


# --- strategies -------------------------------------------------------------------------------------------------------


def least_allocated(used: Usage) -> Scores:
    """The emptier the node would be, the more points: mean of `left * 100 / allocatable`. A score per row, 0..100."""
    return _mean(used, percent(used.left, used.allocatable))


def most_allocated(used: Usage) -> Scores:
    """The fuller the node would be, the more points: mean of `taken * 100 / allocatable`. A score per row, 0..100."""
    return _mean(used, percent(used.taken, used.allocatable))


def by_shape(used: Usage, points_at: Scores) -> Scores:
    """RequestedToCapacityRatio: `points_at[utilization]`, 101 entries from `points_by_utilization`. A score per row.

    A resource with 0 points is left out of the mean, with its weight (Q11); the mean is rounded, halves up.
    """
    points = np.where(used.allocatable > 0, points_at[percent(used.taken, used.allocatable)], 0)
    weights = np.array(used.weights, dtype=np.int64).reshape(-1, 1)
    total = (points * weights).sum(axis=0)
    counted = np.where(points > 0, weights, 0).sum(axis=0)
    mean: Scores = np.floor(total / np.maximum(counted, 1) + 0.5).astype(np.int64)
    return mean


def points_by_utilization(shape: Sequence[tuple[int, int]]) -> Scores:
    """A shape's points (0..100) at each integer utilization from 0 to 100: int64, 101 entries.

    `shape` is (utilization, score 0..10) in ascending order: linear between the corners, constant outside, and every
    division truncates towards zero as in Go, also on descending lines.
    """
    corners = [(utilization, score * 10) for utilization, score in shape]
    return np.array([_on_line(corners, utilization) for utilization in range(MAX_NODE_SCORE + 1)], dtype=np.int64)


def _on_line(corners: Sequence[tuple[int, int]], utilization: int) -> int:
    x0, y0 = corners[0]
    for x, y in corners:
        if utilization <= x:
            rise = (y - y0) * (utilization - x0)
            return y if x == x0 else y0 + truncated(rise, x - x0)
        x0, y0 = x, y
    return y0


def truncated(dividend: int, divisor: int) -> int:
    """Integer division that truncates towards zero like Go's; Python's `//` rounds down. `divisor` is positive."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def _mean(used: Usage, points: Scores) -> Scores:
    """The weighted mean over the resources that a row has; 0 if it has none of them. `points`: [resource, row]."""
    if not len(used):
        return np.zeros(used.size, dtype=np.int64)
    total: Scores
    if used.is_everywhere and max(used.weights) == 1:  # as by default
        total = np.add.reduce(points)
        return total // len(used)
    weights = np.array(used.weights, dtype=np.int64).reshape(-1, 1)
    counted: Scores = np.where(used.allocatable > 0, weights, 0).sum(axis=0)
    total = (points * weights).sum(axis=0)
    return total // np.maximum(counted, 1)
