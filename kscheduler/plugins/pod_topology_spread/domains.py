"""Matching pods per topology domain: counts per row, summed over the values of a node label.

The nodes whose pods count differ from pod to pod and from constraint to constraint, so sums are made in each cycle: a
pass over the rows that adds up the pods, and a pass that finds the domains that exist at all.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint
from kscheduler.framework.rules.tolerations import has_untolerated

Counts = NDArray[np.int64]
"""Pods per row, or per domain: int64."""
DomainNumbers = NDArray[np.intp]
"""The number of each row's domain, 0 where the label is missing: intp, because `take` converts all other types."""


def counts_at(constraint: SpreadConstraint, counters: TopologyCounters | None, rows: Rows) -> Counts:
    """The pods on each row that the constraint counts, int64 [rows]. Raises `RuntimeError` without counters."""
    if constraint.counted is None:
        return np.zeros(len(rows), dtype=np.int64)
    if counters is None:
        raise RuntimeError("PodTopologySpread was built without topology counters")
    return values_at(counters.matching(constraint.counted), compact(rows))


def existing_domains(numbers: DomainNumbers, size: int, counting: Mask | None) -> Mask:
    """Whether a counting row is in each domain, bool [size]. `counting`: bool [numbers], or `None` for all."""
    if counting is not None:
        numbers = numbers[counting]
    found = np.zeros(size, dtype=np.bool_)
    found[numbers] = True
    return found


def rows_with_all_keys(numbers: Sequence[DomainNumbers]) -> Mask | None:
    """The rows that have every topology key, bool [rows]; `None` is all of them."""
    has_keys = numbers[0] != 0
    for other in numbers[1:]:
        has_keys &= other != 0
    return None if has_keys.all() else has_keys


def counting_rows(
    constraints: Sequence[SpreadConstraint],
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
    shared: Mask | None,
    *,
    compares: bool = False,
) -> Iterator[Mask | None]:
    """Per constraint the rows within `shared` whose pods count by its two policies, bool [rows]; `None` is all of them.

    `compares`: tolerations may compare numbers (`framework.rules.tolerations`).
    """
    matching = _matching(pod, nodes, rows) if any(constraint.honors_affinity for constraint in constraints) else None
    tolerated = (
        _tolerated(pod, nodes, rows, compares) if any(constraint.honors_taints for constraint in constraints) else None
    )
    for constraint in constraints:
        by_affinity = matching if constraint.honors_affinity else None
        yield _all_of(shared, by_affinity, tolerated if constraint.honors_taints else None)


def _all_of(*masks: Mask | None) -> Mask | None:
    given = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(given) if given else None


def _matching(pod: PodInfo, nodes: NodeTable, rows: Rows) -> Mask | None:
    """Rows that match the pod's own nodeSelector and required node affinity; the profile's addedAffinity is ignored."""
    if pod.node_selector is None and pod.required_node_terms is None:
        return None
    return nodes.wanted_by(pod, rows)


def _tolerated(pod: PodInfo, nodes: NodeTable, rows: Rows, compares: bool) -> Mask | None:
    """Rows without a taint that keeps the pod off."""
    numbers = nodes.taint_set[rows]
    if len(rows) == 1:  # dry runs judge row by row
        is_open = np.array([not has_untolerated(nodes.taint_sets[numbers.item()], pod.tolerations, compares=compares)])
        return None if is_open.all() else is_open
    is_open = np.array([not has_untolerated(taints, pod.tolerations, compares=compares) for taints in nodes.taint_sets])
    return None if is_open.all() else is_open[numbers]
