"""The same warning a thousand times a second: some are written, the rest are counted.

Each kind of warning or error (its logger and its message, whatever its fields; of plugins each plugin and extension
point by itself) may be written `AT_ONCE` times in a row
and `PER_SECOND` times a second after that; one with a traceback counts as ten. What was left out is told: with the next
line of that kind, and in any case by `tell_of_suppressed`, which the service calls once a second.

Lines of a pod's story (V levels) are never left out: who asks for them wants all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

AT_ONCE: Final = 100.0
PER_SECOND: Final = 5.0
TRACEBACK_COSTS: Final = 10.0
MOST_KINDS: Final = 1000
"""Messages are our own, so there are a few dozen; a library may put anything into its."""
_QUIET_SECONDS: Final = 10.0
"""How often what is left out is told while it goes on."""


@dataclass(slots=True)
class _Kind:
    """Lines that say the same of different things."""

    tokens: float
    at: float
    suppressed: int = 0
    told_at: float = float("-inf")


class Storms:
    """Which warnings are written."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._rough: set[tuple[str, str]] = set()
        """Kinds of which something was left out and not told yet."""

    def admits(self, logger: str, event: dict[str, Any]) -> bool:
        """Whether to write the line. One that follows some that were left out says how many: `suppressed`."""
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
            self._rough.add(name)
            return False
        kind.tokens -= cost
        if kind.suppressed:
            event["suppressed"] = kind.suppressed
            kind.suppressed = 0
            self._rough.discard(name)
        return True

    def left_out(self) -> list[tuple[str, str, int]]:
        """Logger, message and number of lines that were left out and not told of; every 10 s of each kind."""
        if not self._rough:
            return []
        now, told = self._now(), []
        for name in sorted(self._rough):
            kind = self._kinds[name]
            if now - kind.told_at >= _QUIET_SECONDS:
                told.append((*name, kind.suppressed))
                kind.suppressed, kind.told_at = 0, now
                self._rough.discard(name)
        return told

    def reset(self) -> None:
        """Everything may be written again."""
        self._kinds.clear()
        self._rough.clear()

    def _forget_quiet_ones(self, now: float) -> None:
        """Those that could be written at once again; if there are none, all that have nothing to tell."""
        full = AT_ONCE / PER_SECOND
        quiet = [name for name, kind in self._kinds.items() if now - kind.at >= full and name not in self._rough]
        for name in quiet or [name for name in self._kinds if name not in self._rough]:
            del self._kinds[name]
        if len(self._kinds) >= MOST_KINDS:
            self.reset()


def _kind_of(event: dict[str, Any]) -> str:
    """The message; of what is said of a plugin, each plugin and extension point apart: a noisy one hides no other."""
    text = str(event.get("msg", ""))
    point = event.get("extension_point")
    return text if point is None else f"{text} ({event.get('plugin', '')} at {point})"


storms = Storms()
"""Of this process."""


def tell_of_suppressed(write: Callable[[str, str, int], None]) -> None:
    """Tell of what was left out (logger, message, lines); cheap where nothing was."""
    for logger, message, lines in storms.left_out():
        write(logger, message, lines)
