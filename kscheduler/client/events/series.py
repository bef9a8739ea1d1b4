"""Whether an Event is new or continues a series (pure; client-go's rules for events.k8s.io/v1).

The first occurrence is created. The second turns the Event into a series and is patched at once. Later ones are only
counted and patched every 30 minutes, and once more when the series has been silent for 6 minutes; then it is over.
Two occurrences are the same if regarding and related (by UID), type, reason, action, controller and note are equal: an
Event's note cannot be changed, so another text needs another Event. (client-go compares the resourceVersion of
regarding instead of the note; our own condition patches would then end a series with each attempt.) Limit: at most
`LARGEST` series are remembered, the least recently seen is dropped first (its next occurrence is new).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kscheduler.bounded import RecentlyUsed

FINISH_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
LARGEST = 16_384

# (uid or key of regarding, of related, type, reason, action, reporting controller, hash of the note).
SeriesKey = tuple[str, str, str, str, str, str, int]


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
    """Whether a patch waits to be sent; it will carry the newest count."""

    @property
    def is_behind(self) -> bool:
        """Whether the server's count is out of date."""
        return self.count > max(self.patched_count, 1)

    def end(self) -> None:
        """The server does not have the Event: the next occurrence is a new one."""
        self.last_seen = float("-inf")
        self.patched_count = self.count


class SeriesBook:
    """The series that have not ended."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._series: RecentlyUsed[SeriesKey, Series] = RecentlyUsed(largest)

    def __len__(self) -> int:
        return len(self._series)

    def seen(self, key: SeriesKey, now: float, wall: float) -> tuple[Series | None, bool]:
        """Count an occurrence: its series (`None` for a new one) and whether to patch it now."""
        series = self._series.get(key)
        if series is None or now - series.last_seen > FINISH_SECONDS:
            return None, False
        series.count += 1
        series.last_seen, series.last_seen_at = now, wall
        self._series.use(key)
        due = series.count == 2 or now - series.patched_at >= REFRESH_SECONDS
        return series, due

    def begin(self, key: SeriesKey, series: Series) -> Series | None:
        """Add a new Event. Returns the series dropped to make room, if its last count was not sent."""
        replaced = self._series.pop(key, None)
        replaced = self._series.put(key, series) or replaced
        return replaced if replaced is not None and replaced.is_behind else None

    def finish(self, now: float) -> Iterator[Series]:
        """Drop series that have been silent for six minutes; yields those whose last count the server lacks."""
        while self._series:
            key = next(iter(self._series))
            series = self._series[key]
            if now - series.last_seen <= FINISH_SECONDS:
                return
            del self._series[key]
            if series.is_behind:
                yield series
