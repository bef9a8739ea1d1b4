"""The client's counts, as plain numbers: prometheus types would be too slow on this path."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

# Upper bounds of rest_client_request_duration_seconds, as in client-go; a further bucket holds the rest.
DURATION_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

# Upper bounds of rest_client_request_size_bytes and rest_client_response_size_bytes.
SIZE_BUCKETS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


@dataclass(slots=True)
class RequestHistogram:
    """Counts by bucket (not cumulative; the last bucket has no bound) and the sum of the values."""

    bounds: Sequence[float]
    counts: list[int]
    total: float = 0.0

    @classmethod
    def empty(cls, bounds: Sequence[float]) -> "RequestHistogram":
        """A histogram without observations."""
        return cls(bounds, [0] * (len(bounds) + 1))

    def observe(self, value: float) -> None:
        """Count one request."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> "RequestHistogram":
        return RequestHistogram(self.bounds, self.counts.copy(), self.total)


class RESTStatistics(msgspec.Struct, frozen=True):
    """A snapshot of the counts since the start, for the rest_client_* metrics."""

    requests: dict[tuple[str, str], int]
    """By status code (`<error>` when no answer came, as in client-go) and HTTP method."""
    durations: dict[str, RequestHistogram]
    """Seconds by verb; bounds are `DURATION_BUCKETS`."""
    waited: dict[str, RequestHistogram]
    """Seconds that requests waited for our own rate limit, by verb; empty if there is no limit."""
    sent_bytes: dict[str, RequestHistogram]
    """Sizes of request bodies by verb, without empty bodies; bounds are `SIZE_BUCKETS`."""
    received_bytes: dict[str, RequestHistogram]
    """Sizes of answers by verb, without watches; bounds are `SIZE_BUCKETS`."""
    throttled: int
    """Answers 429: the server asks us to slow down."""
    retries: int
    watches: int
    """Watches open now."""


class RESTCounters:
    """The counts while they are being counted."""

    def __init__(self) -> None:
        self._requests: dict[tuple[int, str], int] = {}
        self._durations: dict[str, RequestHistogram] = {}
        self._waited: dict[str, RequestHistogram] = {}
        self._sent_bytes: dict[str, RequestHistogram] = {}
        self._received_bytes: dict[str, RequestHistogram] = {}
        self.throttled = 0
        self.retries = 0
        self.watches = 0

    def count(self, code: int, method: str, seconds: float) -> None:
        """A try has ended with this status code; 0 means that no answer came."""
        key = (code, method)
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._durations.get(method)
        if histogram is None:
            histogram = self._durations[method] = RequestHistogram.empty(DURATION_BUCKETS)
        histogram.observe(seconds)
        if code == 429:
            self.throttled += 1

    def count_waited(self, method: str, seconds: float) -> None:
        """A request has waited for the rate limit."""
        waited = self._waited.get(method)
        if waited is None:
            waited = self._waited[method] = RequestHistogram.empty(DURATION_BUCKETS)
        waited.observe(seconds)

    def count_bytes(self, method: str, sent: int, received: int) -> None:
        """Count the body sizes of a request and its answer; `sent` is 0 for a request without a body."""
        if sent:
            sizes = self._sent_bytes.get(method)
            if sizes is None:
                sizes = self._sent_bytes[method] = RequestHistogram.empty(SIZE_BUCKETS)
            sizes.observe(sent)
        sizes = self._received_bytes.get(method)
        if sizes is None:
            sizes = self._received_bytes[method] = RequestHistogram.empty(SIZE_BUCKETS)
        sizes.observe(received)

    def statistics(self) -> RESTStatistics:
        return RESTStatistics(
            requests={(str(code or "<error>"), method): n for (code, method), n in self._requests.items()},
            durations={verb: histogram.copy() for verb, histogram in self._durations.items()},
            waited={verb: histogram.copy() for verb, histogram in self._waited.items()},
            sent_bytes={verb: histogram.copy() for verb, histogram in self._sent_bytes.items()},
            received_bytes={verb: histogram.copy() for verb, histogram in self._received_bytes.items()},
            throttled=self.throttled,
            retries=self.retries,
            watches=self.watches,
        )
