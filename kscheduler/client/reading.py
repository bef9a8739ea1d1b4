"""A client that cannot write: every verb but GET ends here, before a connection is chosen."""

from typing import Final

from kscheduler.client.errors import ClientError
from kscheduler.client.http.http1 import HttpRequest
from kscheduler.client.rest import APIClient

READS: Final = frozenset(("GET", "HEAD"))


class WriteRefusedError(ClientError):
    """A write that a reading client was asked for. It was not sent."""


class ReadingClient(APIClient):
    """Lists, gets and watches. Every other request raises `WriteRefusedError`, anyone who asks for it."""

    async def _request(self, request: HttpRequest, retries: int, timeout_seconds: float | None) -> bytes:
        if request.method not in READS:
            raise WriteRefusedError(f"{request.method} {request.target}: this process only reads; nothing was sent")
        return await super()._request(request, retries, timeout_seconds)
