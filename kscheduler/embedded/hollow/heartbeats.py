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
from kscheduler.api.core import Container, Pod
from kscheduler.api.meta import rfc3339
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.rest import MERGE, STRATEGIC_MERGE, APIClient
from kscheduler.embedded.hollow.node_capacity import Refusal
from kscheduler.telemetry.logs import get_logger

# A kubelet's updates of pod statuses: bodies of strategic merge patches, each with the pod's UID.

_encode = msgspec.json.Encoder().encode
_READY_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def running(pod: Pod, host_ip: str, pod_ip: str, now: str) -> bytes:
    """All containers have started and are ready. `now` in RFC 3339."""
    status: dict[str, Any] = {
        "phase": "Running",
        "startTime": now,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "conditions": [_condition(kind, "True", now) for kind in _READY_CONDITIONS],
        "containerStatuses": [_started(container, now) for container in pod.spec.containers],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _started(container, now) if container.restart_policy == "Always" else _completed(container, now, now)
            for container in pod.spec.init_containers
        ]
    return _patch(pod, status)


def ready_again(pod: Pod, now: str) -> bytes:
    """The containers are ready, as they were while the node was silent."""
    return _patch(pod, {"conditions": [_condition(kind, "True", now) for kind in ("Ready", "ContainersReady")]})


def ended(pod: Pod, started: str, now: str, exit_code: int = 0) -> bytes:
    """All containers have ended with this exit code."""
    phase, reason = ("Failed", "PodFailed") if exit_code else ("Succeeded", "PodCompleted")
    conditions = [_condition(kind, "False", now, reason) for kind in ("Ready", "ContainersReady")]
    containers = [_completed(container, started, now, exit_code) for container in pod.spec.containers]
    status: dict[str, Any] = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _completed(container, started, now) for container in pod.spec.init_containers
        ]
    return _patch(pod, status)


def rejected(pod: Pod, refusal: Refusal, now: str) -> bytes:
    """The kubelet rejects the pod, which has failed for good."""
    return _patch(pod, {"phase": "Failed", "reason": refusal.reason, "message": refusal.message, "startTime": now})


def _patch(pod: Pod, status: dict[str, Any]) -> bytes:
    return _encode({"metadata": {"uid": pod.metadata.uid}, "status": status})


def _condition(kind: str, status: str, now: str, reason: str = "") -> dict[str, str]:
    condition = {"type": kind, "status": status, "lastTransitionTime": now}
    return {**condition, "reason": reason} if reason else condition


def _started(container: Container, now: str) -> dict[str, Any]:
    return {**_common(container), "ready": True, "started": True, "state": {"running": {"startedAt": now}}}


def _completed(container: Container, started: str, now: str, exit_code: int = 0) -> dict[str, Any]:
    reason = "Error" if exit_code else "Completed"
    terminated = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}
    return {**_common(container), "ready": False, "started": False, "state": {"terminated": terminated}}


def _common(container: Container) -> dict[str, Any]:
    image = container.image or "none"
    digest = f"{image}@sha256:{'0' * 64}"
    identity = f"hollow://{container.name}"
    return {"name": container.name, "image": image, "imageID": digest, "containerID": identity, "restartCount": 0}


log = get_logger(__name__)

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_SECONDS = 40
# Seconds between checks while there is no node.
_IDLE_SECONDS = 1.0


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
