"""How old an informer's view of its kind is, and when it will be renewed.

The problem: a store looks the same whether its watch is alive or has been down for an hour, and decisions rest on it
either way. A quiet watch is not old: while it is open, nothing that happens is missed (one that brings nothing for 45 s
is opened again, as it may be dead). So the age of a view is the time since it was last known to be current, and is 0
while a watch is open:

    list, or data on a watch: current --watch ends--> its age grows --watch open again, or another list--> current

An informer that takes over the store of an earlier one takes over its age.

A watch counts as open after a second, or once it has brought something: one that is opened and ends at once, again and
again, brings nothing. After a watch that fell silent the age is counted from the last thing it brought, but only
if it is not open again at once: most often it was quiet.

Limit: what was lost on an open watch does not show here; audits look for that.
"""

from typing import Final

import msgspec

from kscheduler.aio import Clock

# Readiness ends when a view is older: a decision could rest on a node or a pod as it was a minute ago.
#
# At least one try of a reflector lies within it, as two tries are 36 s apart at most
# (`reflector.LONGEST_WAIT_SECONDS`); most often several do, since the backoff begins at 0.8 s. Whether a watch that
# fell silent is dead shows after 45 s: its age then counts from the last thing that it brought, and readiness ends 15 s
# later if it cannot be opened again.
OLD_VIEW_SECONDS: Final = 60.0
_SETTLED_SECONDS: Final = 1.0
# A watch that has no answer for so long is in trouble: kube-apiserver answers at once, before the first event.
_UNANSWERED_SECONDS: Final = 2.0
# How long a watch may take until it counts as open again, if nothing is wrong.
_REOPENED_SECONDS: Final = _UNANSWERED_SECONDS + _SETTLED_SECONDS


class ViewAgeStatistics(msgspec.Struct, frozen=True):
    """A snapshot."""

    age_seconds: float
    """0 while a watch is open, and before the first list."""
    retry_seconds: float | None
    """Until the next list or watch is tried; `None` while one is under way."""
    unanswered_seconds: float = 0.0
    """For how long a watch has been asked for without an answer."""

    @property
    def is_old(self) -> bool:
        """Whether decisions should no longer rest on it."""
        return self.age_seconds > OLD_VIEW_SECONDS

    @property
    def problem(self) -> str:
        """Empty but while an answer to a watch is long in coming, of which its reflector cannot say anything yet."""
        seconds = self.unanswered_seconds
        return f"no answer: a watch was asked for {seconds:.0f} s ago" if seconds >= _UNANSWERED_SECONDS else ""


class ViewAge:
    """What is known of the age of one informer's store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._current_at: float | None = None
        self._opened_at: float | None = None
        """When the watch that is open was opened."""
        self._requested_at: float | None = None
        """When a watch that has not been answered yet was asked for."""
        self._retry_at: float | None = None
        self._in_doubt_until = float("-inf")
        """Until then the age counts as 0: a watch that fell silent, or is the next term's, may soon be open again."""

    def heard(self) -> None:
        """A list is complete, or the watch has brought something: the store is current."""
        self._current_at = self._clock.monotonic()

    @property
    def current_at(self) -> float | None:
        """The last moment at which the store was known to be current; `None` before the first list."""
        return self._current_at

    def resume_from(self, current_at: float | None) -> None:
        """The store is that of an earlier informer, and was last known to be current at that time.

        Most often a watch is soon open again, and nothing was missed.
        """
        self._current_at, self._in_doubt_until = current_at, self._clock.monotonic() + _REOPENED_SECONDS

    def requested(self) -> None:
        """A watch has been asked for, from the version that the store has."""
        self._requested_at = self._clock.monotonic()

    def opened(self) -> None:
        """A watch is open, from the version that the store has."""
        self._opened_at, self._requested_at = self._clock.monotonic(), None

    def closed(self, *, was_silent: bool = False) -> float:
        """The watch has ended; returns for how many seconds it was open, 0 if it was never answered.

        `was_silent`: nothing came for so long that it may be dead, or we closed it ourselves.
        """
        self._requested_at = None
        if self._opened_at is None:
            return 0.0
        now = self._clock.monotonic()
        seconds, self._opened_at = now - self._opened_at, None
        if not was_silent and seconds >= _SETTLED_SECONDS:
            self._current_at = now
        if was_silent:
            self._in_doubt_until = now + _REOPENED_SECONDS
        return seconds

    def retries_in(self, seconds: float | None) -> None:
        """The next try comes after this time; `None`: it is under way."""
        self._retry_at = None if seconds is None else self._clock.monotonic() + seconds

    def statistics(self) -> ViewAgeStatistics:
        now = self._clock.monotonic()
        retry = None if self._retry_at is None else max(0.0, self._retry_at - now)
        is_open = self._opened_at is not None and now - self._opened_at >= _SETTLED_SECONDS
        age = 0.0 if is_open or now < self._in_doubt_until or self._current_at is None else now - self._current_at
        return ViewAgeStatistics(age, retry, 0.0 if self._requested_at is None else now - self._requested_at)
