"""What the real API server refuses, the embedded one refuses in the same words."""

import json
from typing import Any

import aiohttp
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.embedded.refusals.bad_cases import CASES
from tests.embedded.refusals.bad_objects import NAMESPACE, Case, answer, masked, recorded

RECORDED = recorded()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_is_refused_as_on_the_real_server(server: EmbeddedAPIServer, case: Case) -> None:
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def send(method: str, path: str, body: Any, content_type: str) -> tuple[int, dict[str, Any]]:
            headers = {"Content-Type": content_type}
            async with session.request(method, server.url + path, data=json.dumps(body), headers=headers) as response:
                return response.status, await response.json()

        await send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, "application/json")
        assert masked(await answer(send, case)) == masked(RECORDED[case.name])


def test_every_case_is_recorded_and_nothing_else() -> None:
    assert [case.name for case in CASES] == list(RECORDED)
