"""Client certificates and front proxies: each authority speaks for its own kind of client, while it is trusted."""

import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.server import HTTPServing
from kscheduler.server.login.authorities import AuthenticationSettings, RequestHeaderSettings
from kscheduler.server.login.cluster_authentication import ClusterAuthentication
from tests.server.pki import Authority
from tests.server.secure_site import SecureSite, secure_site

CLIENTS, PROXIES, STRANGERS = Authority("clients"), Authority("front-proxies"), Authority("strangers")


def serving(folder: Path, *, allowed: tuple[str, ...] = ()) -> HTTPServing:
    clients, proxies = folder / "clients.crt", folder / "proxies.crt"
    clients.write_bytes(CLIENTS.pem)
    proxies.write_bytes(PROXIES.pem)
    header = RequestHeaderSettings(client_ca_file=str(proxies), allowed_names=allowed, uid_headers=("x-remote-uid",))
    return HTTPServing(authentication=AuthenticationSettings(client_ca_file=str(clients), request_header=header))


async def user_of(site: SecureSite, context: ssl.SSLContext, **headers: str) -> str:
    """Who the server takes a client for: the refusal of a path that nobody may get names the user."""
    status, text = await site.get("/nowhere", context=context, **headers)
    message: str = json.loads(text)["message"]
    return message.split('"')[1] if status == 403 else message


async def test_a_certificate_names_its_user_and_groups(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        context = CLIENTS.client("jane", "readers", "others").client_context(tmp_path)
        await site.grant("jane", "/metrics")
        assert await site.status("/metrics", context=context) == 200
        assert await user_of(site, context) == "jane"
        assert site.requests("authn") == 0


async def test_masters_are_never_looked_up(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        context = CLIENTS.client("root", "system:masters").client_context(tmp_path)
        assert await site.status("/configz", context=context) == 200
        assert site.requests("authz") == 0


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(STRANGERS.client("root", "system:masters"), id="unknown-authority"),
        pytest.param(CLIENTS.client("root", "system:masters", days=-1), id="ended"),
        pytest.param(CLIENTS.client("root", "system:masters", server=True), id="for-servers-only"),
    ],
)
async def test_a_certificate_that_is_not_valid_is_not_let_in(pair: object, tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        with pytest.raises((aiohttp.ClientError, ConnectionError, ssl.SSLError)):
            await site.get("/livez", context=pair.client_context(tmp_path))  # type: ignore[attr-defined]
        assert await site.get("/livez") == (200, "ok")


async def test_a_proxys_certificate_is_no_users(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        context = PROXIES.client("root", "system:masters").client_context(tmp_path)
        assert await user_of(site, context) == "Unauthorized"


async def test_a_proxy_speaks_for_others(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        context = PROXIES.client("aggregator").client_context(tmp_path)
        assert await user_of(site, context, X_Remote_User="jane", X_Remote_Group="readers") == "jane"
        status = await site.status("/configz", "", context, X_Remote_User="x", X_Remote_Group="system:masters")
        assert status == 200


async def test_only_a_proxy_that_is_named_may_speak_for_others(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path, allowed=("aggregator",))) as site:
        for name, expected in (("aggregator", "jane"), ("other", "Unauthorized")):
            context = PROXIES.client(name).client_context(tmp_path)
            assert await user_of(site, context, X_Remote_User="jane") == expected


async def test_headers_without_a_proxys_certificate_mean_nothing(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        headers = {"X_Remote_User": "root", "X_Remote_Group": "system:masters"}
        assert await site.status("/configz", "", None, **headers) == 403
        context = CLIENTS.client("jane").client_context(tmp_path)
        assert await user_of(site, context, **headers) == "jane"


async def test_a_certificate_with_two_uids_is_refused(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        good = CLIENTS.client("jane", uids=("1",)).client_context(tmp_path)
        assert await user_of(site, good) == "jane"
        bad = CLIENTS.client("jane", uids=("1", "2")).client_context(tmp_path)
        assert await user_of(site, bad) == "Unauthorized"


async def test_an_authority_that_is_withdrawn_counts_no_longer_on_open_connections(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        context = CLIENTS.client("root", "system:masters").client_context(tmp_path)
        url = f"https://127.0.0.1:{site.server.port}/configz"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            async with session.get(url) as response:
                assert response.status == 200
            (tmp_path / "clients.crt").write_bytes(STRANGERS.pem)
            site.login.authorities.look()
            async with session.get(url) as response:
                assert response.status == 401, "the connection is the same, the trust is not"
        strangers = STRANGERS.client("root", "system:masters").client_context(tmp_path)
        assert await site.status("/configz", context=strangers) == 200


async def test_a_certificate_that_ends_meanwhile_counts_no_longer_on_open_connections(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        context = CLIENTS.client("root", "system:masters", days=5).client_context(tmp_path)
        url = f"https://127.0.0.1:{site.server.port}/configz"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            for days, status in ((4, 200), (2, 401)):
                await site.clock.advance(days * 86_400.0)
                async with session.get(url) as response:
                    assert response.status == status


async def test_a_broken_bundle_keeps_the_old_one(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site, APIClient(plain_connection(site.api.url)) as client:
        (tmp_path / "clients.crt").write_bytes(b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
        cluster = ClusterAuthentication(client, site.login.authorities, site.clock)
        await cluster._look_at_files()
        context = CLIENTS.client("root", "system:masters").client_context(tmp_path)
        assert await site.status("/configz", context=context) == 200


LookUp = Callable[[], Awaitable[None]]


async def store(site: SecureSite, data: dict[str, str]) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
    metadata = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    async with APIClient(plain_connection(site.api.url)) as client:
        encoded = json.dumps({**body, "metadata": metadata}).encode()
        await client.post("/api/v1/namespaces/kube-system/configmaps", encoded)


async def test_what_the_flags_leave_out_the_cluster_says(tmp_path: Path) -> None:
    async with secure_site() as site:
        await store(
            site,
            {
                "client-ca-file": CLIENTS.pem.decode(),
                "requestheader-client-ca-file": PROXIES.pem.decode(),
                "requestheader-allowed-names": '["aggregator"]',
                "requestheader-username-headers": '["X-Remote-User"]',
                "requestheader-group-headers": '["X-Remote-Group"]',
                "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            },
        )
        assert site.login.authorities.clients is None
        await site.login._cluster.look_up()
        assert await user_of(site, CLIENTS.client("jane").client_context(tmp_path)) == "jane"
        proxy = PROXIES.client("aggregator").client_context(tmp_path)
        assert await user_of(site, proxy, X_Remote_User="joe") == "joe"


async def test_a_cluster_without_front_proxies_or_without_the_map_is_no_failure() -> None:
    async with secure_site() as site:
        await site.login._cluster.look_up()
        await store(site, {"client-ca-file": CLIENTS.pem.decode()})
        await site.login._cluster.look_up()
        assert site.login.authorities.front_proxies is None
        assert site.login.authorities.clients is not None


async def test_extra_information_travels_to_the_review(tmp_path: Path) -> None:
    async with secure_site(serving(tmp_path)) as site:
        rules = site.login.authorities.front_proxies
        assert rules is not None
        async with aiohttp.ClientSession() as session:
            headers = session._prepare_headers(
                {"X-Remote-User": "jane", "X-Remote-Uid": "7", "X-Remote-Extra-Acme.Com%2fProject": "one"}
            )
        user = rules.user_in(headers)
        assert user is not None
        assert (user.name, user.uid, user.extra) == ("jane", "7", (("acme.com/project", ("one",)),))
