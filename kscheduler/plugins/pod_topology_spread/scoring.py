"""Soft constraints: the fewer matching pods in a node's domain, the better.

    raw score = round( sum over constraints of  pods in the domain * ln(number of domains + 2) + maxSkew - 1 )

The logarithm keeps a topology with many small domains from being outweighed by a topology with few big ones; maxSkew
reduces the weight of differences that it tolerates. Domains are those of the feasible nodes. For host names the
node's own pods count, whatever the policies say. A node that lacks one of the keys is ignored and gets 0 in the end;
with the system's default constraints it is scored by the keys that it has.

A single constraint gives few distinct scores: one per domain or, by host name, one per number of pods. They are
worked out per distinct value, and each row then takes the score of its value.
"""

import math
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.well_known import MAX_NODE_SCORE
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.pods.spread_constraint import SpreadConstraint
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    counts_at,
    existing_domains,
    rows_with_all_keys,
)
from kscheduler.plugins.pod_topology_spread.layout import Domains, Layout

# Go's natural logarithm, to the last bit.
#
# A spread score is rounded from a sum of counts times logarithms. Go on amd64 computes them with the reduction and the
# polynomial of fdlibm (e_log.c), whose last bit differs from the C library's for about one size in a hundred. So this
# module does the same operations in the same order.
#
#     x = 2^k (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2);  s = f / (2 + f);  log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2))

_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_ODD: Final = (1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01)
# Coefficients of R, highest power first.
_EVEN: Final = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)


@lru_cache(maxsize=4096)
def go_log(number: int) -> float:
    """The natural logarithm of a positive integer, as Go's `math.Log(float64(number))`."""
    fraction, exponent = math.frexp(float(number))
    if fraction < math.sqrt(2.0) / 2.0:
        fraction, exponent = fraction * 2.0, exponent - 1
    f = fraction - 1.0
    s = f / (2.0 + f)
    s2 = s * s
    s4 = s2 * s2
    remainder = s2 * _polynomial(_ODD, s4) + s4 * _polynomial(_EVEN, s4)
    half_square = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half_square - (s * (half_square + remainder) + exponent * _LN2_LOW)) - f)


def _polynomial(coefficients: tuple[float, ...], variable: float) -> float:
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = coefficient + variable * value
    return value


# `int` of a number of at least 0 and this is the number rounded (`rounded`).
ALMOST_HALF: Final = math.nextafter(0.5, 0.0)
# Up to this number of pods on a node, scores are looked up by the number of pods.
_MAX_COUNTED: Final = 63


class SoftSpread(msgspec.Struct, frozen=True):
    """What PreScore worked out for the feasible rows."""

    raw: Scores
    """[feasible rows]"""
    scored: Mask | None = None
    """The rows that are not ignored, [feasible rows]; `None` is all of them."""
    by_value: "_ByValue | None" = None
    """The distinct scores, where a single constraint gives few of them."""

    def normalized(self, scores: Scores, *, are_own: bool) -> Scores:
        """0..100, int64 [rows]: the fewest pods are the best. `are_own`: `scores` is `raw`, unchanged."""
        if self.by_value is not None and are_own:
            return self.by_value.normalized()
        return normalized(scores, self.scored)


class _ByValue(msgspec.Struct, frozen=True):
    """The distinct scores of a single constraint."""

    values: Scores
    """Raw scores by domain, or by number of pods."""
    of_row: NDArray[np.intp]
    """The place of each row's score in `values`, [feasible rows]."""
    largest: int
    smallest: int

    def spread(self) -> SoftSpread:
        return SoftSpread(self.values.take(self.of_row), by_value=self)

    def normalized(self) -> Scores:
        return _points(self.values, self.largest, self.smallest).take(self.of_row)


class _OverFeasible(msgspec.Struct, frozen=True):
    """A constraint over the feasible rows."""

    numbers: DomainNumbers
    """The rows' domains, [feasible rows]."""
    existing: Rows
    """The numbers of the domains that scored rows are in."""
    weight: float
    """ln(number of domains that scored rows are in + 2)."""
    lacking: Mask | None
    """The rows without the label, [feasible rows]; `None` where all have it."""


class _Feasible(msgspec.Struct, frozen=True):
    """What does not depend on pods: it holds as long as the feasible rows and the nodes are the same."""

    scored: Mask | None
    own: tuple[_OverFeasible, ...]


def soft_spread(layout: Layout, feasible: Rows, counters: TopologyCounters | None) -> SoftSpread:
    """Raw scores of the feasible rows for the constraints."""
    if len(layout.domains) == 1 and layout.domains[0].column.is_everywhere and len(feasible):
        return _by_single_constraint(layout, feasible, counters)
    known = _of_feasible(layout, feasible)
    total = np.zeros(len(feasible), dtype=np.float64)
    for domains, own in zip(layout.domains, known.own, strict=True):
        # One float64 multiplication and two additions per row, in the order of the constraints, as in Go.
        if domains.is_by_host:
            points = _worth(counts_at(domains.constraint, counters, feasible), own.weight, domains.constraint)
        else:
            points = _worth(by_domain(domains, counters), own.weight, domains.constraint).take(own.numbers)
        if own.lacking is not None:
            points[own.lacking] = 0.0
        total += points
    if known.scored is not None:
        total[~known.scored] = 0.0
    return SoftSpread(rounded(total), known.scored)


def _by_single_constraint(layout: Layout, feasible: Rows, counters: TopologyCounters | None) -> SoftSpread:
    """The scores for a single constraint whose label all nodes have."""
    (domains,) = layout.domains
    constraint = domains.constraint
    if not domains.is_by_host:
        (own,) = _of_feasible(layout, feasible).own
        values = rounded(_worth(by_domain(domains, counters), own.weight, constraint))
        existing = values.take(own.existing)
        return _ByValue(values, own.numbers, int(existing.max()), int(existing.min())).spread()
    counts, weight = counts_at(constraint, counters, feasible), go_log(len(feasible) + 2)
    most = int(counts.max())
    if most > _MAX_COUNTED:
        return SoftSpread(rounded(_worth(counts, weight, constraint)))
    values = _by_count(weight, constraint.max_skew)
    # Raw scores never fall as pods are added: neither the product nor rounding swaps two of them.
    return _ByValue(values, counts, values.item(most), values.item(counts.min())).spread()


@lru_cache(maxsize=256)
def _by_count(weight: float, max_skew: int) -> Scores:
    """Raw scores by the number of pods on the node, which is its own domain."""
    worth: NDArray[np.float64] = np.arange(_MAX_COUNTED + 1) * np.float64(weight)
    return rounded(worth + float(max_skew - 1))


def _worth(counts: Counts, weight: float, constraint: SpreadConstraint) -> NDArray[np.float64]:
    points: NDArray[np.float64] = counts * np.float64(weight)
    points += float(constraint.max_skew - 1)
    return points


def by_domain(domains: Domains, counters: TopologyCounters | None) -> Counts:
    """Empty value and missing label are the same domain: upstream looks up "" for both (default constraints only)."""
    sums, empty = domains.pods(counters), domains.column.empty_value
    if empty:
        sums[0] += sums[empty]
        sums[empty] = sums[0]
    return sums


def _of_feasible(layout: Layout, feasible: Rows) -> _Feasible:
    known = layout.feasible.find(feasible)
    if isinstance(known, _Feasible):
        return known
    numbers = [domains.of_row.take(feasible) for domains in layout.domains]
    scored = rows_with_all_keys(numbers) if layout.needs_all_keys else None
    own = tuple(_own(domains, of_row, scored) for domains, of_row in zip(layout.domains, numbers, strict=True))
    known = _Feasible(scored, own)
    layout.feasible.keep(feasible, known)
    return known


def _own(domains: Domains, numbers: DomainNumbers, scored: Mask | None) -> _OverFeasible:
    lacking = numbers == 0
    existing = existing_domains(numbers, domains.column.size, scored)
    size = int(np.count_nonzero(existing)) - _is_counted_twice(domains, existing)
    if domains.is_by_host:
        size = len(numbers) if scored is None else int(np.count_nonzero(scored))
    return _OverFeasible(numbers, existing.nonzero()[0], go_log(size + 2), lacking if lacking.any() else None)


def _is_counted_twice(domains: Domains, existing: Mask) -> bool:
    """Whether there are rows without the label and rows with an empty value, which are the same domain."""
    return domains.column.empty_value > 0 and bool(existing[0] and existing[domains.column.empty_value])


def rounded(points: NDArray[np.float64]) -> Scores:
    """Go's `math.Round`, halves away from zero, exactly: int64 in the shape of `points`.

    It adds the largest float below 0.5 and truncates: 0.5 plus it rounds to 1.0, and no fraction below 0.5 reaches 1.0.
    """
    return (points + np.copysign(ALMOST_HALF, points)).astype(np.int64)


def normalized(raw: Scores, scored: Mask | None) -> Scores:
    """100 (largest + smallest - raw) / largest over the scored rows, 0 for the ignored ones: int64 [rows]."""
    counted = raw if scored is None else raw[scored]
    if not len(counted):
        return np.zeros_like(raw)
    points = _points(raw, int(counted.max()), int(counted.min()))
    if scored is not None:
        points[~scored] = 0
    return points


def _points(raw: Scores, largest: int, smallest: int) -> Scores:
    """Integer division throughout: numpy divides by a scalar faster than it converts to float and back."""
    return np.full_like(raw, MAX_NODE_SCORE) if largest <= 0 else MAX_NODE_SCORE * (largest + smallest - raw) // largest
