"""Limits storms of the same warning: some lines are written, the rest are counted.

Each kind of warning or error (a logger and a message, regardless of fields; for plugins also the plugin and the
extension point) may be written `AT_ONCE` times in a row and `PER_SECOND` times a second after that; a line with a
traceback counts as ten. The number of suppressed lines is reported with the next line of that kind, and in any case by
`report_suppressed`, which the service calls once a second.

Lines about pods (V levels) are never suppressed: users who turn them on want all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

AT_ONCE: Final = 100.0
PER_SECOND: Final = 5.0
TRACEBACK_COSTS: Final = 10.0
MOST_KINDS: Final = 1000
"""Our own messages are a few dozen; a library's messages may be anything."""
_QUIET_SECONDS: Final = 10.0
"""Seconds between two reports of suppressed lines of one kind."""


@dataclass(slots=True)
class _Kind:
    """Lines with the same message about different things."""

    tokens: float
    at: float
    suppressed: int = 0
    reported_at: float = float("-inf")


class Storms:
    """Decides which warnings are written."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._unreported: set[tuple[str, str]] = set()
        """Kinds with suppressed lines that have not been reported yet."""

    def admits(self, logger: str, event: dict[str, Any]) -> bool:
        """Whether to write the line. After suppressed lines it gets a field `suppressed` with their number."""
        now, name = self._now(), (logger, _kind_of(event))
        kind = self._kinds.get(name)
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                self._forget_quiet_ones(now)
            kind = self._kinds[name] = _Kind(AT_ONCE, now)
        kind.tokens = min(AT_ONCE, kind.tokens + (now - kind.at) * PER_SECOND)
        kind.at = now
        cost = TRACEBACK_COSTS if event.get("exc_info") or "exception" in event else 1.0
        if kind.tokens < cost:
            kind.suppressed += 1
            self._unreported.add(name)
            return False
        kind.tokens -= cost
        if kind.suppressed:
            event["suppressed"] = kind.suppressed
            kind.suppressed = 0
            self._unreported.discard(name)
        return True

    def take_suppressed(self) -> list[tuple[str, str, int]]:
        """Logger, message and number of suppressed lines not reported yet; for each kind at most every 10 s."""
        if not self._unreported:
            return []
        now, reports = self._now(), []
        for name in sorted(self._unreported):
            kind = self._kinds[name]
            if now - kind.reported_at >= _QUIET_SECONDS:
                reports.append((*name, kind.suppressed))
                kind.suppressed, kind.reported_at = 0, now
                self._unreported.discard(name)
        return reports

    def reset(self) -> None:
        """Forget all counts: everything may be written again."""
        self._kinds.clear()
        self._unreported.clear()

    def _forget_quiet_ones(self, now: float) -> None:
        """Drop kinds whose bucket is full again; if there are none, all kinds with nothing to report."""
        full = AT_ONCE / PER_SECOND
        quiet = [name for name, kind in self._kinds.items() if now - kind.at >= full and name not in self._unreported]
        for name in quiet or [name for name in self._kinds if name not in self._unreported]:
            del self._kinds[name]
        if len(self._kinds) >= MOST_KINDS:
            self.reset()


def _kind_of(event: dict[str, Any]) -> str:
    """The message; for plugins also plugin and extension point, so that a noisy plugin does not hide another."""
    text = str(event.get("msg", ""))
    point = event.get("extension_point")
    return text if point is None else f"{text} ({event.get('plugin', '')} at {point})"


storms = Storms()
"""The storms of this process."""


def report_suppressed(write: Callable[[str, str, int], None]) -> None:
    """Report suppressed lines through `write(logger, message, lines)`; cheap where there are none."""
    for logger, message, lines in storms.take_suppressed():
        write(logger, message, lines)
