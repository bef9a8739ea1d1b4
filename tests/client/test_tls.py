"""TLS follows its files: a rotated authority is trusted without a restart. The certificates are valid for a century."""

import base64
import shutil
import ssl
import tempfile
from pathlib import Path

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.client.access.connection import Connection, load_connection
from kscheduler.client.access.credentials import FixedCredentials
from kscheduler.client.access.tls import TLSContexts, TLSFiles
from kscheduler.client.errors import ConfigurationError, NotSentError
from kscheduler.client.rest import APIClient
from tests.client.scripted import reply, scripted_server

CERTIFICATES = Path(__file__).parent / "certificates"


def server_side(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{name}.crt", CERTIFICATES / f"{name}.key")
    return context


def connection_to(url: str, contexts: TLSContexts) -> Connection:
    return Connection(url, "test", FixedCredentials(), contexts)


async def test_the_servers_certificate_is_checked_against_the_authority_and_nothing_else() -> None:
    async with scripted_server(reply(b"ok"), tls=server_side("first")) as server:
        good = TLSContexts(TLSFiles(authority=str(CERTIFICATES / "first.crt")))
        async with APIClient(connection_to(server.url, good)) as client:
            assert await client.post("/x", b"{}") == b"ok"
        for files in (TLSFiles(authority=str(CERTIFICATES / "second.crt")), TLSFiles()):
            async with APIClient(connection_to(server.url, TLSContexts(files))) as client:
                with pytest.raises(NotSentError):
                    await client.post("/x", b"{}")
        assert len(server.requests) == 1


async def test_verification_can_be_switched_off() -> None:
    async with (
        scripted_server(reply(b"ok"), tls=server_side("first")) as server,
        APIClient(connection_to(server.url, TLSContexts(TLSFiles(verify=False)))) as client,
    ):
        assert await client.get("/x") == b"ok"


async def test_a_rotated_authority_is_trusted_within_seconds(tmp_path: Path) -> None:
    clock, authority = VirtualClock(), tmp_path / "ca.crt"
    shutil.copy(CERTIFICATES / "first.crt", authority)
    contexts = TLSContexts(TLSFiles(authority=str(authority)), clock)
    async with (
        scripted_server(reply(b"ok"), tls=server_side("second")) as server,
        APIClient(connection_to(server.url, contexts)) as client,
    ):
        with pytest.raises(NotSentError):
            await client.post("/x", b"{}")
        shutil.copy(CERTIFICATES / "second.crt", tmp_path / "new")
        (tmp_path / "new").replace(authority)
        await clock.advance(10)
        assert await client.post("/x", b"{}") == b"ok"


async def test_half_written_files_leave_what_works(tmp_path: Path) -> None:
    clock, authority = VirtualClock(), tmp_path / "ca.crt"
    shutil.copy(CERTIFICATES / "first.crt", authority)
    contexts = TLSContexts(TLSFiles(authority=str(authority)), clock)
    before = contexts.context()
    authority.write_text("-----BEGIN CERT")
    await clock.advance(10)
    assert contexts.context() is before


async def test_a_client_certificate_from_a_kubeconfig_proves_who_we_are(tmp_path: Path) -> None:
    demanding = server_side("first")
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(CERTIFICATES / "second.crt")
    for name in ("first.crt", "second.crt", "second.key"):
        shutil.copy(CERTIFICATES / name, tmp_path / name)
    async with scripted_server(reply(b"ok"), tls=demanding) as server:
        (tmp_path / "config").write_text(
            "current-context: x\n"
            "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{server.url}', certificate-authority: first.crt}}}}]\n"
            "users: [{name: u, user: {client-certificate: second.crt, client-key: second.key}}]\n"
        )
        async with APIClient(await load_connection(kubeconfig=str(tmp_path / "config"))) as client:
            assert await client.get("/x") == b"ok"


@pytest.mark.parametrize(
    ("files", "named"),
    [
        pytest.param(TLSFiles(authority="/nowhere/ca.crt"), "certificate-authority /nowhere/ca.crt", id="no authority"),
        pytest.param(
            TLSFiles(certificate=str(CERTIFICATES / "first.crt"), key=str(CERTIFICATES / "second.key")),
            "client-key",
            id="key of another certificate",
        ),
    ],
)
def test_unusable_files_are_named(files: TLSFiles, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        TLSContexts(files)


def kubeconfig_with_inline_data(url: str) -> str:
    """Authority `first`, client certificate `second`, all in the file itself."""
    encoded = {
        name: base64.b64encode((CERTIFICATES / name).read_bytes()).decode()
        for name in ("first.crt", "second.crt", "second.key")
    }
    return (
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}', certificate-authority-data: {encoded['first.crt']}}}}}]\n"
        f"users: [{{name: u, user: {{client-certificate-data: {encoded['second.crt']}, "
        f"client-key-data: {encoded['second.key']}}}}}]\n"
    )


async def test_inline_certificates_prove_who_we_are_and_are_never_on_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demanding = server_side("first")
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(CERTIFICATES / "second.crt")
    async with scripted_server(reply(b"ok"), tls=demanding) as server:
        (tmp_path / "config").write_text(kubeconfig_with_inline_data(server.url))
        monkeypatch.setattr(tempfile, "tempdir", "/nowhere")  # as in a pod with a read-only root
        async with APIClient(await load_connection(kubeconfig=str(tmp_path / "config"))) as client:
            assert await client.get("/x") == b"ok"


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(TLSFiles(key_pem="secret"))
