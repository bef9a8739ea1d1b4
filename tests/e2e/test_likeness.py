"""The same requests to both API servers: every verb, media type and default, and what is recorded of the real one."""

import json
from collections.abc import Sequence

import pytest

from kscheduler.api.releases import followed
from tests.controlplane.rest import Api
from tests.e2e.conftest import create_namespace
from tests.e2e.servers import Server
from tests.embedded.likeness import published, requests, stored
from tests.embedded.likeness.exchanges import NAMESPACE, Explanation, Recording, Request, Row, Send, outcome


def sender(api: Api) -> Send:
    async def send(request: Request) -> Explanation:
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
            return Explanation(response.status, body, tuple(response.msg.get_all("Warning") or ()))
        finally:
            connection.close()

    return send


TABLES: dict[str, Sequence[Row]] = {
    "stored": stored.ROWS,
    "requests": requests.ROWS,
    "published": published.ROWS,
}


async def test_both_servers_answer_as_recorded(server: Server, request: pytest.FixtureRequest) -> None:
    create_namespace(server, NAMESPACE)
    version = followed(server.api.get("/version")["gitVersion"]) or ""
    send = sender(server.api)
    try:
        found = {table: {row.name: await outcome(send, row) for row in rows} for table, rows in TABLES.items()}
    finally:
        server.api.delete(f"/api/v1/namespaces/{NAMESPACE}")
    if request.config.getoption("--record-transcript"):
        for table, answers in found.items():
            Recording(table, version).write(answers)
    for table, answers in found.items():
        expected = Recording(table, version).read()
        assert {name: one for name, one in answers.items() if one != expected.get(name)} == {}
        assert list(answers) == list(expected)
