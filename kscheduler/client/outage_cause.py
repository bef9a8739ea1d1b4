"""Why a request failed, and what an operator can do about it: one table.

The problem: sockets, resolvers, TLS, HTTP and proxies raise many exceptions, often one in another; an operator has to
look at one of two dozen things, and the wrong name sends them to the wrong place at night. The idea: each row of
`TABLE` has the symptom that proves a cause and the advice. The rows are asked in order, and the first that is proved
counts: what concerns this process and this machine comes before what concerns the way, and that before the server.

A cause is also a metric's label. Pure, and called only for requests that have failed. docs/runbook.md has the table for
readers; a test compares both, and another makes each symptom for real where that can be done.
"""

import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from kscheduler.client.errors import (
    APIError,
    ClientError,
    CredentialsError,
    ForeignResponseError,
    NetworkError,
    NotSentError,
    ProxyError,
    ProxyNameError,
)
from kscheduler.client.http.http1 import CutResponseError, EncodedResponseError, MalformedResponseError, NotHTTPError
from kscheduler.telemetry.logs.clean import short_line


class Cause(StrEnum):
    """The kind of trouble; each is a label value."""

    DESCRIPTORS = "no_file_descriptors"
    MEMORY = "no_memory"
    PORTS = "no_local_ports"
    DENIED = "denied_locally"
    CREDENTIALS = "no_credentials"
    PROXY = "proxy"
    NAME = "name_not_resolved"
    NAME_SERVER = "name_server_fails"
    REFUSED = "refused"
    NO_ROUTE = "no_route"
    TIMEOUT = "timeout"
    TLS = "tls"
    BROKEN = "broken"
    NOT_HTTP = "not_http"
    MALFORMED = "malformed_http"
    ENCODED = "encoded"
    REDIRECT = "redirect"
    UNAUTHORIZED = "unauthorized"
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"


class Diagnosed(msgspec.Struct, frozen=True):
    """A failure with its cause, as shown to an operator."""

    cause: Cause
    text: str
    """The error in one line."""
    advice: str
    """Where to look, or what to do."""


class Evidence(msgspec.Struct, frozen=True):
    """What is known of a failed request."""

    chain: tuple[BaseException, ...] = ()
    """The exception and those that it was raised from; empty where the server has answered."""
    refusal: APIError | None = None

    def has(self, *kinds: type[BaseException]) -> bool:
        """Whether an exception of such a kind is in the chain."""
        return any(isinstance(link, kinds) for link in self.chain)

    def has_number(self, *numbers: int) -> bool:
        """Whether an error of the operating system with such a number is in the chain; a failed look-up has others."""
        return any(
            isinstance(link, OSError) and not isinstance(link, socket.gaierror | ssl.SSLError) and link.errno in numbers
            for link in self.chain
        )

    @property
    def text(self) -> str:
        """The words of all exceptions, in small letters."""
        return " ".join(map(str, self.chain)).lower()


class Symptom(msgspec.Struct, frozen=True):
    """A row: what proves a cause, and what to do about it."""

    cause: Cause
    proof: str
    """What is seen, in the words of docs/runbook.md."""
    is_proved: Callable[[Evidence], bool]
    advice: str


def _tls(*words: str) -> Callable[[Evidence], bool]:
    """A TLS failure whose text has one of these words."""
    return lambda seen: seen.has(*_TLS_ERRORS) and any(word in seen.text for word in words)


def _lookup(*numbers: int) -> Callable[[Evidence], bool]:
    """A failed look-up of a name with one of these numbers; without numbers any."""
    return lambda seen: any(
        isinstance(link, socket.gaierror) and (not numbers or link.errno in numbers) for link in seen.chain
    )


def _refusal(proves: Callable[[APIError], bool]) -> Callable[[Evidence], bool]:
    return lambda seen: seen.refusal is not None and proves(seen.refusal)


def _is_plain_to_tls(refusal: APIError) -> bool:
    return (
        refusal.code == 400 and not refusal.is_status and "http request to an https server" in refusal.message.lower()
    )


def _is_foreign(refusal: APIError) -> bool:
    """Whether somebody else answers for the API server: it never sends pages, and its gateway codes are Status."""
    return not refusal.is_status and (refusal.is_page or refusal.code in _PROXY_CODES)


def _is_connecting(seen: Evidence) -> bool:
    return seen.has(NotSentError)


_TLS_ERRORS: Final = (ssl.SSLError, ssl.CertificateError)
_PROXY_CODES: Final = frozenset((502, 503, 504))
_NO_SUCH_NAME: Final = tuple(
    number for name in ("EAI_NONAME", "EAI_NODATA") if (number := getattr(socket, name, None)) is not None
)
_RENEW: Final = "renew it, or check this machine's clock"

# In the order in which they are asked. What the API server itself judges (403, 404, 409, 422) is no outage.
TABLE: Final = (
    # --- this process and this machine
    Symptom(
        Cause.DESCRIPTORS,
        "`too many open files` (EMFILE, ENFILE) when a socket, a token or a certificate is opened",
        lambda seen: seen.has_number(errno.EMFILE, errno.ENFILE),
        "this process or machine has no file descriptor left, and the API server is not to blame: raise the limit "
        "(ulimit -n, LimitNOFILE, fs.file-max), and see what holds them (process_open_fds)",
    ),
    Symptom(
        Cause.MEMORY,
        "`cannot allocate memory`, `no buffer space available` (ENOMEM, ENOBUFS)",
        lambda seen: seen.has_number(errno.ENOMEM, errno.ENOBUFS),
        "this machine's kernel has no memory for another connection: look at its memory and at net.ipv4.tcp_mem",
    ),
    Symptom(
        Cause.PORTS,
        "`cannot assign requested address` (EADDRNOTAVAIL)",
        lambda seen: seen.has_number(errno.EADDRNOTAVAIL, errno.EADDRINUSE),
        "this machine has no local port or address left for another connection: look what opens so many "
        "(ss -s), and at net.ipv4.ip_local_port_range",
    ),
    Symptom(
        Cause.DENIED,
        "`permission denied`, `operation not permitted` (EACCES, EPERM) when connecting",
        lambda seen: seen.has_number(errno.EACCES, errno.EPERM) and not seen.has(CredentialsError),
        "this machine itself forbids the connection: look at its firewall, seccomp profile and NetworkPolicy agent",
    ),
    Symptom(
        Cause.CREDENTIALS,
        "the token file cannot be read, or the exec plugin fails",
        lambda seen: seen.has(CredentialsError),
        "no credentials can be had: look at the token file or the exec plugin of the kubeconfig",
    ),
    # --- the way
    Symptom(
        Cause.PROXY,
        "the proxy of the kubeconfig or the environment is not reached or not found, or does not let us through",
        lambda seen: seen.has(ProxyError, ProxyNameError),
        "the proxy on the way to the API server fails: look at it, at proxy-url in the kubeconfig, and at HTTPS_PROXY, "
        "HTTP_PROXY and NO_PROXY in this process's environment",
    ),
    Symptom(
        Cause.NAME,
        "`name or service not known`: the name server says that there is no such name (NXDOMAIN)",
        _lookup(*_NO_SUCH_NAME),
        "the host name cannot be resolved, no such name exists: look at the server of the kubeconfig, at DNS, and "
        "in a pod at its dnsPolicy",
    ),
    Symptom(
        Cause.NAME_SERVER,
        "`temporary failure in name resolution`: no name server answers, or it fails (SERVFAIL)",
        _lookup(),
        "name servers do not answer: look at DNS (CoreDNS, /etc/resolv.conf), and in a pod at its dnsPolicy",
    ),
    Symptom(
        Cause.TLS,
        "`certificate has expired`",
        _tls("certificate has expired"),
        f"the API server's certificate has expired: {_RENEW}",
    ),
    Symptom(
        Cause.TLS,
        "`certificate is not yet valid`",
        _tls("not yet valid"),
        "the API server's certificate is not valid yet: check this machine's clock",
    ),
    Symptom(
        Cause.TLS,
        "`hostname mismatch`, `not valid for`",
        _tls("mismatch", "not valid for"),
        "the certificate is for other names: use one of them, or set tls-server-name in the kubeconfig",
    ),
    Symptom(
        Cause.TLS,
        "the server's alert `certificate expired`",
        _tls("alert certificate expired"),
        f"our client certificate has expired: {_RENEW}",
    ),
    Symptom(
        Cause.TLS,
        "any other alert of the server: `certificate required`, `unknown ca`, `bad certificate`",
        _tls("alert"),
        "the API server does not accept our TLS client certificate: look at client-certificate in the kubeconfig",
    ),
    Symptom(
        Cause.TLS,
        "`wrong version number`, `http request`: https is spoken to a port of plain HTTP",
        _tls("wrong version number", "wrong_version_number", "http request", "record layer failure"),
        "the port does not speak TLS: http:// may be meant",
    ),
    Symptom(
        Cause.TLS,
        "400 `Client sent an HTTP request to an HTTPS server`: http is spoken to a port of TLS",
        _refusal(_is_plain_to_tls),
        "the port speaks TLS: https:// is meant",
    ),
    Symptom(
        Cause.TLS,
        "`certificate verify failed`, with no better reason",
        _tls("verify failed"),
        "the certificate is signed by another authority: check certificate-authority in the kubeconfig",
    ),
    Symptom(
        Cause.TLS,
        "any other failure of TLS",
        lambda seen: seen.has(*_TLS_ERRORS),
        "TLS with the API server fails: look at certificates and versions at both ends",
    ),
    Symptom(
        Cause.REFUSED,
        "`connection refused` (ECONNREFUSED)",
        # happy eyeballs reports several refused addresses in one OSError without a number
        lambda seen: (
            seen.has(ConnectionRefusedError)
            or seen.has_number(errno.ECONNREFUSED)
            or "connect call failed" in seen.text
        ),
        "nothing listens there: is kube-apiserver up, and are the kubeconfig's host and port right",
    ),
    Symptom(
        Cause.NO_ROUTE,
        "`no route to host`, `network is unreachable`, `network is down`",
        lambda seen: seen.has_number(
            errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EAFNOSUPPORT
        ),
        "this machine has no way there: look at its interfaces and routes, and whether the address is of this network",
    ),
    Symptom(
        Cause.TIMEOUT,
        "no connection within 10 s",
        lambda seen: seen.has(TimeoutError) and _is_connecting(seen),
        "packets on the way are dropped: look at firewalls, NetworkPolicies and routes, and whether the machine is up",
    ),
    Symptom(
        Cause.TIMEOUT,
        "connected, and no answer in time, or nothing more of one that has begun",
        lambda seen: seen.has(TimeoutError),
        "packets are lost or the API server hangs: look at its load, and at firewalls and load balancers that forget "
        "connections",
    ),
    Symptom(
        Cause.BROKEN,
        "the connection is closed before or in the middle of an answer, also within a chunk of a watch",
        lambda seen: seen.has(CutResponseError),
        "connections are cut: look at the API server's log, and at load balancers in between",
    ),
    Symptom(
        Cause.ENCODED,
        "an answer with `Content-Encoding`, which was not asked for",
        lambda seen: seen.has(EncodedResponseError),
        "something compresses responses that must not be: look at the proxies in between",
    ),
    Symptom(
        Cause.NOT_HTTP,
        "the answer does not begin as HTTP does",
        lambda seen: seen.has(NotHTTPError),
        "what answers does not speak HTTP: is this the API server's port, and http or https as it wants it",
    ),
    Symptom(
        Cause.MALFORMED,
        "the answer begins as HTTP and breaks its rules: a chunk without a size, a head of more than 64 KiB",
        lambda seen: seen.has(MalformedResponseError),
        "something in between garbles HTTP or adds to it: look at proxies and load balancers, and at their headers",
    ),
    Symptom(
        Cause.PROXY,
        "a 2xx to a write without what was written: a page, an empty body, another object; or a page in place of a "
        "list or watch",
        lambda seen: seen.has(ForeignResponseError),
        "something answers for the API server without asking it: look at proxies and load balancers in between",
    ),
    Symptom(
        Cause.BROKEN,
        "`connection reset`, `broken pipe`, and whatever has no row",
        lambda seen: bool(seen.chain),
        "connections are cut: look at the API server's log, and at load balancers in between",
    ),
    # --- who answers
    Symptom(
        Cause.REDIRECT,
        "an answer 3xx; the message has its Location",
        _refusal(lambda refusal: 300 <= refusal.code < 400),
        "the API server never redirects, so a proxy or a login page answers in its place: look at the server of the "
        "kubeconfig and at what is in between; redirects are not followed",
    ),
    Symptom(
        Cause.PROXY,
        "an HTML page, or 502, 503 or 504 that is no Status of the API server",
        _refusal(_is_foreign),
        "a proxy or load balancer answers for an API server that it does not reach: look at its backends",
    ),
    Symptom(
        Cause.UNAUTHORIZED,
        "401",
        _refusal(lambda refusal: refusal.is_unauthorized),
        "the credentials are not accepted: renew token or client certificate, or check that the "
        "service account exists and both clocks; a rotated token file is read again by itself",
    ),
    Symptom(
        Cause.THROTTLED,
        "429",
        _refusal(lambda refusal: refusal.is_too_many_requests),
        "the API server asks for fewer requests: look at its priority levels "
        "(flowcontrol.apiserver.k8s.io) and its load, or lower clientConnection.qps",
    ),
    Symptom(
        Cause.SERVER_ERROR,
        "any other 5xx",
        _refusal(lambda refusal: refusal.is_server_error),
        "the API server answers and fails: look at its log, at its /readyz?verbose and at etcd",
    ),
)

_LONGEST_TEXT: Final = 300


def cause_of_failure(failure: BaseException, text: str = "") -> Diagnosed:
    """The cause of what a transport raised; `text` is the caller's text for the error, if it says more."""
    seen = Evidence(chain=tuple(_chain(failure)))
    message = _message(text or str(failure) or type(failure).__name__)
    row = next(row for row in TABLE if row.is_proved(seen))
    return Diagnosed(row.cause, message, row.advice)


def cause_of_refusal(error: APIError) -> Diagnosed | None:
    """The cause of a refusal; `None` if the server judged the request itself, so that the server is fine."""
    seen = Evidence(refusal=error)
    row = next((row for row in TABLE if row.is_proved(seen)), None)
    return None if row is None else Diagnosed(row.cause, _message(str(error)), row.advice)


def advice_about_failure(failure: ClientError) -> str | None:
    """Where to look for a request that has failed; `None` where the API server has judged the request itself (403, 404,
    409, 422): then who has sent it knows what it needs.
    """
    if isinstance(failure, APIError):
        refused = cause_of_refusal(failure)
        return None if refused is None else refused.advice
    is_about_the_way = isinstance(failure, NetworkError | CredentialsError)
    return cause_of_failure(failure).advice if is_about_the_way else None


def is_about_new_connections(failure: BaseException) -> bool:
    """Whether a connection could not be made, which says nothing about those that are open."""
    return _is_connecting(Evidence(chain=tuple(_chain(failure))))


def advice_about(cause: Cause) -> str:
    """The advice of the first row of a cause."""
    return next(row.advice for row in TABLE if row.cause is cause)


def _chain(failure: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = failure
    for _ in range(10):  # an exception may be its own context
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _message(text: str) -> str:
    return short_line(" ".join(text.split()), _LONGEST_TEXT)
