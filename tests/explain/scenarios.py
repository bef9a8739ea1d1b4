"""Scenarios for these tests, as the lines of a file."""

import json
from typing import Any

Tree = dict[str, Any]


def node_tree(name: str, *, cpu: str = "4", **spec: Any) -> Tree:
    """A node."""
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}


def pod_tree(name: str = "web", *, cpu: str = "1", **spec: Any) -> Tree:
    """A pod that kube-scheduler's default profile would schedule."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
    }


def scenario_line(pod: Any = None, *, nodes: Any = (), pods: Any = (), config: Any = None, name: str = "one") -> bytes:
    """One line of a file of scenarios."""
    tree = {"id": name, "config": config, "objects": {"nodes": nodes, "pods": pods}, "pod": pod or pod_tree()}
    return json.dumps(tree).encode()
