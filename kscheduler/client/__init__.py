"""The API server's client: connection, REST verbs, watch decoding, pod writes and Events.

The problem: the generated client costs a hundred times what decoding costs, never times out and retries without end.
The idea: kubernetes_asyncio asks exec plugins and providers for credentials; the rest is our own: HTTP/1.1 for
requests, aiohttp for watches, msgspec for objects, client-go's rules for retries, and errors that say what the caller
may conclude.
Nothing here knows scheduling.

    access              the API server's address and our credentials: kubeconfig, tokens, TLS
    http                HTTP/1.1 without I/O, connections that are kept, lines of a stream
    rest, retry_after   verbs with client-go's rules for retries; how long a server may make us wait
    watch, lists        lines of a watch, and bodies of lists, to typed values
    writes, events      what a scheduler writes: bindings, conditions, volumes; Events
    reachability, outage_cause, failure_text    whether the API server answers, and if not, why
"""

from kscheduler.client.access.connection import Connection, load_connection, load_service_account, plain_connection
from kscheduler.client.errors import (
    APIError,
    ClientError,
    ConfigurationError,
    CredentialsError,
    FencedError,
    NetworkError,
    NotSentError,
    StalledError,
    UnknownOutcomeError,
)
from kscheduler.client.events.recorder import EventRecorder, EventReference, EventStatistics, reference_to
from kscheduler.client.rest import APIClient, LineStream
from kscheduler.client.rest_statistics import DURATION_BUCKETS, SIZE_BUCKETS, RequestHistogram, RESTStatistics
from kscheduler.client.writes.pods import UNCHANGED, PodWriter, Unchanged

__all__ = [
    "DURATION_BUCKETS",
    "SIZE_BUCKETS",
    "UNCHANGED",
    "APIClient",
    "APIError",
    "ClientError",
    "ConfigurationError",
    "Connection",
    "CredentialsError",
    "EventRecorder",
    "EventReference",
    "EventStatistics",
    "FencedError",
    "LineStream",
    "NetworkError",
    "NotSentError",
    "PodWriter",
    "RESTStatistics",
    "RequestHistogram",
    "StalledError",
    "Unchanged",
    "UnknownOutcomeError",
    "load_connection",
    "load_service_account",
    "plain_connection",
    "reference_to",
]
