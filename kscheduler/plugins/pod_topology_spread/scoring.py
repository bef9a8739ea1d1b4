"""Soft constraints: the fewer matching pods in a node's domain, the better.

    raw score = round( sum over constraints of  pods in the domain * ln(number of domains + 2) + maxSkew - 1 )

The logarithm keeps a topology with many small domains from being outweighed by one with few big ones; maxSkew waters
differences down that it tolerates. Domains are those of the feasible nodes. For host names the node's own pods are
counted, whatever the policies say. A node without one of the keys is ignored and gets 0 in the end; with the system's
default constraints it is scored by the keys that it has.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.label_column import Mask
from kscheduler.framework.node_table import Rows, Scores
from kscheduler.framework.spread_constraint import SpreadConstraint
from kscheduler.framework.topology import TopologyCounters
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    counts_at,
    existing_domains,
    rows_with_all_keys,
)
from kscheduler.plugins.pod_topology_spread.go_log import go_log
from kscheduler.plugins.pod_topology_spread.layout import Domains, Layout

HOSTNAME: Final = "kubernetes.io/hostname"
_MOST: Final = 100
_EXACT_AS_FLOAT: Final = 2**46
"""As in `resource_scoring`: below, a hundred times the amount is an integer that float64 holds exactly."""


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """What PreScore found out about the feasible rows."""

    raw: Scores
    scored: Mask | None
    """The rows that are not ignored; `None` is all of them."""


@dataclass(frozen=True, slots=True)
class _Own:
    """One constraint over the feasible rows."""

    numbers: DomainNumbers
    """Their domains."""
    weight: float
    """The logarithm of how many domains the scored rows are in (and 2)."""
    lacking: Mask | None
    """The rows without the label; `None` where all have it."""


@dataclass(frozen=True, slots=True)
class _Feasible:
    """What does not hang on pods: it stays as long as the rows and the nodes do."""

    rows: Rows
    scored: Mask | None
    own: tuple[_Own, ...]


def soft_spread(layout: Layout, feasible: Rows, counters: TopologyCounters | None) -> SoftSpread:
    """Raw scores of the feasible rows for the constraints."""
    known = _of_feasible(layout, feasible)
    total: NDArray[np.float64] | None = None
    for domains, own in zip(layout.domains, known.own, strict=True):
        constraint = domains.constraint
        # One float64 multiplication and two additions per row, in the order of the constraints, as in Go.
        if constraint.topology_key == HOSTNAME:
            points = _worth(counts_at(constraint, counters, feasible), own, constraint)
        else:
            points = _worth(_by_domain(domains, counters), own, constraint).take(own.numbers)
        if own.lacking is not None:
            points[own.lacking] = 0.0
        if total is None:
            total = points
        else:
            total += points
    if total is None:
        total = np.zeros(len(feasible), dtype=np.float64)
    if known.scored is not None:
        total[~known.scored] = 0.0
    return SoftSpread(_rounded(total), known.scored)


def _worth(counts: Counts, own: _Own, constraint: SpreadConstraint) -> NDArray[np.float64]:
    points = counts.astype(np.float64)
    points *= own.weight
    points += float(constraint.max_skew - 1)
    return points


def _by_domain(domains: Domains, counters: TopologyCounters | None) -> Counts:
    """An empty value and a missing label are one domain: upstream looks both up as "" (it matters to defaults only)."""
    sums, empty = domains.pods(counters), domains.empty_value
    if empty:
        sums[0] += sums[empty]
        sums[empty] = sums[0]
    return sums


def _of_feasible(layout: Layout, feasible: Rows) -> _Feasible:
    known = layout.of_feasible
    if isinstance(known, _Feasible) and (known.rows is feasible or np.array_equal(known.rows, feasible)):
        return known
    numbers = [one.of_row.take(feasible) for one in layout.domains]
    scored = rows_with_all_keys(numbers) if layout.needs_all_keys else None
    own = tuple(_own(domains, its, scored) for domains, its in zip(layout.domains, numbers, strict=True))
    layout.of_feasible = known = _Feasible(feasible, scored, own)
    return known


def _own(domains: Domains, numbers: DomainNumbers, scored: Mask | None) -> _Own:
    lacking = numbers == 0
    if domains.constraint.topology_key == HOSTNAME:
        size = len(numbers) if scored is None else np.count_nonzero(scored)
    else:
        merged = np.where(numbers == domains.empty_value, 0, numbers)
        size = np.count_nonzero(existing_domains(merged, domains.size, scored))
    return _Own(numbers, go_log(int(size) + 2), lacking if lacking.any() else None)


def _rounded(points: NDArray[np.float64]) -> Scores:
    """Go's `math.Round`: halves away from zero, exactly."""
    whole = points.astype(np.int64)
    rest = points - whole
    whole += rest >= 0.5
    if points.min(initial=0.0) < 0:
        whole -= rest <= -0.5
    return whole


def normalized(raw: Scores, scored: Mask | None) -> Scores:
    """The fewest pods are the best: 100 (largest + smallest - raw) / largest, over the rows that are not ignored."""
    counted = raw if scored is None else raw[scored]
    largest = int(counted.max(initial=0))
    points = np.full_like(raw, _MOST) if not largest else _shares(largest + int(counted.min()) - raw, largest)
    if scored is not None:
        points[~scored] = 0
    return points


def _shares(parts: Scores, whole: int) -> Scores:
    """`100 * part // whole`. As floats where they hold a hundredfold exactly and the quotient is cut off downwards."""
    if whole < _EXACT_AS_FLOAT and int(parts.min(initial=0)) >= 0 and int(parts.max(initial=0)) < _EXACT_AS_FLOAT:
        return (parts * float(_MOST) / whole).astype(np.int64)
    return _MOST * parts // whole
