"""Input without objects or nodes must not look like an all-clear, and unreadable objects must be told of."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kscheduler.cli import kubectl_plugin, main

Tree = dict[str, Any]

NODE: Tree = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node", "uid": "uid-node"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
CONTAINER: Tree = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
POD: Tree = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waits", "namespace": "shop", "uid": "uid-waits"},
    "spec": {"schedulerName": "kscheduler", "containers": [CONTAINER]},
}
EMPTY_LIST: Tree = {"apiVersion": "v1", "kind": "List", "items": []}


def written(folder: Path, *objects: Tree) -> str:
    path = folder / "dump.yaml"
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
    return str(path)


@pytest.mark.parametrize("objects", [(), (EMPTY_LIST,)], ids=["empty file", "empty list"])
@pytest.mark.parametrize("verb", ["explain", "explain -f", "pending", "simulate", "simulate -f"])
def test_a_dump_without_any_object_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, objects: tuple[Tree, ...]
) -> None:
    dump = written(tmp_path, *objects)
    new = tmp_path / "new.yaml"
    new.write_text(json.dumps(POD))
    flags = ["-f", str(new)] if verb.endswith("-f") else []
    assert main([verb.split(maxsplit=1)[0], "--from", dump, *flags]) == 2
    reported = capsys.readouterr()
    assert reported.err.startswith(f"kscheduler: {dump}: no object in it, only an empty file or list")
    assert reported.out == ""


VERBS = ["explain", "pending", "simulate", "nodes"]


def queried(verb: str, *flags: str) -> int:
    return kubectl_plugin.main([verb, *flags]) if verb == "nodes" else main([verb, *flags])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        pytest.param(
            '{"apiVersion": "v1", "kind": "List"}',
            ": document 1 (List): items: is missing; a list without objects has `items: []`",
            id="no items",
        ),
        pytest.param(
            '{"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": {}}',
            ": document 1 (PodList): items: expected a list",
            id="items of no list",
        ),
        pytest.param("{}", ":1: an empty object is neither a Kubernetes object nor a scenario", id="empty object"),
    ],
)
def test_what_is_no_list_is_no_empty_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, text: str, reported: str
) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(text)
    assert queried(verb, "--from", str(dump)) == 2
    assert capsys.readouterr() == ("", f"kscheduler: {dump}{reported}\n")


def test_an_empty_list_among_others_and_a_kind_that_is_named_like_one_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allow_list: Tree = {"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": {}}
    null = {"apiVersion": "v1", "kind": "PodList", "items": None}
    assert main(["explain", "--from", written(tmp_path, NODE, POD, EMPTY_LIST, null, allow_list)]) == 0
    assert "AllowList (1)" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["/api/v1/nodes", "/apis/storage.k8s.io/v1/csinodes"])
async def test_an_answer_that_is_no_list_is_no_empty_cluster(
    capsys: pytest.CaptureFixture[str], verb: str, path: str
) -> None:
    async with answering({path: b"{}"}) as url:
        flags = {"explain": ["shop/waits"], "simulate": ["--drain", "node"], "nodes": ["--direct"]}.get(verb, [])
        assert await asyncio.to_thread(queried, verb, *flags, "--master", url) == 1
    kind = "NodeList" if path.endswith("/nodes") else "CSINodeList"
    reported = f"kscheduler: GET {path}: the answer is no {kind} of an API server: no items\n"
    assert capsys.readouterr().err == reported


@asynccontextmanager
async def answering(answers: dict[str, bytes]) -> AsyncIterator[str]:
    """The URL of an API server that answers thus, and otherwise with a list of nothing, a pod or a version."""
    usual = {"/version": b'{"major": "1", "minor": "36", "gitVersion": "v1.36.2"}'}
    usual["/api/v1/namespaces/shop/pods/waits"] = json.dumps(POD).encode()

    async def handle(request: web.Request) -> web.Response:
        body = {**usual, **answers}.get(request.path, b'{"items": [], "metadata": {"resourceVersion": "7"}}')
        return web.Response(body=body, content_type="application/json")

    routes = web.Application()
    routes.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(routes)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_an_answer_that_is_no_pod_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/api/v1/namespaces/shop/pods/waits"
    async with answering({path: b"{}"}) as url:
        assert await asyncio.to_thread(main, ["explain", "shop/waits", "--master", url]) == 1
    reported = (
        f"kscheduler: GET {path}: answered 200 with another object than was asked for: an object without a kind\n"
    )
    assert capsys.readouterr().err == reported


@pytest.mark.parametrize("verb", ["nodes", "pending", "why", "whatif"])
async def test_an_answer_that_is_of_no_service_is_no_empty_answer(
    capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    proxy = "/api/v1/namespaces/kscheduler-system/services/https:kscheduler:10259/proxy"
    path = {"why": "/explain", "whatif": "/simulate"}.get(verb, f"/{verb}")
    flags = {"why": ["shop/waits", "-o", "json"], "whatif": ["--drain", "node"]}.get(verb, [])
    service = ("--service", "kscheduler-system/kscheduler:10259")
    async with answering({f"{proxy}{path}": b"{}"}) as url:
        assert await asyncio.to_thread(kubectl_plugin.main, [verb, *flags, *service, "--master", url]) == 1
    reported = "kscheduler: what answers at kscheduler-system/kscheduler:10259 is no kscheduler: "
    assert capsys.readouterr().err.startswith(f"{reported}{path}: no ")


@pytest.mark.parametrize("verb", ["explain", "pending", "simulate"])
def test_a_dump_without_nodes_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    dump = written(tmp_path, POD)
    assert main([verb, "--from", dump]) == 0
    reported = f"kscheduler: {dump}: no node is among its objects, and without nodes no pod fits"
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith(reported)]
    assert main([verb, "--from", written(tmp_path, NODE, POD)]) == 0
    assert "no node is among" not in capsys.readouterr().err


def test_without_nodes_no_pod_is_said_to_change_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An attempt without any node ends with an error, after which the service tries again, forever."""
    assert main(["simulate", "--from", written(tmp_path, POD), "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert "tried again and again, and each attempt fails: shop/waits" in tree["notes"]
    assert not any("change places" in note for note in tree["notes"])
    assert tree["pending"][0]["message"] == "no nodes available to schedule pods"
