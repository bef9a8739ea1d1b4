"""Flags for HTTP: ports, TLS, authentication, authorisation. kube-scheduler's own, and three of ours.

    --secure-port N                  HTTPS; 0 switches it off, as in kube-scheduler
    --port N                         the same, but 0 means any free port
    --metrics-bind-address IP:PORT   plain HTTP for health and metrics only
    --insecure-port N                plain HTTP for all that only reads, on 127.0.0.1, without a login

HTTP/1.1 is served, and TLS 1.2 at least. Mistakes are `ConfigError`s; what is not honoured warns by its name.
"""

import argparse
import errno
import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kscheduler.api.well_known import SCHEDULER_PORT
from kscheduler.cli.parser import COMMAND_LINE, boolean, duration, port, text
from kscheduler.config.durations import Duration
from kscheduler.config.errors import Mistakes, config_error
from kscheduler.server.login.authorities import AuthenticationSettings, RequestHeaderSettings
from kscheduler.server.login.permissions import AuthorizationSettings, OpenPaths
from kscheduler.server.serving import LOOPBACK, HTTPServing
from kscheduler.server.tls.settings import (
    INSECURE,
    KNOWN,
    OF_TLS13,
    RAISED,
    VERSIONS,
    NamedPair,
    TLSSettings,
    unavailable,
)

if TYPE_CHECKING:
    from kscheduler.server.listener import CannotListenError

_ALWAYS_OPEN: Final = ("/healthz", "/readyz", "/livez")


def words(value: str) -> list[str]:
    """A comma-separated list, as Go reads one; an empty text is an empty list."""
    return [part.strip() for part in value.split(",")] if value else []


def why_not_listening(failure: "CannotListenError", https: str) -> str:
    """One line about a port that cannot be opened: its flags, why not, and where to look.

    `https`: which of its two flags the secure port was given by.
    """
    host, number = failure.address.host, failure.address.port
    flag = {"metrics": "metrics-bind-address", "insecure": "insecure-port"}.get(failure.name, https)
    shown = f"[{host}]" if ":" in host else host
    given = {
        "metrics-bind-address": f"--metrics-bind-address {shown}:{number}",
        "insecure-port": f"--insecure-port {number} (of {host})",
    }.get(flag, f"--bind-address {host} --{https} {number}")
    zero = {"insecure-port": "--insecure-port=0", "port": "--port=0"}
    # --secure-port=0 is kube-scheduler's way to switch HTTPS off
    takes_any = f"{zero.get(flag, '--port=0 in place of --secure-port')} takes any that is free"
    free = f", or {takes_any}" if failure.errno == errno.EADDRINUSE and flag != "metrics-bind-address" else ""
    return f"{given}: {failure.strerror}; {failure.advice}{free}"


def address_and_port(value: str) -> tuple[str, int]:
    """`127.0.0.1:10260`, `[::1]:10260` or `:10260`. Raises `ArgumentTypeError`."""
    host, colon, number = value.rpartition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{value!r} is no address with a port, such as 127.0.0.1:10260")
    return ip_address(host.removeprefix("[").removesuffix("]") or "0.0.0.0"), port(number)


def ip_address(value: str) -> str:
    """An IP address to listen on. Raises `ArgumentTypeError`."""
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is no IP address, such as 0.0.0.0 or ::1") from None


def named_pair(value: str) -> NamedPair:
    """`CERT,KEY` or `CERT,KEY:NAME,...`. Raises `ArgumentTypeError`."""
    files, colon, names = (part.strip() for part in value.partition(":"))
    pair = [part.strip() for part in files.split(",")]
    if len(pair) != 2 or not all(pair):
        raise argparse.ArgumentTypeError("expected comma separated certificate and key file paths")
    if colon and not names:
        raise argparse.ArgumentTypeError("empty names list is not allowed")
    return NamedPair(pair[0], pair[1], tuple(words(names)))


class ServingFlag(msgspec.Struct, frozen=True):
    """A flag about HTTP."""

    name: str
    read: Callable[[str], Any]
    default: str
    """As `/flagz` shows it."""
    help: str
    repeats: bool = False
    """May be given more than once; a list grows with each."""
    tls_only: bool = True
    """Whether it means nothing while the secure port is off."""
    metavar: str = "VALUE"
    """As the help shows it; the shell completes FILE and DIR."""

    @property
    def key(self) -> str:
        """The attribute of the parsed arguments."""
        return self.name.replace("-", "_")


def _list(name: str, default: str, help_text: str) -> ServingFlag:
    return ServingFlag(name, words, f"[{default}]", f"{help_text} (default {default or 'none'})", repeats=True)


PORTS: Final = (
    ServingFlag("bind-address", ip_address, "0.0.0.0", "of the secure port (default 0.0.0.0: every address)"),
    ServingFlag(
        "secure-port",
        port,
        str(SCHEDULER_PORT),
        f"HTTPS with a login (default {SCHEDULER_PORT}); 0: off",
        tls_only=False,
    ),
    ServingFlag("port", port, "", "the same, where 0 means any free port", tls_only=False),
    ServingFlag(
        "metrics-bind-address",
        address_and_port,
        "",
        "IP:PORT for plain HTTP, health and metrics only, without a login; for loopback, or behind a NetworkPolicy",
        tls_only=False,
    ),
    ServingFlag(
        "insecure-port",
        port,
        "",
        f"plain HTTP for all that only reads on {LOOPBACK}, without a login, for development; 0: any free port",
        tls_only=False,
    ),
    ServingFlag(
        "status-page",
        boolean,
        "true",
        "pages for browsers under /ui/, for whom the API server lets get /ui and /ui/* (default true)",
        tls_only=False,
    ),
    ServingFlag("permit-port-sharing", boolean, "false", "SO_REUSEPORT (default false)"),
    ServingFlag("permit-address-sharing", boolean, "false", "SO_REUSEADDR, which is always set"),
)
TLS: Final = (
    ServingFlag(
        "tls-cert-file", text, "", "certificate and its chain, PEM; without it one is made at the start", metavar="FILE"
    ),
    ServingFlag("tls-private-key-file", text, "", "its key; both are read again when they change", metavar="FILE"),
    ServingFlag("cert-dir", text, "", "where a certificate that is made is kept (default: in memory)", metavar="DIR"),
    ServingFlag("tls-sni-cert-key", named_pair, "[]", "CERT,KEY[:NAME,...] for who asks for NAME", repeats=True),
    ServingFlag("tls-min-version", text, "", "VersionTLS12 (default) or VersionTLS13"),
    _list("tls-cipher-suites", "", "of TLS 1.2, by Go's names"),
    ServingFlag("disable-http2-serving", boolean, "false", "HTTP/2 is never served"),
)
AUTHENTICATION: Final = (
    ServingFlag(
        "authentication-kubeconfig", text, "", "for TokenReviews (default: as the scheduler connects)", metavar="FILE"
    ),
    ServingFlag("authentication-skip-lookup", boolean, "false", "leave the cluster's authorities out (default false)"),
    ServingFlag("authentication-tolerate-lookup-failure", boolean, "true", "start without them too (default true)"),
    ServingFlag("authentication-token-webhook-cache-ttl", duration, "10s", "to remember a token (default 10s)"),
    ServingFlag(
        "client-ca-file", text, "", "authorities of clients' certificates (default: the cluster's)", metavar="FILE"
    ),
    ServingFlag(
        "requestheader-client-ca-file",
        text,
        "",
        "authorities of front proxies (default: the cluster's)",
        metavar="FILE",
    ),
    _list("requestheader-allowed-names", "", "common names of front proxies; none means any"),
    _list("requestheader-username-headers", "x-remote-user", "headers with the user"),
    _list("requestheader-uid-headers", "", "headers with the user's UID"),
    _list("requestheader-group-headers", "x-remote-group", "headers with the user's groups"),
    _list("requestheader-extra-headers-prefix", "x-remote-extra-", "prefixes of headers with more about the user"),
)
AUTHORIZATION: Final = (
    ServingFlag(
        "authorization-kubeconfig",
        text,
        "",
        "for SubjectAccessReviews (default: as the scheduler connects)",
        metavar="FILE",
    ),
    _list("authorization-always-allow-paths", ",".join(_ALWAYS_OPEN), "open to everybody; * at the end is a prefix"),
    ServingFlag("authorization-webhook-cache-authorized-ttl", duration, "10s", "to remember a yes (default 10s)"),
    ServingFlag("authorization-webhook-cache-unauthorized-ttl", duration, "10s", "to remember a no (default 10s)"),
)
ALL: Final = (*PORTS, *TLS, *AUTHENTICATION, *AUTHORIZATION)

_HEADER_FLAGS: Final = tuple(flag for flag in AUTHENTICATION if flag.name.startswith("requestheader-") and flag.repeats)


def add_serving_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags. Those that are not given have no attribute."""
    _add(parser.add_argument_group("HTTP server"), PORTS)
    _add(parser.add_argument_group("TLS"), TLS)
    _add(parser.add_argument_group("authentication", "who asks, besides open paths"), AUTHENTICATION)
    _add(parser.add_argument_group("authorization", "what they may"), AUTHORIZATION)


def _add(group: Any, flags: Iterable[ServingFlag]) -> None:
    for flag in flags:
        settings: dict[str, Any] = {"metavar": flag.metavar}
        if flag.read is boolean:
            settings = {"nargs": "?", "const": True, "metavar": "BOOL"}
        if flag.repeats:
            settings["action"] = "append"
        group.add_argument(f"--{flag.name}", type=flag.read, default=argparse.SUPPRESS, help=flag.help, **settings)


def http_serving_of(given: Mapping[str, Any]) -> HTTPServing:
    """The settings. Raises `ConfigError`."""
    address, mistakes = given.get("bind_address", "0.0.0.0"), Mistakes()
    secure_port = mistakes.of(lambda: _secure_port(given))
    tls = mistakes.of(lambda: _tls(given, address))
    authentication = mistakes.of(lambda: _authentication(given))
    authorization = mistakes.of(lambda: _authorization(given))
    if tls is None or authentication is None or authorization is None or mistakes:
        raise mistakes.error()
    return HTTPServing(
        bind_address=address,
        secure_port=secure_port,
        shares_port=given.get("permit_port_sharing", False),
        tls=tls,
        authentication=authentication,
        authorization=authorization,
        metrics_address=given.get("metrics_bind_address"),
        insecure_port=given.get("insecure_port"),
        status_page=given.get("status_page", True),
    )


def _secure_port(given: Mapping[str, Any]) -> int | None:
    by_own_name, secure = given.get("port"), given.get("secure_port")
    if by_own_name is not None and secure is not None and (by_own_name != secure or secure == 0):
        raise config_error("", f"--port {by_own_name} and --secure-port {secure} mean the same: give one", COMMAND_LINE)
    if by_own_name is not None:
        return int(by_own_name)
    return (SCHEDULER_PORT if secure is None else int(secure)) or None


def _tls(given: Mapping[str, Any], address: str) -> TLSSettings:
    certificate, key = given.get("tls_cert_file", ""), given.get("tls_private_key_file", "")
    if bool(certificate) != bool(key):
        raise config_error("", "--tls-cert-file and --tls-private-key-file belong together: give both", COMMAND_LINE)
    suites = _words_of(given, "tls_cipher_suites", ())
    for suite in suites:
        if suite not in KNOWN:
            message = f"--tls-cipher-suites: Cipher suite {suite} not supported or doesn't exist"
            raise config_error("", message, COMMAND_LINE)
    version = given.get("tls_min_version", "VersionTLS12")
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise config_error("", f'--tls-min-version: unknown tls version "{version}"; there are {known}', COMMAND_LINE)
    if suites and OF_TLS13.issuperset(suites) and version != "VersionTLS13":
        message = (
            "--tls-cipher-suites: it names suites of TLS 1.3 only, which leaves none to TLS 1.2: add one of TLS 1.2, "
            "or give --tls-min-version=VersionTLS13"
        )
        raise config_error("", message, COMMAND_LINE)
    return TLSSettings(
        certificate_file=certificate,
        key_file=key,
        folder=given.get("cert_dir", ""),
        named_pairs=tuple(given.get("tls_sni_cert_key", ())),
        min_version=version,
        cipher_suites=suites,
        bind_address=address,
    )


def _authentication(given: Mapping[str, Any]) -> AuthenticationSettings:
    header = RequestHeaderSettings(
        client_ca_file=given.get("requestheader_client_ca_file", ""),
        username_headers=_words_of(given, "requestheader_username_headers", ("x-remote-user",)),
        uid_headers=_words_of(given, "requestheader_uid_headers", ()),
        group_headers=_words_of(given, "requestheader_group_headers", ("x-remote-group",)),
        extra_prefixes=_words_of(given, "requestheader_extra_headers_prefix", ("x-remote-extra-",)),
        allowed_names=_words_of(given, "requestheader_allowed_names", ()),
    )
    return AuthenticationSettings(
        kubeconfig=given.get("authentication_kubeconfig", ""),
        client_ca_file=given.get("client_ca_file", ""),
        request_header=header,
        skip_lookup=given.get("authentication_skip_lookup", False),
        tolerate_lookup_failure=given.get("authentication_tolerate_lookup_failure", True),
        token_cache_seconds=_seconds_of(given, "authentication_token_webhook_cache_ttl"),
    )


def _authorization(given: Mapping[str, Any]) -> AuthorizationSettings:
    paths = _words_of(given, "authorization_always_allow_paths", _ALWAYS_OPEN)
    try:
        OpenPaths(paths)
    except ValueError as error:
        raise config_error("", f"--authorization-always-allow-paths: {error}", COMMAND_LINE) from error
    return AuthorizationSettings(
        kubeconfig=given.get("authorization_kubeconfig", ""),
        always_allow_paths=paths,
        authorized_seconds=_seconds_of(given, "authorization_webhook_cache_authorized_ttl"),
        unauthorized_seconds=_seconds_of(given, "authorization_webhook_cache_unauthorized_ttl"),
    )


def _words_of(given: Mapping[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """A list; each time the flag is given adds to it. Raises `ConfigError` for an empty word."""
    if key not in given:
        return default
    found = tuple(word for part in given[key] for word in part)
    if not all(found):
        flag = key.replace("_", "-")
        raise config_error("", f'empty value in "{flag}"', COMMAND_LINE)
    return found


def _seconds_of(given: Mapping[str, Any], key: str) -> float:
    """How long answers are remembered; 0: not at all. Raises `ConfigError` for a time before now."""
    value: Duration | None = given.get(key)
    if value is None:
        return 10.0
    if value < 0:
        flag = key.replace("_", "-")
        raise config_error("", f"--{flag} {value}: must not be negative; 0 remembers nothing", COMMAND_LINE)
    return value.seconds


def serving_warnings(given: Mapping[str, Any], serving: HTTPServing) -> Iterator[tuple[str, str]]:
    """Flags without their full effect, with the reason."""
    if serving.secure_port is None:
        for flag in ALL:
            if flag.tls_only and flag.key in given:
                yield f"--{flag.name}", "has no effect: --secure-port=0 switches HTTPS off"
        return
    tls = serving.tls
    if tls.certificate_file and tls.folder:
        yield "--cert-dir", "is ignored: --tls-cert-file is given"
    if tls.min_version in RAISED:
        yield "--tls-min-version", f"{tls.min_version}: TLS 1.2 is the least that is served"
    unnamed = OF_TLS13.difference(tls.cipher_suites)
    if unnamed and len(unnamed) < len(OF_TLS13):  # who names some of TLS 1.3 believes that the others are off
        yield "--tls-cipher-suites", f"has no say over TLS 1.3, as in Go: {', '.join(sorted(unnamed))} are on, too"
    missing = unavailable(tls.cipher_suites)
    if missing:
        yield "--tls-cipher-suites", f"this OpenSSL does not have {', '.join(missing)}"
    insecure = [suite for suite in tls.cipher_suites if suite in INSECURE and suite not in missing]
    if insecure:
        yield "--tls-cipher-suites", f"is honoured, but insecure: {', '.join(insecure)}"
    if not serving.authentication.request_header.client_ca_file:
        for flag in _HEADER_FLAGS:
            if flag.key in given:
                yield (
                    f"--{flag.name}",
                    "counts only with --requestheader-client-ca-file; the cluster says",
                )


def flag_values(given: Mapping[str, Any]) -> dict[str, str]:
    """All flags of this file with the values in force, as `/flagz` shows them."""
    return {flag.name: _shown(given[flag.key]) if flag.key in given else flag.default for flag in ALL}


def _shown(value: Any) -> str:
    """As Go prints a flag's value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_shown(one) for one in value)}]".replace("[[", "[").replace("]]", "]").replace("],[", ",")
    if isinstance(value, NamedPair):
        names = f":{','.join(value.names)}" if value.names else ""
        return f"{value.certificate_file},{value.key_file}{names}"
    if isinstance(value, tuple):
        return ":".join(map(str, value))
    return str(value)
