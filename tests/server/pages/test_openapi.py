"""`/openapi.json` is complete and true, and `/pending` counts the pods that wait."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.pages.zpages import description
from kscheduler.service import App
from tests.builders import node_tree, pod_tree
from tests.service.running import SECONDS, answer, put, running

Tree = dict[str, Any]
# What lists them; a PUT; what has no token here; a POST.
NOT_FOR_READING = ("/", "/debug/flags/v", "/waiting-pods", "/simulate")
QUERIED_WITH = {"/debug/profile": "?seconds=0.1", "/explain": "?pod=default/big"}


async def pending(app: App) -> Tree:
    status, text = await answer(app, "/pending")
    assert status == 200
    tree: Tree = json.loads(text)
    return tree


def schema_of(path: str) -> Tree | None:
    """Of its JSON, with the definitions that it refers to."""
    whole = description()
    response = whole["paths"][path]["get"]["responses"]["200"]
    if "$ref" in response:
        response = whole["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"].get("application/json", {}).get("schema")
    return None if schema is None else {**schema, "components": whole["components"]}


async def test_every_path_is_described_and_every_answer_is_as_described() -> None:
    described = set(description()["paths"])
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="1"))
        put(server, "pods", pod_tree("big", requests={"cpu": "9"}))
        paths = json.loads((await answer(app, "/"))[1])["paths"]
        healths = {path: f"/{path.split('/')[1]}/{{check}}" for path in paths if path.count("/") > 1}
        templates = {path: healths[path] if healths.get(path, "") in described else path for path in paths}
        assert [path for path, template in templates.items() if template not in described] == []
        served = {*templates.values(), *NOT_FOR_READING}
        assert [path for path in described - served if not path.startswith("/waiting-pods/")] == []
        for path, template in templates.items():
            status, text = await answer(app, f"{path}{QUERIED_WITH.get(path, '')}")
            assert status == 200, path
            schema = schema_of(template)
            if schema is not None:
                problems = Draft202012Validator(schema).iter_errors(json.loads(text))
                assert [f"{path}: {one.json_path}: {one.message}" for one in problems] == []


async def test_pending_counts_by_reason_profile_and_namespace() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="1"))
        for number in range(3):
            put(server, "pods", pod_tree(f"big-{number}", requests={"cpu": "9"}))
        put(server, "pods", pod_tree("gated", schedulingGates=[{"name": "example.com/quota"}]))
        put(server, "pods", pod_tree("other", schedulerName="somebody-else"))
        tree: Tree = {"reasons": []}
        async with asyncio.timeout(SECONDS):
            while [bool(reason["message"]) for reason in tree["reasons"]] != [True, True]:
                tree = await pending(app)
        first, second = tree["reasons"]
        assert (first["queue"], first["plugins"]) == ("unschedulable", ["NodeResourcesFit"])
        assert first["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert [pod["name"] for pod in first["pods"]] == ["big-0", "big-1", "big-2"]
        assert (second["queue"], second["plugins"]) == ("gated", ["SchedulingGates"])
        assert second["message"] == "waiting for scheduling gates: [example.com/quota]"
        assert tree["byPlugin"] == {"NodeResourcesFit": 3, "SchedulingGates": 1}
        assert tree["byNamespace"] == {"default": 4}
        assert (tree["count"], sum(tree["byProfile"].values())) == (4, 4)
        assert tree["notServed"] == {"somebody-else": 1}


def test_the_description_is_openapi() -> None:
    tree = description()
    assert tree["openapi"].startswith("3.1")
    assert tree["info"]["version"]
    for name, schema in tree["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert name in json.dumps(tree["paths"]) or name in json.dumps(tree["components"])


def test_what_the_description_refers_to_is_there() -> None:
    tree = description()
    for kind, name in re.findall(r'"#/components/(\w+)/(\w+)"', json.dumps(tree)):
        assert name in tree["components"][kind]


@pytest.mark.parametrize("path", sorted(description()["paths"]))
def test_each_path_stands_in_the_operators_page(path: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    bare = path.split("/{", maxsplit=1)[0]
    assert bare == "/" or f"`{bare}`" in page
