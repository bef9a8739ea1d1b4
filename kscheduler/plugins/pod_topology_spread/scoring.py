"""Soft constraints: the fewer matching pods in a node's domain, the better.

    raw score = round( sum over constraints of  pods in the domain * ln(number of domains + 2) + maxSkew - 1 )

The logarithm keeps a topology with many small domains from being outweighed by one with few big ones; maxSkew waters
differences down that it tolerates. Domains are those of the feasible nodes. For host names the node's own pods are
counted, whatever the policies say. A node without one of the keys is ignored and gets 0 in the end; with the system's
default constraints it is scored by the keys that it has.

A single constraint gives few different scores: one for each domain, or, by host name, one for each number of pods. They
are worked out for those, and spread over the rows in the end.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

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
from kscheduler.plugins.pod_topology_spread.go_log import go_log
from kscheduler.plugins.pod_topology_spread.layout import Domains, Layout

_ALMOST_HALF: Final = math.nextafter(0.5, 0.0)
_MOST_COUNTED: Final = 63
"""Up to so many pods on a node, scores are looked up by their number."""


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """What PreScore found out about the feasible rows."""

    raw: Scores
    scored: Mask | None = None
    """The rows that are not ignored; `None` is all of them."""
    by_value: "_ByValue | None" = None
    """Where the rows' scores are few."""

    def normalized(self, scores: Scores, *, are_own: bool) -> Scores:
        """The fewest pods are the best. `are_own`: the scores are those above, and nobody has written to them."""
        if self.by_value is not None and are_own:
            return self.by_value.normalized()
        return normalized(scores, self.scored)


@dataclass(frozen=True, slots=True)
class _ByValue:
    """The scores of one constraint."""

    values: Scores
    """Raw scores by domain, or by number of pods."""
    of_row: NDArray[np.intp]
    """Per feasible row the place of its score in them."""
    largest: int
    smallest: int

    def told(self) -> SoftSpread:
        return SoftSpread(self.values.take(self.of_row), by_value=self)

    def normalized(self) -> Scores:
        return _points(self.values, self.largest, self.smallest).take(self.of_row)


@dataclass(frozen=True, slots=True)
class _Own:
    """One constraint over the feasible rows."""

    numbers: DomainNumbers
    """Their domains."""
    existing: Rows
    """The numbers of those domains that scored rows are in."""
    weight: float
    """The logarithm of how many domains the scored rows are in (and 2)."""
    lacking: Mask | None
    """The rows without the label; `None` where all have it."""


@dataclass(frozen=True, slots=True)
class _Feasible:
    """What does not hang on pods: it stays as long as the rows and the nodes do."""

    scored: Mask | None
    own: tuple[_Own, ...]


def soft_spread(layout: Layout, feasible: Rows, counters: TopologyCounters | None) -> SoftSpread:
    """Raw scores of the feasible rows for the constraints."""
    if len(layout.domains) == 1 and layout.domains[0].column.is_everywhere and len(feasible):
        return _by_one(layout, feasible, counters)
    known = _of_feasible(layout, feasible)
    total = np.zeros(len(feasible), dtype=np.float64)
    for domains, own in zip(layout.domains, known.own, strict=True):
        # One float64 multiplication and two additions per row, in the order of the constraints, as in Go.
        if domains.is_by_host:
            points = _worth(counts_at(domains.constraint, counters, feasible), own.weight, domains.constraint)
        else:
            points = _worth(_by_domain(domains, counters), own.weight, domains.constraint).take(own.numbers)
        if own.lacking is not None:
            points[own.lacking] = 0.0
        total += points
    if known.scored is not None:
        total[~known.scored] = 0.0
    return SoftSpread(rounded(total), known.scored)


def _by_one(layout: Layout, feasible: Rows, counters: TopologyCounters | None) -> SoftSpread:
    """The scores for a single constraint whose label all nodes have."""
    (domains,) = layout.domains
    constraint = domains.constraint
    if not domains.is_by_host:
        (own,) = _of_feasible(layout, feasible).own
        values = rounded(_worth(_by_domain(domains, counters), own.weight, constraint))
        existing = values.take(own.existing)
        return _ByValue(values, own.numbers, int(existing.max()), int(existing.min())).told()
    counts, weight = counts_at(constraint, counters, feasible), go_log(len(feasible) + 2)
    most = int(counts.max())
    if most > _MOST_COUNTED:
        return SoftSpread(rounded(_worth(counts, weight, constraint)))
    values = _by_count(weight, constraint.max_skew)
    # More pods are never worth less: neither the product nor rounding turns two numbers around.
    return _ByValue(values, counts, values.item(most), values.item(counts.min())).told()


@lru_cache(maxsize=256)
def _by_count(weight: float, max_skew: int) -> Scores:
    """Raw scores of a node by the number of its pods, which is its domain's."""
    worth: NDArray[np.float64] = np.arange(_MOST_COUNTED + 1) * np.float64(weight)
    return rounded(worth + float(max_skew - 1))


def _worth(counts: Counts, weight: float, constraint: SpreadConstraint) -> NDArray[np.float64]:
    points: NDArray[np.float64] = counts * np.float64(weight)
    points += float(constraint.max_skew - 1)
    return points


def _by_domain(domains: Domains, counters: TopologyCounters | None) -> Counts:
    """An empty value and a missing label are one domain: upstream looks both up as "" (it matters to defaults only)."""
    sums, empty = domains.pods(counters), domains.column.empty_value
    if empty:
        sums[0] += sums[empty]
        sums[empty] = sums[0]
    return sums


def _of_feasible(layout: Layout, feasible: Rows) -> _Feasible:
    known = layout.feasible.find(feasible)
    if isinstance(known, _Feasible):
        return known
    numbers = [one.of_row.take(feasible) for one in layout.domains]
    scored = rows_with_all_keys(numbers) if layout.needs_all_keys else None
    own = tuple(_own(domains, its, scored) for domains, its in zip(layout.domains, numbers, strict=True))
    known = _Feasible(scored, own)
    layout.feasible.keep(feasible, known)
    return known


def _own(domains: Domains, numbers: DomainNumbers, scored: Mask | None) -> _Own:
    lacking = numbers == 0
    existing = existing_domains(numbers, domains.column.size, scored)
    size = int(np.count_nonzero(existing)) - _is_counted_twice(domains, existing)
    if domains.is_by_host:
        size = len(numbers) if scored is None else int(np.count_nonzero(scored))
    return _Own(numbers, existing.nonzero()[0], go_log(size + 2), lacking if lacking.any() else None)


def _is_counted_twice(domains: Domains, existing: Mask) -> bool:
    """Whether there are rows without the label and rows with an empty one: that is one domain."""
    return domains.column.empty_value > 0 and bool(existing[0] and existing[domains.column.empty_value])


def rounded(points: NDArray[np.float64]) -> Scores:
    """Go's `math.Round`: halves away from zero, exactly.

    What is added is the largest number below a half: a half and it round up to one, and nothing below a half does.
    """
    return (points + np.copysign(_ALMOST_HALF, points)).astype(np.int64)


def normalized(raw: Scores, scored: Mask | None) -> Scores:
    """100 (largest + smallest - raw) / largest, over the rows that are not ignored, which get 0."""
    counted = raw if scored is None else raw[scored]
    if not len(counted):
        return np.zeros_like(raw)
    points = _points(raw, int(counted.max()), int(counted.min()))
    if scored is not None:
        points[~scored] = 0
    return points


def _points(raw: Scores, largest: int, smallest: int) -> Scores:
    """By one divisor numpy divides integers faster than it converts them."""
    return np.full_like(raw, MAX_NODE_SCORE) if largest <= 0 else MAX_NODE_SCORE * (largest + smallest - raw) // largest
