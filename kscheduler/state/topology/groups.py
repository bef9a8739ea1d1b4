"""The pods on rows, grouped by the properties that selectors read.

The first query for a set of pods must look at all pods. The pods of a Deployment look alike, so they are kept as
groups: (namespace, labels, terminating or not) with the number of pods per row. A selector is then tested once per
group. If a selector requires certain values of a label, a posting list by that label's values narrows the groups
further; it is built when the label is first used, like the columns of node labels.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kscheduler.api.core import Namespace
from kscheduler.api.selectors import Requirement
from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.decision_time import DECISION_TIME, DecisionEndedError
from kscheduler.framework.hint_index import narrowest
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.pod_info import PodInfo

# The namespaces' labels, as namespace selectors see them.


class NamespaceLabels:
    """Labels by name."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def set(self, namespace: Namespace) -> bool:
        """Add or update a namespace. Returns whether its labels have changed."""
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if self._labels.get(name) == labels:
            return False
        self._labels[name] = labels
        return True

    def remove(self, name: str) -> bool:
        """Remove a namespace. Returns whether it was known."""
        return self._labels.pop(name, None) is not None

    def of(self, name: str) -> Mapping[str, str] | None:
        """A namespace's labels; `None` if it is unknown."""
        return self._labels.get(name)

    def names(self) -> tuple[str, ...]:
        """The names of all that are known."""
        return tuple(self._labels)


# Label keys per namespace with a posting list.
_KEPT_POSTINGS = 16

_KEPT_FLAT = 1024
# Keys and values of the labels that are remembered; pods with more flatten theirs each time.
_MAX_REMEMBERED: Final = 64
_Key = tuple[str, ...]
_Posting = dict[str, dict[_Key, "PodGroup"]]


# Recently seen labels, by identity, with their key: informers share equal labels of pods, and never modify them.
# Holding the labels keeps their ids from being reused.
_flat: dict[int, tuple[Mapping[str, str], _Key]] = {}


class PodGroup:
    """Pods that no selector can tell apart."""

    __slots__ = ("is_terminating", "labels", "rows")

    def __init__(self, labels: Mapping[str, str], *, is_terminating: bool) -> None:
        self.labels = labels
        self.is_terminating = is_terminating
        self.rows: dict[int, int] = {}
        """The number of pods per row, without zeros."""

    def belongs_to(self, match: PodMatch) -> bool:
        """Whether its pods are in the set, by labels and deletion; namespaces are not checked."""
        return (match.counts_terminating or not self.is_terminating) and match.selects(self.labels)


class PodGroups:
    """All groups, by namespace."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces that have pods on rows."""
        return self._namespaces.keys()

    def add(self, row: int, pod: PodInfo) -> None:
        """Count a pod on the row."""
        name = pod.pod.metadata.namespace
        namespace = self._namespaces.get(name)
        if namespace is None:
            namespace = self._namespaces[name] = _Namespace()
        key = _key(pod)
        group = namespace.groups.get(key)
        if group is None:
            group = namespace.new_group(key, pod)
            self._count += 1
        rows = group.rows
        rows[row] = rows.get(row, 0) + 1

    def remove(self, row: int, pod: PodInfo) -> None:
        """Stop counting a pod on the row; it must be the version that was added."""
        namespace = self._namespaces[pod.namespace]
        key = _key(pod)
        group = namespace.groups[key]
        group.rows[row] -= 1
        if group.rows[row]:
            return
        del group.rows[row]
        if not group.rows:
            namespace.drop(key)
            self._count -= 1
            if not namespace.groups:
                del self._namespaces[pod.namespace]

    def clear(self, row: int) -> None:
        """Remove all pods of the row. Looks at every group: for repairs."""
        for name, namespace in list(self._namespaces.items()):
            for key, group in list(namespace.groups.items()):
                if group.rows.pop(row, None) is not None and not group.rows:
                    namespace.drop(key)
                    self._count -= 1
            if not namespace.groups:
                del self._namespaces[name]

    def belonging_to(self, match: PodMatch, namespace: str) -> Iterator[PodGroup]:
        """The groups of a namespace that are in the set; the caller checks that the set covers the namespace.

        Raises `DecisionEndedError` where the decision that asks has no time left.
        """
        found = self._namespaces.get(namespace)
        if found is None:
            return
        narrowing = narrowest(match.selectors)
        groups = found.groups.values() if narrowing is None else found.having(narrowing)
        for group in groups:
            # One set may have thousands of selectors; nothing is kept of a question before its end.
            if DECISION_TIME.is_up:
                raise DecisionEndedError
            if group.belongs_to(match):
                yield group


class _Namespace:
    """The groups of a namespace."""

    __slots__ = ("groups", "postings")

    def __init__(self) -> None:
        self.groups: dict[_Key, PodGroup] = {}
        self.postings: RecentlyUsed[str, _Posting] = RecentlyUsed(_KEPT_POSTINGS)
        """By label key, and then by value."""

    def new_group(self, key: _Key, pod: PodInfo) -> PodGroup:
        group = self.groups[key] = PodGroup(pod.labels, is_terminating=pod.is_terminating)
        for label, posting in self.postings.items():
            _post(posting, label, key, group)
        return group

    def drop(self, key: _Key) -> None:
        """Forget a group that has lost its last pod."""
        group = self.groups.pop(key)
        for label, posting in self.postings.items():
            value = group.labels.get(label)
            if value is not None:
                del posting[value][key]
                if not posting[value]:
                    del posting[value]

    def having(self, requirement: Requirement) -> Iterator[PodGroup]:
        """The groups whose label has one of the values that an In requirement lists."""
        posting = self.postings.use(requirement.key)
        if posting is None:
            posting = self.postings[requirement.key] = self._posted(requirement.key)
        for value in requirement.values:
            yield from posting.get(value, {}).values()

    def _posted(self, label: str) -> _Posting:
        posting: _Posting = {}
        for key, group in self.groups.items():
            _post(posting, label, key, group)
        return posting


def _post(posting: _Posting, label: str, key: _Key, group: PodGroup) -> None:
    value = group.labels.get(label)
    if value is not None:
        posting.setdefault(value, {})[key] = group


def _key(pod: PodInfo) -> _Key:
    """The key of a pod's group in its namespace. Flat: a nested tuple per label would cost three times the memory."""
    metadata = pod.pod.metadata
    flat = _flattened(metadata.labels) if metadata.labels else ()
    return flat if metadata.deletion_timestamp is None else ("terminating", *flat)


def _flattened(labels: Mapping[str, str]) -> _Key:
    known = _flat.get(id(labels))
    if known is not None and known[0] is labels:
        return known[1]
    flat = tuple([part for item in sorted(labels.items()) for part in item])
    if len(flat) > _MAX_REMEMBERED:
        return flat
    if len(_flat) >= _KEPT_FLAT:
        _flat.clear()  # all at once: pods with unique labels pass here only once, so eviction must be cheap
    _flat[id(labels)] = labels, flat
    return flat
