"""Making room as preemption has decided, beside the decisions.

The cycle has chosen the victims, and said so in its record. The attempt begins their preemption and goes on at once; a
task of its own talks to the API server:

    begin -> the nomination is written -> the outbid lose theirs -> all victims but the last -> the last one -> end
                      |  a failure                                        |  a failure              |  a failure
                      +--> the rest is left alone ------------------------+-------------------------+--> tried again

Until the last victim's turn the preemptor stays out of the active queue (`is_under_way`, asked by PreEnqueue), and from
then on until the watch shows all that were deleted gone or going: it would find the old victims still there and choose
others. It need not wait for the answer to the last request: the event of that deletion may come before, and must not be
lost.

Victims that are chosen count as going: whoever is expected on their node already, and would fit there without them,
waits for them (`is_clearing`) as it waits for those that terminate. kube-scheduler's preemptor looks for other victims.

Differences from kube-scheduler, each so that no pod is stuck, no loop is hot and no pod dies for nothing: a preemptor
is kept out until the watch has caught up (two minutes at most), where upstream relies on it to be quick; one that was
kept out is woken at the end, because what woke it may have been a new node, which does not come again, and a victim may
take for ever to go; one whose evictions fail again and again pauses between its tries, 1 to 10 s; and when it is gone,
has a node or is outbid, the victims that are left are spared. No victim is touched before the preemptor's status names
the node: whoever takes over after a crash then knows what the room is for.
Limits: what is begun when the process is killed is not taken up again; a terminating victim shows by its condition what
it goes for, and the preemptor's eligibility waits for it.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Protocol

from kscheduler.aio.backoff import Backoff
from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, ClientError
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught
from kscheduler.scheduling.eviction.sightings import Sightings
from kscheduler.scheduling.eviction.victims import Victims
from kscheduler.scheduling.observations import Observations
from kscheduler.state.nominations.nominator import NominatedPods

_log = get_logger(__name__)

AT_ONCE: Final = 16
"""Victims of one preemption that are taken away at the same time."""
DRAIN_SECONDS: Final = 5.0
"""What a stop gives to preemptions that have begun: half of one would have cost pods and helped nobody."""
PREEMPTIONS_AT_ONCE: Final = 8
"""Preemptions whose requests are on the wire at the same time: hundreds of them would keep the connections from the
binds, and wait for one themselves until they time out."""
_MOST_REMEMBERED: Final = 1000


class NominationWriter(Protocol):
    """Where nominations are written: `status_writer.StatusWriter`."""

    def withdraw(self, uid: str) -> None:
        """Leave unsaid what was not sent yet about this pod: it might bring its nomination back."""
        ...

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Set the nominated node; whether it had to be changed. Raises `ClientError`."""
        ...


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A preemption that has begun."""

    preemption: Preemption
    victims: list[PodInfo]
    """Those among its victims that were not going already."""
    awaited: list[PodInfo] = field(default_factory=list)
    """Victims that are deleted, as the API server says: the watch must show it before the preemptor may look."""
    stopped: list[PodInfo] = field(default_factory=list)
    """Victims that keep their object and give their node back: until then the preemptor would find them there."""
    last: tuple[PodInfo, ...] = ()
    """The last victim, while it is being taken away."""
    is_open: bool = False
    """The preemptor may look as soon as the watch shows what was done: the last victim's turn has come."""
    is_over: bool = False
    kept_out: bool = False
    """The preemptor wanted to be tried, and was told to wait."""
    is_outbid: bool = False
    """Another preemptor, of higher priority, has been promised the node since."""
    neighbours: dict[str, None] = field(default_factory=dict)
    """Keys of other pods that are expected on the node and were told to wait until the victims are gone."""

    @property
    def preemptor(self) -> PodInfo:
        """For whom."""
        return self.preemption.preemptor

    def is_in_the_way_of(self, pod: PodInfo) -> bool:
        """Whether another pod on the node must leave room for the preemptor, and was left its own by the decision."""
        preemptor = self.preemptor
        if preemptor.uid == pod.uid or preemptor.priority < pod.priority:
            return False
        return all(one.uid != pod.uid for one in self.preemption.outbid)


@dataclass(frozen=True, slots=True)
class EvictionPorts:
    """What preemption works on, and who is told."""

    victims: Victims
    nominator: NominatedPods
    statuses: NominationWriter
    activate: Callable[[Collection[str]], None]
    """Have the pods with these keys tried at once."""
    observations: Observations
    clock: Clock


class AsyncEvictions:
    """Implements `framework.cluster.preemption.Evictions` and the attempt's `PreemptionRunner`. `run` owns the
    tasks.
    """

    def __init__(self, around: EvictionPorts) -> None:
        self._around = around
        self._tasks = TaskSet("preemption", around.clock)
        self._pauses = TaskSet("preemption-pause", around.clock)
        self._turns = asyncio.Semaphore(PREEMPTIONS_AT_ONCE)
        self._is_stopping = False
        self.sightings = Sightings(around.clock)
        """To be told of all that the watch shows of pods."""
        self._under_way: dict[str, _UnderWay] = {}
        """By the preemptor's UID."""
        self._open: dict[str, _UnderWay] = {}
        """Those among them that are open: mostly a handful."""
        self._on_node: dict[str, list[_UnderWay]] = {}
        """By node, until they are forgotten; one that another of its preemptor has replaced, too."""
        self._pausing: dict[str, None] = {}
        """Keys of preemptors that are woken after a pause, or by an event before."""
        self._failed: dict[str, Backoff] = {}
        """By the preemptor's UID, for those whose last preemption failed."""

    def __len__(self) -> int:
        return sum(not entry.is_over for entry in self._under_way.values())

    async def run(self) -> None:
        """Own what is begun, until cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self._pauses.cancel_all()
            await self._tasks.cancel_all()

    async def stop(self) -> bool:
        """Let what has begun come to its end, for a few seconds; whether it did. Nobody is to begin anything now.

        A preemption that still waits for its turn has touched nobody, and does not begin either.
        """
        self._is_stopping = True
        await self._pauses.cancel_all()
        drained = await self._tasks.drain(DRAIN_SECONDS)
        if not drained:
            _log.warning("preemptions_not_drained", preemptions=len(self), seconds=DRAIN_SECONDS)
        return drained

    def begin(self, preemption: Preemption) -> None:
        """Start it; returns at once. Victims that are gone or going are passed over; with none left nothing is done."""
        victims = [one for one in preemption.victims if self._around.victims.is_to_go(one)]
        if not victims:
            return
        self._around.observations.preemption_victims(len(preemption.victims))
        for outbid in preemption.outbid:
            if outbid.uid in self._under_way:
                self._under_way[outbid.uid].is_outbid = True
        entry = self._under_way[preemption.preemptor.uid] = _UnderWay(preemption, victims)
        self._on_node.setdefault(preemption.node_name, []).append(entry)
        self._open.pop(preemption.preemptor.uid, None)
        self._tasks.spawn(preemption.preemptor.key, self._carry_out(preemption, victims, entry))

    def is_under_way(self, uid: str) -> bool:
        """Whether the pod with this UID must wait: victims of its preemption are still being taken away."""
        entry = self._under_way.get(uid)
        if entry is None:
            return False
        entry.kept_out = not entry.is_open or self._is_unseen(entry)
        return entry.kept_out

    def is_clearing(self, node_name: str, waiting: PodInfo) -> bool:
        """Whether victims of another preemptor, beside which the pod has its room on the node, are still untouched.

        Nothing shows on them yet, and the pod finds both them and that preemptor in its way.
        """
        found = False
        for entry in self._on_node.get(node_name, ()):
            if entry.is_in_the_way_of(waiting) and self._has_victims_below(waiting.priority, entry):
                entry.neighbours[waiting.key] = None
                found = True
        return found

    def _has_victims_below(self, priority: int, entry: _UnderWay) -> bool:
        if entry.is_over and not self._is_unseen(entry):
            return False  # those that are left were spared
        return any(one.priority < priority and self._around.victims.is_to_go(one) for one in entry.victims)

    def nearly_done(self) -> Collection[str]:
        """Keys of preemptors whose wait may be over now.

        An entry that is not open, or whose victims are unseen, keeps its preemptor out as before; and an entry leaves
        with nobody waiting behind it: whoever was kept out is woken with that, or pauses.
        """
        open_up = (entry.preemptor.key for entry in self._open.values() if not self._is_unseen(entry))
        return (*open_up, *self._pausing)

    def _is_unseen(self, entry: _UnderWay) -> bool:
        """Whether a victim looks as if nothing had happened to it yet."""
        victims = self._around.victims
        for one in (*entry.last, *entry.awaited):
            if victims.is_to_go(one):
                return True
        return bool(entry.stopped) and any(victims.takes_room(one) for one in entry.stopped)

    def gave_node_back(self, pod: PodInfo) -> None:
        """A pod that was stopped before it was bound counts on no node any more."""
        self.sightings.look(pod.key)

    # --- one preemption -----------------------------------------------------------------------------------------------

    async def _carry_out(self, preemption: Preemption, victims: list[PodInfo], entry: _UnderWay) -> None:
        around, preemptor = self._around, preemption.preemptor
        began = around.clock.monotonic()
        succeeded = False
        try:
            async with self._turns:
                succeeded = await self._make_room(preemption, victims, entry)
        except Exception:  # noqa: BLE001  the per-pod task: its failure is that pod's failure
            count_caught(Boundary.POD_TASK)
            _log.exception("preemption_failed", pod=preemptor.key, node=preemption.node_name)
        finally:
            self._close(entry)
        seconds = around.clock.monotonic() - began
        around.observations.preemption_goroutine("success" if succeeded else "error", seconds)
        around.victims.log.preemption_finished(preemption, seconds, succeeded=succeeded)
        if succeeded:
            self._failed.pop(preemptor.uid, None)
        else:
            entry.kept_out = False  # it is tried again anyway
            self._try_again(preemptor)
        if self._is_unseen(entry):
            self._pauses.spawn(preemptor.key, self._wake_when_seen(preemptor, entry))
            return
        self._forget(entry)
        if entry.kept_out:
            around.activate((preemptor.key,))

    async def _wake_when_seen(self, preemptor: PodInfo, entry: _UnderWay) -> None:
        """Nobody repeats the event that the preemptor was kept out from."""
        keys = {one.key for one in (*entry.awaited, *entry.stopped)}
        await self.sightings.until(lambda: not self._is_unseen(entry), keys)
        self._forget(entry)
        if entry.kept_out:
            self._around.activate((preemptor.key,))

    def _open_up(self, entry: _UnderWay) -> None:
        """The preemptor may look, unless another preemption of it has begun meanwhile."""
        entry.is_open = True
        if self._under_way.get(entry.preemptor.uid) is entry:
            self._open[entry.preemptor.uid] = entry

    def _close(self, entry: _UnderWay) -> None:
        """It is over; it stays until the watch has caught up with it."""
        self._open_up(entry)
        entry.is_over = True
        entry.last = ()

    def _forget(self, entry: _UnderWay) -> None:
        node_name = entry.preemption.node_name
        self._on_node[node_name].remove(entry)
        if not self._on_node[node_name]:
            del self._on_node[node_name]
        # Victims that go wake those who waited for them, by the event of their deletion; victims that stay do not.
        if entry.neighbours and any(self._around.victims.is_to_go(one) for one in entry.victims):
            self._around.activate(entry.neighbours)
        if self._under_way.get(entry.preemptor.uid) is entry:
            del self._under_way[entry.preemptor.uid]
            self._open.pop(entry.preemptor.uid, None)

    async def _make_room(self, preemption: Preemption, victims: list[PodInfo], entry: _UnderWay) -> bool:
        if self._is_stopping or entry.is_outbid or not await self._nominate(preemption):
            return False
        cleared = await self._clear_nominations(preemption)
        if not await self._take_away_together(victims[:-1], preemption, entry):
            return False
        entry.last = (victims[-1],)
        self._open_up(entry)
        return await self._take_away(victims[-1], preemption, entry) and cleared

    async def _take_away_together(self, victims: list[PodInfo], preemption: Preemption, entry: _UnderWay) -> bool:
        """Whether all could be; after a failure those whose turn has not come are left alone."""
        left = iter(victims)
        failed = False

        async def work() -> None:
            nonlocal failed
            for victim in left:
                if failed or not await self._take_away(victim, preemption, entry):
                    failed = True
                    return

        async with asyncio.TaskGroup() as group:
            for number in range(1, min(AT_ONCE, len(victims))):
                group.create_task(work(), name=f"victims of {preemption.preemptor.key} {number}")
            await work()
        return not failed

    async def _take_away(self, victim: PodInfo, preemption: Preemption, entry: _UnderWay) -> bool:
        if entry.is_outbid or not self._around.victims.is_pending(preemption.preemptor):
            self._around.victims.log.spared(victim, preemption, is_outbid=entry.is_outbid)
            return False
        try:
            is_to_be_shown = await self._around.victims.take_away(victim, preemption)
            (entry.awaited if is_to_be_shown else entry.stopped).append(victim)
        except ClientError as failure:
            _log.warning(
                "victim_not_preempted",
                pod=victim.key,
                node=preemption.node_name,
                preemptor=preemption.preemptor.key,
                err=str(failure),
            )
            return False
        return True

    async def _nominate(self, preemption: Preemption) -> bool:
        """Write down what the room is for; the failure handler would, too, but behind the binds."""
        preemptor = preemption.preemptor
        try:
            await self._around.statuses.patch_pod_status(preemptor.pod, None, preemption.node_name)
        except ClientError as failure:
            if isinstance(failure, APIError) and failure.is_not_found:
                return False  # it was deleted, and needs no room any more
            _log.warning("nomination_not_written", pod=preemptor.key, node=preemption.node_name, err=str(failure))
            return False
        return True

    async def _clear_nominations(self, preemption: Preemption) -> bool:
        """Pods of lower priority that were to come to this node look for another. Whether the API server agreed."""
        done = [await self._clear_nomination(pod, preemption.node_name) for pod in preemption.outbid]
        return all(done)

    async def _clear_nomination(self, pod: PodInfo, node_name: str) -> bool:
        around = self._around
        current = around.victims.current(pod)
        if current is None or (around.nominator.nominated_node(pod) or current.status.nominated_node_name) != node_name:
            return True  # gone, or tried again since and expected elsewhere
        around.statuses.withdraw(pod.uid)
        around.nominator.remove(pod.uid)
        try:
            await around.statuses.patch_pod_status(current, None, "")
        except ClientError as failure:
            _log.warning("nomination_not_cleared", pod=pod.key, err=str(failure))
            return False
        finally:
            around.activate((pod.key,))
        return True

    # --- after a failure ----------------------------------------------------------------------------------------------

    def _try_again(self, preemptor: PodInfo) -> None:
        """At once after the first failure, as upstream; with a pause after one more."""
        backoff = self._failed.get(preemptor.uid)
        if backoff is not None:
            self._pausing[preemptor.key] = None
            self._pauses.spawn(preemptor.key, self._activate_after(backoff.next(), preemptor.key))
            return
        if len(self._failed) >= _MOST_REMEMBERED:
            self._failed.clear()  # the worst that comes of it is a try without a pause
        self._failed[preemptor.uid] = Backoff(1.0, cap_seconds=10.0, jitter=0.0, clock=self._around.clock)
        self._around.activate((preemptor.key,))

    async def _activate_after(self, seconds: float, key: str) -> None:
        await self._around.clock.sleep(seconds)
        self._around.activate((key,))
        self._pausing.pop(key, None)
