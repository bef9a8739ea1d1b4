"""Which Event is new, which continues a series (pure; client-go's rules for events.k8s.io/v1).

The first occurrence is created. The second turns the Event into a series and is patched at once. Later ones are only
counted and patched every 30 minutes, and once more when the series has been silent for 6 minutes; then it is over.
What makes two occurrences the same: regarding and related (by UID), type, reason, action, controller, and the note: an
Event's note cannot be changed, so other words need another Event. (client-go compares the resourceVersion of regarding
instead of the note; our own condition patches would end a series with each attempt.)
Limit: at most `LARGEST` series are remembered, the least recently seen is forgotten first (its next occurrence is new).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kscheduler.bounded.recently_used import RecentlyUsed

FINISH_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
LARGEST = 16_384

SeriesKey = tuple[str, str, str, str, str, str, int]
"""(uid or key of regarding, of related, type, reason, action, reporting controller, hash of the note)."""


@dataclass(slots=True)
class Series:
    """One Event on the server and what we know of it."""

    namespace: str
    name: str
    count: int
    last_seen: float
    """Monotonic seconds."""
    last_seen_at: float
    """Wall clock seconds, for the Event's text."""
    patched_at: float
    patched_count: int = 1
    is_recorded: bool = True
    """Whether the server has the Event; until then there is nothing to patch."""
    is_queued: bool = False
    """Whether a patch waits to be sent: it will tell the newest count."""

    @property
    def is_behind(self) -> bool:
        """Whether the server does not know how often it happened."""
        return self.count > max(self.patched_count, 1)

    def end(self) -> None:
        """The server does not have the Event: the next occurrence is a new one."""
        self.last_seen = float("-inf")
        self.patched_count = self.count


class SeriesBook:
    """The living series."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._series: RecentlyUsed[SeriesKey, Series] = RecentlyUsed(largest)

    def __len__(self) -> int:
        return len(self._series)

    def seen(self, key: SeriesKey, now: float, wall: float) -> tuple[Series | None, bool]:
        """One more occurrence: the series it belongs to (`None`: it is new) and whether to patch it now."""
        series = self._series.get(key)
        if series is None or now - series.last_seen > FINISH_SECONDS:
            return None, False
        series.count += 1
        series.last_seen, series.last_seen_at = now, wall
        self._series.use(key)
        due = series.count == 2 or now - series.patched_at >= REFRESH_SECONDS
        return series, due

    def begin(self, key: SeriesKey, series: Series) -> Series | None:
        """A new Event, which may become a series; the one that is forgotten for it, if its last count is untold."""
        replaced = self._series.pop(key, None)
        replaced = self._series.put(key, series) or replaced
        return replaced if replaced is not None and replaced.is_behind else None

    def finish(self, now: float) -> Iterator[Series]:
        """Forget what has been silent for six minutes; yields the series whose last count the server lacks."""
        while self._series:
            key = next(iter(self._series))
            series = self._series[key]
            if now - series.last_seen <= FINISH_SECONDS:
                return
            del self._series[key]
            if series.is_behind:
                yield series
