"""What the client counts, as plain numbers: prometheus types cost more than they tell on this path."""

from bisect import bisect_left
from dataclasses import dataclass, field

DURATION_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Upper bounds of rest_client_request_duration_seconds, as client-go has them; one more bucket holds the rest."""


@dataclass(slots=True)
class DurationHistogram:
    """Counts by bucket (not cumulative; the last one has no bound) and the sum of seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BUCKETS) + 1))
    sum_seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one request."""
        self.counts[bisect_left(DURATION_BUCKETS, seconds)] += 1
        self.sum_seconds += seconds

    def copy(self) -> "DurationHistogram":
        """A snapshot."""
        return DurationHistogram(self.counts.copy(), self.sum_seconds)


@dataclass(frozen=True, slots=True)
class RESTStatistics:
    """A snapshot of the counts since the start, for the rest_client_* metrics."""

    requests: dict[tuple[str, str], int]
    """By status code (`<error>` when no answer came, as client-go has it) and HTTP method."""
    durations: dict[str, DurationHistogram]
    """By verb; `buckets` are `DURATION_BUCKETS`."""
    throttled: int
    """Answers 429: the server wants us slower."""
    retries: int
    watches: int
    """Streams open now."""


class RESTCounters:
    """The living counts."""

    def __init__(self) -> None:
        self._requests: dict[tuple[int, str], int] = {}
        self._durations: dict[str, DurationHistogram] = {}
        self.throttled = 0
        self.retries = 0
        self.watches = 0

    def count(self, code: int, method: str, seconds: float) -> None:
        """One attempt has ended with this status code; 0 means that no answer came."""
        key = (code, method)
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._durations.get(method)
        if histogram is None:
            histogram = self._durations[method] = DurationHistogram()
        histogram.observe(seconds)
        if code == 429:
            self.throttled += 1

    def statistics(self) -> RESTStatistics:
        """A snapshot."""
        return RESTStatistics(
            requests={(str(code or "<error>"), method): n for (code, method), n in self._requests.items()},
            durations={verb: histogram.copy() for verb, histogram in self._durations.items()},
            throttled=self.throttled,
            retries=self.retries,
            watches=self.watches,
        )
