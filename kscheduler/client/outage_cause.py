"""Why a request failed, and what an operator can do about it.

Sockets, resolvers, TLS and proxies raise many exceptions; an operator has to look at one of a dozen things. Here an
exception becomes a `Cause`, which is also a metric's label, and a sentence of advice. Pure, and called only for
requests that have failed.
"""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import aiohttp

from kscheduler.client.errors import APIError, CredentialsError, WrongAnswerError
from kscheduler.client.http.http1 import CutResponseError, MalformedResponseError
from kscheduler.logs.clean import short_line


class Cause(StrEnum):
    """The kind of trouble; each is a label value."""

    REFUSED = "refused"
    NAME = "name_not_resolved"
    TIMEOUT = "timeout"
    TLS = "tls"
    BROKEN = "broken"
    NOT_HTTP = "not_http"
    PROXY = "proxy"
    SERVER_ERROR = "server_error"
    UNAUTHORIZED = "unauthorized"
    CREDENTIALS = "no_credentials"
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A failure with its cause, as shown to an operator."""

    cause: Cause
    text: str
    """The error in one line."""
    advice: str
    """Where to look, or what to do."""


ADVICE: Final = {
    Cause.REFUSED: "nobody listens there: is kube-apiserver up, and are host and port of the kubeconfig right",
    Cause.NAME: "the host name is not resolved: look at DNS, in a pod at its dnsPolicy and at CoreDNS",
    Cause.TIMEOUT: "packets are lost or the API server hangs: look at firewalls, NetworkPolicies, routes and its load",
    Cause.BROKEN: "connections are cut: look at the API server's log, and at load balancers in between",
    Cause.NOT_HTTP: "what answers does not speak HTTP: is this the API server's port, and http or https as it wants it",
    Cause.PROXY: "a proxy or load balancer answers for an API server that it does not reach: look at its backends",
    Cause.SERVER_ERROR: "the API server answers and fails: look at its log, at its /readyz?verbose and at etcd",
    Cause.UNAUTHORIZED: "the credentials are not accepted: renew token or client certificate, or check that the "
    "service account exists; a rotated token file is read again by itself",
    Cause.CREDENTIALS: "no credentials can be had: look at the token file or the exec plugin of the kubeconfig",
    Cause.THROTTLED: "the API server asks for fewer requests: look at its priority levels "
    "(flowcontrol.apiserver.k8s.io) and its load, or lower clientConnection.qps",
}
_TLS_ADVICE = (
    ("certificate has expired", "the API server's certificate has expired: renew it, or check this machine's clock"),
    ("not yet valid", "the API server's certificate is not valid yet: check this machine's clock"),
    ("mismatch", "the certificate is for other names: use one of them, or set tls-server-name in the kubeconfig"),
    ("not valid for", "the certificate is for other names: use one of them, or set tls-server-name in the kubeconfig"),
    ("alert certificate expired", "our client certificate has expired: renew it in the kubeconfig"),
    (
        "alert",
        "the API server does not accept our TLS client certificate: look at client-certificate in the kubeconfig",
    ),
    ("wrong version number", "the port does not speak TLS: http:// may be meant"),
    ("verify failed", "the certificate is signed by another authority: check certificate-authority in the kubeconfig"),
)
_OTHER_TLS_ADVICE = "TLS with the API server fails: look at certificates and versions at both ends"
_OUR_PROXY_ADVICE = "the proxy on the way to the API server fails: look at it, and at proxy-url in the kubeconfig"
_LONGEST_TEXT = 300
_PROXY_CODES = frozenset((502, 503, 504))


def cause_of_failure(failure: BaseException, text: str = "") -> Diagnosed:
    """The cause of what a transport raised; `text` is the caller's text for the error, if it says more."""
    chain = tuple(_chain(failure))
    message = _message(text or str(failure) or type(failure).__name__)
    for link in chain:
        if isinstance(link, CredentialsError):
            return Diagnosed(Cause.CREDENTIALS, message, ADVICE[Cause.CREDENTIALS])
        if isinstance(link, WrongAnswerError):
            return Diagnosed(Cause.PROXY, message, ADVICE[Cause.PROXY])
        if isinstance(link, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
            return Diagnosed(Cause.PROXY, message, _OUR_PROXY_ADVICE)
        if isinstance(link, ssl.SSLError | ssl.CertificateError | aiohttp.ClientSSLError):
            return Diagnosed(Cause.TLS, message, _tls_advice(" ".join(map(str, chain))))
    cause = next((found for link in chain if (found := _cause_of(link)) is not None), Cause.BROKEN)
    return Diagnosed(cause, message, ADVICE[cause])


def cause_of_refusal(error: APIError) -> Diagnosed | None:
    """The cause of a refusal; `None` if the server judged the request itself, so that the server is fine."""
    if error.is_unauthorized:
        cause = Cause.UNAUTHORIZED
    elif error.is_too_many_requests:
        cause = Cause.THROTTLED
    elif not error.is_server_error:
        return None
    else:
        is_foreign = not error.is_status and error.code in _PROXY_CODES
        cause = Cause.PROXY if is_foreign else Cause.SERVER_ERROR
    return Diagnosed(cause, _message(str(error)), ADVICE[cause])


def _chain(failure: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = failure
    for _ in range(10):  # an exception may be its own context
        if link is None:
            return
        yield link
        inner = getattr(link, "os_error", None)  # aiohttp keeps the socket's error there
        if isinstance(inner, BaseException) and inner is not link:
            yield inner
        link = link.__cause__ or link.__context__


def _cause_of(link: BaseException) -> Cause | None:
    if isinstance(link, socket.gaierror | aiohttp.ClientConnectorDNSError):
        return Cause.NAME
    if isinstance(link, ConnectionRefusedError):
        return Cause.REFUSED
    if isinstance(link, TimeoutError):
        return Cause.TIMEOUT
    if isinstance(link, CutResponseError):
        return Cause.BROKEN
    if isinstance(link, MalformedResponseError | aiohttp.http_exceptions.HttpProcessingError):
        return Cause.NOT_HTTP
    if isinstance(link, OSError):
        # happy eyeballs reports several refused addresses in one OSError without a number
        return Cause.REFUSED if "Connect call failed" in str(link) or link.errno == 111 else Cause.BROKEN
    return None


def _tls_advice(text: str) -> str:
    lowered = text.lower()
    return next((advice for words, advice in _TLS_ADVICE if words in lowered), _OTHER_TLS_ADVICE)


def _message(text: str) -> str:
    return short_line(" ".join(text.split()), _LONGEST_TEXT)
