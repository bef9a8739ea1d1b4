"""`/statusz` and `/flagz` in text and structured, by the client's Accept, as upstream; 406 for what has no version."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kscheduler.aio import VirtualClock
from kscheduler.server.pages.zpages import flagz, statusz

CLOCK = VirtualClock(wall=1_790_000_000.0)
KIND = {"/statusz": "Statusz", "/flagz": "Flagz"}


@asynccontextmanager
async def pages() -> AsyncIterator[aiohttp.ClientSession]:
    app = web.Application()
    app.router.add_get(
        "/statusz",
        statusz(
            "0.1.0",
            lambda: "1.36",
            lambda: ["/livez", "/livez/ping", "/metrics", "/"],
            CLOCK,
            CLOCK.monotonic(),
        ),
    )
    app.router.add_get("/flagz", flagz({"v": "2", "bind-address": "0.0.0.0"}))
    async with TestClient(TestServer(app)) as client:
        yield client  # type: ignore[misc]


@pytest.mark.parametrize("accept", ["", "text/plain", "*/*", "text/html, */*;q=0.5"])
async def test_text_is_for_people(accept: str) -> None:
    async with pages() as client:
        async with client.get("/statusz", headers={"Accept": accept}) as response:
            assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
            status = (await response.text()).splitlines()
        async with client.get("/flagz", headers={"Accept": accept}) as response:
            flags = (await response.text()).splitlines()
    assert status[1] == "kscheduler statusz"
    assert status[2].startswith("Warning: This endpoint is not meant to be machine parseable")
    assert status[4:] == [
        "Started: Mon Sep 21 14:13:20 UTC 2026",
        "Up: 0 hr 00 min 00 sec",
        f"Python version: {__import__('platform').python_version()}",
        "Binary version: 0.1.0",
        "Emulation version: 1.36",
        "Paths: /livez /metrics",
    ]
    assert flags[1] == "kscheduler flagz"
    assert flags[3:] == ["bind-address=0.0.0.0", "v=2"]


async def test_a_process_may_have_run_for_some_time() -> None:
    """A process that has lost its lease and leads again."""
    app = web.Application()
    app.router.add_get("/statusz", statusz("0.1.0", lambda: "1.36", list, CLOCK, CLOCK.monotonic() - 3665.0))
    async with TestClient(TestServer(app)) as client, client.get("/statusz") as response:
        lines = (await response.text()).splitlines()
    assert lines[4:6] == ["Started: Mon Sep 21 13:12:15 UTC 2026", "Up: 1 hr 01 min 05 sec"]


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
@pytest.mark.parametrize("path", KIND)
async def test_a_structured_form_has_a_version(path: str, media: str, version: str) -> None:
    async with pages() as client:
        accept = f"{media};v={version};g=config.k8s.io;as={KIND[path]}"
        async with client.get(path, headers={"Accept": accept}) as response:
            assert response.headers["Content-Type"] == media
            assert ("deprecated" in response.headers.get("Warning", "")) == (version == "v1alpha1")
            text = await response.text()
    tree = json.loads(text) if media.endswith("json") else yaml.safe_load(text)
    assert (tree["kind"], tree["apiVersion"]) == (KIND[path], f"config.k8s.io/{version}")
    assert tree["metadata"] == {"name": "kscheduler"}
    if path == "/flagz":
        assert tree["flags"] == {"v": "2", "bind-address": "0.0.0.0"}
    else:
        assert (tree["binaryVersion"], tree["emulationVersion"]) == ("0.1.0", "1.36")
        assert (tree["uptimeSeconds"], tree["paths"]) == (0, ["/livez", "/metrics"])


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/json;v=v1;g=config.k8s.io;as=Statusz",
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        "application/json;v=v1beta1;g=other;as=Statusz",
        "application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Statusz",
        "image/png",
    ],
)
async def test_a_form_without_a_version_is_not_acceptable(accept: str) -> None:
    async with pages() as client, client.get("/statusz", headers={"Accept": accept}) as response:
        assert response.status == 406
        assert (await response.json())["reason"] == "NotAcceptable"
