"""The topology counters: counts of pods per row, kept up to date as pods come, go and change.

The problem: affinity and spread need counts of sets of pods, and a walk over all pods in a cycle costs milliseconds.
The idea: the first query for a set builds a column (matching pods per row), and every pod that comes or goes updates
the columns of its sets, found by an index. The affinity terms of pods on rows (held terms) are kept from the start, an
entry per distinct term with its holders per row, because any new pod may be selected by them.

    state.Cache --add, remove, replace--> groups of like pods  --first query--> columns of matching pods
                                     '--> held terms           --query--------> columns of holders
    namespaces --set, remove----------------------------------> columns with a changed namespace are dropped

Pods on ghosts (node names without a node) are not counted here; they are added together with the node.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.core import Namespace, Pod
from kscheduler.framework.cluster.topology import CountColumn, DomainSums, HeldTerm
from kscheduler.framework.decision_time import DECISION_TIME, DecisionEndedError
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.affinity_terms import NO_TERMS, PodMatch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.topology.columns import BUDGET_BYTES, RecentColumns
from kscheduler.state.topology.groups import NamespaceLabels, PodGroups
from kscheduler.state.topology.held_terms import HeldTerms, TermsOfOneKind
from kscheduler.state.topology.index import MatchIndex

_NO_LABELS: Final[Mapping[str, str]] = {}
_NO_KEYS: Final[frozenset[str]] = frozenset()
# The number of columns that are kept, besides four per group of like pods. It needs a limit, because the counters do
# not learn when the last pod that uses a column has gone, and each release of a Deployment may need a new one.
_LEAST_QUERIES: Final = 512
# A requirement of a question, or a value of one.
_BYTES_PER_PART: Final = 256


class CounterStatistics(msgspec.Struct, frozen=True):
    """The size of the counters."""

    columns: int
    """Sets of pods with a column."""
    held_terms: int
    """Distinct terms that pods on nodes hold."""


class TopologyCounts:
    """All counters of one cluster view. Implements `framework.cluster.topology.TopologyCounters`."""

    def __init__(self, nodes: NodeTable, budget_bytes: int = BUDGET_BYTES) -> None:
        self._nodes = nodes
        self._capacity = nodes.capacity
        self._namespaces = NamespaceLabels()
        self._groups = PodGroups()
        self._index: MatchIndex[PodMatch] = MatchIndex()
        self._columns: RecentColumns[PodMatch] = RecentColumns(
            budget_bytes, self._no_longer_counted, lambda match: _BYTES_PER_PART * match.size
        )
        self._held = HeldTerms(nodes, budget_bytes)
        self.term_changes = self._held.changes
        self.changes = 0
        """The number of changes: of counted pods, and of namespaces' labels."""

    def statistics(self) -> CounterStatistics:
        """Sizes, for metrics."""
        return CounterStatistics(len(self._columns), len(self._held))

    # --- queries ------------------------------------------------------------------------------------------------------

    def matching(self, match: PodMatch) -> CountColumn:
        """The number of matching pods: int64, an entry per row of the table. Shared: do not write.

        The first question about a set looks at all groups, and a pod may ask thousands: so this is where a decision
        that has no time left ends. Raises `DecisionEndedError`.
        """
        if DECISION_TIME.is_up:
            raise DecisionEndedError
        self._fit()
        column = self._columns.use(match)
        if column is None:
            column = self._counted(match)
            self._columns.keep(match, column, _LEAST_QUERIES + 4 * len(self._groups))
            self._index.add(match, match)
        return column

    def by_domain(self, column: CountColumn, key: str, nodes: NodeTable) -> DomainSums | None:
        """A column summed over a label of the nodes; `None` for another table, or an unknown column."""
        if nodes is not self._nodes:
            return None
        return self._columns.by_domain(column, key, nodes) or self._held.by_domain(column, key, nodes)

    def selects(self, match: PodMatch, pod: Pod, *, held: bool = False) -> bool:
        """Whether the pod is in the set, wherever it is; `held`: the set belongs to a term of a pod on a node."""
        if not match.selects(pod.metadata.labels):
            return False
        namespace = pod.metadata.namespace
        labels = self._namespaces.of(namespace)
        if labels is None and held:
            labels = _NO_LABELS
        return match.names(namespace, labels)

    def required_anti_affinity(self, pod: PodInfo) -> Sequence[HeldTerm]:
        """Required anti-affinity terms of pods on nodes that select this pod."""
        return self._selecting(self._held.required_anti_affinity, pod)

    def required_affinity(self, pod: PodInfo) -> Sequence[HeldTerm]:
        """Required affinity terms of pods on nodes that select this pod."""
        return self._selecting(self._held.required_affinity, pod)

    def preferred(self, pod: PodInfo) -> Sequence[HeldTerm]:
        """Preferred terms of pods on nodes, affinity and anti-affinity, that select this pod."""
        return self._selecting(self._held.preferred, pod)

    def labels_of_terms(self, labels: Mapping[str, str]) -> frozenset[str]:
        """Those of the labels that a term of pods on nodes names, whatever the value."""
        return frozenset(self._held.label_keys.keys() & labels.keys()) if self._held.label_keys else _NO_KEYS

    def _counted(self, match: PodMatch) -> CountColumn:
        column = np.zeros(self._capacity, dtype=np.int64)
        by_labels = match.namespace_selector is not None
        for namespace in list(self._groups.namespaces) if by_labels else match.namespaces:
            if match.names(namespace, self._namespaces.of(namespace)):
                for group in self._groups.belonging_to(match, namespace):
                    for row, count in group.rows.items():
                        column[row] += count
        return column

    def _selecting(self, held: TermsOfOneKind, pod: PodInfo) -> Sequence[HeldTerm]:
        """The terms that select the pod; an unknown namespace counts as one without labels, as upstream."""
        if not held.terms:
            return ()
        self._fit()
        return held.selecting(pod, self._namespaces.of(pod.namespace) or _NO_LABELS)

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, row: int, pod: PodInfo) -> None:
        """Count a pod on the row."""
        self._groups.add(row, pod)
        self._move(row, pod, 1)

    def remove(self, row: int, pod: PodInfo) -> None:
        """Stop counting a pod on the row; `pod` must be the version that was added."""
        self._groups.remove(row, pod)
        self._move(row, pod, -1)

    def rebuild(self, row: int, pods: Iterable[PodInfo]) -> None:
        """Replace all pods of the row by these: a repair."""
        self._fit()
        self._groups.clear(row)
        self._columns.clear(row)
        self._held.clear(row)
        self.changes += 1
        for pod in pods:
            self.add(row, pod)

    def replace(self, row: int, old: PodInfo, new: PodInfo) -> None:
        """Replace a pod on the row by its new version."""
        if not _looks_the_same(old, new):
            self.remove(row, old)
            self.add(row, new)

    def set_namespace(self, namespace: Namespace) -> None:
        """Add or update a namespace."""
        name = namespace.metadata.name
        before = self._namespaces.of(name)
        if self._namespaces.set(namespace):
            self.changes += 1
            self.term_changes.number += 1
            self._drop_those_that_see(name, before, namespace.metadata.labels)

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """A namespace's labels; `None` if it is unknown."""
        return self._namespaces.of(name)

    def namespace_names(self) -> tuple[str, ...]:
        """The names of all namespaces that are known."""
        return self._namespaces.names()

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace."""
        before = self._namespaces.of(name)
        if self._namespaces.remove(name):
            self.changes += 1
            self.term_changes.number += 1
            self._drop_those_that_see(name, before, None)

    def _move(self, row: int, pod: PodInfo, change: int) -> None:
        if self._capacity != self._nodes.capacity:
            self._fit()
        self.changes += 1
        if pod.pod.spec.affinity is not None and pod.affinity_terms is not NO_TERMS:
            self._held.count(row, pod, change)
        if not len(self._columns):
            return
        of_namespace = self._namespaces.of(pod.namespace)
        for match, _ in self._index.selecting(pod.namespace, pod.labels, of_namespace):
            if match.counts_terminating or not pod.is_terminating:
                self._columns.count(match, row, change)

    def _no_longer_counted(self, match: PodMatch) -> None:
        self._index.remove(match, match)

    def _drop_those_that_see(
        self, name: str, before: Mapping[str, str] | None, after: Mapping[str, str] | None
    ) -> None:
        """Drop the columns whose counts may have changed; namespaces change their labels very rarely."""
        for match in list(self._columns):
            if match.names(name, before) != match.names(name, after):
                self._columns.drop(match)

    def _fit(self) -> None:
        """Grow with the table."""
        if self._capacity != self._nodes.capacity:
            self._capacity = self._nodes.capacity
            self._columns.grow(self._capacity)
            self._held.grow(self._capacity)


def _looks_the_same(old: PodInfo, new: PodInfo) -> bool:
    """Whether no counter would change."""
    before, after = old.pod.metadata, new.pod.metadata
    return (
        before.labels == after.labels
        and before.namespace == after.namespace
        and (before.deletion_timestamp is None) == (after.deletion_timestamp is None)
        and old.pod.spec.affinity == new.pod.spec.affinity
    )
