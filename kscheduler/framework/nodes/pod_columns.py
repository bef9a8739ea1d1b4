"""The pods of all rows in columns, for the search for victims; in each row the most important pod comes first.

Sorting a node's pods and adding up their requests costs microseconds per pod, and a search looks at hundreds of nodes.
So it is done once per row and kept until the row's pods change (`NodeTable.pods_version`). The columns are flat: a row
is a section of them. A recomputed row is appended at the end; when half of a column is waste, all rows are dropped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import MAX_INT64
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import NodeTable, Rows, clamped
from kscheduler.framework.pods.affinity_terms import AffinityTerm
from kscheduler.framework.pods.pod_info import PodInfo

# Indices into flat columns.
Items = NDArray[np.intp]


class PodKind(msgspec.Struct, frozen=True, eq=False):
    """The common properties of pods that no selector and no count of pods can tell apart."""

    namespace: str
    labels: Mapping[str, str]
    pod: PodInfo
    """A pod of the kind; the others have the same required anti-affinity and claims."""


# Namespace, labels (another order makes another kind, which does no harm), required anti-affinity, claims.
Kind = tuple[str, tuple[tuple[str, str], ...], tuple[AffinityTerm, ...], tuple[str, ...]]

# In seconds since 1970: the start of a pod whose kubelet has reported none. As kube-scheduler 1.38 has it, the last
# moment of Go's nanoseconds, in 2262; before, it took the time of each look.
NOT_STARTED: Final = (2**63 - 1) / 1e9

_FIRST_LENGTH: Final = 1024
# Pods: what a costly pod that is gone counts for: it is held until the columns begin again, after some twenty.
_GIANT_WASTE: Final = 64
_NO_KIND: Final = -1


class Removable(msgspec.Struct, frozen=True):
    """The pods of some rows that may be removed, row after row; in a row the most important first."""

    rows: Rows
    """The rows that have such pods, ascending."""
    starts: Items
    """Per row the index of its first pod."""
    counts: Items
    """Per row the number of its pods."""
    row_of: Rows
    """Per pod its row; the fields that follow are per pod, too."""
    priorities: NDArray[np.int64]
    started: NDArray[np.float64]
    """Seconds since 1970; infinity, the latest, if the kubelet has not reported it."""
    sums: NDArray[np.int64]
    """[resource, pod]: requests by the indices of `NodeTable.resources`, then cpu and memory as scoring presumes; each
    saturates."""
    with_ports: frozenset[int]
    """Indices of pods with host ports."""
    kinds: Items
    """Per pod the index of its kind in `all_kinds`; empty if kinds were not requested."""
    all_kinds: Sequence[PodKind]
    _all: Sequence[PodInfo]
    _places: Items

    def __len__(self) -> int:
        return len(self.row_of)

    def pod(self, item: int) -> PodInfo:
        """The pod at an index."""
        return self._all[int(self._places[item])]

    def pods_at(self, items: Items) -> list[PodInfo]:
        """The pods at some indices."""
        pods = self._all
        return [pods[place] for place in self._places.take(items).tolist()]

    def moving(self, items: Items | slice, by: int) -> MovedPods:
        """Some of the pods in the form that plugins which count pods take: `by` is 1 for added pods, -1 for removed."""
        kinds, kind_of = np.unique(self.kinds[items], return_inverse=True)
        pods = tuple(self.all_kinds[kind].pod for kind in kinds.tolist())
        return MovedPods(self.row_of[items], pods, kind_of, by)


class PodColumns:
    """The pods of a table's rows, kept until they change."""

    def __init__(self, priority_of: Callable[[PodInfo], int] = attrgetter("priority")) -> None:
        """`priority_of`: how much a pod is worth as a victim; `MAX_INT64`: it is never one."""
        self._priority_of = priority_of
        self._nodes: NodeTable | None = None
        self._lowest = np.zeros(0, dtype=np.int64)
        """Per row the lowest priority of its pods."""
        self._lowest_version = np.zeros(0, dtype=np.int64)
        self._begin(0, 0, 0)

    def below(self, nodes: NodeTable, rows: Rows, priority: int, *, kinds: bool = True) -> Removable:
        """The pods of lower priority on the rows (ascending). Rows without such pods are left out.

        `kinds`: whether the caller needs the kind of each pod.
        """
        rows = self._with_lower(nodes, rows, priority)
        self._refresh(nodes, rows)
        # The rows' sections, one after another: `places` are indices into the flat columns. For sections (offset 7,
        # length 2) and (offset 3, length 3) they are 7, 8, 3, 4, 5.
        lengths = self._length.take(rows)
        starts = _starts(lengths)
        places = np.repeat(self._offset.take(rows) - starts, lengths) + np.arange(int(lengths.sum()))
        is_below = self._priorities.take(places) < priority
        if not is_below.all():  # each row has at least one such pod, so no section for `reduceat` is empty
            lengths = np.add.reduceat(is_below, starts, dtype=np.intp)
            places, starts = places[is_below], _starts(lengths)
        return Removable(
            rows=rows,
            starts=starts,
            counts=lengths,
            row_of=np.repeat(rows, lengths),
            priorities=self._priorities.take(places),
            started=self._started.take(places),
            sums=self._sums.take(places, axis=1),
            with_ports=frozenset(self._has_ports[places].nonzero()[0].tolist()) if self._any_ports else frozenset(),
            kinds=self._kinds_at(places) if kinds else places[:0],
            all_kinds=self._kinds,
            _all=self._pods,
            _places=places,
        )

    def with_lower(self, nodes: NodeTable, rows: Rows, priority: int) -> Rows:
        """Those of the rows (ascending) that have a pod of lower priority: known from before where nothing changed."""
        return self._with_lower(nodes, rows, priority)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _with_lower(self, nodes: NodeTable, rows: Rows, priority: int) -> Rows:
        """The rows with a pod of lower priority. Most preemptors find none, and then no columns are computed."""
        if nodes is not self._nodes or len(self._version) != nodes.capacity:
            self._nodes = nodes
            self._lowest = np.zeros(nodes.capacity, dtype=np.int64)
            self._lowest_version = np.full(nodes.capacity, -1, dtype=np.int64)
            self._begin(nodes.capacity, len(nodes.requested), nodes.resources_version)
        stale = rows.take((self._lowest_version.take(rows) != nodes.pods_version.take(rows)).nonzero()[0])
        if len(stale):
            self._lowest[stale] = [
                min(map(self._priority_of, nodes.info(row).pods.values()), default=MAX_INT64) for row in stale.tolist()
            ]
            self._lowest_version[stale] = nodes.pods_version.take(stale)
        return rows.take((self._lowest.take(rows) < priority).nonzero()[0])

    def _begin(self, capacity: int, resources: int, version: int) -> None:
        """Start with empty columns. Arrays that were returned before do not change."""
        self._resources_version = version
        self._version = np.full(capacity, -1, dtype=np.int64)
        self._offset = np.zeros(capacity, dtype=np.intp)
        self._length = np.zeros(capacity, dtype=np.intp)
        self._pods: list[PodInfo] = []
        self._waste = 0
        self._any_ports = False
        self._priorities = np.zeros(_FIRST_LENGTH, dtype=np.int64)
        self._started = np.zeros(_FIRST_LENGTH, dtype=np.float64)
        self._sums = np.zeros((resources + 2, _FIRST_LENGTH), dtype=np.int64)
        self._has_ports = np.zeros(_FIRST_LENGTH, dtype=np.bool_)
        self._kind = np.zeros(_FIRST_LENGTH, dtype=np.intp)
        self._kinds: list[PodKind] = []
        self._number_of: dict[Kind, int] = {}
        self._costly: dict[int, list[str]] = {}
        """By row the UIDs of its costly pods."""

    def _refresh(self, nodes: NodeTable, rows: Rows) -> None:
        if self._resources_version != nodes.resources_version or self._waste > len(self._pods) // 2 + 1024:
            self._begin(nodes.capacity, len(nodes.requested), nodes.resources_version)
        stale = rows.take((self._version.take(rows) != nodes.pods_version.take(rows)).nonzero()[0])
        if not len(stale):
            return
        pods: list[PodInfo] = []
        ends: list[int] = []
        for row in stale.tolist():
            there = nodes.info(row).pods
            if row in self._costly:
                self._waste += _GIANT_WASTE * sum(uid not in there for uid in self._costly.pop(row))
            pods += ordered(there.values())  # a pod costs a few microseconds here
            ends.append(len(pods))
            if costly := [pod.uid for pod in there.values() if pod.is_costly]:
                self._costly[row] = costly
        start = len(self._pods)
        self._append(nodes, start, pods)
        self._waste += int(self._length.take(stale).sum())
        self._length[stale] = np.diff(ends, prepend=0)
        self._offset[stale] = start + np.array(ends) - self._length.take(stale)
        self._version[stale] = nodes.pods_version.take(stale)

    def _append(self, nodes: NodeTable, start: int, pods: list[PodInfo]) -> None:
        self._pods += pods
        while len(self._pods) > len(self._priorities):
            self._grow()
        section = slice(start, start + len(pods))
        self._priorities[section] = [self._priority_of(pod) for pod in pods]
        self._started[section] = [started_at(pod) for pod in pods]
        self._kind[section] = _NO_KIND
        self._sums[:, section] = _sums(pods, nodes.resources)
        if any(pod.host_ports for pod in pods):
            self._has_ports[section] = [bool(pod.host_ports) for pod in pods]
            self._any_ports = True

    def _kinds_at(self, places: Items) -> Items:
        """The kinds at these indices, computed on first use: they cost as much as everything else about a pod."""
        kinds = self._kind.take(places)
        unknown = (kinds == _NO_KIND).nonzero()[0]
        if len(unknown):
            kinds[unknown] = [self._number(self._pods[place]) for place in places.take(unknown).tolist()]
            self._kind[places.take(unknown)] = kinds.take(unknown)
        return kinds

    def _number(self, pod: PodInfo) -> int:
        key = kind_of(pod)
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._kinds)
            self._kinds.append(PodKind(pod.namespace, pod.labels, pod))
        return number

    def _grow(self) -> None:
        """Double the columns. New arrays, because callers may still hold the old ones."""
        more = len(self._priorities)
        for name in ("_priorities", "_started", "_has_ports", "_kind"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self._sums = np.pad(self._sums, ((0, 0), (0, more)))


def ordered(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """The pods, the most important first: higher priority, then earlier start, then UID.

    The last rule is kube-scheduler's since 1.38; before, it left the order of such pods undefined. No names, which a
    redacted recording does not have.
    """
    return sorted(pods, key=_rank)


def _rank(pod: PodInfo) -> tuple[int, float, str]:
    return -pod.priority, started_at(pod), pod.uid


def started_at(pod: PodInfo) -> float:
    """The pod's start time in seconds since 1970; `NOT_STARTED` if the kubelet has not reported it."""
    text = pod.pod.status.start_time
    if text is None:
        return NOT_STARTED
    return _seconds(text)


@lru_cache(maxsize=4096)
def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return NOT_STARTED


def kind_of(pod: PodInfo) -> Kind:
    """The properties that the pod shares with the other pods of its kind."""
    meta = pod.pod.metadata
    terms = pod.affinity_terms.required_anti_affinity if pod.pod.spec.affinity is not None else ()
    return meta.namespace, tuple(meta.labels.items()), terms, _claims(pod) if pod.pod.spec.volumes else ()


def _claims(pod: PodInfo) -> tuple[str, ...]:
    sources = (volume.persistent_volume_claim for volume in pod.pod.spec.volumes)
    return tuple(source.claim_name for source in sources if source is not None)


def _sums(pods: Sequence[PodInfo], resources: Mapping[str, int]) -> list[list[int]]:
    """[resource, pod]: requests by resource that nodes offer, then cpu and memory as scoring presumes."""
    sums = [[0] * len(pods) for _ in range(len(resources) + 2)]
    for place, pod in enumerate(pods):
        for name, amount in pod.accounted.items():
            if name in resources:
                sums[resources[name]][place] = amount if 0 <= amount <= MAX_INT64 else clamped(amount)
        cpu, memory = pod.nonzero_accounted
        sums[-2][place], sums[-1][place] = clamped(cpu), clamped(memory)
    return sums


def _starts(counts: Items) -> Items:
    return counts.cumsum() - counts
