"""Both API servers refuse bad objects as it is recorded; what is recorded is the real one's answer."""

import json
from typing import Any

import pytest

from tests.e2e.conftest import create_namespace
from tests.e2e.servers import Server
from tests.embedded.refusals.bad_cases import CASES
from tests.embedded.refusals.bad_objects import NAMESPACE, RECORDED, Object, answer, masked, recorded


@pytest.mark.kubernetes_1_36("the refusals were recorded from the API server of 1.36")
async def test_bad_objects_are_refused_as_recorded(server: Server, request: pytest.FixtureRequest) -> None:
    async def send(method: str, path: str, body: Any, content_type: str) -> tuple[int, Object]:
        return server.api.exchange(method, path, body, content_type)

    create_namespace(server, NAMESPACE)
    found = {case.name: await answer(send, case) for case in CASES}
    if request.config.getoption("--record-transcript"):
        RECORDED.write_text(
            json.dumps({name: masked(one) for name, one in found.items()}, indent=1, ensure_ascii=False) + "\n"
        )
    expected = recorded()
    assert {name: masked(one) for name, one in found.items()} == {name: masked(one) for name, one in expected.items()}
    server.api.delete(f"/api/v1/namespaces/{NAMESPACE}")
