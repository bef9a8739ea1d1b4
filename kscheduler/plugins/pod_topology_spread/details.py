"""Why hard constraints reject nodes: how many matching pods each domain has, and the skew with one pod more.

Used for explanations only. The numbers are the filter's own, so that text and verdict cannot contradict each other.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from kscheduler.api.core import Node, Pod
from kscheduler.framework.events import QueueingHint
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.reasons.wording import selector_text
from kscheduler.plugins.pod_topology_spread.filtering import ConstraintCounts, HardSpread

# Domains that are named.
_SHOWN: Final = 3


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


# Which changes may help a pod that hard constraints rejected.
#
# A pod that is added, deleted, relabelled or begins to terminate changes a count if it is on a node (or nominated to
# one) in the same namespace and a selector matches it. A node changes the domains if it has all keys, before or after.
# Whether its pods count may also depend on the labels that the pod's own node affinity requires; upstream's hint
# ignores these.

Constraints = Sequence[SpreadConstraint]


def is_involved(changed: Pod, pod: PodInfo) -> bool:
    """Whether the changed pod is the waiting pod, or may count: it is on a node or nominated, in the same namespace."""
    if (changed.metadata.uid or changed.key) == pod.uid:
        return True
    is_placed = bool(changed.spec.node_name or changed.status.nominated_node_name)
    return is_placed and changed.metadata.namespace == pod.namespace


def after_pod_change(pod: PodInfo, constraints: Constraints, old: Pod | None, new: Pod | None) -> QueueingHint:
    """`old` and `new` are versions of an involved pod; `None` for `old` means added, for `new` deleted."""
    if old is not None and new is not None:
        return _hint(_is_update_of_interest(pod, constraints, old, new))
    changed = new or old
    return _hint(
        changed is None or any(constraint.selector.matches(changed.metadata.labels) for constraint in constraints)
    )


def _is_update_of_interest(pod: PodInfo, constraints: Constraints, old: Pod, new: Pod) -> bool:
    is_own = (new.metadata.uid or new.key) == pod.uid
    if (
        is_own
        and old.spec.tolerations != new.spec.tolerations
        and any(constraint.honors_taints for constraint in constraints)
    ):
        return True
    before, after = _counts_by(constraints, old), _counts_by(constraints, new)
    return before != after or (is_own and old.metadata.labels != new.metadata.labels)


def _counts_by(constraints: Constraints, pod: Pod) -> list[bool]:
    """Per constraint whether it counts this pod, which is on a node or nominated."""
    if pod.metadata.deletion_timestamp is not None:
        return [False] * len(constraints)
    return [constraint.selector.matches(pod.metadata.labels) for constraint in constraints]


def after_node_change(pod: PodInfo, constraints: Constraints, old: Node | None, new: Node | None) -> QueueingHint:
    """Whether a node changes domains: it is added, deleted, relabelled or retainted, or begins or stops to count."""
    matched = old is not None and _has_all_keys(old, constraints)
    matches = new is not None and _has_all_keys(new, constraints)
    if old is None or new is None:
        return _hint(matched or matches)
    if matched != matches:
        return QueueingHint.QUEUE
    counts_differently = old.spec.taints != new.spec.taints or _matches_pod(pod, old) != _matches_pod(pod, new)
    return _hint(matches and (counts_differently or _domains_differ(old, new, constraints)))


def _matches_pod(pod: PodInfo, node: Node) -> bool:
    """Whether the node matches the pod's own nodeSelector and required node affinity."""
    labels, name = node.metadata.labels, node.metadata.name
    if pod.node_selector is not None and not pod.node_selector.matches(labels, name):
        return False
    terms = pod.required_node_terms
    return terms is None or any(term.matches(labels, name) for term in terms)


def _has_all_keys(node: Node, constraints: Constraints) -> bool:
    return all(constraint.topology_key in node.metadata.labels for constraint in constraints)


def _domains_differ(old: Node, new: Node, constraints: Constraints) -> bool:
    before, after = old.metadata.labels, new.metadata.labels
    return any(before.get(constraint.topology_key) != after.get(constraint.topology_key) for constraint in constraints)


def _hint(may_help: bool) -> QueueingHint:
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP
