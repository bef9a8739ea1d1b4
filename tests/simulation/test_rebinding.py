"""A page in a browser reaches a server of this machine by any name that resolves to it: the name tells."""

import pytest

from kscheduler.simulation.apiserver import EmbeddedAPIServer
from tests.simulation.cluster_client import Client


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8001", "127.0.0.1.example.com", "a@b", "[::1"])
async def test_a_request_to_another_name_is_refused(client: Client, host: str) -> None:
    for path in ("/api/v1/pods", "/version", "/_faults"):
        async with client.session.get(client.url + path, headers={"Host": host}) as response:
            assert response.status == 403
            assert "asked by address or as localhost" in await response.text()


@pytest.mark.parametrize("host", ["localhost", "localhost:8001", "127.0.0.1", "[::1]:8001", "LOCALHOST."])
async def test_a_request_by_address_or_to_localhost_is_answered(client: Client, host: str) -> None:
    async with client.session.get(client.url + "/api/v1/pods", headers={"Host": host}) as response:
        assert response.status == 200


async def test_who_listens_on_other_addresses_is_asked_by_any_name(client: Client) -> None:
    server = EmbeddedAPIServer()
    await server.start("0.0.0.0")
    try:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        async with client.session.get(f"{url}/api/v1/pods", headers={"Host": "cluster.example.com"}) as response:
            assert response.status == 200
    finally:
        await server.aclose()
