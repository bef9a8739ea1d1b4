"""The flight recorder on the event loop: a tuple per step, which are encoded in batches; a thread writes them.

It observes the scheduler's steps, and every informer tells it before its handlers, so it hears each change in the order
in which handlers and decisions happen. A step that every decision takes costs a microsecond at most: each tuple is made
once, of plain numbers, strings and references to structs, as it stands in the file, and nobody looks at it again before
one call encodes the batch, when it is full or half a second old. Objects are packed when they are heard of (`packing`).

    full buffer, full disk      nothing more is kept; when the thread has caught up, a new segment begins with a
                                snapshot, the recording says how many entries are missing, and a metric counts them
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.assembly.assembled import Informers
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.recorder.entries import DecisionEnd, Digest, Entry, Item, Op, Output, Verb, batch_of
from kscheduler.recorder.packed_answers import pack_answers
from kscheduler.recorder.packing import ObjectPacker
from kscheduler.recorder.redaction import NO_REDACTION, Redaction
from kscheduler.recorder.reservations import reserved_by
from kscheduler.recorder.segment_thread import Batch, NewSegment, SegmentThread, ThreadStatistics
from kscheduler.recorder.step_clock import StepClock
from kscheduler.scheduling.attempt_events import (
    AttemptCompleted,
    BackoffFlushed,
    ClaimAssumed,
    ClaimNoLongerPending,
    ClaimStaysPending,
    ConfigurationApplied,
    CostlyCycle,
    Decided,
    EvictionStepTaken,
    GroupAwaitsExtenders,
    GroupDecided,
    GroupExtendersQueried,
    NodesTouched,
    PermitReleased,
    PodAwaitsOthersVictims,
    PodDecided,
    PodDecidedLater,
    PodLeftQueue,
    PodLetGo,
    PodNotScheduled,
    PodSkipped,
    PreemptionChosen,
    ReservationReleased,
    SchedulingBegan,
    StateRepaired,
    StepBegan,
    UndecidedGivenUp,
    UnschedulableFlushed,
)
from kscheduler.scheduling.failure import Failure
from kscheduler.scheduling.observers import hears
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# Entries and times that are encoded at a time.
BATCH: Final = 512
# How long an entry may stay in memory of the loop: a kill loses no more than this and what is being written.
HAND_OVER_SECONDS: Final = 0.5
# Entries that wait for the thread; beyond them, entries are lost and counted. About 100 MB.
MAX_WAITING: Final = 100_000

# What each decision needs, as plain numbers: to reach and to encode a member of an Enum costs three times as much.
_OBJECT, _DECIDED, _LEAVES, _BOUND = (int(op) for op in (Op.OBJECT, Op.DECIDED, Op.LEAVES, Op.BOUND))
_ADDED, _LISTED, _UPDATED, _DELETED = (int(verb) for verb in Verb)
_ON_NODE, _AWAITED, _IN_LINE = int(DecisionEnd.NODE), int(DecisionEnd.AWAITED), int(DecisionEnd.IN_LINE)


class RecordSettings(msgspec.Struct, frozen=True):
    """Where and how much is recorded."""

    directory: Path
    most_bytes: int = 1 << 30
    """Of all segments in the directory: the oldest go."""
    segment_bytes: int = 0
    """After which a new segment begins; 0: an eighth of `most_bytes`, 64 MiB at most."""
    segment_seconds: float = 3600.0
    redaction_key: bytes = b""
    """Names are hashed with it; empty: they are written as they are."""


class RecorderStatistics(msgspec.Struct, frozen=True):
    """For metrics and readyz."""

    entries: int
    decisions: int
    lost: int
    """Entries that could not be kept."""
    thread: ThreadStatistics


Attempts = Mapping[str, tuple[int, Decided]]
# The state as it is now, between two steps, as a function that makes entries of it in a thread. It gets the time in
# microseconds, the attempts under way by UID, and the number of the last attempt.
Snapshot = Callable[[int, Attempts, int], Callable[[], Iterable[Sequence[Any]]]]


class RecordedState(msgspec.Struct, frozen=True):
    """Where a recorder finds what a segment begins with. The scheduler that it describes hears the recorder itself, so
    it is there only when the recorder starts.
    """

    describe: Callable[[Any], Any]
    """From a `LoadedConfig` to what is written of it, or to a function that makes that in the thread."""
    snapshot: Snapshot
    """What a new segment begins with."""
    awaited: Callable[[], Mapping[str, str]]
    """By resource, why objects that name levels of the topology are not known: groups wait for them."""


class FlightRecorder:
    """Records what the event loop does: an observer of steps, each of which begins with `StepBegan`."""

    def __init__(self, thread: SegmentThread, clock: Clock, redaction: Redaction = NO_REDACTION) -> None:
        self._pending: list[Item] = []
        """The batch under way. It stays the same list, as its `append` is bound."""
        self._note = self._pending.append
        self._decided: list[Entry] = []
        """Its outcomes."""
        self.clock = StepClock(clock, self._note)
        """For the scheduler: stands still within a step."""
        self._step = self.clock.step
        self._state: RecordedState | None = None
        self.redaction = redaction
        self._thread = thread
        self._real = clock
        self._digest = Digest()
        self.objects = ObjectPacker(redaction)
        """Of the segment under way."""
        self._outputs: list[tuple[Any, ...]] = []
        """What the step under way has said."""
        self._under_way: dict[str, tuple[int, Decided]] = {}
        """Attempts under way, by the pod's UID."""
        self._tried_seconds = 0.0
        """What decisions about costly pods have used up since the last entry that says so."""
        self._awaited: Mapping[str, str] = {}
        """What the segment says last of objects that groups wait for."""
        self._queried: set[str] = set()
        """The pod groups about which extenders are asked, since the segment began."""
        self._attempts = 0
        self._entries = self._decisions = self._lost = 0
        self._is_repaired = False
        """Cache or queue were corrected: a snapshot is due."""
        self._missing = 0
        """Entries lost since the last snapshot; while there are any, nothing is kept."""

    # --- its life -----------------------------------------------------------------------------------------------------

    def start(self, state: RecordedState) -> None:
        """Begin the first segment. Nothing was decided yet."""
        self._state = state
        self._thread.start()
        self._begin_segment()

    async def run(self) -> None:
        """Hand over what waits, and begin new segments, until cancelled."""
        while True:
            await self._real.sleep(HAND_OVER_SECONDS)
            self.tend()

    def tend(self) -> None:
        """What is due between two steps."""
        if self._missing or not self._thread.takes_entries:
            self._hand_over()
            if self._thread.is_idle() and self._thread.may_try():
                self._begin_segment()
        elif (self._is_repaired or self._thread.wants_segment()) and not (self._queried or self._thread.is_behind()):
            self._begin_segment()
        else:
            self._hand_over()
        self._thread.catch_up()

    async def stop(self) -> None:
        """Write what waits, and end. A disk that hangs holds the end up for no more than a few seconds."""
        self._hand_over()
        self._thread.finish()
        await asyncio.to_thread(self._thread.join)

    def notes(self) -> Iterable[str]:
        """What is wrong, for people."""
        problem = self._thread.statistics().problem
        if problem:
            yield f"flight recorder: nothing is recorded: {problem}"
        elif self._missing:
            yield f"flight recorder: {self._missing} entries could not be kept in time; it goes on with a snapshot"

    def statistics(self) -> RecorderStatistics:
        thread = self._thread.statistics()
        return RecorderStatistics(self._entries, self._decisions, self._lost + thread.discarded, thread)

    def _begin_segment(self) -> None:
        self._hand_over()
        self._pending.clear()  # times that no entry has followed: the snapshot has its own
        missing, self._missing = self._missing, 0
        self._outputs, self._is_repaired = [], False
        self._queried.clear()
        self._awaited = {}
        self.objects = ObjectPacker(self.redaction)
        assert self._state is not None  # noqa: S101  # it has been started
        entries = self._state.snapshot(self.clock.micros, dict(self._under_way), self._attempts)
        self._thread.begin(NewSegment(entries, missing, self._digest.value, self._digest.decisions))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def keep(self, entry: Entry) -> None:
        """The next entry, without its time: the clock has noted that."""
        pending = self._pending
        pending.append(entry)
        if len(pending) >= BATCH:
            self._hand_over()

    def _keep_outcome(self, entry: Entry) -> None:
        self._decided.append(entry)
        self.keep(entry)
        if self._tried_seconds:
            self._keep_tried()

    def _hand_over(self) -> None:
        count = self._entries_pending()
        if not count:
            return  # the time at most
        if self._missing or self._thread.waiting + count > MAX_WAITING or not self._thread.takes_entries:
            self._lose(count)
        else:
            self._entries += count
            try:
                self._thread.put(Batch(self._encoded(), count))
            except Exception as problem:  # noqa: BLE001  a bug here must not reach who decides
                self._give_up(problem, count)
        self._pending.clear()
        self._decided.clear()

    def _entries_pending(self) -> int:
        return len(self._pending) - list(map(type, self._pending)).count(int)

    def _encoded(self) -> bytes:
        if not self.redaction.is_on:
            return batch_of(self._pending, self._decided, self._digest)
        hidden = self.redaction.entry
        items = [item if isinstance(item, int) else hidden(item) for item in self._pending]
        return batch_of(items, [hidden(entry) for entry in self._decided], self._digest)

    def cannot_pack(self, problem: Exception) -> None:
        """An object is not as any other, which is a bug: the segment ends here, and no decision."""
        self._hand_over()
        if self._missing or not self._thread.takes_entries:
            self._lose(1)
        else:
            self._give_up(problem, 1)

    def _give_up(self, problem: Exception, entries: int) -> None:
        count_caught(Boundary.TASK)
        _log.exception("recording_failed")
        self._thread.put_unpackable(f"{type(problem).__name__}: {problem}", entries)

    def _lose(self, entries: int) -> None:
        if not self._missing and self._thread.takes_entries:  # otherwise the thread has said why
            advice = "scheduling goes on; a new segment begins as soon as everything is written"
            _log.warning(
                "recording_interrupted", err=f"{self._thread.waiting} entries wait to be written", advice=advice
            )
        self._missing += entries
        self._lost += entries

    def _take_outputs(self) -> Sequence[tuple[Any, ...]]:
        outputs = self._outputs
        if not outputs:
            return ()
        self._outputs = []
        return outputs

    def _number(self, attempt: Decided) -> int:
        self._attempts += 1
        self._under_way[attempt.queued.pod.uid] = self._attempts, attempt
        return self._attempts

    def _end(self, uid: str) -> int:
        """The number of an attempt that is over; 0: it began before the recording."""
        ended = self._under_way.pop(uid, None)
        return 0 if ended is None else ended[0]

    def _number_of(self, uid: str) -> int:
        known = self._under_way.get(uid)
        return 0 if known is None else known[0]

    # --- objects ------------------------------------------------------------------------------------------------------

    def handler(self, number: int) -> "ObjectTap":
        """What an informer tells first; `number`: of its kind in this recording."""
        return ObjectTap(self, number)

    # --- decisions ----------------------------------------------------------------------------------------------------

    @hears(StepBegan)
    def step_began(self, _event: StepBegan) -> None:
        """The clock is read once for all of it."""
        self._step()

    @hears(PodDecided)
    def decided(self, event: PodDecided) -> None:
        """Keep it with what was said in the step."""
        queued, attempt = event.queued, event.attempt
        outputs = self._take_outputs() if self._outputs else ()
        self._decisions += 1
        pod, number, how, node = queued.pod.pod, 0, 0, ""
        if attempt is not None:
            number = self._attempts = self._attempts + 1
            self._under_way[pod.metadata.uid] = number, attempt
            node = attempt.node_name
            how = _ON_NODE if node else _AWAITED
        elif not outputs:
            how = _IN_LINE
        entry = _DECIDED, number, pod.key, queued.attempts, how, node, outputs
        self._decided.append(entry)
        self.keep(entry)
        if self._tried_seconds:
            self._keep_tried()

    @hears(GroupAwaitsExtenders)
    def group_waits(self, event: GroupAwaitsExtenders) -> None:
        """Keep it; no segment begins before the group is decided about."""
        self._queried.add(event.name)
        self.keep((Op.GROUP_WAITS, event.name))
        if self._tried_seconds:
            self._keep_tried()

    @hears(GroupExtendersQueried)
    def group_answered(self, event: GroupExtendersQueried) -> None:
        """Keep it; hashed names would change what comes of it."""
        if event.name not in self._queried or self.redaction.is_on:
            self.repaired(StateRepaired("extenders have answered about a pod group"))
        else:
            self.keep((Op.ANSWERED, event.name, pack_answers(event.answers)))

    @hears(GroupDecided)
    def decided_group(self, event: GroupDecided) -> None:
        """Keep the whole group."""
        self._queried.discard(event.name)
        self._decisions += 1
        self._keep_awaited()
        placed = [(self._number(each), each.queued.key, each.node_name) for each in event.attempts]
        self._keep_outcome((Op.GROUP, event.name, placed, self._take_outputs()))

    def _keep_awaited(self) -> None:
        """No object shows that a kind is not served, or not listed yet, and groups are decided by it."""
        awaited = self._awaited if self._state is None else self._state.awaited()
        if awaited != self._awaited:
            self._awaited = awaited
            self.keep((Op.AWAITED, awaited))

    @hears(PodDecidedLater)
    def decided_later(self, event: PodDecidedLater) -> None:
        """Keep it; without a node the attempt is over."""
        attempt, has_node = event.attempt, event.has_node
        self._decisions += 1
        uid = attempt.queued.pod.uid
        number = self._number_of(uid) if has_node else self._end(uid)
        outputs, node = self._take_outputs(), attempt.node_name if has_node else ""
        self._keep_outcome((Op.LATER, number, attempt.queued.key, has_node, node, outputs))
        if has_node and not (reserved := reserved_by(attempt)).is_empty:
            whole = self.objects.whole
            claims = [(claim_uid, whole(claim)) for claim_uid, claim in reserved.claims]
            bindings = [(whole(volume), whole(claim)) for volume, claim in reserved.bindings]
            self.keep((Op.RESERVED, number, claims, bindings, list(map(whole, reserved.provisions))))

    @hears(CostlyCycle)
    def costly_tried(self, event: CostlyCycle) -> None:
        """Note it for after the step under way: the queue knew nothing of it when it gave the pod."""
        self._tried_seconds += event.seconds

    def _keep_tried(self) -> None:
        seconds, self._tried_seconds = self._tried_seconds, 0.0
        self.keep((Op.COSTLY, seconds))

    @hears(PodNotScheduled)
    def failed(self, event: PodNotScheduled) -> None:
        """Note it for the step under way."""
        self._outputs.append(failed_output(event.queued, event.failure))

    @hears(PodLetGo)
    def let_go(self, event: PodLetGo) -> None:
        """Note it for the step under way."""
        self._outputs.append((Output.LET_GO, event.queued.key))

    @hears(PodSkipped)
    def skipped(self, event: PodSkipped) -> None:
        """Note it for the step under way."""
        self._outputs.append((Output.LET_GO, event.queued.key))

    @hears(PreemptionChosen)
    def preempting(self, event: PreemptionChosen) -> None:
        """Note it for the step under way."""
        self._outputs.append(preempts_output(event.preemption))

    @hears(PodAwaitsOthersVictims)
    def continues_in_background(self, event: PodAwaitsOthersVictims) -> None:
        """Note it for the step under way."""
        self._outputs.append((Output.CONTINUES_IN_BACKGROUND, event.pod.key, event.node_name))

    # --- after the decision -------------------------------------------------------------------------------------------

    @hears(PodLeftQueue)
    def leaves_queue(self, event: PodLeftQueue) -> None:
        known = self._under_way.get(event.uid)
        self._note((_LEAVES, 0 if known is None else known[0]))

    @hears(AttemptCompleted)
    def bound(self, event: AttemptCompleted) -> None:
        """Keep it; the attempt is over."""
        ended = self._under_way.pop(event.queued.pod.pod.metadata.uid, None)
        self._note((_BOUND, 0 if ended is None else ended[0]))

    @hears(ReservationReleased)
    def abandoned(self, event: ReservationReleased) -> None:
        """Keep it; the attempt is over."""
        status = event.status
        number, outputs = self._end(event.queued.pod.uid), self._take_outputs()
        status_fields = int(status.code), status.reasons, status.plugin, status.fault.value
        self._keep_outcome((Op.ABANDONED, number, *status_fields, outputs))

    @hears(UndecidedGivenUp)
    def given_up(self, event: UndecidedGivenUp) -> None:
        """Keep it; the attempt is over."""
        number, text = self._end(event.queued.pod.uid), f"{type(event.failure).__name__}: {event.failure}"
        self._keep_outcome((Op.GIVEN_UP, number, text, self._take_outputs()))

    @hears(PermitReleased)
    def released(self, event: PermitReleased) -> None:
        self.keep((Op.RELEASED, event.uid))

    # --- the queue ----------------------------------------------------------------------------------------------------

    @hears(BackoffFlushed)
    def flushed_backoff(self, _event: BackoffFlushed) -> None:
        self.keep((Op.BACKOFF,))

    @hears(UnschedulableFlushed)
    def flushed_unschedulable(self, _event: UnschedulableFlushed) -> None:
        self.keep((Op.NET,))

    @hears(SchedulingBegan)
    def began(self, _event: SchedulingBegan) -> None:
        self.keep((Op.BEGAN,))

    # --- in the background -----------------------------------------------------------------------------------------

    @hears(EvictionStepTaken)
    def evicting(self, event: EvictionStepTaken) -> None:
        """A step of its own."""
        self._step()
        self.keep((Op.EVICTION, event.number, int(event.step), event.subject, tuple(event.keys)))

    @hears(ConfigurationApplied)
    def applied(self, event: ConfigurationApplied) -> None:
        """Keep the configuration that decides from now on."""
        assert self._state is not None  # noqa: S101  # it has been started
        described = self._state.describe(event.config)
        settings = self.redaction.settings(described() if callable(described) else described)
        self.keep((Op.APPLIED, settings, tuple(event.quarantined)))

    @hears(NodesTouched)
    def touched(self, event: NodesTouched) -> None:
        """Keep the nodes."""
        self.keep((Op.TOUCHED, tuple(event.node_names), event.plugin))

    @hears(ClaimAssumed)
    def assumed_claim(self, event: ClaimAssumed) -> None:
        """A step of its own."""
        self._step()
        self.keep((Op.CLAIM, self.objects.whole(event.claim)))

    @hears(ClaimStaysPending)
    def stays_pending(self, event: ClaimStaysPending) -> None:
        """Keep it before the step that it is in."""
        self.keep((Op.STAYS_PENDING, event.claim_uid))

    @hears(ClaimNoLongerPending)
    def no_longer_pending(self, event: ClaimNoLongerPending) -> None:
        """A step of its own."""
        self._step()
        self.keep((Op.NOT_PENDING, event.claim_uid, event.force))

    @hears(StateRepaired)
    def repaired(self, event: StateRepaired) -> None:
        """Keep it; a segment with a snapshot begins soon."""
        self._is_repaired = True
        self.keep((Op.REPAIRED, event.what))


class ObjectTap:
    """Hears one kind. Implements `informers.informer.ChangeRecorder`."""

    def __init__(self, recorder: FlightRecorder, number: int) -> None:
        self._recorder = recorder
        self._step = recorder.clock.step
        self._redaction = recorder.redaction
        self._hides = recorder.redaction.is_on
        self._number = number

    def added(self, key: str, obj: KubeObject, initial: bool) -> None:
        """A new object, which has its key in it."""
        del key
        recorder = self._recorder
        self._step()
        try:
            packed = recorder.objects.whole(obj)
        except Exception as problem:  # noqa: BLE001  a bug here must not reach who decides
            recorder.cannot_pack(problem)
        else:
            recorder.keep((_OBJECT, self._number, _LISTED if initial else _ADDED, "", packed))

    def updated(self, key: str, old: KubeObject, new: KubeObject) -> None:
        """It has changed."""
        recorder = self._recorder
        self._step()
        try:
            packed = recorder.objects.update(old, new)
        except Exception as problem:  # noqa: BLE001  as above
            recorder.cannot_pack(problem)
        else:
            recorder.keep((_OBJECT, self._number, _UPDATED, self._redaction.key(new) if self._hides else key, packed))

    def deleted(self, key: str, obj: KubeObject) -> None:
        """It is gone."""
        self._step()
        self._recorder.keep((_OBJECT, self._number, _DELETED, self._redaction.key(obj) if self._hides else key, ()))


def failed_output(queued: QueuedPodInfo, failure: Failure) -> tuple[Any, ...]:
    """What is recorded of a failure, and compared."""
    plugins, pending = sorted(failure.plugins), sorted(failure.pending)
    text, node = failure.message, failure.nominated_node_name
    return Output.FAILED, queued.key, text, node, plugins, pending, failure.fault.value, failure.is_error


def preempts_output(preemption: Preemption) -> tuple[Any, ...]:
    """What is recorded of a preemption, and compared."""
    return Output.PREEMPTS, preemption.text, preemption.node_name, [victim.key for victim in preemption.victims]


def tap(recorder: FlightRecorder, informers: Informers, kinds: Sequence[Kind]) -> None:
    """Hear all kinds, before anybody else does."""
    for number, kind in enumerate(kinds):
        informers[kind].recorder = recorder.handler(number)
