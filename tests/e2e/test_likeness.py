"""The same requests to both API servers: every verb, media type and default, and what is recorded of the real one."""

import json
from collections.abc import Sequence

import pytest

from tests.controlplane.rest import Api
from tests.e2e.conftest import create_namespace
from tests.e2e.servers import Server
from tests.simulation.likeness import requests, stored
from tests.simulation.likeness.exchanges import NAMESPACE, Answer, Recording, Request, Row, Send, outcome


def sender(api: Api) -> Send:
    async def send(request: Request) -> Answer:
        connection = api.connect()
        try:
            headers = {**api.headers(request.content_type), "Accept": request.accept}
            connection.request(request.method, request.path, request.payload, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
            try:
                body = json.loads(text)
            except ValueError:
                body = text
            return Answer(response.status, body, tuple(response.msg.get_all("Warning") or ()))
        finally:
            connection.close()

    return send


@pytest.mark.kubernetes_1_36("the answers were recorded from the API server of 1.36")
@pytest.mark.parametrize(
    ("rows", "recording"),
    [
        pytest.param(stored.ROWS, "stored", id="stored objects"),
        pytest.param(requests.ROWS, "requests", id="verbs, media types, bodies"),
    ],
)
async def test_both_servers_answer_as_recorded(
    server: Server, request: pytest.FixtureRequest, rows: Sequence[Row], recording: str
) -> None:
    create_namespace(server, NAMESPACE)
    try:
        send = sender(server.api)
        found = {row.name: await outcome(send, row) for row in rows}
    finally:
        server.api.delete(f"/api/v1/namespaces/{NAMESPACE}")
    if request.config.getoption("--record-transcript"):
        Recording(recording).write(found)
    assert found == Recording(recording).read()
