"""Pods and nodes in the words of the API, with everything that does not matter left out."""

from collections.abc import Mapping, Sequence
from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod


def make_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    **allocatable: str,
) -> Node:
    """A node with 4 CPU, 8Gi and room for 110 pods, unless keywords (`cpu="2"`) say otherwise.

    Raises `UndecodableError` for fields of a wrong type.
    """
    gives = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    metadata = {"name": name, "uid": f"uid-of-{name}"}
    tree = {
        "metadata": {**metadata, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"taints": [dict(taint) for taint in taints], "unschedulable": unschedulable},
        "status": {"allocatable": gives, "capacity": gives},
    }
    return convert(tree, Node)


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    node: str = "",
    **spec: Any,
) -> Pod:
    """A pod with one container; `node`: it runs there. Other keywords are fields of its spec, spelled as in the API.

    Raises `UndecodableError` for fields of a wrong type.
    """
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{namespace}-{name}"}
    container = {"name": "main", "image": "app", "resources": {"requests": dict(requests or {})}}
    tree = {
        "metadata": {**metadata, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"schedulerName": "kscheduler", "nodeName": node, "containers": [container], **spec},
    }
    return convert(tree, Pod)
