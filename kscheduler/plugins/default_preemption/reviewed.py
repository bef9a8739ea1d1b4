"""Choosing among candidates that somebody has reviewed: few of them, as values and not as columns.

A review is about the victims that were shown. While it took place pods may have come and gone; a node whose victims are
others now must be reviewed again. A reviewer may have named other victims: they must still be on the node.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.nodes.node_table import NodeTable, stable_hash
from kscheduler.framework.nodes.occupants import started_at
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.ties import mix

_OFFSET: Final = 2**31


def still_allowed(
    reviewed: Mapping[str, ReviewedCandidate], found: Sequence[Candidate], nodes: NodeTable
) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """The candidates that may be chosen, and, if there is none, those that must be reviewed next."""
    allowed: list[Candidate] = []
    unreviewed: list[Candidate] = []
    for candidate in found:
        review = reviewed.get(candidate.node_name)
        if review is None or review.proposed != {victim.uid for victim in candidate.victims}:
            unreviewed.append(candidate)
        elif review.allowed is not None and _are_there(review.allowed, nodes):
            allowed.append(review.allowed)
    return tuple(allowed), () if allowed else tuple(unreviewed)


def _are_there(candidate: Candidate, nodes: NodeTable) -> bool:
    row = nodes.row_of(candidate.node_name)
    return row >= 0 and all(victim.uid in nodes.info(row).pods for victim in candidate.victims)


def choose_listed(candidates: Sequence[Candidate], nodes: NodeTable, preemptor: PodInfo) -> Candidate:
    """The best of the candidates (at least one), by the criteria of `choice`."""
    seed = stable_hash(preemptor.uid)

    def badness(candidate: Candidate) -> tuple[float, ...]:
        priorities = [victim.priority for victim in candidate.victims]
        highest = max(priorities)
        started = min(started_at(victim) for victim in candidate.victims if victim.priority == highest)
        mixed = mix(nodes.name_hash[[nodes.row_of(candidate.node_name)]], seed)
        raised = sum(priority + _OFFSET for priority in priorities)
        return candidate.broken_budgets, highest, raised, len(priorities), -started, -int(mixed[0])

    return min(candidates, key=badness)
