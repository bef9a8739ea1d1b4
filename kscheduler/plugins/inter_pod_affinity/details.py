"""Which term keeps the pod off which nodes, and whose pods are meant.

Used for explanations only: this module goes through the pods themselves, where the filter reads counts. A node's pods
are read only where the counts (or nominations) say that a matching pod is there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.affinity_terms import AffinityTerm
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.reasons.wording import match_text

# Pods and domains that are named in the text.
_SHOWN: Final = 3
# Pods that are listed per domain in the facts; `count` has the number of all.
_LISTED: Final = 10

PodsByDomain = dict[str, list[str]]


def not_near(pod: PodInfo, counters: TopologyCounters, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    """Rows whose domain has no pod that satisfies the pod's required affinity: a pod counts if all terms select it."""
    terms = pod.affinity_terms
    if terms.all_required_affinity is None:
        return
    column = counters.matching(terms.all_required_affinity)
    occupied = [row for row in nodes.rows().tolist() if column[row] > 0]
    for key in dict.fromkeys(term.topology_key for term in terms.required_affinity):
        domains = sorted({value for row in occupied if (value := _domain(nodes, row, key)) is not None})
        failing = [row for row in rows.tolist() if _domain(nodes, row, key) not in domains]
        if failing:
            texts = [
                match_text(term.match, pod.namespace) for term in terms.required_affinity if term.topology_key == key
            ]
            count = int(column[nodes.rows()].sum())
            facts: dict[str, Any] = {"topologyKey": key, "terms": texts, "matchingPods": count, "domains": domains}
            text = f"affinity wants a pod with {' and '.join(texts)} in the same {key}; {_where(count, key, domains)}"
            yield Detail("affinityNotMet", text, np.array(failing, dtype=np.intp), facts)


def _where(count: int, key: str, domains: list[str]) -> str:
    if not count:
        return "there is no such pod"
    if not domains:
        return f"{_match(count)}, on nodes without that label"
    return f"{_match(count)}, in {key} {_listed(domains)}"


def too_near(pod: PodInfo, counters: TopologyCounters, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    """Rows whose domain has a pod that the pod's own required anti-affinity avoids."""
    for term in pod.affinity_terms.required_anti_affinity:
        column = counters.matching(term.match)
        rows_to_read = dict.fromkeys([*np.flatnonzero(column > 0).tolist(), *rows.tolist()])

        def is_meant(other: PodInfo, term: AffinityTerm = term) -> bool:
            return other.uid != pod.uid and counters.selects(term.match, other.pod)

        found = _pods_by_domain(nodes, rows_to_read, term.topology_key, is_meant)
        meant = match_text(term.match, pod.namespace)
        yield from _by_domain("antiAffinity", f"anti-affinity to {meant}", term, meant, found, nodes, rows)


def repelled(pod: PodInfo, counters: TopologyCounters, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    """Rows whose domain has a pod with required anti-affinity to this pod."""
    held: dict[AffinityTerm, PodsByDomain] = {}
    for row in nodes.rows().tolist():
        for other in sorted(nodes.info(row).pods.values(), key=lambda entry: entry.key):
            if other.pod.spec.affinity is None or other.uid == pod.uid:
                continue
            for term in other.affinity_terms.required_anti_affinity:
                value = _domain(nodes, row, term.topology_key)
                if value is not None and counters.selects(term.match, pod.pod, held=True):
                    held.setdefault(term, {}).setdefault(value, []).append(other.key)
    for term, found in held.items():
        meant = match_text(term.match, pod.namespace)
        yield from _by_domain("repelled", f"anti-affinity to {meant}", term, meant, found, nodes, rows)


def _by_domain(
    kind: str, why: str, term: AffinityTerm, meant: str, found: PodsByDomain, nodes: NodeTable, rows: Rows
) -> Iterator[Detail]:
    """One detail per domain that has rows, the largest groups first; more than three domains share one detail."""
    key = term.topology_key
    affected = [row for row in rows.tolist() if _domain(nodes, row, key) in found]
    if not affected:
        return
    groups = grouped(np.array(affected, dtype=np.intp), lambda row: _domain(nodes, row, key) or "")
    if len(groups) > _SHOWN:
        yield _merged(
            kind, why, term, meant, {value: found[value] for value in groups}, np.concatenate([*groups.values()])
        )
        return
    for value, group in groups.items():
        yield _merged(kind, why, term, meant, {value: found[value]}, group)


def _merged(kind: str, why: str, term: AffinityTerm, meant: str, found: PodsByDomain, rows: Rows) -> Detail:
    key = term.topology_key
    domains = [{"domain": value, "pods": pods[:_LISTED], "count": len(pods)} for value, pods in sorted(found.items())]
    pods = [pod for value in sorted(found) for pod in found[value]]
    place = f"{key} {_listed(sorted(found))}"
    text = f"{why}: {_listed(pods)} in {place}"
    if kind == "repelled":
        text = f"{_listed(pods)} in {place} {'has' if len(pods) == 1 else 'have'} {why}, which means this pod"
    facts = {"topologyKey": key, "selector": meant, "domains": domains}
    return Detail(kind, text, np.sort(rows), facts)


def _pods_by_domain(
    nodes: NodeTable, rows: Iterable[int], key: str, is_meant: Callable[[PodInfo], bool]
) -> PodsByDomain:
    found: PodsByDomain = {}
    for row in rows:
        value = _domain(nodes, row, key)
        if value is not None:
            keys = sorted(other.key for other in nodes.info(row).pods.values() if is_meant(other))
            if keys:
                found.setdefault(value, []).extend(keys)
    return found


def _domain(nodes: NodeTable, row: int, key: str) -> str | None:
    return nodes.info(row).labels.get(key)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _match(count: int) -> str:
    return "1 pod matches" if count == 1 else f"{count} pods match"
