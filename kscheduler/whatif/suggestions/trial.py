"""A trial: the cycle's PreEnqueue, PreFilter and Filter over the cluster with some objects changed, then all as before.

The changes are made in the cache itself, where a copy of 5,000 nodes would cost more than the answer, and taken back
before anybody can look: a trial does not await.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec
import numpy as np

from kscheduler.api.core import Node, Pod
from kscheduler.api.storage import PersistentVolumeClaim
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.cycle.schedule import find_feasible
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache
from kscheduler.whatif.suggestions.changed import ObjectChange, patched

_NOWHERE: Rows = np.zeros(0, dtype=np.intp)


class Trials:
    """Tries changes for one pod. The cluster must not change in between."""

    def __init__(self, profile: Profile, pod: PodInfo, cache: Cache) -> None:
        status = msgspec.structs.replace(pod.pod.status, nominated_node_name="")
        self.pod = PodInfo(msgspec.structs.replace(pod.pod, status=status))
        """Without its nomination, as only the nominated node would be tried."""
        self.profile, self.cache = profile, cache
        self.count = 0
        """How many were made."""

    def rows(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Rows:
        """The rows that the pod fits on with these changes and without these pods; of new nodes, too.

        Empty if it fits nowhere. Pods that go are not looked for among the changes.
        """
        self.count += 1
        with self.made(changes, gone) as pod:
            return self.rows_of(pod)

    @contextmanager
    def made(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Iterator[PodInfo]:
        """The cluster with these changes and without these pods, while the body runs; yields the pod as changed."""
        with ExitStack() as undoing:
            pod = self.pod
            for change in changes:
                if change.resource == "pods":
                    pod = pod if change.delete else PodInfo(_as_pod(patched(self.pod.pod, change.patch)))
                else:
                    undoing.callback(self._make(change))
            for other in gone:
                undoing.callback(self._lift(other))
            yield pod

    def rows_of(self, pod: PodInfo) -> Rows:
        """The rows that another version of the pod fits on, in the cluster as it is."""
        if not self.profile.run_pre_enqueue(pod).is_success:
            return _NOWHERE
        record = find_feasible(self.profile, pod, self.cache)
        return record.feasible if record.status.is_success else _NOWHERE

    def fits(self, changes: Iterable[ObjectChange]) -> bool:
        """Whether there is a node."""
        return len(self.rows(changes)) > 0

    def _make(self, change: ObjectChange) -> Callable[[], None]:
        """Change an object; returns what changes it back."""
        if change.resource == "nodes":
            return self._change_node(change)
        return self._change_claim(change)

    def _lift(self, pod: PodInfo) -> Callable[[], None]:
        node_name = self.cache.node_of(pod.uid)
        info = self.cache.node_info(node_name)
        order = list(info.pods) if info is not None else []
        put_back = self.cache.lift_pod(pod.uid)

        def undo() -> None:
            put_back()
            self.cache.restore_order(node_name, order)

        return undo

    def _change_node(self, change: ObjectChange) -> Callable[[], None]:
        info = self.cache.node_info(change.name)
        before = info.node if info is not None else None
        if before is None:
            self.cache.add_node(change.patch[0].value)
            return lambda: self.cache.remove_node(change.name)
        after = patched(before, change.patch)
        assert isinstance(after, Node)  # noqa: S101  a patched node is a node
        self.cache.update_node(after)
        return lambda: self.cache.update_node(before)

    def _change_claim(self, change: ObjectChange) -> Callable[[], None]:
        before = self.cache.volumes.confirmed_claim(change.namespace, change.name)
        assert before is not None  # noqa: S101  a suggestion is about a claim that is there
        after = patched(before, change.patch)
        assert isinstance(after, PersistentVolumeClaim)  # noqa: S101
        self.cache.volumes.put(after)
        return lambda: self.cache.volumes.put(before)


def deleted(pod: PodInfo) -> ObjectChange:
    """The pod goes."""
    return ObjectChange("pods", pod.namespace, pod.name, delete=True)


def _as_pod(obj: object) -> Pod:
    assert isinstance(obj, Pod)  # noqa: S101  a patched pod is a pod
    return obj
