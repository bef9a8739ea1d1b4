"""How many members of a group may share a node, as far as their anti-affinity to each other says.

A term takes 40 us to be parsed, and nothing else is decided meanwhile. So pods with many terms, and pods of many kinds,
count as pods without any: the number may be too high, and the trial of the group tells.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Affinity, PodAffinity
from kscheduler.api.quantity import MAX_INT64
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.affinity_terms import AffinityTerm
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.member_limits import most_together

# Terms of a pod that are read, and kinds of pods.
_MOST_TERMS: Final = 32
_MOST_KINDS: Final = 32


def most_members(
    counters: TopologyCounters, pods: Sequence[PodInfo], nodes: NodeTable, rows: Rows
) -> NDArray[np.int64] | None:
    """Of pods whose anti-affinity selects them all, one in each domain, and so on each node that is in one."""
    terms = [*_avoiding_their_like(counters, pods)]
    keys = dict.fromkeys(term.topology_key for each in terms for term in each)
    if not keys:
        return None
    most = np.full(len(rows), MAX_INT64, dtype=np.int64)
    for key in keys:
        together = most_together([[term.match for term in each if term.topology_key == key] for each in terms])
        is_in_one = nodes.label_values(key, rows)[0] > 0
        most = np.where(is_in_one, np.minimum(most, together), most)
    return most


def _avoiding_their_like(counters: TopologyCounters, pods: Sequence[PodInfo]) -> Iterator[Sequence[AffinityTerm]]:
    """By pod its anti-affinity terms that select it: any two pods that one selects, and that have it, are apart."""
    kinds: list[tuple[PodAffinity, Sequence[AffinityTerm]]] = []
    for pod in pods:
        affinity = pod.pod.spec.affinity
        away = None if affinity is None else affinity.pod_anti_affinity
        if affinity is None or away is None or _count_terms(affinity) > _MOST_TERMS:
            yield ()
            continue
        kind = next((each for each in kinds if each[0] is away or each[0] == away), None)
        if kind is None and len(kinds) < _MOST_KINDS:
            kind = away, pod.affinity_terms.required_anti_affinity
            kinds.append(kind)
        required = () if kind is None else kind[1]
        yield [term for term in required if counters.selects(term.match, pod.pod)]


def _count_terms(affinity: Affinity) -> int:
    """How many terms about other pods there are."""
    return sum(
        len(each.required_during_scheduling_ignored_during_execution)
        + len(each.preferred_during_scheduling_ignored_during_execution)
        for each in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if each is not None
    )
