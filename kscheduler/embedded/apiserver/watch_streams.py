"""Watches over HTTP: a task per client sends the lines that its watcher has collected, and bookmarks.

The task waits for an event, the next bookmark, the end of timeoutSeconds, or the order to close. `watching` decides
what is sent; this module decides when.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web

from kscheduler.embedded.apiserver.faults import Faults
from kscheduler.embedded.apiserver.watching import Watcher

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


# Makes the current bookmark line; empty for a client that did not request bookmarks.
MakeLine = Callable[[], bytes]

EventFilter = Callable[[bytes], tuple[bytes, ...]]


class WatchStreams:
    """All open watches of a server, which are dropped, stalled and ended together."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Event, None] = {}
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._generation = 0

    @property
    def count(self) -> int:
        """The number of open watches."""
        return len(self._open)

    @property
    def generation(self) -> int:
        """A number that grows when all watches are dropped; streams of an older generation end."""
        return self._generation

    def drop(self) -> None:
        """End every open watch now; clients may open new ones."""
        self._generation += 1
        self._flowing.set()
        for event in self._open:
            event.set()

    def stall(self) -> None:
        """Keep all watches open but send nothing."""
        self._flowing.clear()

    def resume(self) -> None:
        """Send again, beginning with the lines collected meanwhile."""
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
    """A client's watch: sends `first`, then the lines of its watcher, until its timeout."""

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
        """Answer the request with the stream; returns at its end."""
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
        """Wait for an event until `moment` of the loop's clock; False if none came."""
        try:
            async with asyncio.timeout_at(moment):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True


class CutLineError(Exception):
    """A fault: the connection ends inside a line."""


# Marks a line after which the connection is cut; cannot occur in JSON.
CUT_MARK = b"\0cut"


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
    """The filter for the lines of the watch on `path` that applies the active faults."""

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
