"""Kubernetes Events (events.k8s.io/v1), which `kubectl describe pod` shows.

The problem: a thousand pods that do not fit would send an Event per attempt, and a slow API server would make them pile
up without bound. The idea: repetitions are only counted (`series`); `record` puts new Events into a bounded
queue, drops and counts them when it is full, and never waits or raises; a few workers send. Normal Events (a pod was
bound) go first; warnings come in floods and are limited to `WARNINGS_PER_SECOND`. An Event costs the API server as much
as a Binding: while binds keep the API server busy, few Events are sent at a time, more as the queue fills.
An Event that hangs, or waits for its retry, holds none of the few places (`aio.shared_slots`): another worker takes
over, and the other Events of its namespace wait in a line of their own. What is more than its share of a quarter of the
queue is dropped.
Limits: Events are best effort by design; queued ones are lost when the process is killed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from kscheduler.aio import REAL_CLOCK, Backoff, Clock, TokenBucket, finishes_within
from kscheduler.aio.shared_slots import SharedSlots
from kscheduler.aio.tasks import TaskSet, until_cancelled
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.meta import KubeObject, Value
from kscheduler.api.names import event_name
from kscheduler.client.errors import APIError, ClientError, NetworkError
from kscheduler.client.events.series import Series, SeriesBook, SeriesKey
from kscheduler.client.events.work_queue import WorkQueueCounts, WorkQueueStatistics
from kscheduler.client.rest import STRATEGIC_MERGE, APIClient
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.logs.clean import one_line
from kscheduler.telemetry.logs.storms import Throttle

log = get_logger(__name__)

LONGEST_NOTE_BYTES = 1024
WARNINGS_PER_SECOND = 100.0
# kube-scheduler sends 50 Events of any kind a second, 100 at once.
WARNINGS_AT_ONCE = 1000
# Events sent at a time even while the binds are busy; two, since one may be waiting for its retry.
WORKERS_BESIDE_BINDS = 2
_ELLIPSIS = " ..."
_LONGEST_NOTE = 4096
_TRIES = 12
_FINISH_EVERY_SECONDS = 60.0
_SECONDS_BETWEEN_COMPLAINTS = 60.0


class EventReference(Value, frozen=True):
    """The object that an Event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def reference_to(obj: KubeObject, kind: Kind = PODS) -> EventReference:
    """A reference to an object of this kind."""
    meta = obj.metadata
    return EventReference(
        api_version=kind.group_version,
        kind=kind.name,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


class EventStatistics(NamedTuple):
    """Counts since the start; `queued` and `series` are now."""

    queued: int
    sent: int
    patched: int
    dropped: int
    failed: int
    series: int


class _Occurrence(NamedTuple):
    regarding: EventReference
    type: str
    reason: str
    action: str
    note: str
    reporting_controller: str
    related: EventReference | None
    at: float


class _NewEvent(NamedTuple):
    occurrence: _Occurrence
    series: Series


class _EventMetadata(msgspec.Struct):
    name: str
    namespace: str


class _EventSeries(msgspec.Struct, rename="camel"):
    count: int
    last_observed_time: str


class _Event(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    api_version: str
    kind: str
    metadata: _EventMetadata
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: EventReference
    note: str
    type: str
    related: EventReference | None = None


_encode = msgspec.json.Encoder().encode


class EventRecorder:
    """Records Events; `run` sends them. One recorder serves all profiles."""

    def __init__(
        self,
        client: APIClient,
        *,
        reporting_instance: str,
        clock: Clock = REAL_CLOCK,
        queue_size: int = 1000,
        workers: int = 8,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`reporting_instance`: `<schedulerName>-<hostname>` in kube-scheduler. `is_busy`: binds use all capacity."""
        self._client = client
        self._instance = reporting_instance
        self._clock = clock
        self._queue_size = queue_size
        self._workers = workers
        self._is_busy = is_busy
        self._normal: deque[_NewEvent] = deque()
        self._others: deque[_NewEvent | Series] = deque()
        self._bucket = TokenBucket(WARNINGS_PER_SECOND, WARNINGS_AT_ONCE, clock)
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.work_slots = SharedSlots(self, clock, _namespace_of, on_capacity=self._on_capacity, turns=workers)
        """Of Events in flight, by namespace."""
        self._lined = TaskSet("event in line", clock)
        """Events of namespaces whose Events hang."""
        self._in_line: Counter[str] = Counter()
        """Of those, how many there are, by namespace."""
        self._with_worker: set[int] = set()
        """Events that a worker waits for, by identity."""
        self._extra = TaskSet("event worker", clock)
        """Workers that stand in for others whose Event hangs."""
        self._sending = 0
        """Events in flight that hold a place."""
        self._idle_workers = self._stuck = 0
        """Workers without work; workers whose Event has given its place back."""
        self._unsent = 0
        """Events that have left the queue and are not sent."""
        self._last_nanoseconds = 0
        self._book = SeriesBook()
        self._sent = self._patched = self._dropped = self._failed = 0
        self._complaints = Throttle(_SECONDS_BETWEEN_COMPLAINTS)
        self._counts = WorkQueueCounts("events")

    def report_as(self, reporting_instance: str) -> None:
        """Send Events under another name from now on."""
        self._instance = reporting_instance

    def record(
        self,
        regarding: Pod | EventReference,
        *,
        type: str,  # noqa: A002  # the field's name in the API
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        related: EventReference | None = None,
    ) -> None:
        """Record an occurrence; never waits, never raises. Notes above 1,024 bytes are cut and end in ` ...`.

        A repetition is counted in its series and takes no place in the queue.
        """
        at, now = self._clock.time(), self._clock.monotonic()
        identities = _identity(regarding), _identity(related)
        key = *identities, type, reason, action, reporting_controller, hash(note)
        series, is_due = self._book.seen(key, now, at)
        if series is None:
            reference = regarding if isinstance(regarding, EventReference) else reference_to(regarding)
            kept = note[:_LONGEST_NOTE]  # ten thousand may wait, each with a text about an object of a megabyte
            self._begin(key, _Occurrence(reference, type, reason, action, kept, reporting_controller, related, at), now)
        elif is_due and series.is_recorded:
            self._put_series(series)

    def _begin(self, key: SeriesKey, work: _Occurrence, now: float) -> None:
        """Queue a new Event. Warnings come in floods and leave a fifth of the queue to normal Events."""
        is_normal = work.type == "Normal"
        if self._queued >= (self._queue_size if is_normal else self._queue_size * 4 // 5):
            self._dropped += 1
            return
        self._last_nanoseconds = max(int(work.at * 1e9), self._last_nanoseconds + 1)
        name = event_name(work.regarding.name, self._last_nanoseconds)
        series = Series(work.regarding.namespace or "default", name, 1, now, work.at, now, is_recorded=False)
        forgotten = self._book.begin(key, series)
        (self._normal if is_normal else self._others).append(_NewEvent(work, series))
        self._counts.adds += 1
        self._wake()
        if forgotten is not None and forgotten.is_recorded:
            self._put_series(forgotten)

    def _put_series(self, series: Series) -> None:
        """Queue a patch with the newest count, if there is room; otherwise the end of the series sends it."""
        if not series.is_queued and self._queued < self._queue_size:
            series.is_queued = True
            self._others.append(series)
            self._counts.adds += 1
            self._wake()

    def _wake(self) -> None:
        self._idle.clear()
        self._staff()

    def _at_a_time(self) -> int:
        """How many Events may be in flight now."""
        if not self._is_busy():
            return self._workers
        by_fullness = self._workers * self._queued // self._queue_size
        return min(self._workers, max(WORKERS_BESIDE_BINDS, by_fullness))

    @property
    def _queued(self) -> int:
        return len(self._normal) + len(self._others)

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    name = f"event worker {number}"
                    group.create_task(until_cancelled(name, self._work()), name=name)
                group.create_task(self._finish_series(), name="event series")
        finally:
            await self._lined.cancel_all()
            await self._extra.cancel_all()

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until the queue is empty, for at most `timeout_seconds`; whether it is. `run` must be running."""
        return await finishes_within(self._idle.wait(), timeout_seconds, self._clock)

    def statistics(self) -> EventStatistics:
        """A snapshot of the counts."""
        return EventStatistics(self._queued, self._sent, self._patched, self._dropped, self._failed, len(self._book))

    def work_queue(self) -> WorkQueueStatistics:
        """The same queue, counted as client-go counts its work queues."""
        return self._counts.statistics(self._queued, self._clock.monotonic())

    async def _work(self, *, is_extra: bool = False) -> None:
        while True:
            while not self._queued or not self.has_room():
                if is_extra:
                    return
                if self._queued:
                    self.work_slots.expect_late()
                self._filled.clear()
                self._idle_workers += 1
                try:
                    await self._filled.wait()
                finally:
                    self._idle_workers -= 1
            self.begin()
            if self._queued > 1:
                self._staff()  # the binds have eased off
            try:
                work = await self._next()
            finally:
                self.end(0)  # its namespace decides whether it keeps the place
            if work is not None:
                await self._send_or_line_up(work)
            self._note_idle()
            if is_extra and self._idle_workers:
                return

    async def _next(self) -> _NewEvent | Series | None:
        """The first normal Event at once; otherwise wait for the warnings' rate, then the first in line."""
        if not self._normal:
            await self._bucket.take()
        queue = self._normal or self._others
        if not queue:
            return None
        self._unsent += 1
        return queue.popleft()

    async def _send_or_line_up(self, work: _NewEvent | Series) -> None:
        if self.work_slots.begin_now(work) and self.work_slots.holds(work):
            self._with_worker.add(id(work))
            self._staff()
            try:
                await self._send(work)
            finally:
                # If it has given its place back, `_on_capacity` has counted its worker as stuck.
                if id(work) in self._with_worker:
                    self._with_worker.discard(id(work))
                else:
                    self._stuck -= 1
        elif self.work_slots.has_begun(work) or self._may_line_up(_namespace_of(work)):
            self._in_line[_namespace_of(work)] += 1
            self._lined.spawn(_series_of(work).name, self._send_in_turn(work))
        else:
            self._unsent -= 1
            self._dropped += 1
            _series_of(work).end()

    def _may_line_up(self, namespace: str) -> bool:
        """Whether another Event of this namespace may wait beside the queue. Each has its share of a quarter of the
        queue, so that the Events of one never drop those of another.
        """
        share = max(self._workers, self._queue_size // 4 // max(1, len(self.work_slots.slow)))
        return self._in_line[namespace] < share

    async def _send_in_turn(self, work: _NewEvent | Series) -> None:
        """Send an Event of a namespace whose Events hang, in the background."""
        namespace = _namespace_of(work)
        try:
            if not self.work_slots.has_begun(work):
                await self.work_slots.begin(work)
            await self._send(work)
        finally:
            self._in_line[namespace] -= 1
            if not self._in_line[namespace]:
                del self._in_line[namespace]
        self._note_idle()

    async def _send(self, work: _NewEvent | Series) -> None:
        """Send an Event that has begun in `places`."""
        # A series was queued when it was last seen.
        since = work.last_seen_at if isinstance(work, Series) else work.occurrence.at
        number = self._counts.begin(self._clock.time() - since, self._clock.monotonic())
        try:
            await (self._patch(work, work) if isinstance(work, Series) else self._create(work))
        except Exception:  # one bad Event must not end the service, and the scheduler with it
            self._failed += 1
            count_caught(Boundary.EVENT_RECORDER)
            log.exception("event_not_recorded")
        finally:
            self._counts.end(number, self._clock.monotonic())
            self._unsent -= 1
            self.work_slots.end(work)

    def _on_capacity(self, work: _NewEvent | Series) -> None:
        """An Event that hangs has given its place back; its worker, if it has one, goes on waiting for it."""
        if id(work) in self._with_worker:
            self._with_worker.discard(id(work))
            self._stuck += 1
        self._staff()

    def _staff(self) -> None:
        """See to it that somebody sends what is queued, if there is room: wake a worker, or let another stand in."""
        if not self._queued:
            return
        if not self.has_room():
            self.work_slots.expect_late()
            return
        if self._idle_workers:
            self._filled.set()
        elif self._stuck > self._extra.statistics().running:
            self._extra.spawn("stands in", self._work(is_extra=True))

    def _note_idle(self) -> None:
        if not self._queued and not self._unsent:
            self._idle.set()

    # --- the room of `places`: how many Events may be in flight depends on the binds

    def has_room(self) -> bool:
        """Whether another Event may be in flight."""
        return self._sending < self._at_a_time()

    def begin(self) -> int:
        """One more is in flight."""
        self._sending += 1
        return 0

    def end(self, _period: int) -> None:
        self._sending -= 1

    def count(self) -> int:
        """How many Events may be in flight."""
        return self._at_a_time()

    async def _create(self, work: _NewEvent) -> None:
        series = work.series
        body = event_body(work.occurrence, series.namespace, series.name, self._instance)
        series.is_recorded = await self._insist(work, lambda: self._post(series, body))
        if not series.is_recorded:
            series.end()
        elif series.is_behind:  # it happened again while the Event was being created
            await self._patch(series, work)

    async def _patch(self, series: Series, work: _NewEvent | Series) -> None:
        series.is_queued = False
        series.patched_at = self._clock.monotonic()
        if not await self._insist(work, lambda: self._patch_once(series)):
            series.end()

    async def _post(self, series: Series, body: bytes) -> None:
        try:
            collection = _collection(series.namespace)
            await self._client.post(collection, body, joins=collection)
        except APIError as error:
            if not error.is_already_exists:  # otherwise an earlier try, whose answer was lost, has created it
                raise
        else:
            self._sent += 1

    async def _patch_once(self, series: Series) -> None:
        count = series.count
        await self._client.patch(
            f"{_collection(series.namespace)}/{series.name}", _series_body(series), STRATEGIC_MERGE
        )
        series.patched_count = count
        self._patched += 1

    async def _insist(self, work: _NewEvent | Series, send: Callable[[], Awaitable[None]]) -> bool:
        """Try up to twelve times while a retry can help; whether it worked. An expired Event (404) is not a failure."""
        backoff: Backoff | None = None
        for left in range(_TRIES - 1, -1, -1):
            try:
                await send()
            except ClientError as error:
                if left and _may_pass(error):
                    self._counts.retries += 1
                    if not isinstance(error, NetworkError):  # nobody is reached then, and no place is needed
                        self.work_slots.give_back(work)
                    backoff = backoff or Backoff(1.0, cap_seconds=10.0, jitter=1.0, clock=self._clock)
                    await self._clock.sleep(backoff.next())
                    continue
                if not (isinstance(error, APIError) and error.is_not_found):
                    self._failed += 1
                    self._complain(error)
                return False
            return True
        return False

    def _complain(self, error: ClientError) -> None:
        """Warn once a minute, since the next Events will fail too. `reachability` reports an unreachable server."""
        if isinstance(error, NetworkError):
            log.debug("event_not_recorded", err=error)
            return
        if self._complaints.admits(self._clock.monotonic()):
            log.warning("event_not_recorded", err=error, failed=self._failed)

    async def _finish_series(self) -> None:
        while True:
            await self._clock.sleep(_FINISH_EVERY_SECONDS)
            for series in self._book.finish(self._clock.monotonic()):
                if series.is_recorded:
                    self._put_series(series)
            if self._queued:
                self._wake()  # the binds may have eased off while Events in flight were waiting


def _series_of(work: _NewEvent | Series) -> Series:
    return work if isinstance(work, Series) else work.series


def _namespace_of(work: _NewEvent | Series) -> str:
    return _series_of(work).namespace


def _may_pass(error: ClientError) -> bool:
    """Whether the same Event may be accepted later."""
    return not isinstance(error, APIError) or error.is_server_error or error.is_too_many_requests


def _identity(obj: Pod | EventReference | None) -> str:
    if obj is None:
        return ""
    if isinstance(obj, EventReference):
        return obj.uid or f"{obj.kind}/{obj.namespace}/{obj.name}"
    return obj.metadata.uid or f"{PODS.name}/{obj.key}"


def _collection(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def _series_body(series: Series) -> bytes:
    return _encode({"series": _EventSeries(series.count, micro_time(series.last_seen_at))})


def event_body(work: _Occurrence, namespace: str, name: str, instance: str) -> bytes:
    """The Event as the API expects it."""
    return _encode(
        _Event(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=_EventMetadata(name, namespace),
            event_time=micro_time(work.at),
            reporting_controller=work.reporting_controller,
            reporting_instance=instance,
            action=work.action,
            reason=work.reason,
            regarding=work.regarding,
            note=truncated(one_line(work.note)),
            type=work.type,
            related=work.related,
        )
    )


def truncated(note: str) -> str:
    """The note in at most 1,024 bytes of UTF-8; a longer note is cut between characters and ends in ` ...`."""
    raw = note.encode(errors="replace")
    if len(raw) <= LONGEST_NOTE_BYTES:
        return raw.decode()
    return raw[: LONGEST_NOTE_BYTES - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def micro_time(wall_seconds: float) -> str:
    """RFC 3339 with microseconds, as `MicroTime` is written."""
    seconds, microseconds = divmod(round(wall_seconds * 1e6), 1_000_000)
    return f"{_second(seconds)}.{microseconds:06}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Cached: hundreds of Events share a second, and formatting it costs more than the rest of an Event."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
