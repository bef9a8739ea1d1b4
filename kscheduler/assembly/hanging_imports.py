"""Says where the import of a plugin hangs, while it does.

The problem: at a start, plugins are loaded before there is a server that could answer a probe, so a service whose
plugin waits at its import for something that never comes looks as if it did nothing at all. The idea: a thread beside
it looks once a second, and after some seconds logs the line at which the import stands, as faulthandler would print
it.

Limits: C code that holds the interpreter's lock keeps this thread from looking, too.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import msgspec

from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.telemetry.logs import get_logger

_log = get_logger("config")

# How long an import takes before it is told of.
FIRST_SECONDS: Final = 5.0
REPEAT_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 1.0
_OF_PYTHON: Final = "<frozen "


class BeingLoaded(msgspec.Struct, frozen=True):
    """A place that plugins are loaded from at this moment."""

    origin: str
    """`file PATH`, `module NAME`, `distribution NAME VERSION`."""
    thread: int
    """That loads it."""
    since: float
    """Monotonic seconds."""

    @property
    def stands_at(self) -> str:
        """`FILE:LINE` of the plugin's file, or of the module that is being imported; empty if that is over."""
        frame = sys._current_frames().get(self.thread)
        frames = [] if frame is None else list(_outwards(frame))
        of_file = [each for each in frames if self.origin == f"file {each.f_code.co_filename}"]
        own = of_file or [each for each in frames if not each.f_code.co_filename.startswith(_OF_PYTHON)]
        return f"{own[0].f_code.co_filename}:{own[0].f_lineno}" if own else ""


def _outwards(frame: FrameType) -> Iterator[FrameType]:
    """The innermost frame first."""
    found: FrameType | None = frame
    while found is not None:
        yield found
        found = found.f_back


class HangReports:
    """Tells once of an import that takes long, and again each minute."""

    def __init__(self, loads: Callable[[], BeingLoaded | None]) -> None:
        self._loads = loads
        self._known: BeingLoaded | None = None
        self._next = 0.0

    def look(self, now: float) -> None:
        """Log what hangs, if it is due at this monotonic time."""
        loads = self._loads()
        if loads is not self._known:
            self._known, self._next = loads, 0.0 if loads is None else loads.since + PLUGIN_TIME.at_most(FIRST_SECONDS)
        if loads is None or now < self._next:
            return
        self._next = now + REPEAT_SECONDS
        hint = "what does it wait for at its import? nothing is scheduled until that is over"
        _log.warning(
            "plugin_import_hangs", origin=loads.origin, at=loads.stands_at, seconds=round(now - loads.since), hint=hint
        )


@contextmanager
def hangs_reported(loads: Callable[[], BeingLoaded | None]) -> Iterator[None]:
    """While plugins are loaded here, at a start: whatever hangs is told of."""
    ended, reports = threading.Event(), HangReports(loads)

    def watch() -> None:
        while not ended.wait(LOOK_SECONDS):
            reports.look(time.monotonic())

    threading.Thread(target=watch, name="plugin imports", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
