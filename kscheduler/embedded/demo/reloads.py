"""Tells at the terminal what becomes of a file that was changed while `kscheduler cluster --schedule` runs.

The problem: the author of a plugin edits its file, and a mistake in it stands in the scheduler's log alone, which is
not open. The idea: the lines about reloads are read from that log, and each file that is taken over or refused is one
line of the terminal; so is a plugin that fails for the first time since.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from kscheduler.aio import BackgroundService, running
from kscheduler.embedded.demo.report import tell
from kscheduler.text import printable

_LOOK_SECONDS: Final = 0.5
# What every line about a reload (`service.reloading`) or a failing plugin has.
_MARKS: Final = (b'"msg":"config_', b'"msg":"plugin_failed"')


class ReloadLines:
    """Makes a line for the terminal of what the log says about reloads and failing plugins."""

    def __init__(self) -> None:
        self._problems: list[str] = []
        """Of the refusal whose lines are being read."""
        self._was_refused = False
        self._failing: set[str] = set()
        """The plugins that have failed since the last file was taken over."""

    def message_for(self, line: bytes) -> str:
        """What to print for this line of the log; empty: nothing."""
        entry = _entry(line) if any(mark in line for mark in _MARKS) else {}
        match entry.get("msg"):
            case "config_refused":
                self._problems.append(_with_place(entry))
            case "config_kept":
                first, self._problems, self._was_refused = next(iter(self._problems), "see its log"), [], True
                more = int(entry.get("problems", 1)) - 1
                rest = f" (and {more} more, in its log)" if more > 0 else ""
                return f"a changed file was refused, and the scheduler goes on as before: {first}{rest}"
            case "config_taken_over":
                self._was_refused = False
                self._failing.clear()
                return f"a changed file is taken over: {', '.join(map(str, entry.get('changed', ())))}"
            case "config_unchanged" if self._was_refused:
                self._was_refused = False
                return "the changed file is taken over: nothing differs from before"
            case "plugin_failed" if (plugin := str(entry.get("plugin", ""))) not in self._failing:
                self._failing.add(plugin)
                return f"plugin {plugin} fails ({entry.get('extension_point', '')}): {entry.get('err', '')}"
        return ""


def _entry(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _with_place(entry: dict[str, Any]) -> str:
    """The reason with its place in the file, where it has one; of a plugin's file the reason itself has it."""
    place = ":".join(str(entry[name]) for name in ("file", "line", "column") if name in entry)
    field = f"{entry['field']}: " if entry.get("field") else ""
    reason = f"{field}{entry.get('reason', '')}"
    return f"{place}: {reason}" if "line" in entry or field else reason


class _LogTail:
    """The complete lines that a file has got since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._rest = b""

    def lines(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:  # it was removed: no reason to end the cluster
            return
        self._read += len(new)
        *complete, self._rest = (self._rest + new).split(b"\n")
        yield from complete


@asynccontextmanager
async def telling_reloads(log: Path, out: TextIO) -> AsyncIterator[None]:
    """While the body runs, write to `out` what the log says about reloads."""
    reloads, tail = ReloadLines(), _LogTail(log)

    async def look() -> None:
        while True:
            for line in tail.lines():
                if message := reloads.message_for(line):
                    tell(printable(message), out)
            await asyncio.sleep(_LOOK_SECONDS)

    async with running(BackgroundService("reloads", look)):
        yield
