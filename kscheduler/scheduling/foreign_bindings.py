"""Pods of ours that somebody else has bound: the sign of two schedulers that serve one name.

The problem: a second kscheduler or kube-scheduler with one of our scheduler names (two Leases, a copied configuration)
binds pods that this process decides about as well. Nothing is bound twice, because the API server refuses the second
Binding; but half of all work is wasted, and each decides without the other's decisions of the last moments. A conflict
now and then is logged per pod and easily overlooked.

The idea: the code that notices such a pod reports it here, and one warning a minute names the scheduler name and the
number. There are three ways to notice:

    the watch shows a node for a pod that was waiting here      another node, or this one before we had decided
    the watch shows another node than the one assumed           our Binding is on its way, and will be refused
    409 to the first Binding, and the pod is on that very node  both have decided alike

Limits: a pod is counted once as long as it is among the last `MAX_REMEMBERED`. A Binding that was given up after 5xx
answers and was applied all the same counts, too. Only a process that schedules counts: a follower sees each pod bound
by the leader. So does a leader that was stopped past the end of its lease: what it sees first when it goes on are the
pods that its own replica has bound meanwhile, before it learns that it no longer leads.
"""

from collections.abc import Callable
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.bounded import RecentlyUsed
from kscheduler.scheduling.observations import Observations
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import Throttle

_log = get_logger(__name__)

MAX_REMEMBERED: Final = 1000
SECONDS_BETWEEN_LINES: Final = 60.0
ADVICE: Final = (
    "look for a second scheduler with this name under another Lease (the Event Scheduled names who reported it); give "
    "each scheduler a name of its own"
)


class ForeignBindings:
    """Counts the pods, and warns."""

    def __init__(self, observations: Observations, clock: Clock, may_bind: Callable[[], bool] = lambda: True) -> None:
        """`may_bind`: whether this process's right to write holds now; it ends before any replica's begins."""
        self.may_bind = may_bind
        self._observations = observations
        self._clock = clock
        self._throttle = Throttle(SECONDS_BETWEEN_LINES)
        self._remembered: RecentlyUsed[str, bool] = RecentlyUsed(MAX_REMEMBERED)
        """UIDs of pods that were placed by somebody else."""
        self.is_scheduling = False
        """Whether this process binds pods now; set by the service."""

    def __contains__(self, uid: str) -> bool:
        """Whether somebody else has placed this pod lately."""
        return uid in self._remembered

    def born_on_node(self, pod: Pod) -> None:
        """The pod was made with a node: a static pod, or one whose maker has chosen. That is no scheduler's fault."""
        if self.is_scheduling:
            self._remembered[pod.metadata.uid] = True

    def bound(self, pod: Pod, node_name: str) -> None:
        """Somebody else has bound the pod to this node."""
        uid = pod.metadata.uid
        if uid in self._remembered or not (self.is_scheduling and self.may_bind()):
            return
        self._remembered[uid] = True
        self._observations.pod_taken()
        if self._throttle.admits(self._clock.monotonic()):
            _log.warning(
                "pods_bound_by_another_scheduler",
                pod=pod.key,
                node=node_name,
                scheduler=pod.spec.scheduler_name,
                pods=1 + self._throttle.take_left_out(),
                advice=ADVICE,
            )
