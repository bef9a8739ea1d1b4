"""A trial: the cycle's PreEnqueue, PreFilter and Filter over the cluster with some objects changed, then all as before.

The changes are made in the cache itself, where a copy of 5,000 nodes would cost more than the answer, and taken back
before anybody can look: a trial does not await.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from math import inf

import msgspec
import numpy as np

from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.changed import ObjectChange, Operation, patched
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.trials.changed_cluster import changed_meanwhile
from kscheduler.explain.suggestions.trials.objections import Objections, objections_to
from kscheduler.explain.suggestions.trials.without_plugin import without_plugins
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.owners import Owners, owner_of
from kscheduler.scheduling.cycle.schedule import find_feasible
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache

_NOWHERE: Rows = np.zeros(0, dtype=np.intp)


class Trials:
    """Tries changes for one pod. The cluster must not change in between."""

    def __init__(self, profile: Profile, pod: PodInfo, cache: Cache) -> None:
        status = msgspec.structs.replace(pod.pod.status, nominated_node_name="")
        self.pod = PodInfo(msgspec.structs.replace(pod.pod, status=status))
        """Without its nomination, as only the nominated node would be tried."""
        self.profile, self.cache = profile, cache
        self.owners: Owners = owner_of
        """Whose replica a pod is."""
        self.shapes: list[tuple[int, int]] | None = None
        """A row of each shape of node, with the number of its rows, once somebody has worked them out."""
        self.time = SearchTime(inf)
        """For how long changes may be tried."""
        self._reduced: dict[frozenset[str], Profile] = {}

    @cached_property
    def objections(self) -> Objections:
        """Who objects to which nodes now: changes that cannot help need not be tried."""
        return objections_to(self.profile, self.pod, self.cache)

    def but(self, patch: Iterable[Operation], objections: Objections) -> "Trials":
        """The same for another version of the pod, with what is known of the objections to it."""
        other = Trials(self.profile, self.patched(patch), self.cache)
        other.owners, other.time = self.owners, self.time
        other.objections, other.shapes = objections, self.shapes  # a pod that asks for less cannot tell more apart
        other._reduced = self._reduced
        return other

    def rows_without(self, plugins: Iterable[str], pod: PodInfo) -> Rows:
        """The rows that a version of the pod would fit on if these plugins rejected nobody. Raises as `rows`."""
        self.time.check()
        names = frozenset(plugins)
        profile = self._reduced.get(names)
        if profile is None:  # a profile reads the methods of all its plugins when it is made: a millisecond
            profile = self._reduced[names] = without_plugins(self.profile, names)
        return Trials(profile, pod, self.cache).rows_of(pod)

    def of_pod(self, patch: Iterable[Operation]) -> ObjectChange:
        """A change of the pod."""
        return ObjectChange("pods", self.pod.namespace, self.pod.name, tuple(patch))

    def patched(self, patch: Iterable[Operation]) -> PodInfo:
        """Another version of the pod."""
        after = patched(self.pod.pod, patch)
        assert isinstance(after, Pod)  # noqa: S101  a patched pod is a pod
        return PodInfo(after)

    def rows(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Rows:
        """The rows that the pod fits on with these changes and without these pods; of new nodes, too.

        Empty if it fits nowhere. Pods that go are not looked for among the changes. Raises `SearchOverError`.
        """
        self.time.check()
        with self.made(changes, gone) as pod:
            return self.rows_of(pod)

    @contextmanager
    def made(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Iterator[PodInfo]:
        """The cluster with these changes and without these pods, meanwhile; yields the pod as changed."""
        listed = tuple(changes)
        pod = self.pod
        for change in listed:
            if self._is_of_the_pod(change):
                pod = self.patched(change.patch)
        others = [change for change in listed if not self._is_of_the_pod(change) and not _is_of_a_pod_that_goes(change)]
        with self.changed(others, gone):
            yield pod

    def rows_of(self, pod: PodInfo) -> Rows:
        """The rows that another version of the pod fits on, in the cluster as it is."""
        if not self.profile.run_pre_enqueue(pod).is_success:
            return _NOWHERE
        record = find_feasible(self.profile, pod, self.cache)
        return record.feasible if record.status.is_success else _NOWHERE

    @contextmanager
    def changed(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Iterator[None]:
        """The cluster is changed meanwhile. Nothing may await."""
        with changed_meanwhile(self.cache, changes, gone):
            yield

    def _is_of_the_pod(self, change: ObjectChange) -> bool:
        key = change.resource, change.namespace, change.name
        return key == ("pods", self.pod.namespace, self.pod.name)


def _is_of_a_pod_that_goes(change: ObjectChange) -> bool:
    return change.delete and change.resource == "pods"
