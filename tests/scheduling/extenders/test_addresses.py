"""An extender that could never be called is a mistake with the path of its field, before any pod waits for it."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import load_bytes
from kscheduler.config.types import Extender, ExtenderTLSConfig
from kscheduler.scheduling.extenders.addresses import unusable_extenders
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options, run
from tests.server.pki import Authority

URL = "extenders[0].urlPrefix"
HTTP = "must be http://HOST or https://HOST, with a port and a path where needed"
LINK_LOCAL = "is link-local: extenders are not called there"


def problems(url: str = "http://x", verbs: dict[str, Any] | None = None, **tls: Any) -> list[str]:
    given = {"filter_verb": "f"} if verbs is None else verbs
    extender = Extender(url, tls_config=ExtenderTLSConfig(**tls) if tls else None, **given)
    return [str(problem) for problem in unusable_extenders([extender])]


@pytest.mark.parametrize(
    "url",
    ["http://x", "https://x.svc:8443/a/b", "http://127.0.0.1:1", "http://[::1]:65535/x", "HTTP://x", "http://me:pw@x"],
)
def test_what_can_be_called_is_no_mistake(url: str) -> None:
    assert problems(url) == []


@pytest.mark.parametrize(
    ("url", "shown", "why"),
    [
        ("ftp://x", "ftp://x", HTTP),
        ("", "without urlPrefix", HTTP),
        ("extender:8080/scheduler", "extender:8080/scheduler", HTTP),
        ("http://", "http://", HTTP),
        ("http://me:s3cret@/x", "http:///x", HTTP),
        ("http://x:99999", "http://x:99999", "Port out of range 0-65535"),
        ("http://me:s3cret@x:port", "http://x:port", "Port could not be cast to integer value as 'port'"),
        ("http://x:0", "http://x:0", "nothing can listen on port 0"),
        ("http://[::1", "http://[::1", "Invalid IPv6 URL"),
        ("http://169.254.169.254/latest", "http://169.254.169.254/latest", f"169.254.169.254 {LINK_LOCAL}"),
        ("http://[fe80::1]:80", "http://[fe80::1]:80", f"fe80::1 {LINK_LOCAL}"),
        ("http://2852039166", "http://2852039166", f"2852039166 {LINK_LOCAL}"),
        ("http://[64:ff9b::a9fe:a9fe]", "http://[64:ff9b::a9fe:a9fe]", f"64:ff9b::a9fe:a9fe {LINK_LOCAL}"),
    ],
)
def test_what_cannot_be_called_is_reported_without_its_password(url: str, shown: str, why: str) -> None:
    assert problems(url) == [f'{URL}: Invalid value: "{shown}": {why}']


def test_whoever_has_no_verb_is_never_called() -> None:
    assert problems("ftp://x", {}) == []
    assert problems("ftp://x", {"bind_verb": "b"}) != []


def test_a_file_that_is_not_there_is_reported_with_its_field(tmp_path: Path) -> None:
    none, folder = str(tmp_path / "none.crt"), str(tmp_path)
    found = problems(ca_file=none, cert_file=folder, key_file=none)
    assert found == [
        f"extenders[0].tlsConfig.caFile: {none}: No such file or directory",
        f"extenders[0].tlsConfig.certFile: {folder}: Is a directory",
        f"extenders[0].tlsConfig.keyFile: {none}: No such file or directory",
    ]


def test_a_file_that_is_no_certificate_is_reported_with_its_field(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no certificate")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    cert_file, _ = Authority("one").client("x").write(tmp_path / "one", "x")
    _, key_file = Authority("two").client("x").write(tmp_path / "two", "x")
    assert problems(ca_file=str(text)) == [f"extenders[0].tlsConfig.caFile: {text}: there is no PEM certificate in it"]
    assert problems(cert_file=cert_file, key_file=key_file) == [
        f"extenders[0].tlsConfig.certFile: {cert_file}: the key does not belong to the certificate"
    ]


def test_inline_data_wins_over_a_file_that_is_not_there(tmp_path: Path) -> None:
    data = b64encode(Authority("one").pem).decode()
    assert problems(ca_file=str(tmp_path / "none"), ca_data=data) == []
    (problem,) = problems(ca_data=b64encode(b"no certificate").decode())
    assert problem.startswith("extenders[0].tlsConfig.caData: ")


async def test_the_service_does_not_start_with_one() -> None:
    """It says so before it looks for a cluster."""
    text = b"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://x
  filterVerb: f
- urlPrefix: http://x:99999
  filterVerb: f
"""
    options = Options(load_bytes(text, "file"), serving=HTTPServing.plain_on_loopback())
    with pytest.raises(ConfigError) as failure:
        await run(options)
    wanted = 'extenders[1].urlPrefix: Invalid value: "http://x:99999": Port out of range 0-65535'
    assert str(failure.value) == f"file:6: {wanted}"
