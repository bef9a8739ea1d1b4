"""Series about the talk with the API server: requests, watches, Events.

`rest_client_*` are client-go's names and buckets; what client-go does not tell is named `kscheduler_*`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kscheduler.client.connection import host_of
from kscheduler.client.reachability import ReachabilityStatistics
from kscheduler.client.rest_statistics import DURATION_BUCKETS, SIZE_BUCKETS, RequestHistogram, RESTStatistics
from kscheduler.metrics.samples import Distribution, Distributions, Numbers, Sample, Source, gauge, gauge_by
from kscheduler.scheduling.observations import LabelValues, MetricSeries

REQUESTS = MetricSeries("rest_client_requests_total", "Requests to the API server.", ("code", "method", "host"))
REQUEST_SECONDS = MetricSeries("rest_client_request_duration_seconds", "Time until the answer.", ("verb", "host"))
WAITED = MetricSeries(
    "rest_client_rate_limiter_duration_seconds",
    "Time that requests waited for our own rate limit (clientConnection.qps).",
    ("verb", "host"),
)
REQUEST_BYTES = MetricSeries("rest_client_request_size_bytes", "Sizes of requests' bodies.", ("verb", "host"))
RESPONSE_BYTES = MetricSeries("rest_client_response_size_bytes", "Sizes of answers' bodies.", ("verb", "host"))
RETRIES = MetricSeries("kscheduler_rest_client_retries_total", "Requests sent again.", ("host",))
THROTTLED = MetricSeries("kscheduler_rest_client_throttled_total", "Answers 429, Too Many Requests.", ("host",))
WATCHES = MetricSeries("kscheduler_watches", "Open watches.", ("host",))

UNREACHABLE = MetricSeries(
    "kscheduler_api_server_unreachable_seconds", "For how long the API server has been away; 0: it is there.", ("host",)
)
UNAUTHORIZED = MetricSeries(
    "kscheduler_api_server_unauthorized_seconds",
    "For how long the API server has not accepted our credentials; 0: it does.",
    ("host",),
)
OUTAGES = MetricSeries(
    "kscheduler_api_server_outages_total",
    "Times that the API server went away, or began to refuse our credentials, by cause.",
    ("host", "cause"),
)

EVENT_AGE = MetricSeries(
    "kscheduler_watch_last_event_age_seconds", "Time since a watch last brought anything, bookmarks too.", ("resource",)
)
RESTARTS = MetricSeries("kscheduler_watch_restarts_total", "Watches begun again, by reason.", ("resource", "reason"))
RELISTS = MetricSeries("kscheduler_relists_total", "Lists taken again, by reason.", ("resource", "reason"))
UNDECODABLE = MetricSeries(
    "kscheduler_undecodable_objects", "Objects that cannot be read and are passed over.", ("resource",)
)
OBJECTS = MetricSeries("kscheduler_informer_objects", "Objects in an informer's store.", ("resource",))
SYNCED = MetricSeries("kscheduler_informer_synced", "1 when the first list has been handled.", ("resource",))
HANDLER_ERRORS = MetricSeries(
    "kscheduler_informer_handler_errors_total", "Bugs caught in event handlers.", ("resource",)
)

EVENTS_QUEUED = MetricSeries("kscheduler_events_queued", "Kubernetes Events waiting to be sent.")
EVENTS_SENT = MetricSeries("kscheduler_events_sent_total", "Kubernetes Events created.")
EVENTS_PATCHED = MetricSeries("kscheduler_events_patched_total", "Updates of Event series.")
EVENTS_DROPPED = MetricSeries(
    "kscheduler_events_dropped_total", "Kubernetes Events dropped because the queue was full."
)
EVENTS_FAILED = MetricSeries("kscheduler_events_failed_total", "Kubernetes Events that the API server refused.")


class InformerCounts(Protocol):
    """What an informer tells about itself; `informers.InformerStatistics` has these."""

    @property
    def resource(self) -> str:
        """The kind's plural."""
        ...

    @property
    def synced(self) -> bool:
        """Whether the handlers got the first list."""
        ...

    @property
    def objects(self) -> int:
        """Objects in the store."""
        ...

    @property
    def last_event_age_seconds(self) -> float | None:
        """Since the last line of the watch; none before the first."""
        ...

    @property
    def restarts(self) -> Mapping[str, int]:
        """Watches begun again, by reason."""
        ...

    @property
    def relists(self) -> Mapping[str, int]:
        """Lists taken again, by reason."""
        ...

    @property
    def undecodable(self) -> Mapping[str, str]:
        """Objects passed over, and why."""
        ...

    @property
    def handler_errors(self) -> int:
        """Bugs caught in handlers."""
        ...


class EventCounts(Protocol):
    """What the Event recorder tells about itself; `client.EventStatistics` has these."""

    @property
    def queued(self) -> int:
        """Waiting now."""
        ...

    @property
    def sent(self) -> int:
        """Created."""
        ...

    @property
    def patched(self) -> int:
        """Series updated."""
        ...

    @property
    def dropped(self) -> int:
        """Lost because the queue was full."""
        ...

    @property
    def failed(self) -> int:
        """Refused."""
        ...


def rest_client_source(server: str, clients: Sequence[Callable[[], RESTStatistics]]) -> Source:
    """The requests of all clients that talk to one API server; `server` is its URL, or host and port."""
    host = host_of(server)  # client-go's label

    def copy() -> Iterable[Sample]:
        statistics = [client() for client in clients]
        requests: Counter[LabelValues] = Counter()
        for one in statistics:
            requests.update({(code, method, host): count for (code, method), count in one.requests.items()})
        return [
            Numbers("counter", REQUESTS, dict(requests)),
            Distributions(REQUEST_SECONDS, DURATION_BUCKETS, _by_verb(host, [one.durations for one in statistics])),
            Distributions(WAITED, DURATION_BUCKETS, _by_verb(host, [one.waited for one in statistics])),
            Distributions(REQUEST_BYTES, SIZE_BUCKETS, _by_verb(host, [one.sent_bytes for one in statistics])),
            Distributions(RESPONSE_BYTES, SIZE_BUCKETS, _by_verb(host, [one.received_bytes for one in statistics])),
            Numbers("counter", RETRIES, {(host,): sum(one.retries for one in statistics)}),
            Numbers("counter", THROTTLED, {(host,): sum(one.throttled for one in statistics)}),
            gauge_by(WATCHES, {host: sum(one.watches for one in statistics)}),
        ]

    return copy


def reachability_source(server: str, statistics: Callable[[], ReachabilityStatistics]) -> Source:
    """Whether the API server is there and accepts us."""
    host = host_of(server)

    def copy() -> Iterable[Sample]:
        now = statistics()
        return [
            gauge(UNREACHABLE, {(host,): now.unreachable_seconds}),
            gauge(UNAUTHORIZED, {(host,): now.unauthorized_seconds}),
            Numbers("counter", OUTAGES, {(host, cause): count for cause, count in now.outages.items()}),
        ]

    return copy


def _by_verb(host: str, clients: Iterable[Mapping[str, RequestHistogram]]) -> list[Distribution]:
    """One histogram per verb, added up over the clients."""
    counts: dict[str, list[int]] = {}
    totals: dict[str, float] = {}
    for histograms in clients:
        for verb, histogram in histograms.items():
            so_far = counts.setdefault(verb, [0] * len(histogram.counts))
            counts[verb] = [a + b for a, b in zip(so_far, histogram.counts, strict=True)]
            totals[verb] = totals.get(verb, 0.0) + histogram.total
    return [Distribution((verb, host), counts[verb], totals[verb]) for verb in counts]


def informer_source(statistics: Callable[[], Iterable[InformerCounts]]) -> Source:
    """What the informers tell, one label value per resource."""

    def copy() -> Iterable[Sample]:
        all_of_them = tuple(statistics())
        ages = {one.resource: one.last_event_age_seconds for one in all_of_them}
        return [
            gauge_by(EVENT_AGE, {resource: age for resource, age in ages.items() if age is not None}),
            _by_reason(RESTARTS, {one.resource: one.restarts for one in all_of_them}),
            _by_reason(RELISTS, {one.resource: one.relists for one in all_of_them}),
            gauge_by(UNDECODABLE, {one.resource: len(one.undecodable) for one in all_of_them}),
            gauge_by(OBJECTS, {one.resource: one.objects for one in all_of_them}),
            gauge_by(SYNCED, {one.resource: int(one.synced) for one in all_of_them}),
            Numbers("counter", HANDLER_ERRORS, {(one.resource,): one.handler_errors for one in all_of_them}),
        ]

    return copy


def _by_reason(series: MetricSeries, counts: Mapping[str, Mapping[str, int]]) -> Numbers:
    values: dict[LabelValues, float] = {
        (resource, reason): count for resource, reasons in counts.items() for reason, count in reasons.items()
    }
    return Numbers("counter", series, values)


def event_source(statistics: Callable[[], EventCounts]) -> Source:
    """What the Event recorder tells."""

    def copy() -> Iterable[Sample]:
        now = statistics()
        return [
            gauge(EVENTS_QUEUED, {(): now.queued}),
            Numbers("counter", EVENTS_SENT, {(): now.sent}),
            Numbers("counter", EVENTS_PATCHED, {(): now.patched}),
            Numbers("counter", EVENTS_DROPPED, {(): now.dropped}),
            Numbers("counter", EVENTS_FAILED, {(): now.failed}),
        ]

    return copy
