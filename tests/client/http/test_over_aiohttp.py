"""aiohttp's exceptions become those that our own connections raise, so that nobody else needs to know them."""

import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from kscheduler.client.errors import NotSentError, ProxyError, ProxyNameError
from kscheduler.client.failure_text import network_error
from kscheduler.client.http.http1 import (
    CutResponseError,
    EncodedResponseError,
    MalformedResponseError,
    NotHTTPError,
)
from kscheduler.client.http.over_aiohttp import our_error

KEY = ConnectionKey("h", 6443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None)
REFUSED = OSError(errno.ECONNREFUSED, "x")
REQUEST = aiohttp.RequestInfo(URL("http://h/"), "GET", CIMultiDictProxy(CIMultiDict()), URL("http://h/"))


def tls_error(error: ssl.SSLError) -> ssl.SSLError:
    """With what OpenSSL's own errors have."""
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = "self-signed certificate"
    return error


UNTRUSTED = tls_error(ssl.SSLCertVerificationError(1, "x"))


def broken(rule: Exception) -> aiohttp.ClientError:
    error = aiohttp.ClientPayloadError("x")
    error.__cause__ = rule
    return error


@pytest.mark.parametrize(
    ("error", "kind", "cause"),
    [
        (aiohttp.ClientConnectorError(KEY, REFUSED), NotSentError, OSError),
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "x")), NotSentError, socket.gaierror),
        (aiohttp.ClientConnectorSSLError(KEY, tls_error(ssl.SSLError(1, "x"))), NotSentError, ssl.SSLError),
        (
            aiohttp.ClientConnectorCertificateError(KEY, tls_error(ssl.CertificateError("x"))),
            NotSentError,
            ssl.SSLError,
        ),
        (aiohttp.ConnectionTimeoutError("x"), NotSentError, TimeoutError),
        (aiohttp.ClientProxyConnectionError(KEY, REFUSED), ProxyError, OSError),
        (aiohttp.ClientHttpProxyError(REQUEST, (), status=407), ProxyError, type(None)),
        (aiohttp.SocketTimeoutError("x"), TimeoutError, type(None)),
        (aiohttp.ServerDisconnectedError(), CutResponseError, type(None)),
        (aiohttp.ClientPayloadError("Not enough data to satisfy content length"), CutResponseError, type(None)),
        (broken(aiohttp.http_exceptions.BadStatusLine("x")), NotHTTPError, type(None)),
        (broken(aiohttp.http_exceptions.ContentEncodingError("x")), EncodedResponseError, type(None)),
        (broken(aiohttp.http_exceptions.TransferEncodingError("x")), MalformedResponseError, type(None)),
        (aiohttp.ClientOSError(errno.EPIPE, "x"), OSError, type(None)),
        (aiohttp.ClientConnectionError("Connector is closed."), ConnectionError, type(None)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_becomes_what_our_own_connections_raise(
    error: aiohttp.ClientError, kind: type[Exception], cause: type[object]
) -> None:
    ours = our_error(error)
    assert isinstance(ours, kind)
    assert isinstance(ours.__cause__, cause)


def test_a_proxy_whose_own_name_is_unknown_is_named_as_such() -> None:
    unknown = ProxyNameError(socket.EAI_NONAME, "Name or service not known")
    ours = our_error(aiohttp.ClientProxyConnectionError(KEY, aiohttp.ClientConnectorDNSError(KEY, unknown)))
    assert isinstance(ours, ProxyError)
    assert "the proxy's name cannot be looked up: name or service not known" in str(ours)


def test_a_write_that_a_proxy_refuses_to_connect_was_not_sent() -> None:
    """Its CONNECT is refused before a byte of the write leaves."""
    refused = our_error(aiohttp.ClientHttpProxyError(REQUEST, (), status=403, message="Forbidden"))
    assert type(network_error(refused, "POST", "/x")) is NotSentError
