"""Objects for these tests, from the JSON that the API would send."""

from collections.abc import Mapping
from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache

HANDLE = Handle(None, None, None)  # type: ignore[arg-type]  # for plugins that reach for nothing outside the table


def pod(uid: str = "waiting", **spec: Any) -> Pod:
    """A pod with this spec (keys as in JSON)."""
    made = convert({"spec": {"containers": [{"name": "c"}], **spec}}, Pod)
    made.metadata = ObjectMeta(name=uid, namespace="default", uid=uid)
    return made


def info(uid: str = "waiting", **spec: Any) -> PodInfo:
    """The same, as plugins see it."""
    return PodInfo(pod(uid, **spec))


def requesting(uid: str = "waiting", *, requests: Mapping[str, str], **spec: Any) -> Pod:
    """A pod with one container that requests this."""
    return pod(uid, containers=[{"name": "c", "resources": {"requests": dict(requests)}}], **spec)


def with_port(uid: str = "waiting", *, port: int, address: str = "", **spec: Any) -> Pod:
    """A pod with a host port."""
    return pod(uid, containers=[{"name": "c", "ports": [{"hostPort": port, "hostIP": address}]}], **spec)


def node(
    name: str = "node-1",
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    **spec: Any,
) -> Node:
    """A node with this spec."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} if allocatable is None else dict(allocatable)
    tree = {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec, "status": {"allocatable": amounts}}
    return convert(tree, Node)


def table(*nodes: Node, pods: tuple[Pod, ...] = ()) -> NodeTable:
    """A table of these nodes with these pods on them."""
    cache = Cache()
    for one in nodes:
        cache.add_node(one)
    for each in pods:
        cache.add_pod(each)
    return cache.nodes
