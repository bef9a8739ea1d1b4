"""An attempt about a running pod whose resize waits for room: its node is judged, and lower pods there are preempted.

    there is room               nothing to be done: the kubelet resizes; the pod waits for an event
    too little, and PostFilter  its victims are evicted, as for a pod without a node; the pod waits for their end
    too little, no victims      the pod waits for an event

The pod runs, so nothing is assumed, reserved, bound or nominated, and neither condition nor Event is written. Of the
in-tree plugins only those are asked that know of resizes. Extenders are not asked.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt_events import AttemptFailed
from kscheduler.scheduling.failure import UNSCHEDULABLE, Failure, failure_of_record, failure_of_status
from kscheduler.scheduling.failures.failure_handler import FailureHandler
from kscheduler.scheduling.in_time import TimedCycles
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.attempt_calls import call_permit
from kscheduler.state.cache import Cache

_FILTERS: Final = frozenset({"NodeName", "DeferredPodScheduling", "NodeResourcesFit"})
_POST_FILTERS: Final = frozenset({"DefaultPreemption"})
# Whose events wake a pod whose resize fits: another pod may take that room, or the resize may grow.
_WAKING: Final = frozenset({"DeferredPodScheduling", "NodeResourcesFit"})


class ResizePreemptionRunner(Protocol):
    """Evicts what PostFilter has chosen: `evictions.AsyncEvictions`."""

    def begin(self, preemption: Preemption) -> None:
        """Start and return at once."""
        ...


class ResizeAttempts:
    """Judges such pods. Never awaits."""

    def __init__(
        self,
        cycles: TimedCycles,
        cache: Cache,
        failures: FailureHandler,
        observers: Observers,
        clock: Clock,
        evictions: ResizePreemptionRunner,
        end: Callable[[QueuedPodInfo, str], None],
    ) -> None:
        """`end` ends the attempt of a pod that need not be judged, with the reason."""
        self._cycles = cycles
        self._cache = cache
        self._failures = failures
        self._tell = observers.tell
        self._clock = clock
        self._evictions = evictions
        self._end = end

    def judge(self, queued: QueuedPodInfo, profile: Profile, started: float) -> None:
        """One attempt, which began at `started` (monotonic seconds); the pod is back in the queue, or dropped."""
        pod = queued.pod.pod
        if pod.metadata.deletion_timestamp is not None:
            self._end(queued, "it is being deleted")
            return
        if self._cache.node_of(queued.pod.uid) != pod.spec.node_name:
            self._end(queued, "it is not on its node")
            return
        judging = of_resizes(profile)
        record = self._cycles.schedule(queued, judging)
        failure = _failure_of(judging, record)
        if record.preemption is not None:
            self._evictions.begin(record.preemption)  # before requeueing: PreEnqueue checks whether the pod must wait
        self._tell(AttemptFailed(failure, profile.name, self._clock.monotonic() - started))
        self._failures.handle_resize(queued, failure, self._clock.time())


def of_resizes(profile: Profile) -> Profile:
    """The profile with the plugins that judge resizes; those that are not in-tree are asked as ever."""

    def kept(plugins: tuple[Any, ...], names: frozenset[str]) -> tuple[Any, ...]:
        return tuple(each for each in plugins if each.name in names or not profile.traits[each.name].is_in_tree)

    return replace(
        profile,
        enabled=frozenset[str](),
        pre_filter=kept(profile.pre_filter, _FILTERS),
        filter=kept(profile.filter, _FILTERS),
        post_filter=kept(profile.post_filter, _POST_FILTERS),
        permit=tuple(plugin for plugin in profile.permit if plugin.name in _FILTERS),
    )


def _failure_of(profile: Profile, record: SchedulingRecord) -> Failure:
    if not record.status.is_success:
        return failure_of_record(record)
    for plugin in profile.permit:
        answer = call_permit(plugin, profile.listener, record.state, record.pod, record.node_name)
        if not answer.status.is_success:
            return msgspec.structs.replace(failure_of_status(answer.status), plugins=_WAKING)
    return Failure("the resize fits", UNSCHEDULABLE, _WAKING)
