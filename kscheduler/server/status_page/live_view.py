"""The overview as it is now: one snapshot for everybody who looks, and what has changed since the one before.

The problem: ten browsers that show 5,000 nodes and 50,000 pods must cost the scheduler next to nothing. The idea: while
anybody follows, one snapshot is taken for all, and never more often than its cost allows: a snapshot that took 10 ms is
followed by a pause of 2 s. Sections are values; one that equals its value of before is not rendered and not sent, and
of the nodes only the letters that differ go out. A message is made once for all who follow in step.

Nothing is taken while nobody looks. A scheduler that is busy stretches the pauses, because others' turns on the event
loop count as cost, too.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kscheduler.aio.tasks import Slicer, run_in_slices
from kscheduler.server.status_page.drawing import drawn
from kscheduler.server.status_page.facts import heat as heat_map
from kscheduler.server.status_page.facts.heat import Cells, HeatMap
from kscheduler.server.status_page.facts.overview import OverviewReader, Pending
from kscheduler.server.status_page.rendering import Templates
from kscheduler.server.status_page.shared_responses import ReasonChanges
from kscheduler.server.status_page.sources import PageSources
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger("server")

SHORTEST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
# Of the loop's time that snapshots may take: with what sending them costs, this stays below one per cent.
PART_OF_TIME: Final = 1 / 250
# A page view takes a snapshot of the last second, however many ask.
FRESH_SECONDS: Final = 1.0
# Browsers that follow: each holds one of the server's places for requests (`Limits.busy_requests`).
MAX_STREAMS: Final = 16
# A stream ends in order before the server's limit for long answers would cut it; browsers connect again.
STREAM_SECONDS: Final = 100.0
# Where nothing changes, a stream says so often that it is alive.
BEAT_SECONDS: Final = 15.0
NAMED_PODS: Final = 4
_SLICE_SECONDS: Final = 0.002


class Section(msgspec.Struct, frozen=True):
    """A rendered section, and since which snapshot it reads so."""

    facts: object
    html: str
    changed_at: int
    rendered_at: float


class OverviewSnapshot(msgspec.Struct, frozen=True, eq=False):
    """The overview at a moment."""

    number: int
    at: float
    """Wall-clock seconds."""
    sections: dict[str, Section]
    cells: Cells
    letters: dict[str, str]
    """How full each cell is, by what a picture shows: all of `choices`."""
    choices: dict[str, str]
    """As `HeatMap.choices`."""
    letters_before: dict[str, str]
    """Those of the snapshot before, if it had the same cells; otherwise empty."""
    messages: dict[tuple[int, str], bytes] = {}
    """Made once for all who have seen the same snapshot: a few, since those who follow are in step."""


class LiveView:
    """Takes snapshots while anybody looks. `run` must run for streams to get anything."""

    def __init__(
        self, sources: PageSources, templates: Templates, changes: ReasonChanges, now: Callable[[], float]
    ) -> None:
        """`now`: wall-clock seconds."""
        self._sources = sources
        self._templates = templates
        self._changes = changes
        self._now = now
        self.heat = HeatMap(sources.cache.nodes, sources.class_devices)
        self._reader = OverviewReader(sources, self.heat)
        self._snapshot: OverviewSnapshot | None = None
        self._renewing = asyncio.Lock()
        self._taken = asyncio.Event()
        """Set, and replaced, with each snapshot."""
        self._is_followed = asyncio.Event()
        self._process = format(time.time_ns(), "x")
        self.streams = 0
        self.cost_seconds = 0.0
        """What the last snapshot took, the turns of others between its slices included."""
        self._is_closed = False

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take a snapshot after each pause while anybody follows, until cancelled."""
        while True:
            await self._is_followed.wait()
            try:
                await self._renew()
            except Exception:  # noqa: BLE001  who looks must not end who schedules
                count_caught(Boundary.HTTP)
                _log.exception("status_page_not_renewed")
                self.cost_seconds = LONGEST_PAUSE_SECONDS  # not each second
            await self._sources.clock.sleep(self.pause_seconds)

    @property
    def pause_seconds(self) -> float:
        """Until the next snapshot."""
        return min(max(self.cost_seconds / PART_OF_TIME, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)

    async def fresh(self) -> OverviewSnapshot:
        """A snapshot that is no older than a second, or than its price allows."""
        await self._templates.load(overview_only=True)
        found = self._snapshot
        longest_age = max(FRESH_SECONDS, min(self.cost_seconds * 25, LONGEST_PAUSE_SECONDS))
        if found is None or not 0 <= self._now() - found.at < longest_age:
            found = await self._renew()
        return found

    async def _renew(self) -> OverviewSnapshot:
        queried_after = self._snapshot
        async with self._renewing:
            if self._snapshot is not queried_after and self._snapshot is not None:
                return self._snapshot  # somebody else has taken one meanwhile
            await self._templates.load(overview_only=True)
            began = time.perf_counter()
            snapshot = await self._take()
            self.cost_seconds = time.perf_counter() - began
            self._snapshot = snapshot
            taken, self._taken = self._taken, asyncio.Event()
            taken.set()
            return snapshot

    async def _take(self) -> OverviewSnapshot:
        before, slicer = self._snapshot, Slicer(_SLICE_SECONDS)
        number = 1 if before is None else before.number + 1
        waiting = await self._sources.pending(self._sources.queue.waiting_keys())
        await self.follow_devices()
        await slicer.turn()
        facts = self._reader.sections(waiting)
        await slicer.turn()
        pending = facts["pending"]
        if isinstance(pending, Pending):
            facts["pending"] = replace(pending, reasons=tuple(self._changes.beside(pending.reasons)))
        sections: dict[str, Section] = {}
        for name, value in facts.items():
            known = None if before is None else before.sections.get(name)
            if known is not None and known.facts == value:
                sections[name] = known
                continue
            sections[name] = self._section(name, value, number)
            if slicer.used_up():
                await slicer.turn()
        await slicer.turn()
        cells = self.heat.cells()
        choices = self.heat.choices()
        letters = {by: self.heat.letters(by) for by in choices}
        same_cells = before is not None and before.cells is cells
        letters_before = before.letters if before is not None and same_cells else {}
        return OverviewSnapshot(number, self._now(), sections, cells, letters, choices, letters_before)

    async def follow_devices(self) -> None:
        """Bring the devices up to date that the map shows, in slices."""
        if self._sources.class_devices is not None:
            await run_in_slices(self._sources.class_devices.follow(), Slicer(_SLICE_SECONDS))

    def _section(self, name: str, value: object, number: int) -> Section:
        html = self._templates.render(f"sections/{name}.html", facts=value, most_named=NAMED_PODS)
        return Section(value, html, number, self._now())

    def shown(self, snapshot: OverviewSnapshot, by: str) -> dict[str, str]:
        """All sections for a page, with true ages, and the picture of the nodes."""
        html = {}
        for name, section in snapshot.sections.items():
            is_old = self._now() - section.rendered_at > FRESH_SECONDS
            html[name] = self._section(name, section.facts, section.changed_at).html if is_old else section.html
        letters = snapshot.letters[by]
        picture = _Picture(drawn(snapshot.cells, letters), snapshot.cells.version, heat_map.NONE in letters)
        html["nodes"] = self._templates.render("sections/nodes.html", facts=picture)
        return html

    # --- following ----------------------------------------------------------------------------------------------------

    def id_of(self, snapshot: OverviewSnapshot) -> str:
        """What a browser says it has: of this process alone."""
        return f"{self._process}-{snapshot.number}"

    def number_of(self, text: str) -> int:
        """The snapshot that a browser has; 0 if it is of another process, or none."""
        process, _, number = text.partition("-")
        is_ours = process == self._process and number.isascii() and number.isdecimal() and len(number) < 19
        return int(number) if is_ours else 0

    async def follow(self, by: str, seen: str) -> AsyncGenerator[bytes, None]:
        """Messages of a stream, from now on, for `STREAM_SECONDS`. The caller must have found a place (`has_room`),
        and close it (`aclosing`).
        """
        self.streams += 1
        self._is_followed.set()
        try:
            yield b"retry: 2000\n\n"
            number, is_first = self.number_of(seen), True
            ends = time.monotonic() + STREAM_SECONDS
            while not self._is_closed and time.monotonic() < ends:
                snapshot, taken = self._snapshot, self._taken
                if snapshot is not None and (snapshot.number > number or is_first):
                    yield self._message(snapshot, 0 if is_first else number, by, number if is_first else None)
                    number, is_first = snapshot.number, False
                    continue
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        await taken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.streams -= 1
            if not self.streams:
                self._is_followed.clear()

    @property
    def has_room(self) -> bool:
        """Whether one more may follow."""
        return self.streams < MAX_STREAMS and not self._is_closed

    def close(self) -> None:
        """End all streams: the server is closing."""
        self._is_closed = True
        self._taken.set()

    def _message(self, snapshot: OverviewSnapshot, since: int, by: str, has: int | None = None) -> bytes:
        """What has changed after snapshot `since`; 0: all letters, and the sections that differ from snapshot `has`."""
        if has is not None:
            return self._encoded(snapshot, has, by, with_all_letters=True)
        key = since, by
        if key not in snapshot.messages:
            snapshot.messages[key] = self._encoded(snapshot, since, by, with_all_letters=since != snapshot.number - 1)
        return snapshot.messages[key]

    def _encoded(self, snapshot: OverviewSnapshot, since: int, by: str, *, with_all_letters: bool) -> bytes:
        changed = {name: each.html for name, each in snapshot.sections.items() if each.changed_at > since}
        message: dict[str, Any] = {
            "version": self.id_of(snapshot),
            "at": round(snapshot.at, 3),
            "cells": snapshot.cells.version,
            "sections": changed,
        }
        before, letters = snapshot.letters_before.get(by), snapshot.letters.get(by)
        if letters is None:  # nobody has the resource any more
            letters = heat_map.NONE * len(snapshot.cells.names)
        if with_all_letters or before is None:
            message["letters"] = letters
        else:
            message["changes"] = heat_map.changes(before, letters)
        # One line of JSON: a line break within a text is escaped, so no text can end the message early.
        return b"event: snapshot\nid: %b\ndata: %b\n\n" % (self.id_of(snapshot).encode(), msgspec.json.encode(message))


class _Picture(msgspec.Struct, frozen=True):
    zones: tuple[Any, ...]
    version: int
    has_none: bool
    """Whether some nodes have nothing of what is shown."""
