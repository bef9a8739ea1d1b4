"""Carrying out preemptions: the API requests that make room, without holding up decisions.

The cycle has chosen the victims and written them to its record. The attempt begins the preemption and continues at
once; a task of its own talks to the API server:

    begin -> write the nomination -> clear outbid nominations -> all victims but the last -> the last victim -> end
                  | failure                                            | failure                 | failure
                  +--> spare the remaining victims --------------------+-------------------------+--> try again

While this runs, the preemptor stays out of the active queue (`is_under_way`, which PreEnqueue calls). Otherwise it
would find the old victims still there and choose others. It may come back when the last victim's turn has come and the
watch shows all deleted victims gone or terminating. It does not have to wait for the answer to the last request: the
watch event of that deletion may arrive earlier, and must not be lost.

Chosen victims count as terminating: a pod that is already expected on their node, and fits there without them, waits
for them (`is_clearing`), as it waits for terminating pods. kube-scheduler's preemptor looks for other victims.

Differences from kube-scheduler, so that no pod is stuck, no loop spins, and no pod is evicted for nothing:

- A preemptor is kept out until the watch has caught up (two minutes at most); upstream relies on the watch being fast.
- A preemptor that was kept out is woken at the end: the event that woke it before, say a new node, is not repeated, and
  a victim may take forever to terminate.
- If the evictions of a preemptor fail repeatedly, it pauses for 1 to 10 s between tries.
- If the preemptor is gone (of a group all members), has a node, is outbid or lost its profile, the remaining victims
  are spared.
- No victim is evicted before the preemptor's status names the node: after a crash, the next process then knows whom the
  room is for.

Limits: a preemption that is running when the process is killed is not resumed. The condition of a terminating victim
says that it was preempted, and the check of the preemptor's eligibility waits for it.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

from kscheduler.aio.clock import Clock
from kscheduler.aio.rate_limiters import Backoff
from kscheduler.aio.shared_slots import FixedCapacity, SharedSlots
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, ClientError
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.attempt_events import (
    EvictionStep,
    EvictionStepTaken,
    PodAwaitsOthersVictims,
    PreemptionBegun,
    PreemptionEnded,
    VictimSpared,
)
from kscheduler.scheduling.eviction.pod_change_waits import PodChangeWaits
from kscheduler.scheduling.eviction.victims import Victims
from kscheduler.scheduling.observers import Observers
from kscheduler.state.nominator import NominatedPods
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# Victims of one preemption that are evicted at the same time.
AT_ONCE: Final = 16
# How long a stop waits for preemptions that have begun: an unfinished one has evicted pods without helping any.
DRAIN_SECONDS: Final = 5.0
# Preemptions that send requests at the same time: hundreds of them would take the connections that binds need, and
# would time out while waiting for one.
PREEMPTIONS_AT_ONCE: Final = 8
_MAX_REMEMBERED: Final = 1000


class NominationWriter(Protocol):
    """Where nominations are written: `status_writer.StatusWriter`."""

    def withdraw(self, uid: str) -> None:
        """Drop any unsent patch for this pod: it might restore the old nomination."""
        ...

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Set the nominated node. Returns whether it had to be changed. Raises `ClientError`."""
        ...


@dataclass(slots=True, eq=False)
class RunningPreemption:
    """A preemption that has begun."""

    number: int
    """Of the process: the first is 1."""
    preemption: Preemption
    victims: list[PodInfo]
    """The victims that were not terminating at the beginning."""
    awaited: list[PodInfo] = field(default_factory=list)
    """Victims whose deletion the API server has accepted: the preemptor waits until the watch shows it."""
    shown: int = 0
    """How many of `awaited`, from the first, the watch has shown gone or terminating: that never changes back."""
    stopped: list[PodInfo] = field(default_factory=list)
    """Victims that were stopped in memory and keep their object: the preemptor waits until they release their node."""
    last: tuple[PodInfo, ...] = ()
    """The last victim, while it is being evicted."""
    is_open: bool = False
    """The last victim's turn has come: the preemptor may be tried as soon as the watch shows all evictions."""
    is_over: bool = False
    kept_out: bool = False
    """PreEnqueue has kept the preemptor out because of this preemption."""
    is_outbid: bool = False
    """A preemptor of higher priority has been promised the node since."""
    is_called_off: bool = False
    """The preemptor is not this scheduler's pod any more: no profile has its name."""
    neighbours: dict[str, None] = field(default_factory=dict)
    """Keys of other pods that are expected on the node and were kept waiting until the victims are gone."""

    def victim(self, uid: str) -> PodInfo:
        """The victim with this UID. Raises `KeyError`."""
        for victim in self.victims:
            if victim.uid == uid:
                return victim
        raise KeyError(uid)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Keys of the pods that the room is for: one, or the members of a group."""
        return tuple([pod.key for pod in self.preemption.waiting])

    @property
    def is_off(self) -> bool:
        """Whether the remaining victims are spared."""
        return self.is_outbid or self.is_called_off

    def is_in_the_way_of(self, pod: PodInfo) -> bool:
        """Whether another pod expected on the node must leave room for the preemptor, but keeps its own nomination."""
        preemptor = self.preemption.preemptor
        if any(waiting.uid == pod.uid for waiting in self.preemption.waiting) or preemptor.priority < pod.priority:
            return False
        return all(outbid.uid != pod.uid for outbid in self.preemption.outbid)


class AsyncEvictions:
    """Implements `framework.cluster.preemption.Evictions` and the attempt's `PreemptionRunner`. `run` owns the
    tasks.
    """

    def __init__(
        self,
        victims: Victims,
        nominator: NominatedPods,
        statuses: NominationWriter,
        activate: Callable[[Collection[str]], None],
        retry: Callable[[Collection[str]], None],
        observers: Observers,
        clock: Clock,
        carry_out: Callable[[RunningPreemption], None] | None = None,
    ) -> None:
        """`activate` moves pods to the active queue, by key; `retry` lets PreEnqueue judge their groups again.

        `carry_out` is what follows `begin`; by default a task that evicts the victims. A replay follows what was
        recorded instead.
        """
        self._victims = victims
        self._nominator = nominator
        self._statuses = statuses
        self._activate = activate
        self._retry = retry
        self._clock = clock
        self._tell = observers.tell
        self._tasks = TaskSet("preemption", clock)
        self._pauses = TaskSet("preemption-pause", clock)
        self.work_slots = SharedSlots(
            FixedCapacity(PREEMPTIONS_AT_ONCE), clock, _namespace_of, turns=PREEMPTIONS_AT_ONCE
        )
        """Of preemptions that send requests: one whose requests hang takes no place from those of other namespaces."""
        self._is_stopping = False
        self._begun = 0
        self._carry_out = carry_out or self._spawn
        self.pod_change_waits = PodChangeWaits(clock)
        """A handler for the pod informer: it must receive all pod events."""
        self._under_way: dict[str, RunningPreemption] = {}
        """By the UID of the preemptor, pod or group."""
        self._open: dict[str, RunningPreemption] = {}
        """Those of `_under_way` that are open: mostly few."""
        self._on_node: dict[str, list[RunningPreemption]] = {}
        """By node, until they are forgotten; also those that a later preemption of the same preemptor has replaced."""
        self._pausing: dict[str, None] = {}
        """Keys of preemptors that are woken after a pause, or earlier by an event."""
        self._failed: dict[str, Backoff] = {}
        """By the preemptor's UID, for those whose last preemption failed."""

    def __len__(self) -> int:
        return sum(not entry.is_over for entry in self._under_way.values())

    async def run(self) -> None:
        """Own the tasks of running preemptions, until cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self._pauses.cancel_all()
            await self._tasks.cancel_all()

    async def stop(self) -> bool:
        """Give running preemptions a few seconds to finish. Returns whether all did. Do not call `begin` after this.

        A preemption that still waits for its turn has evicted nothing, and is not started any more.
        """
        self._is_stopping = True
        await self._pauses.cancel_all()
        drained = await self._tasks.drain(DRAIN_SECONDS)
        if not drained:
            _log.warning("preemptions_not_drained", preemptions=len(self), seconds=DRAIN_SECONDS)
        return drained

    def begin(self, preemption: Preemption) -> None:
        """Start a preemption and return at once. Victims that are gone or terminating are skipped; without others,
        nothing is done.
        """
        victims = [victim for victim in preemption.victims if self._victims.must_evict(victim)]
        self._tell(PreemptionBegun(preemption, len(victims), self._clock.time()))
        if not victims:
            return
        for outbid in preemption.outbid:
            if outbid.uid in self._under_way:
                self._under_way[outbid.uid].is_outbid = True
        self._begun += 1
        entry = self._under_way[preemption.uid] = RunningPreemption(self._begun, preemption, victims)
        self._on_node.setdefault(preemption.node_name, []).append(entry)
        self._open.pop(preemption.uid, None)
        self._carry_out(entry)

    def _spawn(self, entry: RunningPreemption) -> None:
        preemption = entry.preemption
        self._tasks.spawn(preemption.text, self._evict(preemption, entry.victims, entry))

    def call_off(self, uid: str) -> None:
        """The pod with this UID is left to others: spare the victims of its preemption, or its group's, that are still
        there.
        """
        for entry in self._under_way.values():
            if any(pod.uid == uid for pod in entry.preemption.waiting):
                entry.is_called_off = True

    def is_under_way(self, uid: str) -> bool:
        """Whether the pod, or the members of the group, with this UID must wait: victims are still being evicted."""
        entry = self._under_way.get(uid)
        if entry is None:
            return False
        entry.kept_out = not entry.is_open or self._is_unseen(entry)
        return entry.kept_out

    def has_any(self) -> bool:
        """Whether any preemption is under way, or the watch does not show its end yet."""
        return bool(self._under_way)

    def is_clearing(self, node_name: str, waiting: PodInfo) -> bool:
        """Whether the pod should wait for victims of another preemptor on this node that are not evicted yet.

        The node has room for the pod beside that preemptor. But the cache shows no sign of the evictions so far, so
        the pod would find both the victims and that preemptor in its way.
        """
        found = False
        for entry in self._on_node.get(node_name, ()):
            if entry.is_in_the_way_of(waiting) and self._has_victims_below(waiting.priority, entry):
                entry.neighbours[waiting.key] = None
                found = True
        if found:
            self._tell(PodAwaitsOthersVictims(waiting, node_name))
        return found

    def _has_victims_below(self, priority: int, entry: RunningPreemption) -> bool:
        if entry.is_over and not self._is_unseen(entry):
            return False  # the remaining victims were spared
        return any(victim.priority < priority and self._victims.must_evict(victim) for victim in entry.victims)

    def nearly_done(self) -> Collection[str]:
        """Keys of preemptors whose wait may be over now.

        Others need not be asked about: an entry that is not open, or whose evictions the watch does not show yet, still
        keeps its preemptor out; and when an entry is removed, its preemptor is woken, or pauses.
        """
        open_up = [entry.waiting for entry in self._open.values() if not self._is_unseen(entry)]
        return (*chain.from_iterable(open_up), *self._pausing)

    def _is_unseen(self, entry: RunningPreemption) -> bool:
        """Whether the watch or the cache does not show the eviction of some victim yet."""
        # Asked for each open preemption at each event of a pod, so a victim that is gone is not looked at again.
        victims, awaited = self._victims, entry.awaited
        while entry.shown < len(awaited):
            if victims.must_evict(awaited[entry.shown]):
                return True
            entry.shown += 1
        for victim in entry.last:
            if victims.must_evict(victim):
                return True
        return bool(entry.stopped) and any(victims.holds_capacity(victim) for victim in entry.stopped)

    def running(self) -> list[RunningPreemption]:
        """All that are not forgotten, in the order in which they began; those that were replaced, too."""
        entries = [entry for entries in self._on_node.values() for entry in entries]
        return sorted(entries, key=lambda entry: entry.number)

    @property
    def begun(self) -> int:
        """How many have begun in this process."""
        return self._begun

    @property
    def pausing(self) -> Collection[str]:
        """Keys of preemptors that are woken after a pause."""
        return self._pausing.keys()

    def resume(self, begun: int, entries: Iterable[RunningPreemption], pausing: Iterable[str]) -> None:
        """Take over what a recording says was under way; nobody carries it out."""
        self._begun = begun
        self._pausing.update(dict.fromkeys(pausing))
        for entry in entries:
            self._under_way[entry.preemption.uid] = entry
            self._on_node.setdefault(entry.preemption.node_name, []).append(entry)
            self._open.pop(entry.preemption.uid, None)
            if entry.is_open:
                self._open[entry.preemption.uid] = entry

    def requeued(self, uid: str) -> None:
        """The group with this UID is back in the queue, where its own attempt has asked whether it must wait.

        No event was missed by that. The victims' ends wake the group, like any that waits for room; if it was woken as
        soon as they terminate, it would be tried, and told so, while they still hold the room.
        """
        entry = self._under_way.get(uid)
        if entry is not None:
            entry.kept_out = False

    def released_node(self, pod: PodInfo) -> None:
        """A pod that was stopped before it was bound no longer counts on a node."""
        self.pod_change_waits.look(pod.key)

    # --- one preemption -----------------------------------------------------------------------------------------------

    async def _evict(self, preemption: Preemption, victims: list[PodInfo], entry: RunningPreemption) -> None:
        began = self._clock.monotonic()
        succeeded = False
        try:
            await self.work_slots.begin(entry)
            try:
                succeeded = await self._make_room(preemption, victims, entry)
            finally:
                self.work_slots.end(entry)
        except Exception:  # noqa: BLE001  the per-pod task: its failure is that pod's failure
            count_caught(Boundary.POD_TASK)
            _log.exception("preemption_failed", pod=preemption.text, node=preemption.node_name)
        finally:
            self._take(entry, EvictionStep.CLOSED)
        seconds = self._clock.monotonic() - began
        self._tell(PreemptionEnded(preemption, seconds, succeeded))
        if succeeded:
            self._failed.pop(preemption.uid, None)
        else:
            self._try_again(entry)
        if self._is_unseen(entry):
            self._pauses.spawn(preemption.text, self._wake_when_seen(entry))
            return
        self._take(entry, EvictionStep.FORGOTTEN)

    async def _wake_when_seen(self, entry: RunningPreemption) -> None:
        """Wake the preemptor later: the event for which it was kept out is not repeated."""
        keys = {victim.key for victim in (*entry.awaited, *entry.stopped)}
        await self.pod_change_waits.until(lambda: not self._is_unseen(entry), keys)
        self._take(entry, EvictionStep.FORGOTTEN)

    # --- its steps, as decisions see them -----------------------------------------------------------------------------

    def _take(self, entry: RunningPreemption, step: EvictionStep, victim: str = "") -> None:
        self._tell(EvictionStepTaken(entry.number, step, victim))
        self.apply(entry, step, victim)

    def apply(self, entry: RunningPreemption, step: EvictionStep, victim: str = "") -> None:
        """Let decisions see a step of a preemption. `victim`: the UID of the pod that it is about, if it is."""
        match step:
            case EvictionStep.LAST_TURN:
                entry.last = (entry.victims[-1],)
                self._open_up(entry)
            case EvictionStep.AWAITED:
                entry.awaited.append(entry.victim(victim))
            case EvictionStep.STOPPED:
                entry.stopped.append(entry.victim(victim))
            case EvictionStep.CLOSED:
                self._close(entry)
            case EvictionStep.RETRIED:
                entry.kept_out = False
                self._activate(entry.waiting)
            case EvictionStep.PAUSED:
                entry.kept_out = False  # it is activated in any case
                self._pausing.update(dict.fromkeys(entry.waiting))
            case EvictionStep.FORGOTTEN:
                self._forget(entry)
                self._wake(entry)

    def _wake(self, entry: RunningPreemption) -> None:
        """Wake a preemptor that was kept out when an event came: the event is not repeated.

        A group then waits for the rest of its backoff, as if it had been let in by that event: its other victims may
        still be there. Victims that were stopped in memory have no such event.
        """
        if entry.preemption.group is None:
            if entry.kept_out:
                self._activate(entry.waiting)
        elif entry.stopped:
            self._activate(entry.waiting)
        elif entry.kept_out:
            self._retry(entry.waiting)

    def _take_apart(self, step: EvictionStep, uid: str = "", keys: Collection[str] = ()) -> None:
        self._tell(EvictionStepTaken(0, step, uid, keys))
        self.apply_apart(step, uid, keys)

    def apply_apart(self, step: EvictionStep, uid: str = "", keys: Collection[str] = ()) -> None:
        """Let decisions see a step that no preemption under way needs to be there for."""
        if step is EvictionStep.CLEARED:
            self._nominator.remove(uid)
            return
        self._activate(keys)
        if step is EvictionStep.RESUMED:
            for key in keys:
                self._pausing.pop(key, None)

    def _open_up(self, entry: RunningPreemption) -> None:
        """Let the preemptor be tried again, unless it has begun another preemption meanwhile."""
        entry.is_open = True
        if self._under_way.get(entry.preemption.uid) is entry:
            self._open[entry.preemption.uid] = entry

    def _close(self, entry: RunningPreemption) -> None:
        """The preemption is over; the entry stays until the watch has caught up with it."""
        self._open_up(entry)
        entry.is_over = True
        entry.last = ()

    def _forget(self, entry: RunningPreemption) -> None:
        node_name = entry.preemption.node_name
        self._on_node[node_name].remove(entry)
        if not self._on_node[node_name]:
            del self._on_node[node_name]
        # The deletion of a victim wakes the pods that waited for it. For a victim that stays, wake them here.
        if entry.neighbours and any(self._victims.must_evict(victim) for victim in entry.victims):
            self._activate(entry.neighbours)
        if self._under_way.get(entry.preemption.uid) is entry:
            del self._under_way[entry.preemption.uid]
            self._open.pop(entry.preemption.uid, None)

    async def _make_room(self, preemption: Preemption, victims: list[PodInfo], entry: RunningPreemption) -> bool:
        if self._is_stopping or entry.is_off or not await self._nominate(preemption):
            return False
        cleared = await self._clear_nominations(preemption)
        if not await self._evict_together(victims[:-1], preemption, entry):
            return False
        self._take(entry, EvictionStep.LAST_TURN)
        return await self._evict_victim(victims[-1], preemption, entry) and cleared

    async def _evict_together(self, victims: list[PodInfo], preemption: Preemption, entry: RunningPreemption) -> bool:
        """Evict victims, some at the same time. Returns whether all succeeded; after a failure no other starts."""
        left = iter(victims)  # shared by the workers below: each takes the next victim
        failed = False

        async def work() -> None:
            nonlocal failed
            for victim in left:
                if failed or not await self._evict_victim(victim, preemption, entry):
                    failed = True
                    return

        async with asyncio.TaskGroup() as group:
            for number in range(1, min(AT_ONCE, len(victims))):
                group.create_task(work(), name=f"victims of {preemption.text} {number}")
            await work()
        return not failed

    async def _evict_victim(self, victim: PodInfo, preemption: Preemption, entry: RunningPreemption) -> bool:
        if entry.is_off or not any(map(self._victims.is_pending, preemption.waiting)):
            self._tell(VictimSpared(victim, preemption, entry.is_outbid))
            return False
        try:
            is_to_be_shown = await self._victims.evict(victim, preemption)
            self._take(entry, EvictionStep.AWAITED if is_to_be_shown else EvictionStep.STOPPED, victim.uid)
        except ClientError as failure:
            _log.warning(
                "victim_not_preempted",
                pod=victim.key,
                node=preemption.node_name,
                preemptor=preemption.text,
                err=str(failure),
            )
            return False
        return True

    async def _nominate(self, preemption: Preemption) -> bool:
        """Write the nominations now; the failure handler would write them later, after the binds. Of a group those
        of members that are gone need not be written.
        """
        written = [await self._nominate_one(pod, node_name) for pod, node_name in preemption.nominations]
        return all(written) if preemption.group is None else any(written)

    async def _nominate_one(self, pod: PodInfo, node_name: str) -> bool:
        if pod.node_name:  # a resize: the pod is on the node already
            return True
        try:
            await self._statuses.patch_pod_status(pod.pod, None, node_name)
        except ClientError as failure:
            if isinstance(failure, APIError) and failure.is_not_found:
                return False  # the pod was deleted and needs no room
            _log.warning("nomination_not_written", pod=pod.key, node=node_name, err=str(failure))
            return False
        return True

    async def _clear_nominations(self, preemption: Preemption) -> bool:
        """Clear the nominations of pods of lower priority on this node. Returns whether all requests succeeded."""
        done = [await self._clear_nomination(pod, preemption.node_name) for pod in preemption.outbid]
        return all(done)

    async def _clear_nomination(self, pod: PodInfo, node_name: str) -> bool:
        current = self._victims.current(pod)
        if current is None or (self._nominator.nominated_node(pod) or current.status.nominated_node_name) != node_name:
            return True  # the pod is gone, or was tried again and is expected elsewhere
        self._statuses.withdraw(pod.uid)
        self._take_apart(EvictionStep.CLEARED, pod.uid)
        try:
            await self._statuses.patch_pod_status(current, None, "")
        except ClientError as failure:
            _log.warning("nomination_not_cleared", pod=pod.key, err=str(failure))
            return False
        finally:
            self._take_apart(EvictionStep.WOKEN, keys=(pod.key,))
        return True

    # --- after a failure ----------------------------------------------------------------------------------------------

    def _try_again(self, entry: RunningPreemption) -> None:
        """Activate the preemptor: at once after the first failure, as upstream; after further failures with a pause."""
        uid, keys = entry.preemption.uid, entry.waiting
        backoff = self._failed.get(uid)
        if backoff is not None:
            self._take(entry, EvictionStep.PAUSED)
            self._pauses.spawn(entry.preemption.text, self._activate_after(backoff.next(), keys))
            return
        if len(self._failed) >= _MAX_REMEMBERED:
            self._failed.clear()  # the worst consequence is a try without a pause
        self._failed[uid] = Backoff(1.0, cap_seconds=10.0, jitter=0.0, clock=self._clock)
        self._take(entry, EvictionStep.RETRIED)

    async def _activate_after(self, seconds: float, keys: Collection[str]) -> None:
        await self._clock.sleep(seconds)
        self._take_apart(EvictionStep.RESUMED, keys=keys)


def _namespace_of(entry: RunningPreemption) -> str:
    """The preemptor's, or its group's."""
    return next(iter(entry.preemption.waiting)).pod.metadata.namespace
