"""The affinity terms of pods on nodes.

Affinity works both ways: a new pod without terms may still be repelled or attracted by the terms of pods on nodes. The
pods of a Deployment have the same terms, so each distinct term is kept once, with the number of its holders per row.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kscheduler.change_count import ChangeCount
from kscheduler.framework.cluster.topology import CountColumn, DomainSums, HeldTerm
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.affinity_terms import NO_TERMS, AffinityTerm
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.topology.columns import RecentColumns
from kscheduler.state.topology.index import MatchIndex

# So many terms are added up one by one; and so many rows are compared.
_FEW: Final = 64


class HeldTerms:
    """All held terms, by kind."""

    def __init__(self, nodes: NodeTable, budget_bytes: int) -> None:
        columns: RecentColumns[_Holders] = RecentColumns(budget_bytes)
        self._columns = columns
        self.changes = ChangeCount()
        """Of the set of terms."""
        self.label_keys: dict[str, int] = {}
        """The labels that terms name, each with how often."""
        self.required_anti_affinity = TermsOfOneKind(nodes, columns, self.changes, self.label_keys)
        self.required_affinity = TermsOfOneKind(nodes, columns, self.changes, self.label_keys)
        self.preferred = TermsOfOneKind(nodes, columns, self.changes, self.label_keys)

    def __len__(self) -> int:
        return sum(map(len, (self.required_anti_affinity, self.required_affinity, self.preferred)))

    def count(self, row: int, pod: PodInfo, change: int) -> None:
        """Count the terms of a pod that has come to the row (1) or left it (-1)."""
        terms = pod.affinity_terms
        if terms is NO_TERMS:
            return
        preferences = terms.required_affinity, terms.preferred_by_both
        if terms.are_too_many:  # they are only points for others, and would be added up in each of their decisions
            preferences = (), ()
        for kind, held in (
            (self.required_anti_affinity, terms.required_anti_affinity),
            (self.required_affinity, preferences[0]),
            (self.preferred, preferences[1]),
        ):
            if held:
                kind.count(row, held, change)

    def by_domain(self, column: CountColumn, key: str, nodes: NodeTable) -> DomainSums | None:
        """A column of holders summed over a label of the nodes; `None` for an unknown column."""
        return self._columns.by_domain(column, key, nodes)

    def clear(self, row: int) -> None:
        """Remove all holders on the row. Looks at every term: for repairs."""
        for terms in (self.required_anti_affinity, self.required_affinity, self.preferred):
            terms.clear(row)

    def grow(self, capacity: int) -> None:
        """Extend all columns to the table's new capacity."""
        self._columns.grow(capacity)


@dataclass(slots=True, eq=False)
class _Holders:
    """A term and the number of its holders per row."""

    term: AffinityTerm
    rows: dict[int, int]


class TermsOfOneKind:
    """Distinct terms with their holders."""

    def __init__(
        self,
        nodes: NodeTable,
        columns: "RecentColumns[_Holders]",
        changes: ChangeCount,
        label_keys: dict[str, int],
    ) -> None:
        self._nodes = nodes
        self._changes = changes
        self._label_keys = label_keys
        self._columns = columns
        self._holders: dict[AffinityTerm, _Holders] = {}
        self.terms = self._holders.keys()
        """A view of the terms, which follows later changes: each decision asks whether there are any."""
        self._index: MatchIndex[_Holders] = MatchIndex()

    def __len__(self) -> int:
        return len(self._holders)

    def count(self, row: int, terms: Iterable[AffinityTerm], change: int) -> None:
        """Count a pod with these terms that has come to the row (1) or left it (-1)."""
        for term in terms:
            holders = self._holders.get(term) or self._first_of(term)
            left = holders.rows.get(row, 0) + change
            self._columns.count(holders, row, change)
            if left:
                holders.rows[row] = left
            else:
                del holders.rows[row]
                self._forget_if_unheld(holders)

    def clear(self, row: int) -> None:
        """Remove all holders on the row."""
        for holders in list(self._holders.values()):
            self._columns.count(holders, row, -holders.rows.pop(row, 0))
            self._forget_if_unheld(holders)

    def selecting(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> list[HeldTerm]:
        """The terms that select the pod, whose namespace has these labels."""
        found = [holders for _, holders in self._index.selecting(pod.namespace, pod.labels, namespace_labels)]
        if len(found) <= _FEW:
            return [self._held_term(holders, 1) for holders in found]
        # One pod may hold thousands of terms, and each would be added up over all nodes.
        alike: dict[Hashable, list[_Holders]] = {}
        for holders in found:
            rows = tuple(holders.rows.items()) if len(holders.rows) <= _FEW else id(holders)
            alike.setdefault((holders.term.topology_key, holders.term.weight, rows), []).append(holders)
        return [self._held_term(each[0], len(each)) for each in alike.values()]

    def _held_term(self, holders: _Holders, times: int) -> HeldTerm:
        term = holders.term
        return HeldTerm(term.topology_key, term.weight, self._column(holders), term.match, times)

    def _column(self, holders: _Holders) -> CountColumn:
        column = self._columns.use(holders)
        if column is None:
            column = np.zeros(self._nodes.capacity, dtype=np.int64)
            for row, count in holders.rows.items():
                column[row] = count
            self._columns.keep(holders, column)
        return column

    def _first_of(self, term: AffinityTerm) -> _Holders:
        holders = self._holders[term] = _Holders(term, {})
        self._index.add(term.match, holders)
        for key in term.match.label_keys:
            self._label_keys[key] = self._label_keys.get(key, 0) + 1
        self._changes.number += 1
        return holders

    def _forget_if_unheld(self, holders: _Holders) -> None:
        if not holders.rows:
            del self._holders[holders.term]
            self._index.remove(holders.term.match, holders)
            for key in holders.term.match.label_keys:
                self._label_keys[key] -= 1
                if not self._label_keys[key]:
                    del self._label_keys[key]
            self._changes.number += 1
            self._columns.drop(holders)
