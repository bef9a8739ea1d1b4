"""Evicting one victim of a preemption.

    the victim              what is done
    waits for Permit        rejected in memory: the pod goes into backoff and keeps its object       (quirk Q25)
    is in PreBind           cancelled in memory, with the same result
    is on its node          condition DisruptionTarget, then deletion; both requests carry its UID
    has no node any more    nothing: it was rejected or cancelled meanwhile, and waits for another node

A victim that is gone, or whose name now belongs to another pod, needs nothing more: that counts as a success without an
Event. A victim that is already terminating is left alone.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import resize_is_deferred
from kscheduler.scheduling.attempt_events import VictimEvicted, VictimEvictionBegun, VictimNotEvicted, VictimStopped
from kscheduler.scheduling.observers import Observers
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.waiting_pods import WaitingPodTable

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"


class VictimWriter(Protocol):
    """The part of `client.pod_writes.PodWriter` that preemption needs."""

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        """Write the condition and delete the pod; False if it was gone already. Raises `ClientError`."""
        ...


class Victims(msgspec.Struct, frozen=True):
    """Evicts victims, one per call."""

    pods: VictimWriter
    waiting: WaitingPodTable
    in_pre_bind: PodsInPreBind | None
    pod_of: Callable[[str], Pod | None]
    """By `namespace/name`, the newest version that the watch has shown."""
    observers: Observers
    node_of: Callable[[str], str]
    """By UID, the node on which a pod counts (assumed or bound); empty if there is none."""
    clock: Clock

    def current(self, victim: PodInfo) -> Pod | None:
        """The victim as the watch shows it now; `None` if it is gone, or if another pod has its name."""
        pod = self.pod_of(victim.key)
        return pod if pod is not None and pod.metadata.uid == victim.pod.metadata.uid else None

    def is_pending(self, preemptor: PodInfo) -> bool:
        """Whether a preemptor still needs the room: it exists, is not terminating, and has no node or waits to grow."""
        pod = self.current(preemptor)
        if pod is None or pod.spec.node_name != preemptor.node_name:
            return False
        return self.must_evict(preemptor) and (not pod.spec.node_name or resize_is_deferred(pod))

    def must_evict(self, victim: PodInfo) -> bool:
        """Whether the victim still has to be evicted: it takes room and is not terminating yet."""
        pod = self.pod_of(victim.key)  # as `current`, without its call: this is asked for each victim at each event
        if pod is None or pod.metadata.uid != victim.pod.metadata.uid:
            return False
        return pod.metadata.deletion_timestamp is None and not pod.is_terminal

    def holds_capacity(self, victim: PodInfo) -> bool:
        """Whether the victim counts on a node. If it was stopped in memory, it does until its attempt has ended."""
        return bool(self.node_of(victim.uid))

    async def evict(self, victim: PodInfo, preemption: Preemption) -> bool:
        """Evict the victim, as in the table above. Returns whether the watch will show it: not if it keeps its object.

        Raises `ClientError` if the API server refuses, or cannot be reached.
        """
        if self._stop_in_memory(victim, preemption.plugin):
            self.observers.tell(VictimStopped(victim, preemption, self.clock.time()))
            return False
        current = self.current(victim)
        if not (self.holds_capacity(victim) or (current is not None and current.spec.node_name)):
            return False
        if self.must_evict(victim):
            # Before the request: the watch may show the victim's end before the answer to its deletion arrives.
            self.observers.tell(VictimEvictionBegun(victim, preemption, self.clock.time()))
            is_evicted = False
            try:
                is_evicted = await self._evict(victim, preemption)
            finally:
                self.observers.tell(VictimEvicted(victim, preemption) if is_evicted else VictimNotEvicted(victim))
        return True

    def _stop_in_memory(self, victim: PodInfo, plugin: str) -> bool:
        held = self.waiting.get(victim.uid)
        if held is not None:
            return held.preempt(plugin, "preempted")
        entry = self.in_pre_bind.get(victim.uid) if self.in_pre_bind is not None else None
        return entry is not None and entry.cancel(f"preempted by {plugin}")

    async def _evict(self, victim: PodInfo, preemption: Preemption) -> bool:
        scheduler = preemption.preemptor.pod.spec.scheduler_name
        condition = Condition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTION_BY_SCHEDULER,
            message=f"{scheduler}: preempting to accommodate a higher priority {preemption.kind}",
        )
        return await self.pods.evict_pod(self.current(victim) or victim.pod, condition)
