"""Watches over HTTP: one task per client that sends what its watcher has gathered, and the bookmarks between.

The task waits for whichever comes first: an event, the next bookmark, the end of timeoutSeconds, or the order to close.
Everything that decides *what* is sent is in `watching`; here is only when.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web

from kscheduler.simulation.apiserver.faults import Faults
from kscheduler.simulation.apiserver.watching import Watcher

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


MakeLine = Callable[[], bytes]
"""Makes the bookmark line of this moment; empty bytes for a client that did not ask for bookmarks."""

EventFilter = Callable[[bytes], tuple[bytes, ...]]


class WatchStreams:
    """Every open watch of a server: they are dropped, stalled and ended together."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Event, None] = {}
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._generation = 0

    @property
    def count(self) -> int:
        """How many watches are open."""
        return len(self._open)

    @property
    def generation(self) -> int:
        """Changes when all watches are told to end; a stream that began under an older one ends."""
        return self._generation

    def drop(self) -> None:
        """End every open watch now; clients may open new ones."""
        self._generation += 1
        self._flowing.set()
        for event in self._open:
            event.set()

    def stall(self) -> None:
        """Keep every watch open and send nothing."""
        self._flowing.clear()

    def resume(self) -> None:
        """Send again, beginning with what gathered meanwhile."""
        self._flowing.set()

    def enter(self, wake: asyncio.Event) -> None:
        """A stream opens."""
        self._open[wake] = None

    def leave(self, wake: asyncio.Event) -> None:
        """A stream has ended."""
        self._open.pop(wake, None)

    async def flowing(self) -> None:
        """Wait until watches may send."""
        await self._flowing.wait()


class WatchStream:
    """One client's watch: sends `first`, then what the watcher gathers, until its time is over."""

    def __init__(
        self, streams: WatchStreams, watcher: Watcher, timeout_seconds: float, bookmark_seconds: float
    ) -> None:
        self._streams = streams
        self._watcher = watcher
        self._timeout_seconds = timeout_seconds
        self._bookmark_seconds = bookmark_seconds
        self._wake = asyncio.Event()
        watcher.wake = self._wake.set

    async def send(self, request: web.BaseRequest, first: bytes, bookmark: MakeLine) -> web.StreamResponse:
        """Answer the request with the stream; returns when it has ended."""
        response = web.StreamResponse(headers=_HEADERS)
        response.enable_chunked_encoding()
        generation = self._streams.generation
        self._streams.enter(self._wake)
        try:
            await response.prepare(request)
            if first:
                await response.write(first)
            await self._pump(response, bookmark, generation)
            await response.write_eof()
        except (ConnectionResetError, CutLineError):
            _abort(request)
        finally:
            self._streams.leave(self._wake)
        return response

    async def _pump(self, response: web.StreamResponse, bookmark: MakeLine, generation: int) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + self._timeout_seconds
        next_bookmark = clock() + self._bookmark_seconds
        while self._streams.generation == generation and not self._watcher.is_overrun:
            woken = await self._woken(min(end, next_bookmark))
            await self._streams.flowing()
            if woken:
                await _write_lines(response, self._watcher.take_nowait())
                continue
            await _write_lines(response, [bookmark()])
            next_bookmark = clock() + self._bookmark_seconds
            if clock() >= end:
                return

    async def _woken(self, moment: float) -> bool:
        """Wait for an event until `moment` of the loop's clock; False when that came first."""
        try:
            async with asyncio.timeout_at(moment):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True


class CutLineError(Exception):
    """A fault: the connection ends inside a line."""


CUT_MARK = b"\0cut"
"""Ends a line after which the connection is to be cut; no JSON contains it."""


async def _write_lines(response: web.StreamResponse, lines: list[bytes]) -> None:
    joined = b"".join(lines)
    if not joined:
        return  # an empty chunk would end the response
    place = joined.find(CUT_MARK)
    if place < 0:
        await response.write(joined)
        return
    await response.write(joined[:place])
    raise CutLineError


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def event_filter(faults: Faults, path: str) -> EventFilter:
    """What the watch on `path` makes of each of its lines under the faults in force."""

    def filtered(line: bytes) -> tuple[bytes, ...]:
        fault = faults.for_event(path)
        if fault is None:
            return (line,)
        match fault.action:
            case "lose_event":
                return ()
            case "duplicate_event":
                return (line, line)
            case _:
                return (line[: len(line) // 2] + CUT_MARK,)

    return filtered
