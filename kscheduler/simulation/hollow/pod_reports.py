"""What a kubelet writes into a pod's status: bodies of strategic merge patches, each valid for one UID only."""

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
            _started(one, now) if one.restart_policy == "Always" else _completed(one, now, now)
            for one in pod.spec.init_containers
        ]
    return _patch(pod, status)


def succeeded(pod: Pod, started: str, now: str) -> bytes:
    """All containers have ended with exit code 0."""
    conditions = [_condition(kind, "False", now, "PodCompleted") for kind in ("Ready", "ContainersReady")]
    containers = [_completed(container, started, now) for container in pod.spec.containers]
    status: dict[str, Any] = {"phase": "Succeeded", "conditions": conditions, "containerStatuses": containers}
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [_completed(one, started, now) for one in pod.spec.init_containers]
    return _patch(pod, status)


def rejected(pod: Pod, refusal: Refusal, now: str) -> bytes:
    """The node does not take the pod; it has failed for good."""
    return _patch(pod, {"phase": "Failed", "reason": refusal.reason, "message": refusal.message, "startTime": now})


def _patch(pod: Pod, status: dict[str, Any]) -> bytes:
    return _encode({"metadata": {"uid": pod.metadata.uid}, "status": status})


def _condition(kind: str, status: str, now: str, reason: str = "") -> dict[str, str]:
    condition = {"type": kind, "status": status, "lastTransitionTime": now}
    return {**condition, "reason": reason} if reason else condition


def _started(container: Container, now: str) -> dict[str, Any]:
    return {**_common(container), "ready": True, "started": True, "state": {"running": {"startedAt": now}}}


def _completed(container: Container, started: str, now: str) -> dict[str, Any]:
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": now}
    return {**_common(container), "ready": False, "started": False, "state": {"terminated": ended}}


def _common(container: Container) -> dict[str, Any]:
    image = container.image or "none"
    digest = f"{image}@sha256:{'0' * 64}"
    identity = f"hollow://{container.name}"
    return {"name": container.name, "image": image, "imageID": digest, "containerID": identity, "restartCount": 0}
