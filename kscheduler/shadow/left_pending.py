"""Pods that the other leaves pending, and we would place.

The other says so itself: the pod's condition PodScheduled is False for want of a node. We look again and again; a pod
is counted once we would have placed it each time for `grace_seconds`: before, the other may only be slow to look again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.bounded import RecentlyUsed

UNSCHEDULABLE: Final = "Unschedulable"
# Pods that are looked at in a round, and remembered.
MAX_PODS: Final = 1_000

# The node that we would take for a pod now; empty: none.
WouldGo = Callable[[Pod], str]


@dataclass(frozen=True, slots=True)
class LeftPending:
    """A pod that waits although we would place it."""

    pod: str
    node: str
    """Where it would go."""
    seconds: float
    """For how long already."""


class PendingReview:
    """Looks at pending pods from time to time."""

    def __init__(self, grace_seconds: float) -> None:
        self._grace = grace_seconds
        self._since: RecentlyUsed[str, tuple[float, str, str]] = RecentlyUsed(MAX_PODS)
        """By UID: since when we would place it, its key, and where it would go."""
        self._counted: RecentlyUsed[str, bool] = RecentlyUsed(10 * MAX_PODS)
        self.ever = 0
        """Pods that were left pending so at any time."""
        self._now = 0.0

    def look(self, pods: Iterable[Pod], would_go: WouldGo, now: float) -> None:
        """A round over the first `MAX_PODS` that wait; further ones have their turn when these are gone."""
        before, self._since, self._now = self._since, RecentlyUsed(MAX_PODS), now
        rejected = (pod for pod in pods if is_rejected(pod))
        for pod in islice(rejected, MAX_PODS):
            node = would_go(pod)
            uid = pod.metadata.uid
            if node:
                began = before[uid][0] if uid in before else now
                self._since[uid] = began, pod.key, node
                self._count(uid, now - began)

    def _count(self, uid: str, seconds: float) -> None:
        if seconds >= self._grace and uid not in self._counted:
            self._counted[uid] = True
            self.ever += 1

    def now(self) -> list[LeftPending]:
        """Those that are left pending at the last look, the longest first."""
        found = [LeftPending(key, node, self._now - began) for began, key, node in self._since.values()]
        return sorted(
            (each for each in found if each.seconds >= self._grace), key=lambda each: (-each.seconds, each.pod)
        )

    def statistics(self) -> Mapping[str, int]:
        """How many, now and ever."""
        return {"now": len(self.now()), "ever": self.ever}


def is_rejected(pod: Pod) -> bool:
    """Whether its scheduler has said that it fits nowhere."""
    if pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp or pod.status.nominated_node_name:
        return False
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == UNSCHEDULABLE
        for condition in pod.status.conditions
    )
