"""Which term keeps the pod off which nodes, and whose pods are meant.

Asked for explanations only: pods are walked here, where the filter reads counts. What the terms say of other pods comes
from the pods themselves, so a node is looked into only where counts (or nominations) say that somebody is there.
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

_SHOWN: Final = 3
"""Pods and domains that are named in the text."""
_LISTED: Final = 10
"""Pods that are listed per domain in the facts; their number is told."""

PodsByDomain = dict[str, list[str]]


def not_near(pod: PodInfo, counters: TopologyCounters, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    """Rows whose domain has nobody that the pod's required affinity wants. All terms together select who counts."""
    terms = pod.affinity_terms
    if terms.all_required_affinity is None:
        return
    column = counters.matching(terms.all_required_affinity)
    there = [row for row in nodes.rows().tolist() if column[row] > 0]
    for key in dict.fromkeys(one.topology_key for one in terms.required_affinity):
        domains = sorted({value for row in there if (value := _domain(nodes, row, key)) is not None})
        apart = [row for row in rows.tolist() if _domain(nodes, row, key) not in domains]
        if apart:
            wanted = [
                match_text(one.match, pod.namespace) for one in terms.required_affinity if one.topology_key == key
            ]
            count = int(column[nodes.rows()].sum())
            facts: dict[str, Any] = {"topologyKey": key, "terms": wanted, "matchingPods": count, "domains": domains}
            text = f"affinity wants a pod with {' and '.join(wanted)} in the same {key}; {_where(count, key, domains)}"
            yield Detail("affinityNotMet", text, np.array(apart, dtype=np.intp), facts)


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
        asked = dict.fromkeys([*np.flatnonzero(column > 0).tolist(), *rows.tolist()])

        def is_meant(other: PodInfo, term: AffinityTerm = term) -> bool:
            return other.uid != pod.uid and counters.selects(term.match, other.pod)

        found = _pods_by_domain(nodes, asked, term.topology_key, is_meant)
        meant = match_text(term.match, pod.namespace)
        yield from _by_domain("antiAffinity", f"anti-affinity to {meant}", term, meant, found, nodes, rows)


def repelled(pod: PodInfo, counters: TopologyCounters, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    """Rows whose domain has a pod that keeps this one away by its own required anti-affinity."""
    held: dict[AffinityTerm, PodsByDomain] = {}
    for row in nodes.rows().tolist():
        for other in sorted(nodes.info(row).pods.values(), key=lambda one: one.key):
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
    """One detail per domain that has rows, the largest groups first; where there are many, those alike are one."""
    key = term.topology_key
    concerned = [row for row in rows.tolist() if _domain(nodes, row, key) in found]
    if not concerned:
        return
    groups = grouped(np.array(concerned, dtype=np.intp), lambda row: _domain(nodes, row, key) or "")
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
    nodes: NodeTable, asked: Iterable[int], key: str, is_meant: Callable[[PodInfo], bool]
) -> PodsByDomain:
    found: PodsByDomain = {}
    for row in asked:
        value = _domain(nodes, row, key)
        if value is not None:
            keys = sorted(one.key for one in nodes.info(row).pods.values() if is_meant(one))
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
