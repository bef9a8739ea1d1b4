"""Pods that must not be tried, or no longer: their attempt ends without condition and Event.

    popped                          it is being deleted, or has a node already
    called from a line, or asked    also: it is gone, was made again, has ended, or names another scheduler by now
    about while extenders thought

The old annotation can name another scheduler at any time. If that is one of ours, the pod was queued again when its
change was seen, and skipped because this attempt had it: so it is queued again here.
"""

from collections.abc import Callable, Container

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt_events import PodSkipped
from kscheduler.scheduling.observers import Observers
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue


class PodSkipping:
    """Ends the attempts of such pods."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        pod_of: Callable[[str], Pod | None],
        profiles: Callable[[], Container[str]],
        observers: Observers,
        clock: Clock,
    ) -> None:
        """`pod_of`: the newest version of a pod by its key. `profiles`: the scheduler names that are served now."""
        self._cache = cache
        self._queue = queue
        self._pod_of = pod_of
        self._profiles = profiles
        self._tell = observers.tell
        self._clock = clock

    def skips(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that was popped, if it must not be tried. Returns whether that was so."""
        if queued.pod.pod.metadata.deletion_timestamp is None and not self._cache.node_of(queued.pod.uid):
            return False
        reason = self.why_skip(queued)
        if reason:
            self.end(queued, reason, is_reported=queued.pod.pod.metadata.deletion_timestamp is not None)
        return bool(reason)

    def why_skip(self, queued: QueuedPodInfo) -> str:
        """Why a pod that was popped must not be tried, or an empty text."""
        if queued.pod.pod.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        return "it has a node" if self._cache.node_of(queued.pod.uid) else ""

    def lets_go(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that has waited for extenders, if it needs no node of ours; whether it was so."""
        reason = self.why_let_go(queued)
        if not reason:
            return False
        newest = self._pod_of(queued.key)
        self.end(queued, reason)
        if newest is not None and newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name:
            self._requeue(queued, newest)
        return True

    def end(self, queued: QueuedPodInfo, reason: str, *, is_reported: bool = False) -> None:
        """The attempt is over. `is_reported`: with an Event."""
        self._queue.done(queued.pod.uid)
        self._tell(PodSkipped(queued, reason, is_reported))

    def why_let_go(self, queued: QueuedPodInfo) -> str:
        """Why nobody needs the attempt any more, or an empty text. Its name may be another pod's."""
        newest = self._pod_of(queued.key)
        if newest is None:
            return "it was deleted"
        if newest.metadata.uid != queued.pod.uid:
            return "it was made again under its name"
        if newest.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        if newest.spec.node_name or self._cache.node_of(queued.pod.uid):
            return "it has a node"
        if newest.is_terminal:
            return "it has ended"
        return "it names another scheduler" if _names_another(queued, newest) else ""

    def _requeue(self, queued: QueuedPodInfo, newest: Pod) -> None:
        needs_us = newest.metadata.uid == queued.pod.uid and not (newest.spec.node_name or newest.is_terminal)
        if needs_us and newest.spec.scheduler_name in self._profiles() and self._queue.find(queued.key) is None:
            self._queue.add(PodInfo(newest), self._clock.time())


def _names_another(queued: QueuedPodInfo, newest: Pod) -> bool:
    return newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name
