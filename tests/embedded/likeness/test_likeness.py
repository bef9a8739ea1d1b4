"""The embedded API server answers as the real one did when its answers were recorded."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

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


# Texts of the real server of 1.38 that the embedded one says in the words of the releases before. What they refuse and
# warn of is the same. By what 1.38 says.
WORDED_EARLIER: Final = {
    'pkg/runtime/scheme.go:110"': 'pkg/runtime/scheme.go:111"',
    "is deprecated since v1.20; use": "is use",
    ",`spec.schedulingGates` (only deletions of existing scheduling gates),"
    "`spec.nodeSelector` (only additions, and only while the pod has scheduling gates),"
    "`spec.affinity.nodeAffinity` (only while the pod has scheduling gates)": "",
}


def as_worded_earlier(recorded: Any) -> Any:
    """The same with these texts exchanged."""
    if isinstance(recorded, dict):
        return {name: as_worded_earlier(value) for name, value in recorded.items()}
    if isinstance(recorded, list):
        return [as_worded_earlier(value) for value in recorded]
    if isinstance(recorded, str):
        for later, earlier in WORDED_EARLIER.items():
            recorded = recorded.replace(later, earlier)
    return recorded


def test_each_text_that_is_worded_earlier_is_in_a_recording_of_1_38() -> None:
    recorded = [Recording(name, "1.38").read() for name in ("stored", "requests", "published")]
    texts = str(recorded).replace('\\"', '"').replace("\\'", "'")
    assert [later for later in WORDED_EARLIER if later.removesuffix('"') not in texts] == []


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
    expected = as_worded_earlier(Recording(recording, version).read())
    assert [row.name for row in rows] == list(expected)
    found = {row.name: await outcome(send, row) for row in rows}
    assert {name: one for name, one in found.items() if one != expected[name]} == {
        name: one for name, one in expected.items() if one != found[name]
    }
