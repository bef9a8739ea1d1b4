"""What a running service says of pods with claims: what they wait for on their node, and what is so now."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import App
from tests.builders import node_tree, pod_tree
from tests.service.running import SECONDS, answer, put, running

Tree = dict[str, Any]
DRIVER = "gpu.example.com"


def store(server: EmbeddedAPIServer, collection: str, kind: str, name: str, spec: Tree, namespace: str = "") -> None:
    metadata = {"name": name, "uid": f"uid-of-{name}"} | ({"namespace": namespace} if namespace else {})
    tree = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    server.store.put(f"{collection}.resource.k8s.io", tree)


def publish(server: EmbeddedAPIServer, **device: Any) -> None:
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0", **device}]
    store(server, "deviceclasses", "DeviceClass", "gpu", {})
    spec = {"driver": DRIVER, "nodeName": "node", "pool": pool, "devices": devices}
    store(server, "resourceslices", "ResourceSlice", "slice", spec)


def claim(server: EmbeddedAPIServer, name: str, count: int = 1) -> None:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    store(server, "resourceclaims", "ResourceClaim", name, spec, "default")


def user(server: EmbeddedAPIServer, name: str) -> None:
    put(server, "pods", pod_tree(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}]))


async def pending(app: App) -> list[Tree]:
    status, text = await answer(app, "/pending?suggestions=true")
    assert status == 200, text
    reasons: list[Tree] = json.loads(text)["reasons"]
    return reasons


async def as_text(app: App, path: str) -> str:
    url, headers = f"http://127.0.0.1:{app.server.port}{path}", {"Accept": "text/plain"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return await response.text()


async def until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  what is waited for rings no bell
            await asyncio.sleep(0.01)


async def test_a_pod_that_waits_for_its_device_says_for_which_and_until_when() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        publish(server, bindsToNode=True, bindingConditions=["Attached"], bindingFailureConditions=["Broken"])
        claim(server, "web")
        user(server, "web")
        claims, cache = app.parts.assembly.cache.devices.claims, app.parts.assembly.cache

        def is_waiting() -> bool:
            confirmed = claims.confirmed("default/web")
            return cache.is_assumed("uid-of-web") and confirmed is not None and bool(confirmed.status.reserved_for)

        await until_true(is_waiting)
        device = f"device {DRIVER}/node/gpu-0 of claim web"
        what = f"waits in PreBind for {device}: driver {DRIVER} has to report Attached (since "
        status, text = await answer(app, "/explain?pod=default/web")
        tree = json.loads(text)
        (wait,) = tree["situation"]["waitsForDevices"]
        assert (wait["claim"], wait["conditions"], wait["until"] > wait["since"]) == ("web", ["Attached"], True)
        words = " ".join((await as_text(app, "/explain?pod=default/web")).split())
        assert what in words
        assert "node node is reserved for it; it is bound when PreBind is done" in words
        (reason,) = await pending(app)
        assert reason["queue"] == "underWay"
        assert reason["message"].startswith(f"has node node, and {what}")
        status, page = await answer(app, "/ui/pods/default/web")
        assert (status, "has a node and waits before it is bound" in page, what in page) == (200, True, True)
        assert "room is being made there" not in page
        assert "knows no attempt" not in page


async def test_a_claim_that_is_gone_is_reported_at_once_and_hides_no_suggestion_for_others() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        publish(server)
        for name in ("first", "second"):
            claim(server, name, count=2)
            user(server, name)
        queue, claims = app.parts.assembly.queue, app.parts.assembly.cache.devices.claims

        def are_parked() -> bool:
            found = [queue.find(f"default/{name}") for name in ("first", "second")]
            return all(each is not None and each[0] == "unschedulable" for each in found)

        await until_true(are_parked)
        server.store.remove("resourceclaims.resource.k8s.io", ("default", "first"))
        await until_true(lambda: claims.get("default/first") is None)
        by_pod = {reason["pods"][0]["name"]: reason for reason in await pending(app)}
        assert by_pod["first"]["message"] == 'could not find ResourceClaim "default/first"'
        assert by_pod["first"]["plugins"] == ["DynamicResources"]
        assert by_pod["second"]["suggestion"]["pod"] == "default/second"
        assert by_pod["second"]["suggestion"]["kind"] == "deviceCount"
