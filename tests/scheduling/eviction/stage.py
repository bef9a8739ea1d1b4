"""Evictions with everything around them in a test's hands."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, APIStatus, ClientError
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.eviction.evictions import AsyncEvictions
from kscheduler.scheduling.eviction.victims import Victims
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.reports import Reporter
from kscheduler.state.nominator import NominatedPods
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.waiting_pods import WaitingPodTable
from tests.builders import make_pod
from tests.scheduling.around import RecordedEvents

MESSAGE = "kscheduler: preempting to accommodate a higher priority pod"
FORBIDDEN = APIError(APIStatus(code=403, reason="Forbidden", message="no"))


class Writes:
    """An API server in which deletions wait until a test lets them go. Implements `VictimWriter`."""

    def __init__(self, store: dict[str, Pod]) -> None:
        self._store = store
        self.started: list[str] = []
        self.conditions: dict[str, Condition] = {}
        self.failures: dict[str, ClientError] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.most = 0
        self.take_their_time = False
        """Deleted pods are still there when the answer comes."""
        self._now = 0

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        name = pod.metadata.name
        self.started.append(name)
        self.conditions[name] = condition
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            if name in self.gates:
                await self.gates[name].wait()
            else:
                await asyncio.sleep(0)
        finally:
            self._now -= 1
        if name in self.failures:
            raise self.failures[name]
        if self.take_their_time:
            return pod.key in self._store
        return self._store.pop(pod.key, None) is not None


class Statuses:
    """Writes down who is nominated, and who is no longer. Implements `NominationWriter`."""

    def __init__(self) -> None:
        self.nominated: list[tuple[str, str]] = []
        self.withdrawn: list[str] = []
        self.cleared: list[str] = []
        self.failures: dict[str, ClientError] = {}

    def withdraw(self, uid: str) -> None:
        self.withdrawn.append(uid)

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        name = pod.metadata.name
        assert condition is None
        if name in self.failures:
            raise self.failures[name]
        if nominated_node_name:
            self.nominated.append((name, nominated_node_name))
        else:
            self.cleared.append(name)
        return True


class SeenPods(dict[str, Pod]):
    """What the watch has shown, by key; each change is told as the informer would tell it."""

    def __init__(self) -> None:
        super().__init__()
        self.on_change: Callable[[str], None] = lambda _: None

    def __setitem__(self, key: str, pod: Pod) -> None:
        super().__setitem__(key, pod)
        self.on_change(key)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.on_change(key)

    def pop(self, key: str, default: Any = None) -> Any:
        """Take a pod out."""
        found = super().pop(key, default)
        self.on_change(key)
        return found


class Stage:
    """Evictions at work. Pods are in the store, as the watch would have shown them."""

    def __init__(self, clock: VirtualClock | None = None, journal: object | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.looks = 0
        """How often somebody looked whether a victim is still there."""
        self.store = SeenPods()
        self.writes = Writes(self.store)
        self.statuses = Statuses()
        self.waiting = WaitingPodTable()
        self.in_pre_bind = PodsInPreBind()
        self.nominator = NominatedPods()
        self.recorded = RecordedEvents()
        self.observations = Observations()
        self.activated: list[str] = []
        self.slow_to_leave: set[str] = set()
        """UIDs of pods that were stopped in memory and have not given their node back yet."""
        self.on_activate: Callable[[Collection[str]], None] = lambda _: None
        observers = Observers(journal, self.observations, Reporter(self.recorded), PodLog())
        victims = Victims(
            self.writes, self.waiting, self.in_pre_bind, self._pod_of, observers, self._node_of, self.clock
        )
        self.evictions = AsyncEvictions(
            victims, self.nominator, self.statuses, self._activate, self._activate, observers, self.clock
        )
        self.store.on_change = self.evictions.pod_change_waits.look

    def _pod_of(self, key: str) -> Pod | None:
        self.looks += 1
        return self.store.get(key)

    def _node_of(self, uid: str) -> str:
        """As the cache has it: pods that were not stopped in memory count on the node."""
        held, entry = self.waiting.get(uid), self.in_pre_bind.get(uid)
        is_rejected = held is not None and held.verdict is not None and not held.verdict.is_success
        is_stopped = is_rejected or (entry is not None and entry.is_cancelled)
        return "" if is_stopped and uid not in self.slow_to_leave else "n"

    def gives_back(self, pod: PodInfo) -> None:
        """The attempt of a pod that was stopped in memory has ended."""
        self.slow_to_leave.discard(pod.uid)
        self.evictions.released_node(pod)

    def _activate(self, keys: Collection[str]) -> None:
        self.activated += [key.removeprefix("default/") for key in keys]
        self.on_activate(keys)

    def pod(self, name: str, **fields: Any) -> PodInfo:
        """A pod that the watch has shown; on the node `n` unless said otherwise."""
        pod = make_pod(name, **{"node": "n", **fields})
        self.store[pod.key] = pod
        return PodInfo(pod)

    def terminating(self, name: str) -> None:
        """The watch shows that a pod has been asked to go."""
        self.pod(name, metadata={"deletionTimestamp": "2026-11-21T12:00:00Z"})

    def preemption(
        self, *victims: str | PodInfo, preemptor: str = "big", outbid: Collection[PodInfo] = ()
    ) -> Preemption:
        """A decision for a pending pod to make room on the node `n`."""
        pods = tuple(self.pod(one) if isinstance(one, str) else one for one in victims)
        first = self.pod(preemptor, node="", priority=100)
        return Preemption(first, "n", pods, "DefaultPreemption", tuple(outbid))

    def must_wait(self, preemptor: str = "big") -> bool:
        """What PreEnqueue would be told."""
        return self.evictions.is_under_way(f"uid-of-{preemptor}")

    def executions(self) -> dict[str, int]:
        """Preemptions that have ended, by result."""
        return {result: count for (result,), count in self.observations.preemption_executions.items()}


async def turns(count: int = 40) -> None:
    """Let every task do what it can."""
    for _ in range(count):
        await asyncio.sleep(0)
