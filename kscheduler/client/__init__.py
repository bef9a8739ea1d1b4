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

The names below are loaded from their modules when they are first asked for: most programs need few of them, and a
command that asks one question neither Events nor Bindings.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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

# By name the module that has it.
_HOMES: Final = {
    "Connection": "access.connection",
    "load_connection": "access.connection",
    "load_service_account": "access.connection",
    "plain_connection": "access.connection",
    "APIError": "errors",
    "ClientError": "errors",
    "ConfigurationError": "errors",
    "CredentialsError": "errors",
    "FencedError": "errors",
    "NetworkError": "errors",
    "NotSentError": "errors",
    "StalledError": "errors",
    "UnknownOutcomeError": "errors",
    "EventRecorder": "events.recorder",
    "EventReference": "events.recorder",
    "EventStatistics": "events.recorder",
    "reference_to": "events.recorder",
    "APIClient": "rest",
    "LineStream": "rest",
    "DURATION_BUCKETS": "rest_statistics",
    "SIZE_BUCKETS": "rest_statistics",
    "RequestHistogram": "rest_statistics",
    "RESTStatistics": "rest_statistics",
    "UNCHANGED": "writes.pods",
    "PodWriter": "writes.pods",
    "Unchanged": "writes.pods",
}


def __getattr__(name: str) -> Any:
    """The name from its module. Raises `AttributeError`."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
