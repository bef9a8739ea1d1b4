"""Why there was no answer, in words that help an operator fix it.

The problem: asyncio and OpenSSL describe a failed connection for programmers: `Connect call failed
('10.0.0.1', 6443)`, `[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)`, `ssl:<ssl.SSLContext object at
0x7f...>`. Here each becomes a few words that are the same on every Python; an unknown error keeps its own text.
"""

import errno
import os
import socket
import ssl

from kscheduler.client.errors import NetworkError, NotSentError, ProxyNameError, StalledError, UnknownOutcomeError

# OpenSSL's reasons that a wrong kubeconfig causes.
_TLS_REASONS = {
    "WRONG_VERSION_NUMBER": "what listens there does not speak TLS: is it http rather than https?",
    "HTTP_REQUEST": "what listens there does not speak TLS: is it http rather than https?",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the server and this machine have no TLS version in common",
    "UNSUPPORTED_PROTOCOL": "the server and this machine have no TLS version in common",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server demands a client certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the server does not accept the client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not know the authority of the client certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client certificate has expired",
}


def failure_text(error: BaseException) -> str:
    """A few words without addresses of objects, source lines or error numbers."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not trusted: {_verification(error)}"
        case ssl.SSLError():
            return _TLS_REASONS.get(error.reason or "", f"TLS failed: {_reason(error)}")
        case socket.gaierror():
            whose = "proxy" if isinstance(error, ProxyNameError) else "host"
            return f"the {whose}'s name cannot be looked up: {lowered(error.strerror)}"
        case OSError() if error.errno is not None:
            return lowered(_system_text(error.errno) or str(error))
        case TimeoutError():
            return str(error) or "no answer in time"
    return str(error) or type(error).__name__


def network_error(error: BaseException, method: str, path: str) -> NetworkError:
    """What a failure of the transport means for the request."""
    where = f"{method} {path.partition('?')[0]}: {failure_text(error)}"
    if isinstance(error, NotSentError):
        return NotSentError(where)
    if method not in ("GET", "HEAD"):
        return UnknownOutcomeError(where)
    if isinstance(error, TimeoutError):
        return StalledError(where)
    return NetworkError(where)


def _verification(error: ssl.SSLCertVerificationError) -> str:
    return lowered((error.verify_message or _reason(error)).rstrip("."))


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _system_text(number: int) -> str:
    """The system's text for an error number; asyncio replaces it by a text of its own with the address."""
    return os.strerror(number) if number in errno.errorcode else ""


def lowered(text: str | None) -> str:
    """With a small first letter, for the middle of a sentence: `connection refused`."""
    return text[:1].lower() + text[1:] if text else ""
