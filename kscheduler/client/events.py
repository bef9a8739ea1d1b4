"""Kubernetes Events (events.k8s.io/v1): what `kubectl describe pod` tells the user.

The problem: a thousand pods that do not fit would send an Event per attempt, and a slow API server would make them pile
up without bound. The idea: `record` only puts a small value into a bounded queue, drops and counts when it is full, and
never waits or raises; a few workers send; occurrences of the same thing become a series (`event_series`).
Limits: Events are best effort by design; what is queued when the process is killed is lost.
"""

import asyncio
from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from kscheduler.aio import REAL_CLOCK, Backoff, Clock, TokenBucket, finishes_within
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.meta import KubeObject, Value
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.event_series import Series, SeriesBook, SeriesKey
from kscheduler.client.rest import STRATEGIC_MERGE, APIClient
from kscheduler.logs import get_logger

log = get_logger(__name__)

LONGEST_NOTE_BYTES = 1024
_ELLIPSIS = " ..."
_TRIES = 12
_FINISH_EVERY_SECONDS = 60.0


class ObjectReference(Value, frozen=True):
    """The object that an Event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def reference_to(obj: KubeObject, kind: Kind = PODS) -> ObjectReference:
    """A reference to an object of this kind."""
    meta = obj.metadata
    return ObjectReference(
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
    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    reporting_controller: str
    related: ObjectReference | None
    at: float


class _NewEvent(NamedTuple):
    path: str
    body: bytes


class _SeriesPatch(NamedTuple):
    path: str
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
    regarding: ObjectReference
    note: str
    type: str
    related: ObjectReference | None = None


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
        bucket: TokenBucket | None = None,
    ) -> None:
        """`reporting_instance` is `<schedulerName>-<hostname>` in kube-scheduler; `bucket` None does not limit."""
        self._client = client
        self._instance = reporting_instance
        self._clock = clock
        self._queue_size = queue_size
        self._workers = workers
        self._bucket = bucket
        self._queue: deque[_Occurrence | Series] = deque()
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._sending = 0
        self._book = SeriesBook()
        self._sent = self._patched = self._dropped = self._failed = 0

    def record(
        self,
        regarding: Pod | ObjectReference,
        *,
        type: str,  # noqa: A002  # the field's name in the API
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        related: ObjectReference | None = None,
    ) -> None:
        """Queue one occurrence; never waits, never raises. Notes above 1,024 bytes are cut and end in ` ...`."""
        if len(self._queue) >= self._queue_size:
            self._dropped += 1
            return
        reference = regarding if isinstance(regarding, ObjectReference) else reference_to(regarding)
        at = self._clock.time()
        self._put(_Occurrence(reference, type, reason, action, note, reporting_controller, related, at))

    def _put(self, work: _Occurrence | Series) -> None:
        self._queue.append(work)
        self._filled.set()
        self._idle.clear()

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"event worker {number}")
            group.create_task(self._finish_series(), name="event series")

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything queued has been sent, at most so long; whether it was. `run` must be running."""
        return await finishes_within(self._idle.wait(), timeout_seconds, self._clock)

    def statistics(self) -> EventStatistics:
        """A snapshot of the counts."""
        return EventStatistics(
            len(self._queue), self._sent, self._patched, self._dropped, self._failed, len(self._book)
        )

    async def _work(self) -> None:
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            work = self._queue.popleft()
            self._sending += 1
            try:
                await self._handle(work)
            finally:
                self._sending -= 1
                if not self._queue and not self._sending:
                    self._idle.set()

    async def _handle(self, work: _Occurrence | Series) -> None:
        if isinstance(work, Series):
            await self._send(_patch_of(work))
            return
        now = self._clock.monotonic()
        key = _key(work)
        series, due = self._book.seen(key, now, work.at)
        if series is None:
            await self._create(key, work, now)
        elif due:
            series.patched_at = now
            await self._send(_patch_of(series))

    async def _create(self, key: SeriesKey, work: _Occurrence, now: float) -> None:
        namespace = work.regarding.namespace or "default"
        name = f"{work.regarding.name}.{int(work.at * 1e9):x}"
        self._book.begin(key, Series(namespace, name, 1, now, work.at, now))
        await self._send(_NewEvent(_collection(namespace), event_body(work, namespace, name, self._instance)))

    async def _send(self, work: _NewEvent | _SeriesPatch) -> None:
        """Try up to twelve times; an Event that the server refuses is given up at once."""
        backoff = Backoff(1.0, cap_seconds=10.0, jitter=1.0, clock=self._clock)
        for left in range(_TRIES - 1, -1, -1):
            if self._bucket is not None:
                await self._bucket.take()
            try:
                await self._send_once(work)
            except ClientError as error:
                if _is_settled(work, error):
                    return
                if not left or (isinstance(error, APIError) and not error.is_server_error):
                    self._failed += 1
                    log.warning("event was not recorded", err=error)
                    return
                await self._clock.sleep(backoff.next())
            else:
                return

    async def _send_once(self, work: _NewEvent | _SeriesPatch) -> None:
        if isinstance(work, _NewEvent):
            await self._client.post(work.path, work.body)
            self._sent += 1
            return
        count = work.series.count
        await self._client.patch(work.path, _series_body(work.series), STRATEGIC_MERGE)
        work.series.patched_count = count
        self._patched += 1

    async def _finish_series(self) -> None:
        while True:
            await self._clock.sleep(_FINISH_EVERY_SECONDS)
            for series in self._book.finish(self._clock.monotonic()):
                if len(self._queue) < self._queue_size:
                    self._put(series)


def _is_settled(work: _NewEvent | _SeriesPatch, error: ClientError) -> bool:
    """An Event that exists already was created by a try whose answer was lost; one that has expired begins anew."""
    if not isinstance(error, APIError):
        return False
    if isinstance(work, _SeriesPatch) and error.is_not_found:
        work.series.end()
        return True
    return error.is_already_exists


def _key(work: _Occurrence) -> SeriesKey:
    regarding = work.regarding
    identity = regarding.uid or f"{regarding.kind}/{regarding.namespace}/{regarding.name}"
    return identity, work.type, work.reason, work.action, work.reporting_controller


def _collection(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def _patch_of(series: Series) -> _SeriesPatch:
    return _SeriesPatch(f"{_collection(series.namespace)}/{series.name}", series)


def _series_body(series: Series) -> bytes:
    return _encode({"series": _EventSeries(series.count, micro_time(series.last_seen_at))})


def event_body(work: _Occurrence, namespace: str, name: str, instance: str) -> bytes:
    """The Event as the API wants it."""
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
            note=truncated(work.note),
            type=work.type,
            related=work.related,
        )
    )


def truncated(note: str) -> str:
    """The note in at most 1,024 bytes of UTF-8; a longer one is cut between characters and ends in ` ...`."""
    raw = note.encode(errors="replace")
    if len(raw) <= LONGEST_NOTE_BYTES:
        return raw.decode()
    return raw[: LONGEST_NOTE_BYTES - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def micro_time(wall_seconds: float) -> str:
    """RFC 3339 with microseconds, as `MicroTime` is written."""
    return datetime.fromtimestamp(wall_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
