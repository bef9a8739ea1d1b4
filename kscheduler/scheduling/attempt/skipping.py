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
        reason = self.why_skip(queued)
        if reason:
            if queued.pod.pod.metadata.deletion_timestamp is not None:
                self._context.reporter.skipped_deleting(queued.pod.pod)
            self.end(queued, reason)
        return bool(reason)

    def why_skip(self, queued: QueuedPodInfo) -> str:
        """Why a pod that was popped must not be tried, or an empty text."""
        if queued.pod.pod.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        return "it has a node" if self._context.cache.node_of(queued.pod.uid) else ""

    def lets_go(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that has waited for extenders, if it needs no node of ours; whether it was so."""
        reason = self.why_let_go(queued)
        if not reason:
            return False
        newest = self._context.pod_of(queued.key)
        self.end(queued, reason)
        if newest is not None and newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name:
            self._queue_anew(queued, newest)
        return True

    def end(self, queued: QueuedPodInfo, reason: str) -> None:
        """The attempt is over."""
        self._context.journal.let_go(queued)
        self._context.queue.done(queued.pod.uid)
        self._context.log.skipped(queued, reason)

    def why_let_go(self, queued: QueuedPodInfo) -> str:
        """Why nobody needs the attempt any more, or an empty text. Its name may be another pod's."""
        newest = self._context.pod_of(queued.key)
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
