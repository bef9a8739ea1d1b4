"""The embedded API server answers as the real one did when its answers were recorded."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from kscheduler.api.machinery.resources import served_kinds
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.embedded.likeness import published, requests, stored
from tests.embedded.likeness.exchanges import NAMESPACE, Explanation, Recording, Request, Row, Send, outcome


@pytest.fixture(params=BEHAVIOURS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def send(version: str) -> AsyncIterator[Send]:
    timeout = aiohttp.ClientTimeout(total=20)
    kinds = served_kinds(version, parse_feature_gates("", version=version).enabled)
    async with EmbeddedAPIServer(seed=1, kinds=kinds) as server, aiohttp.ClientSession(timeout=timeout) as session:

        async def send(request: Request) -> Explanation:
            headers = {"Content-Type": request.content_type, "Accept": request.accept}
            url = server.url + request.path
            async with session.request(request.method, url, data=request.payload, headers=headers) as response:
                warnings = tuple(response.headers.getall("Warning", ()))
                return Explanation(response.status, decoded(await response.read()), warnings)

        await send(Request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
        yield send


def decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


@pytest.mark.parametrize(
    ("rows", "recording"),
    [
        pytest.param(stored.ROWS, "stored", id="stored objects"),
        pytest.param(requests.ROWS, "requests", id="verbs, media types, bodies"),
        pytest.param(published.ROWS, "published", id="published manifests"),
    ],
)
async def test_the_embedded_server_answers_as_recorded(
    send: Send, rows: Sequence[Row], recording: str, version: str
) -> None:
    expected = Recording(recording, version).read()
    assert [row.name for row in rows] == list(expected)
    found = {row.name: await outcome(send, row) for row in rows}
    assert {name: one for name, one in found.items() if one != expected[name]} == {
        name: one for name, one in expected.items() if one != found[name]
    }
