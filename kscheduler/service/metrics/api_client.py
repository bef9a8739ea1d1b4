"""Series about the communication with the API server: requests, watches, Events.

`rest_client_*` are client-go's names and buckets; series that client-go does not have are named `kscheduler_*`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kscheduler.client.access.connection import host_of
from kscheduler.client.reachability import ReachabilityStatistics
from kscheduler.client.rest_statistics import DURATION_BUCKETS, SIZE_BUCKETS, RequestHistogram, RESTStatistics
from kscheduler.informers.view_age import ViewAgeStatistics
from kscheduler.telemetry.samples import Distribution, Distributions, Numbers, Sample, Source, gauge, gauge_by
from kscheduler.telemetry.series import LabelValues, MetricSeries

REQUESTS = MetricSeries("rest_client_requests_total", "Requests to the API server.", ("code", "method", "host"))
REQUEST_SECONDS = MetricSeries("rest_client_request_duration_seconds", "Request latency.", ("verb", "host"))
WAITED = MetricSeries(
    "rest_client_rate_limiter_duration_seconds",
    "Time that requests waited for our own rate limit (clientConnection.qps).",
    ("verb", "host"),
)
REQUEST_BYTES = MetricSeries("rest_client_request_size_bytes", "Sizes of request bodies.", ("verb", "host"))
RESPONSE_BYTES = MetricSeries("rest_client_response_size_bytes", "Sizes of response bodies.", ("verb", "host"))
RETRIES = MetricSeries("kscheduler_rest_client_retries_total", "Retried requests.", ("host",))
THROTTLED = MetricSeries("kscheduler_rest_client_throttled_total", "Responses with 429, Too Many Requests.", ("host",))
WATCHES = MetricSeries("kscheduler_watches", "Open watches.", ("host",))

UNREACHABLE = MetricSeries(
    "kscheduler_api_server_unreachable_seconds",
    "How long the API server has been unreachable; 0: it is reachable.",
    ("host",),
)
UNAUTHORIZED = MetricSeries(
    "kscheduler_api_server_unauthorized_seconds",
    "How long the API server has rejected our credentials; 0: it accepts them.",
    ("host",),
)
OUTAGES = MetricSeries(
    "kscheduler_api_server_outages_total",
    "How often the API server became unreachable or began to reject our credentials, by cause.",
    ("host", "cause"),
)

EVENT_AGE = MetricSeries(
    "kscheduler_watch_last_event_age_seconds",
    "Time since the last event of a watch, bookmarks included.",
    ("resource",),
)
DOWN = MetricSeries(
    "kscheduler_watch_down_seconds",
    "How long no watch has been open, so that the store may be stale, by reason; 0: a watch is open.",
    ("resource", "reason"),
)
RETRY = MetricSeries(
    "kscheduler_watch_retry_seconds", "Time until list or watch is retried after a failure.", ("resource",)
)
RESTARTS = MetricSeries("kscheduler_watch_restarts_total", "Watch restarts, by reason.", ("resource", "reason"))
RELISTS = MetricSeries("kscheduler_relists_total", "Relists, by reason.", ("resource", "reason"))
UNDECODABLE = MetricSeries(
    "kscheduler_undecodable_objects", "Objects that cannot be decoded and are skipped.", ("resource",)
)
REREAD = MetricSeries(
    "kscheduler_objects_reread_total",
    "Objects that could not be decoded and were fetched again, by outcome: read, gone.",
    ("resource", "outcome"),
)
OUT_OF_ORDER = MetricSeries(
    "kscheduler_watch_events_out_of_order_total",
    "Watch events that were older than the known version, and were ignored.",
    ("resource",),
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
EVENTS_OMITTED = MetricSeries(
    "kscheduler_scheduled_events_omitted_total", "Bound pods without an Event of their own (--scheduled-events)."
)
EVENTS_FAILED = MetricSeries("kscheduler_events_failed_total", "Kubernetes Events that the API server refused.")


class InformerCounts(Protocol):
    """An informer's numbers, such as `informers.InformerStatistics`."""

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
        """Seconds since the last line of the watch; `None` before the first."""
        ...

    @property
    def restarts(self) -> Mapping[str, int]:
        """Watch restarts, by reason."""
        ...

    @property
    def relists(self) -> Mapping[str, int]:
        """Relists, by reason."""
        ...

    @property
    def undecodable(self) -> Mapping[str, str]:
        """Unreadable objects by key, with the error."""
        ...

    @property
    def reread(self) -> Mapping[str, int]:
        """Unreadable objects that were read again, by outcome."""
        ...

    @property
    def out_of_order(self) -> int:
        """Events that were ignored."""
        ...

    @property
    def handler_errors(self) -> int:
        """Bugs caught in handlers."""
        ...

    @property
    def problem(self) -> str:
        """`reason: detail` of what keeps it from listing or watching; empty if nothing does."""
        ...

    @property
    def resting(self) -> bool:
        """Whether the API server does not have the kind."""
        ...

    @property
    def view(self) -> ViewAgeStatistics:
        """How old the store is, and when the next try comes."""
        ...


class EventCounts(Protocol):
    """The Event recorder's numbers, such as `client.events.recorder.EventStatistics`."""

    @property
    def queued(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def patched(self) -> int: ...

    @property
    def dropped(self) -> int:
        """Lost because the queue was full."""
        ...

    @property
    def failed(self) -> int: ...


def rest_client_source(server: str, clients: Sequence[Callable[[], RESTStatistics]]) -> Source:
    """The requests of all clients that talk to one API server; `server` is its URL, or host and port."""
    host = host_of(server)  # client-go's label

    def copy() -> Iterable[Sample]:
        answers = [read() for read in clients]
        requests: Counter[LabelValues] = Counter()
        for client in answers:
            requests.update({(code, method, host): count for (code, method), count in client.requests.items()})
        return [
            Numbers("counter", REQUESTS, dict(requests)),
            Distributions(REQUEST_SECONDS, DURATION_BUCKETS, _by_verb(host, [client.durations for client in answers])),
            Distributions(WAITED, DURATION_BUCKETS, _by_verb(host, [client.waited for client in answers])),
            Distributions(REQUEST_BYTES, SIZE_BUCKETS, _by_verb(host, [client.sent_bytes for client in answers])),
            Distributions(RESPONSE_BYTES, SIZE_BUCKETS, _by_verb(host, [client.received_bytes for client in answers])),
            Numbers("counter", RETRIES, {(host,): sum(client.retries for client in answers)}),
            Numbers("counter", THROTTLED, {(host,): sum(client.throttled for client in answers)}),
            gauge_by(WATCHES, {host: sum(client.watches for client in answers)}),
        ]

    return copy


def reachability_source(server: str, statistics: Callable[[], ReachabilityStatistics]) -> Source:
    """Whether the API server can be reached and accepts our credentials."""
    host = host_of(server)

    def copy() -> Iterable[Sample]:
        snapshot = statistics()
        return [
            gauge(UNREACHABLE, {(host,): snapshot.unreachable_seconds}),
            gauge(UNAUTHORIZED, {(host,): snapshot.unauthorized_seconds}),
            Numbers("counter", OUTAGES, {(host, cause): count for cause, count in snapshot.outages.items()}),
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
    """The informers' numbers, labelled by resource."""

    def copy() -> Iterable[Sample]:
        informers = tuple(statistics())
        retries = {informer.resource: informer.view.retry_seconds for informer in informers}
        ages = {informer.resource: informer.last_event_age_seconds for informer in informers}
        return [
            gauge_by(EVENT_AGE, {resource: age for resource, age in ages.items() if age is not None}),
            gauge(DOWN, {(each.resource, _down_reason(each)): _down_seconds(each) for each in informers}),
            gauge_by(RETRY, {resource: seconds for resource, seconds in retries.items() if seconds is not None}),
            _by_reason(RESTARTS, {informer.resource: informer.restarts for informer in informers}),
            _by_reason(RELISTS, {informer.resource: informer.relists for informer in informers}),
            gauge_by(UNDECODABLE, {informer.resource: len(informer.undecodable) for informer in informers}),
            _by_reason(REREAD, {informer.resource: informer.reread for informer in informers}),
            Numbers("counter", OUT_OF_ORDER, {(informer.resource,): informer.out_of_order for informer in informers}),
            gauge_by(OBJECTS, {informer.resource: informer.objects for informer in informers}),
            gauge_by(SYNCED, {informer.resource: int(informer.synced) for informer in informers}),
            Numbers(
                "counter", HANDLER_ERRORS, {(informer.resource,): informer.handler_errors for informer in informers}
            ),
        ]

    return copy


def _down_seconds(informer: InformerCounts) -> float:
    return 0.0 if informer.resting else informer.view.age_seconds


def _down_reason(informer: InformerCounts) -> str:
    """Empty while a watch is open."""
    return informer.problem.partition(":")[0] if _down_seconds(informer) else ""


def _by_reason(series: MetricSeries, counts: Mapping[str, Mapping[str, int]]) -> Numbers:
    values: dict[LabelValues, float] = {
        (resource, reason): count for resource, reasons in counts.items() for reason, count in reasons.items()
    }
    return Numbers("counter", series, values)


def event_source(statistics: Callable[[], EventCounts], omitted: Callable[[], int]) -> Source:
    """The Event recorder's numbers, and of how many bound pods it was told nothing."""

    def copy() -> Iterable[Sample]:
        snapshot = statistics()
        return [
            gauge(EVENTS_QUEUED, {(): snapshot.queued}),
            Numbers("counter", EVENTS_SENT, {(): snapshot.sent}),
            Numbers("counter", EVENTS_PATCHED, {(): snapshot.patched}),
            Numbers("counter", EVENTS_DROPPED, {(): snapshot.dropped}),
            Numbers("counter", EVENTS_FAILED, {(): snapshot.failed}),
            Numbers("counter", EVENTS_OMITTED, {(): omitted()}),
        ]

    return copy
