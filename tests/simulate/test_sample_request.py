"""The request that docs/simulate.md shows is answered by a running service."""

import json
import re
from pathlib import Path

import aiohttp

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.builders import node_tree
from tests.service.asking.test_questions import until_true
from tests.service.running import put, running

_PAGE = Path(__file__).parents[2] / "docs" / "simulate.md"


async def test_the_sample_of_the_page_is_answered_as_it_stands() -> None:
    ((header, body),) = re.findall(r"/simulate -H '([^']*)' -d '([^']*)'", _PAGE.read_text(encoding="utf-8"))
    headers = dict([header.split(": ")])
    names = set(re.findall(r"node-[0-9]+", body))
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        for name in names:
            put(server, "nodes", node_tree(name))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == len(names))
        url = f"http://127.0.0.1:{app.server.port}/simulate"
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
            tree = json.loads(await response.text())
    assert response.status == 200, tree
    assert {each["pod"] for each in tree["placed"]} == {"shop/web", "shop/web-1", "shop/web-2"}
    assert (len(tree["addedNodes"]), [each["node"] for each in tree["drains"]]) == (3, ["node-2"])
