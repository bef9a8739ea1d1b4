"""The version of the API server, as `/version` tells it."""

from typing import Any, Final

import msgspec

from kscheduler.client.errors import ClientError
from kscheduler.client.rest import APIClient

# Timeout of the question; nothing else waits for its answer.
ANSWER_SECONDS: Final = 5.0
UNKNOWN: Final = "unknown"


async def server_version_of(client: APIClient) -> str:
    """Such as `v1.36.3`; `unknown` where there is no answer that can be read."""
    try:
        body = await client.get("/version", retries=0, timeout_seconds=ANSWER_SECONDS)
        answer: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (ClientError, msgspec.DecodeError, msgspec.ValidationError):
        return UNKNOWN
    return str(answer.get("gitVersion") or UNKNOWN)
