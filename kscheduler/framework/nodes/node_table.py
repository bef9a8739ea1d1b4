"""The nodes, in columns.

The problem: a loop over 5,000 node objects costs milliseconds per pod. The idea: a node is a row, a fact about nodes
is a numpy column, and a rule evaluates all rows in one operation. A removed node frees its row for the next one; a
change raises the row's generation and is logged, so that results for the other rows can be kept. Limits: columns are
int64 and saturate (exact sums are in `NodeInfo`), and they change in place: copy what must outlive a cycle.

Two lookups are sparse because nearly all rows are empty there: images by name, and host ports by (protocol, port).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from itertools import chain, count
from sys import maxsize
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node, Taint
from kscheduler.api.quantity import MAX_INT64
from kscheduler.api.selectors import NodeTerm, Requirement
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.nodes.amount_numbers import AmountNumbers
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.exact_sums import exact_sum
from kscheduler.framework.nodes.interned import Interned
from kscheduler.framework.nodes.label_column import LabelColumn, Mask
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.sparse import ImageStates, PortStates
from kscheduler.framework.pods.pod_info import ALL_INTERFACES, HostPort, PodInfo
from kscheduler.framework.pods.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

# Row numbers, ascending.
Rows = NDArray[np.intp]
# A verdict per row: 0 passes, positive is Unschedulable, negative UnschedulableAndUnresolvable.
Codes = NDArray[np.int64]
# A score per row.
Scores = NDArray[np.int64]

# The first resources' indices in `allocatable` and `requested`.
CPU_INDEX, MEMORY_INDEX, EPHEMERAL_STORAGE_INDEX = 0, 1, 2

_FIRST_CAPACITY = 64
_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_LEAST_CHANGES = 4096
_MAX_CHANGES = 65_536
# Entries kept in each log, up to 65,536: a reader that missed more should look at all rows.
_CHANGES_PER_ROW = 4
# Resource names; with fewer, no search for unused names is made.
_LEAST_RESOURCES = 64
# Shared by all tables, so that a version stands for one state of one table.
_RESOURCE_VERSIONS = count(1)
_PER_ROW = (
    "is_live",
    "allowed_pods",
    "pod_count",
    "unschedulable",
    "taint_set",
    "feature_set",
    "name_hash",
    "tie_hash",
    "generation",
    "pods_version",
)
_KEPT_LABEL_COLUMNS = 512
# Labels with a column from the start: pods are spread over them by default, and a late column takes 40 ms.
_FIRST_LABELS = (HOSTNAME, ZONE)


class ChoosesNodes(Protocol):
    """A pod, or what several have in common, as far as it says on which nodes it may run."""

    @property
    def node_selector(self) -> NodeTerm | None: ...

    @property
    def required_node_terms(self) -> tuple[NodeTerm, ...] | None: ...


class NodeTable:
    """Nodes as rows. Changed by its owner only (`state.cache.Cache`); plugins read.

    Columns have `capacity` entries: those of free rows are meaningless.
    """

    def __init__(self, tie_name: Callable[[str], str] = str) -> None:
        """`tie_name`: the name that breaks ties."""
        self.capacity = _FIRST_CAPACITY
        self.resources: dict[str, int] = {
            CPU: CPU_INDEX,
            MEMORY: MEMORY_INDEX,
            EPHEMERAL_STORAGE: EPHEMERAL_STORAGE_INDEX,
        }
        """Resource name to its index in the first axis of `allocatable` and `requested`.

        The native ones, and what nodes offer. What pods alone name has no column: a pod may bring twenty thousand
        names, and no node has room for any of them.
        """
        self.resources_version = 0
        """Changes when a resource is added, and when unused resources are removed."""
        self.allocatable: NDArray[np.int64] = np.zeros((3, self.capacity), dtype=np.int64)
        """[resource, row]; cpu in thousandths, everything else in units."""
        self.requested: NDArray[np.int64] = np.zeros((3, self.capacity), dtype=np.int64)
        """[resource, row]: the sum over the row's pods, of the resources that nodes offer."""
        self.nonzero_requested: NDArray[np.int64] = np.zeros((2, self.capacity), dtype=np.int64)
        """[cpu | memory, row]: the sum with the defaults that scoring presumes for pods without requests."""
        self.is_live: NDArray[np.bool_] = np.zeros(self.capacity, dtype=np.bool_)
        """Whether the row is a node."""
        self.allowed_pods: NDArray[np.int64] = np.zeros(self.capacity, dtype=np.int64)
        """Per row how many pods the node takes."""
        self.pod_count: NDArray[np.int64] = np.zeros(self.capacity, dtype=np.int64)
        """Per row how many pods are there, with those that are assumed."""
        self.unschedulable: NDArray[np.bool_] = np.zeros(self.capacity, dtype=np.bool_)
        """Per row `spec.unschedulable`: the node is cordoned."""
        self.taint_set: NDArray[np.int32] = np.zeros(self.capacity, dtype=np.int32)
        """Per row the index into `taint_sets`."""
        self.taint_sets: Interned[tuple[Taint, ...]] = Interned(())
        """The sets in use: a number is reused when no node has its set any more."""
        self.feature_set: NDArray[np.int32] = np.zeros(self.capacity, dtype=np.int32)
        """Per row the index into `feature_sets`."""
        self.feature_sets: Interned[frozenset[str]] = Interned(frozenset())
        """The features that kubelets declare (`status.declaredFeatures`); numbered in the same way."""
        self.name_hash: NDArray[np.uint64] = np.zeros(self.capacity, dtype=np.uint64)
        """A stable hash of the name, for breaking ties."""
        self.tie_hash: NDArray[np.uint64] = np.zeros(self.capacity, dtype=np.uint64)
        """The same, folded as `framework.rules.scoring.highest_mix` takes it."""
        self.tie_name = tie_name
        """The name that breaks ties: a recording without names needs another (`recorder.redaction`)."""
        self.generation: NDArray[np.int64] = np.zeros(self.capacity, dtype=np.int64)
        """Per row a number that rises with each change of the node or its pods."""
        self.last_generation = 0
        self.pods_version: NDArray[np.int64] = np.zeros(self.capacity, dtype=np.int64)
        """Per row a number that changes whenever its pods change, including changes within a pod object."""
        self.row_changes = ChangeLog(_LEAST_CHANGES)
        """Rows with any change: of the node, of the set of pods, or within a pod object."""
        self.node_changes = ChangeLog(_LEAST_CHANGES)
        """Rows whose node was added, removed or changed."""
        self.amount_changes = ChangeLog(_LEAST_CHANGES)
        """Rows whose allocatable or requested amounts may have changed."""
        self.node_columns_version = 0
        """Changes when a node is added or removed, or when its columns change."""
        self._amount_numbers = AmountNumbers()
        self.images = ImageStates()
        self.ports = PortStates()
        self.infos: list[NodeInfo | None] = [None] * self.capacity
        self._least_resources = self._sweep_resources_at = _LEAST_RESOURCES
        self._row_of: dict[str, int] = {}
        self._free: list[int] = list(range(self.capacity - 1, -1, -1))
        self._labels: RecentlyUsed[str, LabelColumn] = RecentlyUsed(_KEPT_LABEL_COLUMNS)
        self._labels.update((key, LabelColumn(self.capacity)) for key in _FIRST_LABELS)
        self._label_keys: Counter[str] = Counter()
        """The label keys that nodes have, with the number of nodes."""
        self._labels_at: list[Mapping[str, str]] = [{}] * self.capacity
        """The labels that `_label_keys` counts of a row."""
        self._unlabelled_value = LabelColumn(self.capacity)
        self._rows: Rows | None = None
        self._name_at: list[str] = [""] * self.capacity
        self._names: tuple[str, ...] | None = None
        self._places_of: tuple[str, ...] = ()
        self._places: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """What `name_places` returns for the names `_places_of`."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._row_of)

    def rows(self) -> Rows:
        """All live rows (intp, ascending). Shared: do not write."""
        if self._rows is None:
            self._rows = self.is_live.nonzero()[0]
        return self._rows

    def row_of(self, name: str) -> int:
        """The row of a node; -1 if there is no such node."""
        return self._row_of.get(name, -1)

    def rows_of(self, names: Iterable[str]) -> Rows:
        """The rows of the named nodes that exist (intp, ascending)."""
        return np.array(sorted(self._row_of[name] for name in names if name in self._row_of), dtype=np.intp)

    def info(self, row: int) -> NodeInfo:
        """The node of a live row. Raises `KeyError` for a free row."""
        info = self.infos[row]
        if info is None:
            raise KeyError(row)
        return info

    def name_of(self, row: int) -> str:
        """The name of the row's node, empty for a free row."""
        return self._name_at[row]

    def names(self, rows: Rows | None = None) -> tuple[str, ...]:
        """The names of these rows, in their order, as `nodes.names(nodes.rows())`.

        Without `rows` by row, empty for free rows: a frozen copy, shared until a node is added or removed.
        """
        if rows is not None:
            return tuple(map(self._name_at.__getitem__, rows.tolist()))
        if self._names is None:
            self._names = tuple(self._name_at)
        return self._names

    def name_places(self) -> NDArray[np.intp]:
        """By row the place of its node in the order of all names: intp [capacity]. Shared: do not write."""
        names = self.names()
        if names is not self._places_of:  # the same tuple until a node is added or removed
            self._places = np.empty(len(names), dtype=np.intp)
            self._places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
            self._places_of = names
        return self._places

    def amounts(self, column: NDArray[np.int64], resource: str, rows: Rows) -> NDArray[np.int64]:
        """A resource of `column` (`allocatable` or `requested`) at the rows: int64, shape of `rows`.

        Zeros for a resource that no node has. Cpu is in thousandths, everything else in units.
        """
        index = self.resources.get(resource)
        return np.zeros(len(rows), dtype=np.int64) if index is None else column[index][rows]

    def total(self, column: NDArray[np.int64], resource: str, rows: Rows) -> int:
        """The sum of `amounts`, exact also where an int64 would wrap."""
        return exact_sum(self.amounts(column, resource, rows))

    def amounts_at(self, row: int) -> int:
        """A number for the row's allocatable and requested amounts: rows with the same number have equal amounts."""
        info = self.infos[row]
        if info is None:
            raise KeyError(row)
        return self._amount_numbers.of(info)

    def matches(self, requirement: Requirement, rows: Rows) -> Mask:
        """Which rows' labels satisfy the requirement: bool, shape of `rows`."""
        if requirement.key not in self._label_keys:
            return np.full(len(rows), requirement.matches_value(None))
        return self._label(requirement.key).matches(requirement, rows)

    def matches_term(self, term: NodeTerm, rows: Rows) -> Mask:
        """Which rows satisfy a node selector term: bool, shape of `rows`.

        A pod may bring tens of thousands of requirements. Those on keys that no node has are answered without a
        column, and no column is looked at once no row is left.
        """
        if term.nothing:
            return np.zeros(len(rows), dtype=np.bool_)
        keys, on_known_keys = self._label_keys, []
        for requirement in term.joint_labels:
            if requirement.key in keys:
                on_known_keys.append(requirement)
            elif not requirement.matches_value(None):
                return np.zeros(len(rows), dtype=np.bool_)
        matched = np.ones(len(rows), dtype=np.bool_)
        for tried, requirement in enumerate(on_known_keys):
            if tried and not matched.any():
                return matched
            matched &= self._label(requirement.key).matches(requirement, rows)
        for requirement in term.fields:
            (name,) = requirement.values
            is_named = rows == self.row_of(name)
            matched &= is_named if requirement.matches_value(name) else ~is_named
        return matched

    def matches_any(self, terms: Iterable[NodeTerm], rows: Rows) -> Mask:
        """Which rows satisfy at least one of the terms: bool, shape of `rows`."""
        matched = np.zeros(len(rows), dtype=np.bool_)
        for tried, term in enumerate(terms):
            if tried and matched.all():
                return matched
            matched |= self.matches_term(term, rows)
        return matched

    def wanted_by(self, pod: ChoosesNodes, rows: Rows) -> Mask:
        """Which rows satisfy the pod's nodeSelector and one of its required node affinity terms: bool, like `rows`."""
        matched = np.ones(len(rows), dtype=np.bool_)
        if pod.node_selector is not None:
            matched &= self.matches_term(pod.node_selector, rows)
        if pod.required_node_terms is not None:
            matched &= self.matches_any(pod.required_node_terms, rows)
        return matched

    def label_values(self, key: str, rows: Rows | slice) -> tuple[NDArray[np.int32], list[str | None]]:
        """A label at the rows: value numbers (int32, shape of `rows`; 0: missing), and the values by number.

        With a slice the numbers are a view of the table's own column: do not write.
        """
        column = self._label(key)
        return column.ids[rows], column.values

    def with_pods(self, added: Mapping[int, Sequence[PodInfo]]) -> "NodeTable":
        """The table with more pods on some rows, by row: a fork for reading. This table does not change.

        Rows keep their numbers, so results that a plugin has computed for one table hold for the other. Columns of
        nodes are shared; columns that depend on pods are copied.
        """
        fork = copy(self)
        fork.resources = dict(self.resources)
        fork._sweep_resources_at = maxsize  # its infos are shared
        fork.row_changes, fork.node_changes, fork.amount_changes = ChangeLog(), ChangeLog(), ChangeLog()
        for name in ("requested", "nonzero_requested", "pod_count", "generation", "pods_version"):
            setattr(fork, name, getattr(self, name).copy())
        fork.infos = list(self.infos)
        fork.ports = self.ports.fork(port for pods in added.values() for pod in pods for port in pod.host_ports)
        for row, pods in added.items():
            info = fork.infos[row] = self.info(row).fork()
            for pod in pods:
                info.add_pod(pod)
                fork.add_pod(row, pod)
        return fork

    # --- changing -----------------------------------------------------------------------------------------------------

    def add(self, info: NodeInfo) -> int:
        """Give a node a row and count the pods that it already has. Returns the row."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self.infos[row] = info
        self._row_of[info.name] = row
        self._name_at[row] = info.name
        self.is_live[row] = True
        self._rows = self._names = None
        self._set_node_columns(row, info)
        self._set_sums(row, info)
        for pod in info.pods.values():
            self.ports.add(row, pod.host_ports)
        return row

    def update(self, row: int, previous: Node) -> None:
        """Update the row for the node that its info holds now; `previous` is the version before."""
        info = self.info(row)
        self.images.remove(row, previous.status.images)
        self._set_node_columns(row, info)
        self._forget_unused_resources()

    def remove(self, row: int) -> None:
        """Free the row of a deleted node."""
        info = self.info(row)
        if info.node is not None:
            self.images.remove(row, info.node.status.images)
        for pod in info.pods.values():
            self.ports.remove(row, pod.host_ports)
        del self._row_of[info.name]
        self._name_at[row] = ""
        self._count_label_keys(row, {})
        self.infos[row] = None
        self.is_live[row] = False
        self.allowed_pods[row] = 0
        self.unschedulable[row] = False
        self.taint_set[row] = self.taint_sets.put(row, ())
        self.feature_set[row] = self.feature_sets.put(row, frozenset())
        self.allocatable[:, row] = self.requested[:, row] = 0
        self._touch(row)
        self.node_changes.append(row)
        self.node_columns_version += 1
        self._free.append(row)
        self._rows = self._names = None
        self._forget_unused_resources()

    def log_change(self, row: int) -> None:
        """Log that the row's node has changed in something without a column: an annotation, a condition."""
        self.row_changes.append(row)
        self.node_changes.append(row)

    def rebuild(self, row: int) -> None:
        """Fill a row from its info as if the node were new, whatever the row's columns hold now."""
        info = self.info(row)
        self.images.clear(row)
        self.ports.clear(row)
        self.requested[:, row] = 0
        self._set_node_columns(row, info)
        self._set_sums(row, info)
        for pod in info.pods.values():
            self.ports.add(row, pod.host_ports)

    def add_pod(self, row: int, pod: PodInfo) -> None:
        """Update the row after its info has added a pod."""
        info = self.infos[row]
        if info is None:
            raise KeyError(row)
        self._set_sums(row, info)
        if pod.host_ports:
            self.ports.add(row, pod.host_ports)

    def remove_pod(self, row: int, pod: PodInfo) -> None:
        """Update the row after its info has removed a pod."""
        info = self.infos[row]
        if info is None:
            raise KeyError(row)
        self._set_sums(row, info)
        if pod.host_ports:
            self.ports.remove(row, pod.host_ports)

    def replace_pod(self, row: int) -> None:
        """Log a new version of a pod of the row with unchanged requests: no sum changes."""
        self.pods_version[row] += 1
        self.row_changes.append(row)

    def _set_node_columns(self, row: int, info: NodeInfo) -> None:
        node = info.node
        if node is None:
            raise ValueError("a ghost has no row")
        # First a place for each new resource, then the amounts. `pods` has a column of its own, `allowed_pods`, and
        # resources that the node no longer has must become 0.
        new = [name for name in info.allocatable if name not in self.resources and name != PODS]
        if new:
            self._add_resources(new)
        self.allocatable[:, row] = 0
        for name, amount in info.allocatable.items():
            if name != PODS:
                self.allocatable[self.resources[name], row] = clamped(amount)
        self.allowed_pods[row] = clamped(info.allocatable.get(PODS, 0))
        self.unschedulable[row] = node.spec.unschedulable
        self.taint_set[row] = self.taint_sets.put(row, node.spec.taints)
        self.feature_set[row] = self.feature_sets.put(row, frozenset(node.status.declared_features))
        self.name_hash[row] = name_hash = stable_hash(self.tie_name(info.name))
        self.tie_hash[row] = name_hash ^ name_hash >> 30
        self.images.add(row, node.status.images)
        self._count_label_keys(row, node.metadata.labels)
        for key, column in list(self._labels.items()):
            column.set(row, node.metadata.labels.get(key))
            if column.is_wasteful(len(self)):
                del self._labels[key]
        self._touch(row)
        self.node_changes.append(row)
        self.node_columns_version += 1

    def _set_sums(self, row: int, info: NodeInfo) -> None:
        # Hot: for each pod that comes or goes. The test of `clamped` is repeated, since a call costs more than it.
        resources, requested = self.resources, self.requested
        requested[:, row] = 0
        for name, amount in info.requested.items():
            if name in resources:
                requested[resources[name], row] = amount if 0 <= amount <= MAX_INT64 else clamped(amount)
        cpu, memory = info.nonzero_cpu, info.nonzero_memory
        self.nonzero_requested[0, row] = cpu if 0 <= cpu <= MAX_INT64 else clamped(cpu)
        self.nonzero_requested[1, row] = memory if 0 <= memory <= MAX_INT64 else clamped(memory)
        self.pod_count[row] = len(info.pods)
        self.pods_version[row] += 1
        self.last_generation += 1
        self.generation[row] = self.last_generation
        self.row_changes.append(row)
        self.amount_changes.append(row)

    def _touch(self, row: int) -> None:
        self.last_generation += 1
        self.generation[row] = self.last_generation
        self.row_changes.append(row)
        self.amount_changes.append(row)

    def _count_label_keys(self, row: int, labels: Mapping[str, str]) -> None:
        before = self._labels_at[row]
        self._labels_at[row] = labels
        if before.keys() == labels.keys():
            return
        for key in before.keys() - labels.keys():
            self._label_keys[key] -= 1
            if not self._label_keys[key]:
                del self._label_keys[key]
        self._label_keys.update(labels.keys() - before.keys())

    def _label(self, key: str) -> LabelColumn:
        column = self._labels.use(key)
        if column is None:
            if key not in self._label_keys:
                return self._unlabelled_value  # a column for each key that pods name would let them fill the table
            labels = [() if info is None or info.node is None else info.node.metadata.labels for info in self.infos]
            column = self._labels[key] = LabelColumn.of([found.get(key) if found else None for found in labels])
        return column

    def _add_resources(self, names: Sequence[str]) -> None:
        """All in one step, because both arrays are copied for it: a node may bring thousands of names."""
        places = {name: place for place, name in enumerate(names, start=len(self.allocatable))}
        zeros = np.zeros((len(names), self.capacity), dtype=np.int64)
        self.allocatable = np.concatenate([self.allocatable, zeros])
        self.requested = np.concatenate([self.requested, zeros])
        # Pods may have named the resources before any node did: their sums are counted from now on.
        for row, info in enumerate(self.infos):
            if info is not None:
                for name in info.requested.keys() & places.keys():
                    self.requested[places[name], row] = clamped(info.requested[name])
        self.resources.update(places)
        self.resources_version = next(_RESOURCE_VERSIONS)

    def _forget_unused_resources(self) -> None:
        """Remove the resources that no node offers any more: each takes two columns.

        Walks over all nodes, but only when there are twice as many names as were in use the last time.
        """
        if len(self.resources) <= self._sweep_resources_at:
            return
        allocatable = (info.allocatable for info in self.infos if info is not None)
        used = set(chain(_NATIVE, *allocatable))
        kept = [name for name in self.resources if name in used]
        places = [self.resources[name] for name in kept]
        self.allocatable, self.requested = self.allocatable[places], self.requested[places]
        self.resources = {name: place for place, name in enumerate(kept)}
        self.resources_version = next(_RESOURCE_VERSIONS)
        self._sweep_resources_at = max(self._least_resources, 2 * len(kept))

    def _grow(self) -> None:
        """Double the rows."""
        old, self.capacity = self.capacity, self.capacity * 2
        for name in ("allocatable", "requested", "nonzero_requested"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, old))))
        for name in _PER_ROW:
            setattr(self, name, np.pad(getattr(self, name), (0, old)))
        for column in (*self._labels.values(), self._unlabelled_value):
            column.grow(self.capacity)
        for log in (self.row_changes, self.node_changes, self.amount_changes):
            log.lengthen(min(_CHANGES_PER_ROW * self.capacity, _MAX_CHANGES))
        self.infos.extend([None] * old)
        self._name_at.extend([""] * old)
        self._labels_at.extend([{}] * old)
        self._free.extend(range(self.capacity - 1, old - 1, -1))


def clamped(amount: int) -> int:
    """An amount in the range of a column: sums saturate, a negative amount (which the API refuses) counts as 0."""
    return amount if 0 <= amount <= MAX_INT64 else max(0, min(amount, MAX_INT64))  # hot: several calls for each pod


def stable_hash(text: str) -> int:
    """A 64-bit hash that is the same in every process, on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


__all__ = ["ALL_INTERFACES", "Codes", "HostPort", "Mask", "NodeTable", "Rows", "Scores", "stable_hash"]
