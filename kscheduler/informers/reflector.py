"""The I/O of one informer: sends the requests that `Progress` chooses and applies the answers.

A watch that brings nothing for 45 s may be dead, though its connection is open (a proxy that has forgotten it): it is
opened again at the last version seen, without a list, and nobody is alarmed, since it may as well be quiet (`Progress`
says how a quiet one is kept alive). A peer that is gone is noticed after 30 s, by TCP. Failures back off: 0.8 s
doubling to 15 s, with jitter up to twice that, at least Retry-After; a watch that was open for five seconds begins the
series again. While a server refuses connections, a probe each second checks whether it is back. So the first try after
a fault comes within `LONGEST_WAIT_SECONDS`, however long the fault or the Retry-After was: a pod that was made
meanwhile is bound within a minute.

A list is bounded in time, silence, bytes and pages, as whatever answers may never end it.

A list at an older version than the last one seen shows that the API server's store went back in time: etcd was restored
from a backup, or this is another server. Watches of other kinds may have been opened at versions that the new history
has used again, and then show nothing of what differs; so all kinds are listed again (`InformerFactory`).
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from kscheduler.aio import REAL_CLOCK, Backoff, Clock, Slicer
from kscheduler.api.codec import UndecodableError
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.client.errors import APIError, ClientError, LineTooLongError, NetworkError, StalledError
from kscheduler.client.lists import ListDecoder, collector_paused
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import Bookmark, Decoded, Garbled, Undecodable, WatchDecoder, WatchError, WatchEvent
from kscheduler.informers.informer import Informer
from kscheduler.informers.progress import ListOrWatch, NextStep, Progress, RequestKind, error_of
from kscheduler.telemetry.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T", bound=KubeObject)

# Leaves time, within a minute, to open the watch again and to bind what was made when it fell silent.
INACTIVITY_SECONDS = 45.0
# After a watch that was open for so long the next failure is the first one again.
WORKED_SECONDS = 5.0
# For one page, or for a list that the watch cache sends in one piece.
_LIST_SECONDS = 120.0
# A page of which nothing more comes for this long is asked for again.
_LIST_SILENCE_SECONDS = 30.0
# Of a list in one piece: 300,000 large pods.
_LARGEST_PAGE_BYTES = 2 * 1024**3
# For all pages of a list.
_PAGES_SECONDS = 600.0
# Pages in a row without an object; each says that there is more. A selector may leave some pages empty.
_MAX_EMPTY_PAGES = 20
# A larger page is decoded in slices; one of this size takes a few milliseconds.
_LARGE_PAGE_BYTES = 2 * 1024 * 1024
_SLICE_ITEMS = 200
_PROBE_SECONDS = 1.0
_BACKOFF_CAP_SECONDS = 15.0
_FORBIDDEN_CAP_SECONDS = 30.0
# Replicas that were refused together should not come back together; never earlier than they were asked to.
_RETRY_AFTER_JITTER = 0.2
# Lists that follow watches within this time come later each time: two a minute of a kind at most, in the long run.
_RARE_LISTS_SECONDS = 60.0
# Between two tries: twice the cap, or the longest Retry-After or pause after a 403, with their jitter.
LONGEST_WAIT_SECONDS = 36.0


def is_older(version: str, than: str) -> bool:
    """Whether a version is older than another one of the same kind: numbers that grow (promised since 1.35)."""
    return version.isdecimal() and than.isdecimal() and (len(version), version) < (len(than), than)


def _do_nothing(_kind: Kind, _before: str, _now: str) -> None:
    """No other kind has to be listed."""


class AbsentError(Exception):
    """The API server answers 404 or 403: it may not have this resource, which discovery can tell.

    403 of what was never listed, too: rights are judged first, and a role that knows of no such kind grants none to it.
    """


@dataclass(slots=True)
class _Initial(Generic[T]):
    """The initial events of a WatchList, which are applied once they are complete."""

    objects: dict[str, T] = field(default_factory=dict)
    """By UID (nothing is read without one): a million keys would be made for this alone, and leave holes in memory."""
    unreadable: dict[str, Undecodable] = field(default_factory=dict)
    """By key; those without a name share a place. What was read of one before is in `objects`, out of date."""

    def take(self, obj: T) -> None:
        """Add an object that came before the bookmark that ends the list."""
        self.objects.pop(obj.metadata.uid, None)
        self.objects[obj.metadata.uid] = obj
        if self.unreadable:
            self.unreadable.pop(obj.key, None)

    def deleted(self, last: T) -> None:
        """Remove an object that is gone again."""
        self.objects.pop(last.metadata.uid, None)
        self.unreadable.pop(last.key, None)

    def take_unreadable(self, bad: Undecodable) -> None:
        """Add an object that cannot be read, or remove it."""
        self.unreadable.pop(bad.key, None)
        self.objects.pop(bad.uid, None)
        if bad.type != "DELETED":
            self.unreadable[bad.key] = bad

    def readable(self) -> list[T]:
        """The objects whose last state could be read."""
        if not self.unreadable:
            return [*self.objects.values()]
        return [obj for obj in self.objects.values() if obj.key not in self.unreadable]


@dataclass(slots=True)
class _Watch(Generic[T]):
    """A stream from its opening to its end."""

    began: float
    initial: _Initial[T] | None
    """The initial events, until they are complete."""
    is_open: bool = False
    """Whether the request was answered."""


class Reflector(Generic[T]):
    """Keeps one informer up to date."""

    def __init__(
        self,
        client: APIClient,
        informer: Informer[T],
        *,
        clock: Clock = REAL_CLOCK,
        rng: random.Random | None = None,
        consistent: bool = True,
        watch_list: bool = True,
        inactivity_seconds: float = INACTIVITY_SECONDS,
        on_older_store: Callable[[Kind, str, str], None] = _do_nothing,
    ) -> None:
        """`consistent` and `watch_list` as in `Progress`; the generator spreads delays and timeouts.

        `on_older_store` gets the kind, the last version seen and the older one of the list.
        """
        rng = rng or random.Random()  # noqa: S311  # spreads load, protects nothing
        kind = informer.kind
        self.progress = Progress(rng, field_selector=kind.field_selector, consistent=consistent, watch_list=watch_list)
        self._client = client
        self._informer = informer
        self._path = kind.path
        self._clock = clock
        self._inactivity = inactivity_seconds
        self._decoder: WatchDecoder[T] = WatchDecoder(kind)
        self._lists: ListDecoder[T] = ListDecoder(kind, is_watched=True)
        self._rng = rng
        self._backoff = Backoff(
            0.8, cap_seconds=_BACKOFF_CAP_SECONDS, jitter=1.0, rng=rng, reset_after_seconds=120.0, clock=clock
        )
        self._forbidden = Backoff(1.0, cap_seconds=_FORBIDDEN_CAP_SECONDS, jitter=0.2, rng=rng, clock=clock)
        self._listing_again = Backoff(
            0.8,
            cap_seconds=_BACKOFF_CAP_SECONDS,
            jitter=1.0,
            rng=rng,
            reset_after_seconds=_RARE_LISTS_SECONDS,
            clock=clock,
        )
        """After a watch that leads to a list. One that works for a while, again and again, does not reset it."""
        self._watching: asyncio.Timeout | None = None
        self._is_listing = False
        self._relist_reason = ""
        self._on_older_store = on_older_store

    async def run(self) -> None:
        """List and watch until cancelled. Raises `AbsentError` after a 404 or 403 and its delay; may be run again."""
        while True:
            verdict = await self.step()
            if verdict.back_off:
                await self._wait(verdict)
            if verdict.reason == "not found" or (verdict.reason == "forbidden" and not self._informer.has_synced):
                raise AbsentError(verdict.detail)

    async def step(self) -> NextStep:
        """Make one request; returns what its outcome means."""
        request = self.progress.next_request()
        if request.want is RequestKind.LIST:
            self._is_listing = True
            try:
                verdict = await self._list(request)
            finally:
                self._is_listing = False
        else:
            verdict = await self._watch_until_relist(request)
            restarts = self._informer.restarts
            restarts[verdict.reason] = restarts.get(verdict.reason, 0) + 1
        self._note(verdict)
        return verdict

    def relist(self, reason: str) -> None:
        """End the watch and list again, consistently; nothing to do while a list is already in progress."""
        if self._watching is None:
            if not self._is_listing and self._informer.has_synced:
                self.progress.list_again(reason)  # in a pause between two requests
        elif not self._watching.expired():
            self._relist_reason = reason
            self._watching.reschedule(asyncio.get_running_loop().time())

    # --- list ---------------------------------------------------------------------------------------------------------

    async def _list(self, request: ListOrWatch) -> NextStep:
        params, objects, unreadable = request.params, list[T](), list[Undecodable]()
        tokens, empty_pages, began = set[str](), 0, self._clock.monotonic()
        while True:
            known = len(objects) + len(unreadable)
            try:
                body = await self._client.get(
                    self._path,
                    params,
                    retries=0,
                    timeout_seconds=_LIST_SECONDS,
                    silence_seconds=_LIST_SILENCE_SECONDS,
                    largest_bytes=_LARGEST_PAGE_BYTES,
                )
                version, token = await self._read_page(body, objects, unreadable)
            except ClientError as error:
                return self.progress.page_failed(error) if tokens else self.progress.list_failed(error)
            except UndecodableError as error:
                return self.progress.garbled(str(error))
            if not token:
                break
            empty_pages = 0 if len(objects) + len(unreadable) > known else empty_pages + 1
            if token in tokens or empty_pages > _MAX_EMPTY_PAGES:
                return self.progress.garbled("the list does not end: its pages lead back to a page that was read")
            if self._clock.monotonic() - began > _PAGES_SECONDS:
                return self.progress.garbled(f"the list does not end: {len(tokens)} pages in {_PAGES_SECONDS:.0f} s")
            tokens.add(token)
            params = self.progress.page_params(token)
        await self._replace(objects, unreadable, version)
        return NextStep("listed")

    async def _read_page(self, body: bytes, objects: list[T], unreadable: list[Undecodable]) -> tuple[str, str]:
        """Add the page's items; returns its version and continue token."""
        if len(body) <= _LARGE_PAGE_BYTES:
            page = self._lists.decode(body)
            self._take(page.items, objects)
            unreadable += page.undecodable
            return page.resource_version, page.continue_token
        unread = self._lists.split(body)
        for begin in range(0, len(unread.items), _SLICE_ITEMS):
            self._read_slice(unread.items[begin : begin + _SLICE_ITEMS], objects, unreadable)
            await asyncio.sleep(0)
        return unread.resource_version, unread.continue_token

    def _read_slice(self, items: list[msgspec.Raw], objects: list[T], unreadable: list[Undecodable]) -> None:
        with collector_paused():
            good, bad = self._lists.decode_items(items)
        self._take(good, objects)
        unreadable += bad

    def _take(self, page: list[T], objects: list[T]) -> None:
        objects += map(self._informer.prepared, page)

    async def _replace(self, objects: Iterable[T], unreadable: list[Undecodable], version: str) -> None:
        reason, relists = self.progress.list_reason, self._informer.relists
        before = self.progress.resource_version
        await self._informer.replace(objects, unreadable)
        self.progress.listed(version)
        self._informer.resource_version = version
        relists[reason] = relists.get(reason, 0) + 1  # last: who counts lists may take the store for what was listed
        self._informer.heard()
        if is_older(version, before):
            self._on_older_store(self._informer.kind, before, version)

    # --- watch --------------------------------------------------------------------------------------------------------

    async def _watch_until_relist(self, request: ListOrWatch) -> NextStep:
        try:
            async with asyncio.timeout(None) as self._watching:
                return await self._watch(request)
        except TimeoutError:
            if not self._relist_reason:
                raise
            return self.progress.list_again(self._relist_reason)
        finally:
            self._watching, self._relist_reason = None, ""

    async def _watch(self, request: ListOrWatch) -> NextStep:
        initial = _Initial[T]() if request.want is RequestKind.WATCH_LIST else None
        watch = _Watch(self._clock.monotonic(), initial)
        if initial is None:
            self._informer.view.requested()
        try:
            async with self._client.stream(self._path, request.params, inactivity_seconds=self._inactivity) as stream:
                watch.is_open = True
                if initial is None:
                    self._informer.problem = ""  # it is open; the first event may take a minute
                    self._informer.view.opened()
                async for lines in stream:
                    if (verdict := await self._consume(watch, lines)) is not None:
                        return verdict
        except LineTooLongError as error:
            return self.progress.garbled(str(error))  # it would only come again from the same version
        except ClientError as error:
            self._closed(was_silent=isinstance(error, StalledError))
            return self._failed(watch, error)
        except asyncio.CancelledError:
            # We end it, so its end does not say that it was alive. A list that was asked for follows soon.
            self._closed(was_silent=not self._relist_reason)
            raise
        finally:
            self._closed()
        if watch.initial is not None:
            return self._failed(watch, NetworkError("the stream ended before the initial events were complete"))
        verdict = self.progress.watch_ended(self._clock.monotonic() - watch.began)
        if not verdict.back_off:
            self._informer.heard()  # the server has ended it: until then nothing else had happened
        return verdict

    def _closed(self, *, was_silent: bool = False) -> None:
        if self._informer.view.closed(was_silent=was_silent) >= WORKED_SECONDS:
            self._backoff.reset()
            self._forbidden.reset()

    async def _consume(self, watch: _Watch[T], lines: list[bytes]) -> NextStep | None:
        """Apply a chunk of lines, in runs of events and in slices of time; a verdict ends the watch.

        The version goes on with what was applied, never with what was decoded: a watch that is ended in the middle of
        a chunk goes on with the first event that was not applied.
        """
        slicer, done = Slicer(), 0
        while done < len(lines):
            events, other = self._decoder.feed_run(lines, done)
            done += len(events)
            if watch.initial is not None:
                self._collect_run(watch.initial, events)
            elif events:
                await self._apply_run(events, slicer)
            if other is not None:
                done += 1
                verdict = self._apply(watch, other) if watch.initial is None else await self._collect(watch, other)
                if verdict is not None:
                    return verdict
            if slicer.used_up():
                await slicer.turn()
        self._informer.heard()
        self._informer.resource_version = self.progress.resource_version
        return None

    async def _apply_run(self, events: list[WatchEvent[T]], slicer: Slicer) -> None:
        applied = 0
        while applied < len(events):
            if applied:
                await slicer.turn()
            rest = events[applied:] if applied else events
            number = self._informer.apply_run(rest, slicer.ends_at)
            self.progress.saw_run(rest[:number])
            applied += number

    def _apply(self, watch: _Watch[T], event: Decoded[T]) -> NextStep | None:
        """What is no event of a readable object."""
        match event:
            case Bookmark():
                self.progress.saw("BOOKMARK", event.resource_version)
            case Undecodable():
                self._informer.apply_undecodable(event)
                self.progress.saw(event.type, event.resource_version)
            case WatchError():
                return self._failed(watch, error_of(event.status))
            case Garbled():
                return self.progress.garbled(event.error)
        return None

    def _collect_run(self, initial: _Initial[T], events: list[WatchEvent[T]]) -> None:
        """Keep initial events, which are applied at the bookmark that ends them."""
        for event in events:
            if event.type == "DELETED":
                initial.deleted(event.object)
            else:
                initial.take(self._informer.prepared(event.object))

    async def _collect(self, watch: _Watch[T], event: Decoded[T]) -> NextStep | None:
        """The same while the initial events arrive."""
        assert watch.initial is not None  # noqa: S101  # tells the type checker what the caller has tested
        match event:
            case Undecodable():
                watch.initial.take_unreadable(event)
            case Bookmark(initial_events_end=True, resource_version=""):
                return self.progress.watch_list_failed(NetworkError("the end of the initial events has no version"))
            case Bookmark(initial_events_end=True):
                initial, watch.initial = watch.initial, None
                await self._replace(initial.readable(), [*initial.unreadable.values()], event.resource_version)
                self._informer.view.opened()
            case Bookmark():
                return self.progress.watch_list_ignored()
            case WatchError():
                return self._failed(watch, error_of(event.status))
            case Garbled():
                return self.progress.garbled(event.error)
        return None

    def _failed(self, watch: _Watch[T], error: ClientError) -> NextStep:
        now = self._clock.monotonic()
        if watch.initial is not None:
            return self.progress.watch_list_failed(error)
        if isinstance(error, APIError):
            return self.progress.watch_refused(error, now)
        return self.progress.watch_broke(error, now - watch.began, was_open=watch.is_open)

    # --- backoff ------------------------------------------------------------------------------------------------------

    async def _wait(self, verdict: NextStep) -> None:
        backoff = self._backoff
        if verdict.reason == "forbidden":
            backoff = self._forbidden
        elif verdict.lists_again:
            backoff = self._listing_again
        requested_delay = verdict.at_least_seconds * (1.0 + _RETRY_AFTER_JITTER * self._rng.random())
        delay = max(backoff.next(), requested_delay)
        self._informer.view.retries_in(delay)
        if verdict.is_unreached:
            await self._wait_for_server(delay)
        else:
            await self._clock.sleep(delay)
        self._informer.view.retries_in(None)

    async def _wait_for_server(self, delay: float) -> None:
        """Wait for `delay`, or less if the server accepts connections again."""
        until = self._clock.monotonic() + delay
        while (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, _PROBE_SECONDS))
            if await self._client.is_reachable():
                self._backoff.reset()
                return

    def _note(self, verdict: NextStep) -> None:
        """Keep the problem until it is over. `ResourceTroubles` logs it, together with those of other resources."""
        if not verdict.back_off:
            return
        self._informer.problem = f"{verdict.reason}: {verdict.detail}" if verdict.detail else verdict.reason
        log.debug(
            "list_or_watch_failed",
            resource=self._informer.kind.resource,
            reason=verdict.reason,
            err=verdict.detail,
        )
