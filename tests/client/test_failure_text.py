"""A failed connection is told in words: no object's address, no line of OpenSSL's source, no error number."""

import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from kscheduler.client.failure_text import failure_text, network_error
from kscheduler.client.http.over_aiohttp import our_error

KEY = ConnectionKey(
    "10.0.0.1",
    6443,
    is_ssl=True,
    ssl=ssl.create_default_context(),
    proxy=None,
    proxy_auth=None,
    proxy_headers_hash=None,
)


def certificate_error() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1006)")
    error.verify_message = "unable to get local issuer certificate"
    return error


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] {reason.lower()} (_ssl.c:1006)")
    error.reason = reason
    return error


REFUSED = OSError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.1', 6443)")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (REFUSED, "connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to host"),
        (socket.gaierror(-2, "Name or service not known"), "the host's name cannot be looked up: name or service not"),
        (certificate_error(), "the server's certificate is not trusted: unable to get local issuer certificate"),
        (tls_error("WRONG_VERSION_NUMBER"), "does not speak TLS: is it http rather than https?"),
        (tls_error("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "the client certificate has expired"),
        (tls_error("SOMETHING_ELSE"), "TLS failed: something else"),
        (
            aiohttp.ClientProxyConnectionError(KEY, REFUSED),
            "no connection to the proxy 10.0.0.1:6443: connection refused",
        ),
        (aiohttp.ClientConnectorError(KEY, REFUSED), "no connection to 10.0.0.1:6443: connection refused"),
        (
            aiohttp.ClientConnectorCertificateError(KEY, certificate_error()),
            "no connection to 10.0.0.1:6443: the server's certificate is not trusted",
        ),
        (aiohttp.ClientConnectorSSLError(KEY, tls_error("UNSUPPORTED_PROTOCOL")), "no TLS version in common"),
        (TimeoutError(), "no answer in time"),
        (ValueError("a text of its own"), "a text of its own"),
        (ValueError(), "ValueError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_failure_is_reported_in_words(error: BaseException, expected: str) -> None:
    text = failure_text(our_error(error) if isinstance(error, aiohttp.ClientError) else error)
    assert expected in text
    for ugly in ("object at 0x", "_ssl.c", "Errno", "('"):
        assert ugly not in text


def test_the_clients_errors_say_it_so_too() -> None:
    failure = network_error(our_error(aiohttp.ClientConnectorError(KEY, REFUSED)), "GET", "/api/v1/pods?watch=1")
    assert str(failure) == "GET /api/v1/pods: no connection to 10.0.0.1:6443: connection refused"
