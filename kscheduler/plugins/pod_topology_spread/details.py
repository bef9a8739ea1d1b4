"""Why hard constraints reject nodes: how many matching pods each domain has, and the skew with one pod more.

Used for explanations only. The numbers are the filter's own, so that text and verdict cannot contradict each other.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.reasons.wording import selector_text
from kscheduler.plugins.pod_topology_spread.filtering import ConstraintCounts, HardSpread

_SHOWN: Final = 3
"""Domains that are named."""


def spread_details(spread: HardSpread, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    """Per constraint: the rows without its label, then the rows whose domain would have too large a skew."""
    del pod
    for counts in spread.counts:
        numbers = counts.domain_of_row[rows]
        lacking = rows[numbers == 0]
        if len(lacking):
            key = counts.constraint.topology_key
            yield Detail("missingTopologyLabel", f"the node has no label {key}", lacking, {"topologyKey": key})
        yield from _too_uneven(counts, nodes, rows[numbers != 0])


def _too_uneven(counts: ConstraintCounts, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    pods, minimum = counts.seen_from(rows)
    skew = pods + counts.is_own - minimum
    constraint = counts.constraint
    uneven = np.flatnonzero(skew > constraint.max_skew)
    at = {int(rows[place]): int(place) for place in uneven}
    alike = grouped(rows[uneven], lambda row: (int(pods[at[row]]), int(minimum[at[row]])))
    for (count, least), group in sorted(alike.items(), key=lambda entry: entry[0]):
        values = sorted({str(nodes.info(row).labels.get(constraint.topology_key, "")) for row in group.tolist()})
        would_be = count + counts.is_own - least
        facts: dict[str, Any] = {
            "topologyKey": constraint.topology_key,
            "maxSkew": constraint.max_skew,
            "selector": selector_text(constraint.selector),
            "minDomains": constraint.min_domains,
            "existingDomains": len(counts.existing),
            "domains": values,
            "matchingPods": count,
            "minimum": least,
            "skew": would_be,
        }
        yield Detail("unevenSpread", _text(counts, values, count, least, would_be), group, facts)


def _text(counts: ConstraintCounts, values: list[str], count: int, least: int, skew: int) -> str:
    constraint = counts.constraint
    shown = ", ".join(values[:_SHOWN]) + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "")
    has = "has" if len(values) == 1 else "have"
    if len(counts.existing) < constraint.min_domains:
        floor = f"of {len(counts.existing)} domains, minDomains {constraint.min_domains}, the least counts as 0"
    else:
        floor = f"the emptiest domain has {least}"
    pods = "1 pod" if count == 1 else f"{count} pods"
    return (
        f"{constraint.topology_key} {shown} {has} {pods} with {selector_text(constraint.selector)}, {floor}: "
        f"skew {skew} where maxSkew is {constraint.max_skew}"
    )
