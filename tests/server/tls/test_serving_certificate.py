"""The certificate: made where none is given, taken over when it changes, kept when the change is broken."""

import asyncio
import os
import ssl
import time
from pathlib import Path

import aiohttp
import pytest
import structlog
from msgspec.structs import replace

from kscheduler.aio import VirtualClock
from kscheduler.config.errors import ConfigError
from kscheduler.server import HTTPServing
from kscheduler.server.tls.key_pairs import VALID_DAYS, KeyPairError
from kscheduler.server.tls.serving_contexts import ServingContexts
from kscheduler.server.tls.settings import NamedPair, TLSSettings
from kscheduler.telemetry.samples import Numbers
from tests.server.pki import Authority, Pair, trusting
from tests.server.secure_site import SecureSite, secure_site

AUTHORITY = Authority("servers")


def mounted(folder: Path, pair: Pair) -> TLSSettings:
    certificate, key = pair.write(folder, "tls")
    return TLSSettings(certificate_file=certificate, key_file=key)


async def shown(site: SecureSite, name: str | None = None, context: ssl.SSLContext | None = None) -> bytes:
    """The certificate that a new connection gets, encoded."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", site.server.port, ssl=context or trusting(), server_hostname=name or "localhost"
    )
    del reader
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    assert isinstance(found, bytes)
    return found


def encoded(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.decode())


def reloads(site: SecureSite) -> dict[str, float]:
    numbers = [one for one in site.login.contexts.samples() if isinstance(one, Numbers)]
    (found,) = [one.values for one in numbers if one.series.name.endswith("reloads_total")]
    return {result: count for (result,), count in found.items()}


def change(path: str, content: bytes) -> None:
    """As a mount changes: another file under the same name."""
    Path(f"{path}.new").write_bytes(content)
    os.replace(f"{path}.new", path)  # noqa: PTH105


def remove(path: str) -> None:
    Path(path).unlink()


async def test_without_files_a_certificate_for_localhost_is_made() -> None:
    async with secure_site() as site:
        der = await shown(site)
        client = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(der))
        client.verify_flags &= ~ssl.VERIFY_X509_STRICT
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        for name in ("localhost", "127.0.0.1"):
            assert await shown(site, name, client) == der


async def test_a_mounted_certificate_is_shown_and_followed(tmp_path: Path) -> None:
    first, second = AUTHORITY.serving("localhost"), AUTHORITY.serving("localhost")
    settings = mounted(tmp_path, first)
    async with secure_site(HTTPServing(tls=settings)) as site:
        assert await shown(site) == encoded(first)
        change(settings.certificate_file, second.certificate)
        change(settings.key_file, second.key)
        site.login.contexts.look()
        assert await shown(site) == encoded(second)
        assert reloads(site) == {"success": 1, "error": 0}


async def test_open_connections_outlive_a_rotation(tmp_path: Path) -> None:
    settings = mounted(tmp_path, AUTHORITY.serving("localhost"))
    async with secure_site(HTTPServing(tls=settings)) as site:
        url = f"https://127.0.0.1:{site.server.port}/livez"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(), limit=1)) as session:
            for _ in range(5):
                pair = AUTHORITY.serving("localhost")
                change(settings.certificate_file, pair.certificate)
                change(settings.key_file, pair.key)
                site.login.contexts.look()
                async with session.get(url) as response:
                    assert response.status == 200
            assert site.server.connections == 1, "it was the same connection all the while"


BROKEN = {
    "no certificate": (b"nonsense", None),
    "empty": (b"", None),
    "another key": (None, AUTHORITY.serving("localhost").key),
    "half a certificate": (AUTHORITY.serving("localhost").certificate[:200], None),
    "certificate of another key": (AUTHORITY.serving("localhost").certificate, None),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_change_keeps_the_old_pair_and_is_reported_once(case: str, tmp_path: Path) -> None:
    first = AUTHORITY.serving("localhost")
    settings = mounted(tmp_path, first)
    async with secure_site(HTTPServing(tls=settings)) as site:
        certificate, key = BROKEN[case]
        if certificate is not None:
            change(settings.certificate_file, certificate)
        if key is not None:
            change(settings.key_file, key)
        with structlog.testing.capture_logs() as lines:
            for _ in range(3):
                site.login.contexts.look()
        assert [line["event"] for line in lines] == ["serving_certificate_not_reloaded"]
        assert settings.certificate_file in lines[0]["err"]
        assert await shown(site) == encoded(first)
        assert reloads(site) == {"success": 0, "error": 1}
        assert "not used" in "".join(site.login.contexts.notes())
        good = AUTHORITY.serving("localhost")
        change(settings.certificate_file, good.certificate)
        change(settings.key_file, good.key)
        site.login.contexts.look()
        assert await shown(site) == encoded(good)
        assert list(site.login.contexts.notes()) == []


async def test_a_file_that_is_gone_keeps_the_old_pair(tmp_path: Path) -> None:
    first = AUTHORITY.serving("localhost")
    settings = mounted(tmp_path, first)
    async with secure_site(HTTPServing(tls=settings)) as site:
        remove(settings.key_file)
        site.login.contexts.look()
        assert await shown(site) == encoded(first)


@pytest.mark.parametrize("case", BROKEN)
async def test_at_the_start_a_broken_pair_is_an_error_with_the_file(case: str, tmp_path: Path) -> None:
    settings = mounted(tmp_path, AUTHORITY.serving("localhost"))
    certificate, key = BROKEN[case]
    if certificate is not None:
        change(settings.certificate_file, certificate)
    if key is not None:
        change(settings.key_file, key)
    with pytest.raises(ConfigError, match=settings.certificate_file):
        async with secure_site(HTTPServing(tls=settings)):
            pass


async def test_names_choose_their_certificate(tmp_path: Path) -> None:
    pairs = {name: AUTHORITY.serving(name) for name in ("localhost", "a.example", "given.example", "wild.example")}
    files = {name: pair.write(tmp_path, name.replace(".", "-")) for name, pair in pairs.items()}
    settings = TLSSettings(
        *files["localhost"],
        named_pairs=(
            NamedPair(*files["a.example"]),
            NamedPair(*files["given.example"], names=("b.example",)),
            NamedPair(*files["wild.example"], names=("*.example",)),
        ),
    )
    async with secure_site(HTTPServing(tls=settings)) as site:
        queried = {"localhost": "localhost", "a.example": "a.example", "A.example": "a.example"}
        queried |= {"b.example": "given.example", "c.example": "wild.example", "c.d.example": "localhost"}
        for name, served in queried.items():
            assert await shown(site, name) == encoded(pairs[served]), name


async def test_versions_below_the_least_are_refused(tmp_path: Path) -> None:
    settings = replace(mounted(tmp_path, AUTHORITY.serving("localhost")), min_version="VersionTLS13")
    old = trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with secure_site(HTTPServing(tls=settings)) as site:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown(site, context=old)
    async with secure_site(HTTPServing(tls=replace(settings, min_version="VersionTLS12"))) as site:
        assert await shown(site, context=old)


async def test_only_the_suites_that_are_named_are_served(tmp_path: Path) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)
    settings = replace(mounted(tmp_path, AUTHORITY.serving("localhost")), cipher_suites=suites)
    async with secure_site(HTTPServing(tls=settings)) as site:
        for openssl_name, is_served in (
            ("ECDHE-ECDSA-AES256-GCM-SHA384", True),
            ("ECDHE-ECDSA-AES128-GCM-SHA256", False),
        ):
            context = trusting()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(openssl_name)
            if is_served:
                assert await shown(site, context=context)
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await shown(site, context=context)


def test_a_folder_keeps_the_certificate_for_the_next_start(tmp_path: Path) -> None:
    settings = TLSSettings(folder=str(tmp_path / "certificates"))
    ServingContexts(settings)
    certificate, key = (tmp_path / "certificates" / f"kube-scheduler.{kind}" for kind in ("crt", "key"))
    first = certificate.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    ServingContexts(settings)
    assert certificate.read_bytes() == first


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyPairError, match="--cert-dir"):
        ServingContexts(TLSSettings(folder=str(tmp_path / "file" / "folder")))


async def test_a_certificate_in_memory_is_made_anew_before_it_ends() -> None:
    clock = VirtualClock()
    contexts = ServingContexts(TLSSettings(), clock)
    first = contexts.current
    contexts.look()
    assert contexts.current is first
    await clock.advance((VALID_DAYS - 20) * 86_400.0)
    contexts.look()
    assert contexts.current is not first


async def test_the_end_of_the_certificate_is_a_metric(tmp_path: Path) -> None:
    contexts = ServingContexts(mounted(tmp_path, AUTHORITY.serving("localhost", days=7)))
    await contexts.find_end()
    (ends,) = [one.values[()] for one in contexts.samples() if isinstance(one, Numbers) and "expir" in one.series.name]

    assert abs(ends - (time.time() + 7 * 86_400)) < 3600


async def test_a_certificate_that_has_ended_is_reported_once_and_noted_until_it_is_renewed(tmp_path: Path) -> None:
    settings = mounted(tmp_path, AUTHORITY.serving("localhost", days=-2))
    contexts = ServingContexts(settings)
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            await contexts.find_end()
    assert [line["event"] for line in lines] == ["serving_certificate_ended"]
    assert lines[0]["file"] == settings.certificate_file
    assert "it has ended" in "".join(contexts.notes())
    good = AUTHORITY.serving("localhost")
    change(settings.certificate_file, good.certificate)
    change(settings.key_file, good.key)
    contexts.look()
    await contexts.find_end()
    assert list(contexts.notes()) == []
