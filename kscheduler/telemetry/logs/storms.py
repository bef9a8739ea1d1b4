"""Limits storms of the same warning: some lines are written, the rest are counted.

Each kind of warning or error (a logger and a message, regardless of fields; for plugins also the plugin and the
extension point) may be written `AT_ONCE` times in a row and `PER_SECOND` times a second after that; a line with a
traceback counts as ten. The number of suppressed lines is reported with the next line of that kind, and in any case by
`report_suppressed`, which the service calls once a second.

Lines about pods (V levels) are never suppressed: users who turn them on want all of them.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

AT_ONCE: Final = 100.0
PER_SECOND: Final = 5.0
TRACEBACK_COSTS: Final = 10.0
# Our own messages are a few dozen; a library's messages may be anything.
MAX_KINDS: Final = 1000
# Seconds between two reports of suppressed lines of one kind.
_QUIET_SECONDS: Final = 10.0


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
            if len(self._kinds) >= MAX_KINDS:
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
        if len(self._kinds) >= MAX_KINDS:
            self.reset()


def _kind_of(event: dict[str, Any]) -> str:
    """The message; for plugins also plugin and extension point, so that a noisy plugin does not hide another."""
    text = str(event.get("msg", ""))
    point = event.get("extension_point")
    return text if point is None else f"{text} ({event.get('plugin', '')} at {point})"


# The storms of this process.
storms = Storms()


def report_suppressed(write: Callable[[str, str, int], None]) -> None:
    """Report suppressed lines through `write(logger, message, lines)`; cheap where there are none."""
    for logger, message, lines in storms.take_suppressed():
        write(logger, message, lines)


# One line now, and none like it for a while: what fails for one object often fails for a thousand a second.
#
# `storms` cuts what comes too often, whoever writes it. A throttle belongs to one message of one writer: the first
# line is written at once, then there is silence for a fixed time, and the next line can say how many were left out
# meanwhile. Pure: `now` is an argument, in monotonic seconds.

_LONGEST_CAUSE: Final = 300
_QUOTED: Final = re.compile(r"(?<!\w)(['\"]).*?\1(?!\w)")
_NUMBERS: Final = re.compile(r"[0-9]+")


def without_values(text: str) -> str:
    """Without what stands in quotation marks: an exception's text names the value that it is about."""
    return _QUOTED.sub("''", text[: 4 * _LONGEST_CAUSE])


def cause_in(text: str, own: Iterable[str] = ()) -> str:
    """A failure's text without what differs from pod to pod, of bounded length: the failure's kind.

    `own`: the pod's names, for which `POD` stands. Numbers become `#`.
    """
    text = text[: 4 * _LONGEST_CAUSE]
    for each in own:
        text = text.replace(each, "POD") if len(each) > 2 else text  # a pod called `a` is in each word
    return _NUMBERS.sub("#", text)[:_LONGEST_CAUSE]


class Throttle:
    """When to write one kind of line. Begins with a line that is due."""

    __slots__ = ("_left_out", "_quiet_seconds", "_quiet_until")

    def __init__(self, quiet_seconds: float) -> None:
        """`quiet_seconds`: the least time between two lines."""
        self._quiet_seconds = quiet_seconds
        self._quiet_until = float("-inf")
        self._left_out = 0

    def is_quiet(self, now: float) -> bool:
        """Whether a line was written so lately that the next has to wait."""
        return now < self._quiet_until

    def admits(self, now: float) -> bool:
        """Whether to write a line now: if so the quiet time begins, else the line is counted as left out."""
        if now < self._quiet_until:
            self._left_out += 1
            return False
        self._quiet_until = now + self._quiet_seconds
        return True

    def take_left_out(self) -> int:
        """How many lines were left out since the last call."""
        count, self._left_out = self._left_out, 0
        return count


class RecurringTrouble:
    """When to write that a trouble is there and that it is over, where it may come and go many times a minute.

    It is told if nothing was within the quiet time, and again each time that this is over; its end is told where it was
    told itself. Times that came and went untold are counted, for the next line. With a patience it is told once it has
    lasted so long: an API server that has just started refuses for a second what it allows then (RBAC is being read).
    """

    __slots__ = ("_grace_seconds", "_is_reported", "_lines", "_since", "_untold")

    def __init__(self, quiet_seconds: float, grace_seconds: float = 0.0) -> None:
        """`quiet_seconds`: the least time between two lines that say that it is there. `grace_seconds`: how long it
        lasts before the first.
        """
        self._lines = Throttle(quiet_seconds)
        self._grace_seconds = grace_seconds
        self._since: float | None = None
        """When it was seen first, since it was not there last."""
        self._is_reported = False
        self._untold = 0

    def is_due(self, now: float, *, at_once: bool = False) -> bool:
        """It is there: whether to write that now. `at_once`: also within the quiet time, as it has become worse."""
        if self._since is None:
            self._since = now
        if now - self._since < self._grace_seconds or (self._lines.is_quiet(now) and not at_once):
            return False
        self._lines.admits(now)
        self._is_reported = True
        return True

    @property
    def is_there(self) -> bool:
        """Whether it was seen since it was over last."""
        return self._since is not None

    def ends(self) -> bool:
        """It is over: whether to write that."""
        is_reported, self._is_reported = self._is_reported, False
        self._since = None
        self._untold += not is_reported
        return is_reported

    def take_untold(self) -> dict[str, int]:
        """A field for the next line: how often it came and went since the last one; empty if it did not."""
        count, self._untold = self._untold, 0
        return {"times_since": count} if count else {}
