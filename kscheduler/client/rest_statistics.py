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


class _MethodHistograms:
    """Of one HTTP method."""

    __slots__ = ("received", "seconds", "sent")

    def __init__(self) -> None:
        self.seconds = RequestHistogram.empty(DURATION_BUCKETS)
        self.sent = RequestHistogram.empty(SIZE_BUCKETS)
        self.received = RequestHistogram.empty(SIZE_BUCKETS)


class RESTCounters:
    """The counts while they are being counted."""

    def __init__(self) -> None:
        self._requests: dict[tuple[int, str], int] = {}
        self._methods: dict[str, _MethodHistograms] = {}
        self._waited: dict[str, RequestHistogram] = {}
        self.throttled = 0
        self.retries = 0
        self.watches = 0

    def count(self, code: int, method: str, seconds: float, sent: int = 0, received: int = -1) -> None:
        """A try has ended with this status code; 0 means that no answer came.

        `sent`, `received`: sizes of the bodies; 0 for a request without one, negative for an answer that did not come
        or was not whole.
        """
        key = code, method
        self._requests[key] = self._requests.get(key, 0) + 1
        of = self._methods.get(method)
        if of is None:
            of = self._methods[method] = _MethodHistograms()
        # `RequestHistogram.observe`, written out: three times for each request.
        histogram = of.seconds
        histogram.counts[bisect_left(DURATION_BUCKETS, seconds)] += 1
        histogram.total += seconds
        if received >= 0:
            if sent:
                histogram = of.sent
                histogram.counts[bisect_left(SIZE_BUCKETS, sent)] += 1
                histogram.total += sent
            histogram = of.received
            histogram.counts[bisect_left(SIZE_BUCKETS, received)] += 1
            histogram.total += received
        if code == 429:
            self.throttled += 1

    def count_waited(self, method: str, seconds: float) -> None:
        """A request has waited for the rate limit."""
        waited = self._waited.get(method)
        if waited is None:
            waited = self._waited[method] = RequestHistogram.empty(DURATION_BUCKETS)
        waited.observe(seconds)

    def statistics(self) -> RESTStatistics:
        return RESTStatistics(
            requests={(str(code or "<error>"), method): n for (code, method), n in self._requests.items()},
            durations={verb: of.seconds.copy() for verb, of in self._methods.items()},
            waited={verb: histogram.copy() for verb, histogram in self._waited.items()},
            sent_bytes={verb: of.sent.copy() for verb, of in self._methods.items() if any(of.sent.counts)},
            received_bytes={verb: of.received.copy() for verb, of in self._methods.items() if any(of.received.counts)},
            throttled=self.throttled,
            retries=self.retries,
            watches=self.watches,
        )
