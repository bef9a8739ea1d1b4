"""Stand-ins for what policies fetch from: an API server with metrics-server behind it, and any HTTP server."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from kscheduler.client.errors import NetworkError
from kscheduler.plugins.policies.measurements import NODE_METRICS_PATH


def moment(seconds: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metrics_list(usage: Mapping[str, tuple[str, str]], at: float, window: str = "15s") -> bytes:
    """A NodeMetricsList: CPU and memory by node, measured until `at` (seconds since 1970)."""
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": moment(at)},
            "timestamp": moment(at),
            "window": window,
            "usage": {"cpu": cpu, "memory": memory},
        }
        for name, (cpu, memory) in usage.items()
    ]
    return json.dumps({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items}).encode()


@dataclass
class MetricsServer:
    """The API server as a plugin sees it, with these figures."""

    usage: dict[str, tuple[str, str]] = field(default_factory=dict)
    at: float = 0.0
    window: str = "15s"
    is_away: bool = False

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, timeout_seconds: float | None = None
    ) -> bytes:
        """The figures. Raises `NetworkError` while it is away."""
        assert path == NODE_METRICS_PATH
        if self.is_away:
            raise NetworkError("the server is currently unable to handle the request")
        return metrics_list(self.usage, self.at, self.window)


def vector(values: Mapping[str, float | str], at: float = 1_000.0, label: str = "node") -> dict[str, Any]:
    """An answer of Prometheus: a series per node."""
    result = [{"metric": {label: name}, "value": [at, str(number)]} for name, number in values.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


Explanation = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def http_server(answer: Explanation) -> AsyncIterator[str]:
    """A server on loopback that answers every path so; yields its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
