"""Workers: each pops a pod, decides, binds it, and continues with the next pod.

The cycle never awaits, so N workers decide one after the other, and only their API calls overlap: correct without
locks. `AdaptiveLimit` says how many of them may have a pod at a time; the others are idle. After the workers have
decided for a few milliseconds in one turn of the event loop, they wait for its next turn, so that watches, binds and
probes never starve. A pod that must wait (for extenders, Permit or volumes) leaves its worker and waits in a task of
its own. Then the next free worker binds it, before it decides about any other pod, because the waiting pod holds a
node. A pod that an extender binds leaves its worker, too: the limit follows the API server's answers.

A place is held while a Binding is on time. One that is late, or sleeps before it is sent again, gives its place back
(`aio.shared_slots`): its worker goes on waiting for the outcome, which stays an attempt under way, and another worker
takes over. From then on the namespace is slow: its pods are decided and bound outside the slots, a few at a time, and
the others stand in a line of their own, undecided (`namespace_backlog`). So what hangs for one namespace delays no
other. If nobody else is on time it may be the server: then the limit follows the late answers, and bounds the late
Bindings.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.aio.shared_slots import SharedSlots
from kscheduler.aio.tasks import TaskSet, is_own_cancellation
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.attempt import Scheduler
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt.group_attempt import GroupConsultation
from kscheduler.scheduling.attempt_events import (
    STEP_BEGAN,
    BackoffFlushed,
    GroupAwaitsExtenders,
    GroupDecided,
    GroupExtendersQueried,
    PodDecided,
    StepBegan,
    UnschedulableFlushed,
)
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.work.concurrency import AdaptiveLimit
from kscheduler.scheduling.work.namespace_backlog import NamespaceBacklog
from kscheduler.state.queue.queued_group import QueuedPodGroup
from kscheduler.state.queue.scheduling_queue import FLUSH_UNSCHEDULABLE_SECONDS, SchedulingQueue
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# How long a worker pauses after a bug that belongs to no pod: it may happen at the next turn again.
PAUSE_SECONDS: Final = 1.0
# How long workers may decide before the event loop gets a turn.
SLICE_SECONDS: Final = 0.002

# What the end of the service gives plugins for an `async def post_bind`; nobody waits for more.
AWAITED_SECONDS: Final = 1.0


class Workers:
    """The tasks that drain the queue."""

    def __init__(
        self,
        count: int,
        queue: SchedulingQueue,
        scheduler: Scheduler,
        limit: AdaptiveLimit,
        clock: Clock,
        observers: Observers = NO_OBSERVERS,
        on_attempt_end: Callable[[], None] | None = None,
    ) -> None:
        """`on_attempt_end`: after each attempt that had a node, and after extenders were asked about a group."""
        self._tell = observers.tell
        self._is_recorded = observers.is_heard(StepBegan)
        """Whether anybody wants to hear of the steps of each pod."""
        self._count = count
        self._queue = queue
        self._scheduler = scheduler
        self._limit = limit
        self._clock = clock
        self.work_slots = SharedSlots(
            limit, clock, _namespace_of, on_capacity=self._on_capacity, on_turn=self._call_standing
        )
        """Of Bindings, by the pod that is bound; the limit says how many there are."""
        self.standing = NamespaceBacklog(scheduler.let_go)
        """Pods of slow namespaces that wait for a turn."""
        self._binding: dict[str, QueuedPodInfo] = {}
        """The pods that are being bound by workers, by UID."""
        self._in_turn: set[int] = set()
        """Pods that are bound in tasks of their own, by identity: no worker waits for them."""
        self._extra = 0
        """Workers that stand in for others whose Binding is late."""
        self._ending: set[asyncio.Task[object] | None] = set()
        """Workers that end because they are too many."""
        self._working = TaskSet("worker", clock)
        self._waiting = TaskSet("waiting", clock)
        self._outside = TaskSet("bound outside", clock)
        """Pods that extenders bind: at the end they are waited for, as binds of workers."""
        self._late = TaskSet("bound outside the slots", clock)
        """Pods of slow namespaces that had a node already: at the end they are waited for, as binds of workers."""
        self._called = scheduler.lines.called
        self._called_back: deque[QueuedPodInfo] = deque()
        """Pods that stood in line and have a turn now, or need none any more."""
        self._released: deque[Attempt] = deque()
        """Pods that have waited and may be bound now."""
        self._under_way: dict[int, Attempt] = {}
        """The attempts that have a node or are waiting, by identity."""
        self._consulting: dict[int, GroupConsultation] = {}
        """The groups about whose members extenders are asked, by identity."""
        self.on_attempt_end = on_attempt_end
        self._idle: deque[asyncio.Future[None]] = deque()
        self._slice_ends = 0.0
        self._is_renewing = False
        self._stopping = False
        self._is_running = False
        self._has_ended_run = False
        """`run` has ended and cancels the tasks; no task should be cancelled before that."""

    @property
    def binding(self) -> int:
        """How many pods are being bound: by workers, and by extenders."""
        return len(self._binding) + self._outside.statistics().running

    @property
    def in_binding_cycle(self) -> int:
        """How many pods have a node and are on their way to it: those that wait for Permit or PreBind, too."""
        return sum(bool(attempt.node_name) for attempt in self._under_way.values())

    @property
    def in_pre_bind(self) -> int:
        """How many of them are in PreBind, which waits for volumes and devices."""
        return sum(attempt.is_in_pre_bind for attempt in self._under_way.values())

    def profiles_in_use(self) -> Iterable[Profile]:
        """The profiles of all attempts under way, as they were when these began; one may come more than once."""
        return [*(attempt.profile for attempt in self._under_way.values()), *self._scheduler.awaited.profiles()]

    def extenders_in_use(self) -> Iterable[Extenders | None]:
        """The extenders of all attempts under way, likewise."""
        of_groups = (consultation.extenders for consultation in self._consulting.values())
        return [*(attempt.extenders for attempt in self._under_way.values()), *of_groups]

    def wake(self) -> None:
        """There may be something to do: the queue calls this on every arrival."""
        while self._idle:
            turn = self._idle.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.work_slots.expect_late()  # all are busy, or wait for answers

    async def run(self) -> None:
        """Work until cancelled. A worker that is cancelled in the middle of a bind leaves its outcome unknown."""
        try:
            for number in range(self._count):
                self._start(number)
            self._is_running = True
            await asyncio.get_running_loop().create_future()
        finally:
            self._has_ended_run = True
            await self._waiting.cancel_all()
            await self._outside.cancel_all()
            await self._late.cancel_all()
            await self._working.cancel_all()

    def grow_to(self, count: int) -> None:
        """Have at least so many workers. There may be more than the limit lets work: the others are idle."""
        if self._is_running and not (self._stopping or self._has_ended_run):
            for number in range(self._count, count):
                self._start(number)
        self._count = max(self._count, count)

    def _start(self, number: int) -> None:
        self._working.spawn(str(number), self._work()).add_done_callback(partial(self._replace_ended, number))

    def _replace_ended(self, number: int, worker: asyncio.Task[object]) -> None:
        """Replace a worker that ended too early, for example because a plugin cancelled the current task."""
        if self._stopping or self._has_ended_run:
            return
        if worker in self._ending:
            self._ending.discard(worker)
            return
        count_caught(Boundary.WORKER)
        _log.error("worker_ended", worker=worker.get_name())
        self._start(number)

    async def keep_flushing(self) -> None:
        """Each second, move the pods whose backoff is over; each 30 s, flush old unschedulable pods (safety net)."""
        next_net = self._clock.monotonic() + FLUSH_UNSCHEDULABLE_SECONDS
        while True:
            await self._clock.sleep(1.0 - self._clock.time() % 1.0)
            self._tell(STEP_BEGAN)
            self._queue.flush_backoff(self._clock.time())
            self._tell(BackoffFlushed())
            if self._queue.has_ready():
                self.wake()  # a costly pod may go now, and nobody tells
            self._scheduler.lines.look()
            if self.work_slots.slow:
                self.work_slots.look()
            if self._clock.monotonic() >= next_net:
                self._queue.flush_unschedulable(self._clock.time())
                self._tell(UnschedulableFlushed())
                next_net += FLUSH_UNSCHEDULABLE_SECONDS

    async def stop(self, drain_seconds: float) -> bool:
        """Stop popping pods, cancel the wait for Permit and volumes, and let binds finish. Returns whether all did."""
        self._stopping = True
        while self._idle:
            self.wake()
        await self._waiting.cancel_all()
        binding = [each.drain(drain_seconds) for each in (self._outside, self._late, self._working)]
        beside = self._scheduler.awaited.drain(min(drain_seconds, AWAITED_SECONDS))
        ended, _ = await asyncio.gather(asyncio.gather(*binding), beside)
        return all(ended)

    async def _work(self) -> None:
        # Each round does one thing: end, park, give the loop a turn, or work on a pod. When stopping, pods that have
        # waited are still bound, and no new pod is popped.
        while self._released or not self._stopping:
            if not (self._limit.has_room() and self._has_work()):
                if self._stopping:
                    return  # the workers that have the places bind what is left
                if self._has_work():
                    self.work_slots.expect_late()
                await self._idle_until_woken()
                continue
            if self._clock.monotonic() >= self._slice_ends:
                await self._next_turn()
                continue
            try:
                if not await self._work_on_next() and self._extra:
                    self._extra -= 1  # another worker has taken over meanwhile
                    self._ending.add(asyncio.current_task())
                    return
            except BaseException as failure:
                if is_own_cancellation(failure):
                    raise
                count_caught(Boundary.WORKER)
                _log.exception("worker_failed")
                await self._clock.sleep(PAUSE_SECONDS)

    def _has_work(self) -> bool:
        return bool(self._released or self._called or self._called_back) or self._queue.has_ready()

    async def _idle_until_woken(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(turn)
        await turn

    async def _work_on_next(self) -> bool:
        """Bind a pod that has waited, or decide the next one. Returns whether it kept its slot to the end, if it was
        bound here.
        """
        released = self._released.popleft() if self._released else None
        attempt = released or self._decide()
        if self._has_work():
            self.wake()
        if attempt is None:
            return True
        if released is None and self._must_wait(attempt):
            self._leave_turn(attempt)
            self._waiting.spawn(attempt.queued.key, self._in_background(attempt, self._scheduler.prepare))
        elif attempt.extenders is not None and self._scheduler.is_bound_outside(attempt):
            self._leave_turn(attempt)
            self._outside.spawn(attempt.queued.key, self._in_background(attempt, self._scheduler.bind_outside))
        elif not (self.work_slots.slow or self.work_slots.beside):
            self.work_slots.hold(attempt.queued)
            return await self._bind(attempt)
        elif not self._is_slow(attempt.queued) and self._takes_place(attempt.queued):
            return await self._bind(attempt)
        else:
            self._late.spawn(attempt.queued.key, self._bind_in_turn(attempt))
        return True

    def _is_slow(self, queued: QueuedPodInfo) -> bool:
        """Whether the pod is bound outside the slots, or started there."""
        return self.work_slots.is_slow(_namespace_of(queued)) or self.work_slots.has_begun(queued)

    def _takes_place(self, queued: QueuedPodInfo) -> bool:
        """Whether the pod has begun in a place; it may have begun beside them."""
        return self.work_slots.begin_now(queued) and self.work_slots.holds(queued)

    async def _bind_in_turn(self, attempt: Attempt) -> None:
        """Bind when there is a place, or a turn of a slow namespace. Its node is held meanwhile."""
        if not self.work_slots.has_begun(attempt.queued):
            await self.work_slots.begin(attempt.queued)
        self._in_turn.add(id(attempt.queued))
        try:
            await self._bind(attempt)
        finally:
            self._in_turn.discard(id(attempt.queued))
            if self._has_work():
                self.wake()  # it may have held the place that the idle workers wait for, and is none of them

    def _leave_turn(self, attempt: Attempt) -> None:
        """The pod is not bound yet: it will ask again."""
        if self.work_slots.has_begun(attempt.queued):
            self.work_slots.end(attempt.queued)

    def pauses(self, uid: str) -> None:
        """The Binding of this pod sleeps before it is sent again: its place is for others meanwhile."""
        queued = self._binding.get(uid)
        if queued is not None:
            self.work_slots.give_back(queued)

    def _on_capacity(self, queued: QueuedPodInfo) -> None:
        """A late Binding has given its place back: some worker must be there to use it."""
        is_needed = id(queued) not in self._in_turn and all(turn.done() for turn in self._idle)
        if is_needed and not (self._stopping or self._has_ended_run):
            self._extra += 1
            self._start(self._count + self._extra)
        self.wake()

    def _call_standing(self, namespace: Hashable) -> None:
        """A slow namespace has a turn for a pod that stands in line, or is no longer slow."""
        while not (self._stopping or self._has_ended_run) and (queued := self.standing.first(namespace)) is not None:
            if self.work_slots.is_slow(namespace) and not self.work_slots.begin_now(queued):
                return
            self._called_back.append(self.standing.take(namespace))
            self.wake()

    def _stands_in_line(self, queued: QueuedPodInfo) -> bool:
        """Whether the pod must wait undecided, since its namespace is slow and has no turn for it."""
        namespace = _namespace_of(queued)
        if not self.work_slots.is_slow_with_more(namespace):
            return False
        if self.standing.first(namespace) is None and self.work_slots.begin_now(queued):
            return False
        self._queue.rest(queued.pod.uid)
        self.standing.add(namespace, queued)
        return True

    def _decide(self) -> Attempt | None:
        is_called = bool(self._called or self._called_back)
        has_stood = bool(self._called_back)
        if self._is_recorded:
            self._tell(STEP_BEGAN)
        queued = self._take_called() if is_called else self._queue.pop_next(self._clock.time())
        if queued is None:
            return None
        if isinstance(queued, QueuedPodGroup):
            self._decide_group(queued)
            return None
        # Those called back without a turn, as their namespace had recovered, stand in line again if it is slow by now:
        # otherwise thousands of them would be decided, and hold room on nodes until they have a turn.
        may_stand = not is_called or (has_stood and not self.work_slots.has_begun(queued))
        if self.work_slots.slow and may_stand and self._stands_in_line(queued):
            self._tell(PodDecided(queued, None))
            return None
        try:
            attempt = self._scheduler.decide_called(queued) if is_called else self._scheduler.decide(queued)
        except BaseException as failure:  # noqa: BLE001  one pod must never end a worker
            count_caught(Boundary.WORKER)
            self._scheduler.give_up(queued, failure)
            attempt = None
        if self._is_recorded:
            self._tell(PodDecided(queued, attempt))
        if attempt is not None:
            self._under_way[id(attempt)] = attempt
        elif self.work_slots.beside and self.work_slots.has_begun(queued):
            self.work_slots.end(queued)  # no node, or nobody needs it any more
        return attempt

    def _take_called(self) -> QueuedPodInfo:
        return self._called_back.popleft() if self._called_back else self._scheduler.lines.take_called()

    def _decide_group(self, group: QueuedPodGroup) -> None:
        try:
            decided = self._scheduler.decide_group(group)
        except BaseException as failure:  # noqa: BLE001  one group must never end a worker
            count_caught(Boundary.WORKER)
            self._scheduler.give_up_group(group, failure)
            decided = []
        if isinstance(decided, GroupConsultation):
            self._tell(GroupAwaitsExtenders(group.key.text))
            self._waiting.spawn(group.key.text, self._consult(decided))
        else:
            self._place_members(group, decided)

    async def _consult(self, consultation: GroupConsultation) -> None:
        """Ask extenders about a group's members until it can be decided."""
        group = consultation.group
        self._consulting[id(group)] = consultation
        try:
            decided: list[Attempt] | GroupConsultation = consultation
            while isinstance(decided, GroupConsultation):
                await self._scheduler.ask_about_group(decided)
                self._tell(STEP_BEGAN)
                consulted, decided = decided, self._scheduler.decide_consulted_group(decided)
            self._tell(GroupExtendersQueried(group.key.text, consulted.answers.known()))
        except BaseException as failure:
            if self._is_shutdown(failure):
                raise
            count_caught(Boundary.POD_TASK)
            self._tell(STEP_BEGAN)
            self._scheduler.give_up_group(group, failure)
            decided = []
        finally:
            del self._consulting[id(group)]
        self._place_members(group, decided)
        self._report_end()
        self.wake()

    def _place_members(self, group: QueuedPodGroup, attempts: Sequence[Attempt]) -> None:
        """The members that have a node now are bound by the next free worker, before any other pod is decided."""
        self._tell(GroupDecided(group.key.text, attempts))
        for attempt in attempts:
            self._under_way[id(attempt)] = attempt
            if self._must_wait(attempt):
                self._waiting.spawn(attempt.queued.key, self._in_background(attempt, self._scheduler.prepare))
            else:
                self._released.append(attempt)

    def _must_wait(self, attempt: Attempt) -> bool:
        try:
            return self._scheduler.must_wait(attempt)
        except BaseException:  # noqa: BLE001  the waiting task fails in the same way and releases the node
            return True

    async def _bind(self, attempt: Attempt) -> bool:
        """Bind the pod, which holds a slot already. Returns whether it kept the slot to the end."""
        began, period = self._clock.monotonic(), self._limit.period
        queued = attempt.queued
        uid = queued.pod.uid
        self._binding[uid] = queued
        is_on_time = is_servers = is_full = False
        try:
            await self._scheduler.bind(attempt)
        except BaseException as failure:
            if self._is_shutdown(failure):
                raise
            count_caught(Boundary.POD_TASK)
            _log.exception("binding_failed", pod=queued.key, node=attempt.node_name)
            self._scheduler.abandon(attempt, failure)
        finally:
            del self._binding[uid]
            if self.work_slots.beside:  # the limit must hear of a server that is late for everybody
                is_servers, is_full = self.work_slots.is_server_slow(queued), self.work_slots.is_crowded()
            is_on_time = self.work_slots.end(queued)
        if is_on_time:
            self._limit.answered(self._clock.monotonic() - began, period)
        elif is_servers:
            self._limit.answered(self._clock.monotonic() - began, period, is_full=is_full)
        self._end(attempt)
        return is_on_time

    async def _in_background(self, attempt: Attempt, work: Callable[[Attempt], Awaitable[bool]]) -> None:
        """Do what takes time in the background; then hand the pod to the next free one, if it must still be bound."""
        try:
            if await work(attempt):
                self._released.append(attempt)
                self.wake()
            else:
                self._end(attempt)
        except BaseException as failure:
            if self._is_shutdown(failure):
                raise
            count_caught(Boundary.POD_TASK)
            _log.exception("waiting_failed", pod=attempt.queued.key, node=attempt.node_name)
            self._scheduler.abandon(attempt, failure)
            self._end(attempt)

    def _end(self, attempt: Attempt) -> None:
        del self._under_way[id(attempt)]
        self._report_end()

    def _report_end(self) -> None:
        if self.on_attempt_end is not None:
            self.on_attempt_end()

    def _is_shutdown(self, failure: BaseException) -> bool:
        """Whether the service itself ends the task, for example when it stops. The next run will find the pod."""
        is_ending = self._stopping or self._has_ended_run or isinstance(failure, GeneratorExit)
        return is_ending and is_own_cancellation(failure)

    async def _next_turn(self) -> None:
        """Give the event loop a turn. All workers share one slice: with one each, fifty workers would use fifty."""
        if not self._is_renewing:
            self._is_renewing = True
            asyncio.get_running_loop().call_soon(self._renew)
        await asyncio.sleep(0)

    def end_slice(self) -> None:
        """Let the event loop take its turn before the next decision: something must come before that."""
        self._slice_ends = self._clock.monotonic()

    def _renew(self) -> None:
        """The loop has had its turn: begin a new slice before any worker continues."""
        self._is_renewing = False
        self._slice_ends = self._clock.monotonic() + SLICE_SECONDS


def _namespace_of(queued: QueuedPodInfo) -> str:
    return queued.pod.pod.metadata.namespace
