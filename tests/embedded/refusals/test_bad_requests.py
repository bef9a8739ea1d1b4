"""Requests of any shape get an answer that blames them, never a defect's 500."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kscheduler.embedded.apiserver.bodies.formats import LIMIT
from tests.embedded.cluster_client import Client, node, pod

PODS = "/api/v1/namespaces/default/pods"
STRANGE: tuple[Any, ...] = (None, 7, "text", [], [7], {"a": 7}, True)
BODIES = [
    *STRANGE,
    *({"metadata": strange} for strange in STRANGE),
    *({"metadata": {"name": strange}} for strange in STRANGE),
    *({"metadata": {"labels": strange}} for strange in STRANGE),
    *({"metadata": {"resourceVersion": strange, "uid": strange}} for strange in STRANGE),
    *({"metadata": {"managedFields": strange, "ownerReferences": strange}} for strange in STRANGE),
    *({"spec": strange} for strange in STRANGE),
    *({"spec": {"containers": strange, "replicas": strange}} for strange in STRANGE),
    *({"status": {"conditions": strange, "capacity": strange}} for strange in STRANGE),
    *({"target": strange, "deleteOptions": strange, "preconditions": strange} for strange in STRANGE),
    *({"target": {"name": strange}, "gracePeriodSeconds": strange, "dryRun": strange} for strange in STRANGE),
]
# What the real server answers with 500 although the client is at fault.
REAL_500 = ("resourceVersion should not be set", "failed to create typed patch object")
PATCH_TYPES = ("strategic-merge-patch+json", "merge-patch+json", "json-patch+json", "apply-patch+yaml")


async def answer(client: Client, method: str, path: str, body: Any, content_type: str) -> int:
    headers = {"Content-Type": content_type}
    async with client.session.request(method, client.url + path, data=json.dumps(body), headers=headers) as response:
        text = await response.text()
        is_defect = response.status >= 500 and not json.loads(text)["message"].startswith(REAL_500)
        assert not is_defect, f"{method} {path} {body}: {text}"
        return response.status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", PODS),
        ("POST", "/api/v1/nodes"),
        ("POST", "/apis/apps/v1/namespaces/default/deployments"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/default/events"),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases"),
        ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses"),
        ("POST", f"{PODS}/p/binding"),
        ("POST", f"{PODS}/p/eviction"),
        ("PUT", f"{PODS}/p"),
        ("PUT", f"{PODS}/p/status"),
        ("PUT", "/api/v1/nodes/n1"),
        ("DELETE", "/api/v1/nodes/n1"),
    ],
)
async def test_bodies_of_any_shape(client: Client, method: str, path: str) -> None:
    for body in BODIES:
        await client.request("POST", PODS, pod())
        await client.request("POST", "/api/v1/nodes", node())
        await answer(client, method, path, body, "application/json")


@pytest.mark.parametrize("patch_type", PATCH_TYPES)
@pytest.mark.parametrize("path", [f"{PODS}/p", f"{PODS}/p/status", "/api/v1/nodes/n1"])
async def test_patches_of_any_shape(client: Client, path: str, patch_type: str) -> None:
    await client.post(PODS, pod())
    await client.post("/api/v1/nodes", node())
    operations = [[{"op": "replace", "path": "/metadata", "value": strange}] for strange in STRANGE]
    for body in (*BODIES, *operations):
        await answer(client, "PATCH", f"{path}?fieldManager=me&force=true", body, f"application/{patch_type}")
    assert (await client.request("GET", path.removesuffix("/status")))[0] == 200


@pytest.mark.parametrize(
    "query",
    [
        "limit=x",
        "limit=-1",
        "resourceVersion=-1",
        "watch=1&timeoutSeconds=x",
        "watch=1&resourceVersion=x",
        "dryRun=Some",
        "gracePeriodSeconds=x",
        "propagationPolicy=Never",
        "labelSelector=%FF",
        "fieldValidation=Maybe",
    ],
)
async def test_queries_of_any_shape(client: Client, query: str) -> None:
    path = f"{PODS}?{query}"
    for method in ("GET", "POST", "DELETE"):
        if not (method == "GET" and query in {"dryRun=Some", "gracePeriodSeconds=x"}):
            await answer(client, method, path, pod(), "application/json")


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[1]", b"k8s\0\x0a\xff", b"a: [", b"{}" * 3, b'"x"'])
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
)
async def test_bytes_that_are_no_object(client: Client, data: bytes, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    async with client.session.post(client.url + PODS, data=data, headers=headers) as response:
        assert response.status in {400, 415}, await response.text()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_body_beyond_the_limit_is_refused_unread(client: Client, method: str) -> None:
    headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    path = PODS if method == "POST" else f"{PODS}/p"
    status, refusal = await sent(client, method, path, io.BytesIO(b" " * (LIMIT + 1)), headers)
    assert (status, refusal["reason"]) == (413, "RequestEntityTooLarge")
    assert refusal["message"] == "Request entity too large: limit is 3145728"


async def test_a_body_without_a_length_is_refused_at_the_limit(client: Client) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(LIMIT // 65536 + 2):
            yield b" " * 65536

    assert (await sent(client, "POST", PODS, endless(), {"Content-Type": "application/json"}))[0] == 413


async def test_a_body_of_two_megabytes_is_read(client: Client) -> None:
    value = pod()
    value["metadata"]["annotations"] = {"note": "x" * 2_000_000}
    data = io.BytesIO(json.dumps(value).encode())
    assert (await sent(client, "POST", PODS, data, {"Content-Type": "application/json"}))[0] == 201


async def sent(client: Client, method: str, path: str, data: Any, headers: dict[str, str]) -> tuple[int, Any]:
    async with client.session.request(method, client.url + path, data=data, headers=headers) as response:
        return response.status, await response.json()
