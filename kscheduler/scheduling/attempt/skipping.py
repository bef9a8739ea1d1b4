"""Pods that must not be tried, or not any more: their attempt ends without condition and Event.

    popped                          it is being deleted, or has a node already
    called from a line, or asked    also: it is gone, was made again, has ended, or names another scheduler by now
    about while extenders thought

The old annotation can name another scheduler at any time. If that is one of ours, the pod was queued anew when its
change was seen, and skipped because this attempt had it: so it is queued again here.
"""

from collections.abc import Callable, Container

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.surroundings import Surroundings


class PodSkipping:
    """Ends the attempts of such pods."""

    def __init__(self, context: Surroundings, profiles: Callable[[], Container[str]]) -> None:
        """`profiles`: the scheduler names that are served now."""
        self._context = context
        self._profiles = profiles

    def skips(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that was popped, if it must not be tried; whether it was so."""
        pod = queued.pod.pod
        if pod.metadata.deletion_timestamp is not None:
            self._context.reporter.skipped_deleting(pod)
            self.end(queued, "it is being deleted")
        elif self._context.cache.node_of(queued.pod.uid):
            self.end(queued, "it has a node")
        else:
            return False
        return True

    def lets_go(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that has waited for extenders, if it needs no node of ours; whether it was so."""
        newest = self._context.pod_of(queued.key)
        reason = self._why_not(queued, newest)
        if not reason:
            return False
        self.end(queued, reason)
        if newest is not None and newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name:
            self._queue_anew(queued, newest)
        return True

    def end(self, queued: QueuedPodInfo, reason: str) -> None:
        """The attempt is over."""
        self._context.journal.let_go(queued)
        self._context.queue.done(queued.pod.uid)
        self._context.log.skipped(queued, reason)

    def _why_not(self, queued: QueuedPodInfo, newest: Pod | None) -> str:
        """Why nobody needs the attempt any more, or an empty text. Its name may be another pod's."""
        if newest is None:
            return "it was deleted"
        if newest.metadata.uid != queued.pod.uid:
            return "it was made again under its name"
        if newest.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        if newest.spec.node_name or self._context.cache.node_of(queued.pod.uid):
            return "it has a node"
        if newest.is_terminal:
            return "it has ended"
        return "it names another scheduler" if _names_another(queued, newest) else ""

    def _queue_anew(self, queued: QueuedPodInfo, newest: Pod) -> None:
        needs_us = newest.metadata.uid == queued.pod.uid and not (newest.spec.node_name or newest.is_terminal)
        context = self._context
        if needs_us and newest.spec.scheduler_name in self._profiles() and context.queue.find(queued.key) is None:
            context.queue.add(PodInfo(newest), context.clock.time())


def _names_another(queued: QueuedPodInfo, newest: Pod) -> bool:
    return newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name
