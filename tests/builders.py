"""Pods and nodes for tests, in the words of the API, with everything that does not matter left out."""

from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo

# A JSON object.
Tree = dict[str, Any]


def pod_tree(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    node: str = "",
    requests: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    metadata: Tree | None = None,
    status: Tree | None = None,
    **spec: Any,
) -> Tree:
    """A pod as JSON. Keywords that are not named here are fields of its spec, spelled as in the API."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-of-{name}",
            "labels": labels or {},
            **(metadata or {}),
        },
        "spec": {
            "nodeName": node,
            "schedulerName": "kscheduler",
            "containers": [{"name": "main", "image": "app", "resources": {"requests": requests or {}}}],
            **spec,
        },
        "status": status or {},
    }


def make_pod(name: str = "pod", **fields: Any) -> Pod:
    """A pod; keywords as in `pod_tree`."""
    return convert(pod_tree(name, **fields), Pod)


def pod_info(name: str = "pod", **fields: Any) -> PodInfo:
    """A pod with its derived values; keywords as in `pod_tree`."""
    return PodInfo(make_pod(name, **fields))


def queued_pod(name: str = "pod", **fields: Any) -> QueuedPodInfo:
    """A pod as the queue hands it out; keywords as in `pod_tree`."""
    return QueuedPodInfo(pod_info(name, **fields))


def node_tree(
    name: str = "node",
    *,
    labels: dict[str, str] | None = None,
    metadata: Tree | None = None,
    spec: Tree | None = None,
    status: Tree | None = None,
    **allocatable: Any,
) -> Tree:
    """A node as JSON with 4 cpu, 8Gi and 110 pods. Keywords that are not named here are resources it gives."""
    gives = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels or {}, **(metadata or {})},
        "spec": spec or {},
        "status": {"allocatable": gives, "capacity": gives, **(status or {})},
    }


def make_node(name: str = "node", **fields: Any) -> Node:
    """A node; keywords as in `node_tree`."""
    return convert(node_tree(name, **fields), Node)
