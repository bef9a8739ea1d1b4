"""Soft constraints: the fewer matching pods in a node's domain, the better.

    raw score = round( sum over constraints of  pods in the domain * ln(number of domains + 2) + maxSkew - 1 )

The logarithm keeps a topology with many small domains from being outweighed by one with few big ones; maxSkew waters
differences down that it tolerates. Domains are those of the feasible nodes. For host names the node's own pods are
counted, whatever the policies say. A node without one of the keys is ignored and gets 0 in the end; with the system's
default constraints it is scored by the keys that it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.label_column import Mask
from kscheduler.framework.node_table import NodeTable, Rows, Scores
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.spread_constraint import SpreadConstraint
from kscheduler.framework.topology import TopologyCounters
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    counting_rows,
    counts_at,
    existing_domains,
    rows_with_all_keys,
    sum_by_domain,
)
from kscheduler.plugins.pod_topology_spread.go_log import go_log

HOSTNAME: Final = "kubernetes.io/hostname"
_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """What PreScore found out about the feasible rows."""

    raw: Scores
    scored: Mask | None
    """The rows that are not ignored; `None` is all of them."""


@dataclass(frozen=True, slots=True)
class SoftConstraints:
    """What a pod prefers."""

    constraints: tuple[SpreadConstraint, ...]
    needs_all_keys: bool
    """Whether nodes that lack one of the keys are ignored."""


def soft_spread(
    soft: SoftConstraints, pod: PodInfo, nodes: NodeTable, feasible: Rows, counters: TopologyCounters | None
) -> SoftSpread:
    """Raw scores of the feasible rows for the constraints (at least one)."""
    everywhere = nodes.rows()
    keys = [one.topology_key for one in soft.constraints]
    numbers = [nodes.label_values(key, feasible)[0] for key in keys]
    scored = rows_with_all_keys(numbers) if soft.needs_all_keys else None
    shared = None
    if soft.needs_all_keys:
        shared = rows_with_all_keys([nodes.label_values(key, everywhere)[0] for key in keys])
    total = np.zeros(len(feasible), dtype=np.float64)
    for constraint, own, mask in zip(
        soft.constraints, numbers, counting_rows(soft.constraints, pod, nodes, everywhere, shared), strict=True
    ):
        if constraint.topology_key == HOSTNAME:
            size = len(feasible) if scored is None else int(np.count_nonzero(scored))
            counts = counts_at(constraint, counters, feasible)
        else:
            size, counts = _by_domain(constraint, nodes, feasible, scored, mask, counters)
        _add(total, constraint, counts, size, own)
    if scored is not None:
        total[~scored] = 0.0
    return SoftSpread(_rounded(total), scored)


def _by_domain(
    constraint: SpreadConstraint,
    nodes: NodeTable,
    feasible: Rows,
    scored: Mask | None,
    counting: Mask | None,
    counters: TopologyCounters | None,
) -> tuple[int, Counts]:
    """The number of domains among the scored rows, and per feasible row the pods in its domain."""
    everywhere = nodes.rows()
    numbers, values = nodes.label_values(constraint.topology_key, everywhere)
    own, _ = nodes.label_values(constraint.topology_key, feasible)
    numbers, own = _empty_is_missing(numbers, values), _empty_is_missing(own, values)
    sums = sum_by_domain(numbers, counts_at(constraint, counters, everywhere), len(values), counting)
    size = np.count_nonzero(existing_domains(own, len(values), scored))
    return int(size), sums[own]


def _empty_is_missing(numbers: DomainNumbers, values: Sequence[str | None]) -> DomainNumbers:
    """An empty value and a missing label are one domain: upstream looks both up as "" (it matters to defaults only)."""
    return np.where(numbers == values.index(""), np.int32(0), numbers) if "" in values else numbers


def _add(
    total: NDArray[np.float64], constraint: SpreadConstraint, counts: Counts, size: int, own: DomainNumbers
) -> None:
    """One float64 multiplication and two additions per row, in the order of the constraints, as in Go."""
    points = counts * go_log(size + 2) + float(constraint.max_skew - 1)
    total += np.where(own != 0, points, 0.0)


def _rounded(points: NDArray[np.float64]) -> Scores:
    """Go's `math.Round`: halves away from zero, exactly."""
    whole = np.trunc(points)
    return (whole + np.copysign(np.abs(points - whole) >= 0.5, points)).astype(np.int64)


def normalized(raw: Scores, scored: Mask | None) -> Scores:
    """The fewest pods are the best: 100 (largest + smallest - raw) / largest, over the rows that are not ignored."""
    counted = raw if scored is None else raw[scored]
    largest = int(counted.max(initial=0))
    points = np.full_like(raw, _MOST) if not largest else _MOST * (largest + int(counted.min()) - raw) // largest
    if scored is not None:
        points[~scored] = 0
    return points
