"""Each flag about HTTP reaches the setting that it names, or warns by its name; mistakes are refused in a sentence."""

import argparse
from typing import Any

import pytest

from kscheduler.cli.flags import Resolved, add_flags, resolve
from kscheduler.cli.serving_flags import ALL
from kscheduler.config.errors import ConfigError
from kscheduler.server.login.permissions import OpenPaths
from kscheduler.server.serving import HTTPServing
from kscheduler.server.tls.settings import INSECURE, OF_TLS13, PREFERRED, NamedPair, cipher_list, unavailable


def resolved(*flags: str) -> Resolved:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return resolve(parser.parse_args(flags))


def warned(found: Resolved) -> dict[str, str]:
    return {warning.flag: warning.reason for warning in found.warnings}


PORTS: dict[str, tuple[list[str], tuple[str, int | None, tuple[str, int] | None, int | None]]] = {
    "none": ([], ("0.0.0.0", 10259, None, None)),
    "any free port": (["--port", "0"], ("0.0.0.0", 0, None, None)),
    "secure": (["--secure-port=4"], ("0.0.0.0", 4, None, None)),
    "both names": (["--secure-port=4", "--port=4"], ("0.0.0.0", 4, None, None)),
    "off": (["--secure-port=0"], ("0.0.0.0", None, None, None)),
    "bound": (["--bind-address=::1"], ("::1", 10259, None, None)),
    "metrics": (["--metrics-bind-address=127.0.0.1:9"], ("0.0.0.0", 10259, ("127.0.0.1", 9), None)),
    "metrics of IPv6": (["--metrics-bind-address=[::1]:9"], ("0.0.0.0", 10259, ("::1", 9), None)),
    "metrics everywhere": (["--metrics-bind-address=:9"], ("0.0.0.0", 10259, ("0.0.0.0", 9), None)),
    "insecure": (["--secure-port=0", "--insecure-port=7"], ("0.0.0.0", None, None, 7)),
}


@pytest.mark.parametrize("case", PORTS)
def test_where_it_serves(case: str) -> None:
    flags, expected = PORTS[case]
    found = resolved(*flags).serving
    assert (found.bind_address, found.secure_port, found.metrics_address, found.insecure_port) == expected


@pytest.mark.parametrize("flags", [["--port=1", "--secure-port=2"], ["--port=0", "--secure-port=0"]], ids=str)
def test_two_ports_are_refused(flags: list[str]) -> None:
    with pytest.raises(ConfigError, match="mean the same: give one"):
        resolved(*flags)


SETTINGS: dict[str, Any] = {
    "--status-page=false": lambda s: not s.status_page,
    "--tls-cert-file=c --tls-private-key-file=k": lambda s: (s.tls.certificate_file, s.tls.key_file) == ("c", "k"),
    "--cert-dir=d": lambda s: s.tls.folder == "d",
    "--tls-sni-cert-key=a,b --tls-sni-cert-key=c,d:x.org,*.y.org": lambda s: (
        s.tls.named_pairs == (NamedPair("a", "b"), NamedPair("c", "d", ("x.org", "*.y.org")))
    ),
    "--tls-min-version=VersionTLS13": lambda s: s.tls.min_version == "VersionTLS13",
    "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": lambda s: (
        len(s.tls.cipher_suites) == 2
    ),
    f"--tls-cipher-suites={','.join(sorted(OF_TLS13))} --tls-min-version=VersionTLS13": lambda s: (
        set(s.tls.cipher_suites) == OF_TLS13
    ),
    "--permit-port-sharing": lambda s: s.shares_port,
    "--authentication-kubeconfig=k": lambda s: s.authentication.kubeconfig == "k",
    "--authentication-skip-lookup": lambda s: s.authentication.skip_lookup,
    "--authentication-tolerate-lookup-failure=false": lambda s: not s.authentication.tolerate_lookup_failure,
    "--authentication-token-webhook-cache-ttl=1m": lambda s: s.authentication.token_cache_seconds == 60,
    "--client-ca-file=c": lambda s: s.authentication.client_ca_file == "c",
    "--requestheader-client-ca-file=c --requestheader-username-headers=A,B": lambda s: (
        s.authentication.request_header.username_headers == ("A", "B")
    ),
    "--requestheader-client-ca-file=c --requestheader-allowed-names=a": lambda s: (
        s.authentication.request_header.allowed_names == ("a",)
    ),
    "--requestheader-client-ca-file=c --requestheader-uid-headers=U": lambda s: (
        s.authentication.request_header.uid_headers == ("U",)
    ),
    "--requestheader-client-ca-file=c --requestheader-group-headers=G": lambda s: (
        s.authentication.request_header.group_headers == ("G",)
    ),
    "--requestheader-client-ca-file=c --requestheader-extra-headers-prefix=E-": lambda s: (
        s.authentication.request_header.extra_prefixes == ("E-",)
    ),
    "--authorization-kubeconfig=k": lambda s: s.authorization.kubeconfig == "k",
    "--authorization-always-allow-paths=a": lambda s: OpenPaths(s.authorization.always_allow_paths).has("/a"),
    "--authorization-webhook-cache-authorized-ttl=0s": lambda s: s.authorization.authorized_seconds == 0,
    "--authorization-always-allow-paths=/a,/b/*": lambda s: s.authorization.always_allow_paths == ("/a", "/b/*"),
    "--authorization-always-allow-paths=": lambda s: s.authorization.always_allow_paths == (),
    "--authorization-webhook-cache-authorized-ttl=0": lambda s: s.authorization.authorized_seconds == 0,
    "--authorization-webhook-cache-unauthorized-ttl=3s": lambda s: s.authorization.unauthorized_seconds == 3,
    "--disable-http2-serving": lambda s: s == HTTPServing(),
    "--permit-address-sharing": lambda s: s == HTTPServing(),
}


@pytest.mark.parametrize("flags", SETTINGS)
def test_a_flag_sets_what_it_names_and_does_not_warn(flags: str) -> None:
    found = resolved(*flags.split())
    assert SETTINGS[flags](found.serving)
    assert warned(found) == {}


def test_every_flag_is_in_the_cases() -> None:
    text = " ".join([*SETTINGS, *(flag for flags, _ in PORTS.values() for flag in flags)])
    assert [flag.name for flag in ALL if f"--{flag.name}" not in text] == []


MISTAKES = {
    "--tls-cert-file=c": "belong together",
    "--tls-private-key-file=c": "belong together",
    "--tls-min-version=TLS1.2": 'unknown tls version "TLS1.2"',
    "--tls-cipher-suites=TLS_AES_128_GCM_SHA256": "--tls-cipher-suites: it names suites of TLS 1.3 only",
    "--authentication-token-webhook-cache-ttl=-1s": "--authentication-token-webhook-cache-ttl -1s: must not be neg",
    "--authorization-webhook-cache-authorized-ttl=-1ms": "--authorization-webhook-cache-authorized-ttl -1ms: must not",
    "--authorization-webhook-cache-unauthorized-ttl=-1h": "--authorization-webhook-cache-unauthorized-ttl -1h0m0s: mu",
    "--tls-cipher-suites=RC5": "Cipher suite RC5 not supported or doesn't exist",
    "--requestheader-username-headers=a,": 'empty value in "requestheader-username-headers"',
    "--authorization-always-allow-paths=/a*b": 'only trailing \\* allowed in "a\\*b"',
}


@pytest.mark.parametrize("flag", MISTAKES)
def test_a_mistake_is_refused_and_reported(flag: str) -> None:
    with pytest.raises(ConfigError, match=MISTAKES[flag]):
        resolved(flag)


@pytest.mark.parametrize(
    "flag", ["--tls-sni-cert-key=a", "--tls-sni-cert-key=a,b:", "--metrics-bind-address=9", "--bind-address=localhost"]
)
def test_what_cannot_be_read_ends_with_a_hint(flag: str) -> None:
    with pytest.raises(SystemExit):
        resolved(flag)


WARNINGS = {
    "--tls-cert-file=c --tls-private-key-file=k --cert-dir=d": ("--cert-dir", "ignored"),
    "--tls-min-version=VersionTLS10": ("--tls-min-version", "TLS 1.2 is the least"),
    "--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256": ("--tls-cipher-suites", "insecure"),
    "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": (
        "--tls-cipher-suites",
        "TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256 are on, too",
    ),
    "--requestheader-allowed-names=a": ("--requestheader-allowed-names", "counts only with"),
    "--secure-port=0 --client-ca-file=c": ("--client-ca-file", "switches HTTPS off"),
    "--http2-max-streams-per-connection=9": ("--http2-max-streams-per-connection", "no HTTP/2"),
    "--tls-curve-preferences=29": ("--tls-curve-preferences", "OpenSSL chooses"),
}


@pytest.mark.parametrize("flags", WARNINGS)
def test_what_is_not_honoured_warns_by_its_name(flags: str) -> None:
    name, reason = WARNINGS[flags]
    found = warned(resolved(*flags.split()))
    assert found.keys() == {name}
    assert reason in found[name]


def test_flagz_shows_every_flag_with_the_value_in_force() -> None:
    flags = resolved("--port=7", "--authorization-always-allow-paths=/a,/b", "--leader-elect=false").flags
    assert {flag.name for flag in ALL} <= flags.keys()
    assert flags["port"] == "7"
    assert flags["bind-address"] == "0.0.0.0"
    assert flags["authorization-always-allow-paths"] == "[/a,/b]"
    assert flags["authentication-token-webhook-cache-ttl"] == "10s"
    assert flags["leader-elect"] == "false"


def test_flagz_shows_no_password() -> None:
    assert resolved("--master=https://user:secret@host:6443/x").flags["master"] == "https://host:6443/x"


def test_suites_by_gos_names_are_those_of_openssl() -> None:
    assert cipher_list(["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]) == "ECDHE-RSA-AES128-GCM-SHA256"
    assert unavailable(list(PREFERRED)) == [], "OpenSSL spells each of them so"
    assert "TLS_RSA_WITH_RC4_128_SHA" in unavailable(list(INSECURE))


def test_open_paths_are_whole_or_begin_so() -> None:
    paths = OpenPaths(("/a", "b", "/c/*", "/"))
    assert [path for path in ("/a", "/a/b", "/b", "/c/", "/c/d", "/c", "/") if paths.has(path)] == [
        "/a",
        "/b",
        "/c/",
        "/c/d",
        "/",
    ]
