"""What the tests of the embedded API server share: a clock, an HTTP client, small objects."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from kscheduler.api.machinery.api_errors import ApiError


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


class Client:
    """JSON over HTTP against one server; answers are (status, body)."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        headers = {"Content-Type": options.pop("content_type", "application/json"), **options.pop("headers", {})}
        async with self.session.request(method, self.url + path, json=body, headers=headers, **options) as response:
            return response.status, await response.json(content_type=None)

    async def get(self, path: str, **options: Any) -> Any:
        status, body = await self.request("GET", path, **options)
        assert status == 200, body
        return body

    async def post(self, path: str, body: Any, **options: Any) -> Any:
        status, answer = await self.request("POST", path, body, **options)
        assert status == 201, answer
        return answer

    async def patch(self, path: str, body: Any, content_type: str, **options: Any) -> tuple[int, Any]:
        return await self.request("PATCH", path, body, content_type=content_type, **options)

    @asynccontextmanager
    async def watch(self, path: str, **query: Any) -> AsyncIterator["Events"]:
        parameters = {"watch": "true", **{name: str(value) for name, value in query.items()}}
        async with self.session.get(self.url + path, params=parameters) as response:
            yield Events(response)


class Events:
    """The events of one watch, one after the other."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Any:
        line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> list[Any]:
        return [json.loads(line) for line in (await self.response.content.read()).splitlines()]


def refusal_code(call: Callable[[], object]) -> int | None:
    """Code of the refusal that a call raises; None when it is accepted. Anything else it raises is a defect."""
    try:
        call()
    except ApiError as refusal:
        return refusal.code
    return None


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A small pod."""
    containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": containers, **spec}}


def node(name: str = "n1") -> dict[str, Any]:
    """A small ready node."""
    conditions = [{"type": "Ready", "status": "True"}]
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": capacity, "conditions": conditions}}
