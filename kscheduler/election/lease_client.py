"""One Lease on the API server: read, created, replaced, watched.

Verbs as in kube-scheduler's role (`create`; `get` and `update` of this name), and `watch`, without which a follower
learns of changes later. Nothing is repeated here, and each request has a time limit.
"""

from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import quote

import msgspec

from kscheduler.client.errors import APIError, ClientError, NetworkError, UnknownOutcomeError
from kscheduler.client.rest import APIClient
from kscheduler.election.lease import StoredLease, UnreadableLeaseError, body_of, decode_lease, lease_of
from kscheduler.election.rules import Write

# How long a watch lasts before the server ends it, and it is opened again.
WATCH_SECONDS: Final = 600


class LeaseClient:
    """The Lease `namespace/name`."""

    def __init__(self, client: APIClient, namespace: str, name: str, silence_seconds: float = 10.0) -> None:
        """`client` should serve nothing else: a lease must not wait behind other requests.

        A watch that has brought nothing for `silence_seconds` is taken for dead: a leader renews each few seconds.
        """
        self._client = client
        self._silence = silence_seconds
        self.namespace = namespace
        self.name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._path = f"{self._collection}/{quote(name, safe='')}"

    async def read(self, timeout_seconds: float) -> StoredLease | None:
        """The Lease, from the API server's storage; `None`: it does not exist. Raises `ClientError`."""
        try:
            body = await self._client.get(self._path, retries=0, timeout_seconds=timeout_seconds)
        except APIError as refusal:
            if refusal.is_not_found:
                return None
            raise
        return self._decoded(body)

    async def write(self, write: Write) -> StoredLease:
        """Create or replace the Lease. Returns it as stored. Raises `ClientError`: `APIError` 409 after a lost race."""
        timeout = write.timeout_seconds
        if write.over is None:
            body = body_of(write.record, {"namespace": self.namespace, "name": self.name})
            answer = await self._client.post(self._collection, body, retries=0, timeout_seconds=timeout)
        else:
            metadata = {**write.over.metadata, "resourceVersion": write.over.version}
            body = body_of(write.record, metadata, write.over.spec)
            answer = await self._client.put(self._path, body, retries=0, timeout_seconds=timeout)
        stored = self._decoded(answer)
        # A proxy may answer with an older Lease: a 200 that does not show what was written has an unknown outcome.
        if (stored.record.holder, stored.record.renewed) != (write.record.holder, write.record.renewed):
            raise UnknownOutcomeError("the answer does not show the Lease that was written")
        return stored

    def _decoded(self, body: bytes) -> StoredLease:
        """Raises `UnknownOutcomeError`: whatever answered (a proxy, a login page), a write may be applied."""
        try:
            stored = decode_lease(body)
        except UnreadableLeaseError as failure:
            raise UnknownOutcomeError(f"the answer is no Lease: {failure}") from failure
        if stored.metadata.get("name") != self.name:
            raise UnknownOutcomeError("the answer is another Lease")
        return stored

    async def watch(self) -> AsyncGenerator[StoredLease | None]:
        """The Lease as it is, if it exists, then each change; `None`: it was deleted. Ends when the server ends it.

        Raises `ClientError`, also for an event that cannot be read: the watch has to be opened again.
        """
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self.name}",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async with self._client.stream(self._collection, params, inactivity_seconds=self._silence) as stream:
            async for lines in stream:
                for line in lines:
                    kind, tree = _event(line)
                    if kind == "DELETED":
                        yield None
                    elif kind != "BOOKMARK":
                        yield _lease(tree)


def _lease(tree: Any) -> StoredLease:
    try:
        return lease_of(tree)
    except UnreadableLeaseError as failure:
        raise NetworkError(f"the watch brought something that is no Lease: {failure}") from failure


def _event(line: bytes) -> tuple[str, Any]:
    """The type and object of a line of a watch. Raises `ClientError` for a line that ends the watch."""
    try:
        event = msgspec.json.decode(line)
        kind, tree = event["type"], event["object"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, KeyError) as failure:
        raise NetworkError(f"the watch brought a line that is no event: {failure}") from failure
    if kind == "ERROR":
        message = tree.get("message", "") if isinstance(tree, dict) else ""
        raise ClientError(f"the API server has ended the watch: {message}")
    return str(kind), tree
