"""One line now, and none like it for a while: what fails for one object often fails for a thousand a second.

`storms` cuts what comes too often, whoever writes it. A throttle belongs to one message of one writer: the first line
is written at once, then there is silence for a fixed time, and the next line can say how many were left out meanwhile.
Pure: `now` is an argument, in monotonic seconds.
"""

import re
from collections.abc import Iterable
from typing import Final

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

    __slots__ = ("_is_told", "_lines", "_patience_seconds", "_since", "_untold")

    def __init__(self, quiet_seconds: float, patience_seconds: float = 0.0) -> None:
        """`quiet_seconds`: the least time between two lines that say that it is there. `patience_seconds`: how long it
        lasts before the first.
        """
        self._lines = Throttle(quiet_seconds)
        self._patience_seconds = patience_seconds
        self._since: float | None = None
        """When it was seen first, since it was not there last."""
        self._is_told = False
        self._untold = 0

    def is_due(self, now: float, *, at_once: bool = False) -> bool:
        """It is there: whether to write that now. `at_once`: also within the quiet time, as it has become worse."""
        if self._since is None:
            self._since = now
        if now - self._since < self._patience_seconds or (self._lines.is_quiet(now) and not at_once):
            return False
        self._lines.admits(now)
        self._is_told = True
        return True

    @property
    def is_there(self) -> bool:
        """Whether it was seen since it was over last."""
        return self._since is not None

    def ends(self) -> bool:
        """It is over: whether to write that."""
        is_told, self._is_told = self._is_told, False
        self._since = None
        self._untold += not is_told
        return is_told

    def take_untold(self) -> dict[str, int]:
        """A field for the next line: how often it came and went since the last one; empty if it did not."""
        count, self._untold = self._untold, 0
        return {"times_since": count} if count else {}
