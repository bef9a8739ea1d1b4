"""The API server, seen from here: connection, REST verbs, watch decoding, pod writes and Events.

The problem: the generated client costs a hundred times what decoding costs, never times out and retries without end.
The idea: kubernetes_asyncio finds the server and the credentials, and everything after that is ours: HTTP/1.1 for
requests and aiohttp for watches, msgspec for the objects, client-go's manners for retries, and errors that say what the
caller may conclude.
Nothing here knows scheduling.
"""

from kscheduler.client.connection import Connection, load_connection, load_service_account, plain_connection
from kscheduler.client.errors import (
    APIError,
    ClientError,
    ConfigurationError,
    CredentialsError,
    NetworkError,
    NotSentError,
    StalledError,
    UnknownOutcomeError,
)
from kscheduler.client.events import EventRecorder, EventReference, EventStatistics, reference_to
from kscheduler.client.rest import APIClient, LineStream
from kscheduler.client.rest_statistics import DURATION_BUCKETS, SIZE_BUCKETS, RequestHistogram, RESTStatistics
from kscheduler.client.writes import UNCHANGED, PodWriter, Unchanged

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
