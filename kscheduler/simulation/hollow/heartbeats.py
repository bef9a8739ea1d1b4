"""Heartbeats of hollow nodes: a lease every few seconds, the Ready condition more rarely.

As in real kubelets (leases every 10 s, an unchanged status every 5 minutes), spread evenly over the period, so that a
thousand nodes cause an even load. Off by default: the embedded cluster's node controller expects heartbeats only from
nodes that have sent some.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.api.meta import rfc3339
from kscheduler.client import APIClient, APIError, ClientError
from kscheduler.client.rest import MERGE, STRATEGIC_MERGE
from kscheduler.logs import get_logger

log = get_logger(__name__)

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_SECONDS = 40
_IDLE_SECONDS = 1.0
"""Seconds between checks while there is no node."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class HeartbeatRates:
    """The periods of a node's heartbeats."""

    lease_seconds: float = 10.0
    ready_seconds: float = 300.0


class Heartbeats:
    """Renews leases and Ready conditions of the nodes that `node_names` returns."""

    def __init__(
        self,
        client: APIClient,
        node_names: Callable[[], Sequence[str]],
        rates: HeartbeatRates,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self._client = client
        self._node_names = node_names
        self._rates = rates
        self._clock = clock

    async def run(self) -> None:
        """Run until cancelled. Failures are logged and tried again in the next round."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rounds(self._renew_lease, self._rates.lease_seconds), name="node leases")
            group.create_task(self._rounds(self._confirm_ready, self._rates.ready_seconds), name="node conditions")

    async def _rounds(self, beat: Callable[[str], Coroutine[Any, Any, None]], period_seconds: float) -> None:
        while True:
            names = self._node_names()
            if not names:
                await self._clock.sleep(_IDLE_SECONDS)
            for name in names:
                try:
                    await beat(name)
                except ClientError as error:
                    log.warning("heartbeat_failed", node=name, err=error)
                await self._clock.sleep(period_seconds / len(names))

    async def _renew_lease(self, name: str) -> None:
        moment = datetime.fromtimestamp(self._clock.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": moment}
        try:
            await self._client.patch(f"{_LEASES}/{name}", _encode({"spec": spec}), MERGE)
        except APIError as error:
            if not error.is_not_found:
                raise
            metadata = {"name": name, "namespace": "kube-node-lease"}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.post(_LEASES, _encode(lease))

    async def _confirm_ready(self, name: str) -> None:
        moment = rfc3339(self._clock.time())
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "hollow kubelet is posting ready status",
            "lastHeartbeatTime": moment,
        }
        body = _encode({"status": {"conditions": [condition]}})
        await self._client.patch(f"/api/v1/nodes/{name}/status", body, STRATEGIC_MERGE)
