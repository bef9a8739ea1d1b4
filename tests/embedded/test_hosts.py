"""The embedded API server answers requests to an address, localhost or a given name, and to no page of another site."""

import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.embedded.cluster_client import Client


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8001", "localhost", "localhost:1", "[::1]:8001", "192.0.2.7"])
async def test_addresses_and_localhost_are_answered(client: Client, host: str) -> None:
    assert (await client.request("GET", "/api/v1/nodes", headers={"Host": host}))[0] == 200


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/nodes?watch=1", "/_faults", "/version", "/healthz"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "attacker.example:8001"},
        {"Host": "localhost.attacker.example"},
        {"Host": "127.0.0.1.attacker.example"},
        {"Host": "]["},
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_is_refused(client: Client, path: str, headers: dict[str, str]) -> None:
    """Neither a name that was resolved to this machine (DNS rebinding) nor a form of another site does anything."""
    async with client.session.get(client.url + path, headers=headers) as response:
        answer = await response.json()
    assert (response.status, answer["reason"]) == (403, "Forbidden")
    assert "an address or localhost only" in answer["message"]


async def test_a_write_from_another_site_is_refused(client: Client) -> None:
    body = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "taken"}}
    origin = {"Origin": "http://attacker.example:8001"}
    assert (await client.request("POST", "/api/v1/namespaces", body, headers=origin))[0] == 403
    assert (await client.request("GET", "/api/v1/namespaces/taken"))[0] == 404


async def test_a_name_that_was_given_is_answered() -> None:
    """`kscheduler cluster --accept-hosts NAME`, for clients on other machines."""
    import aiohttp

    async with EmbeddedAPIServer(accept_hosts=["Cluster.Test"]) as server, aiohttp.ClientSession() as session:
        for host, status in (("cluster.test:8001", 200), ("other.test", 403)):
            async with session.get(server.url + "/version", headers={"Host": host}) as response:
                assert response.status == status
