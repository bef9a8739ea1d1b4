"""A kubelet's updates of pod statuses: bodies of strategic merge patches, each with the pod's UID."""

from typing import Any

import msgspec

from kscheduler.api.core import Container, Pod
from kscheduler.simulation.hollow.node_fit import Refusal

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
