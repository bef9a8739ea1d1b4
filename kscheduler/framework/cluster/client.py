"""The API server as plugins may use it: the service's own client, by path."""

from collections.abc import Mapping
from typing import Protocol


class ClusterClient(Protocol):
    """Requests with the service's address, credentials and rights, in a few connections of the plugins' own.

    Bodies are JSON as the API server writes and reads it. Retries follow client-go's rules. A write leaves only while
    this process leads (`client.errors.FencedError` otherwise). All methods raise `client.errors.APIError` for a refusal
    and `NetworkError` where there was no answer. What the service's role does not grant is 403: grant it to its service
    account (the chart's value `rbac.extraRules`). `timeout_seconds` is for one try; without it 30 s. To be awaited in
    `refresh`, `pre_bind` and `bind`, never in a cycle.
    """

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, timeout_seconds: float | None = None
    ) -> bytes:
        """The body of `path` (already quoted), such as `/apis/metrics.k8s.io/v1beta1/nodes`."""
        ...

    async def post(self, path: str, body: bytes, *, timeout_seconds: float | None = None) -> bytes:
        """Create; the answer is the object as it was stored."""
        ...

    async def put(self, path: str, body: bytes, *, timeout_seconds: float | None = None) -> bytes:
        """Replace; the body's resourceVersion is the precondition."""
        ...

    async def patch(
        self, path: str, body: bytes, content_type: str = ..., *, timeout_seconds: float | None = None
    ) -> bytes:
        """Change in part; by default a strategic merge patch (`application/merge-patch+json` for kinds of a CRD)."""
        ...

    async def delete(self, path: str, body: bytes = b"", *, timeout_seconds: float | None = None) -> bytes:
        """Delete; the body may be DeleteOptions."""
        ...
