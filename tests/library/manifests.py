"""Manifests as people write them, for the tests of the library."""

from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.meta import OwnerReference

Tree = dict[str, Any]

DEPLOYMENT: Final[Tree] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}],
            },
        },
    },
}


def node_tree(name: str, cpu: str = "4") -> Tree:
    """As `kubectl get nodes -o json` has it in its items."""
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def pod_tree(name: str, cpu: str = "1", on: str = "", **spec: Any) -> Tree:
    """As `kubectl get pods -o json` has it in its items."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    whole = {"schedulerName": "kscheduler", "containers": [container], **({"nodeName": on} if on else {}), **spec}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def budget(app: str, allowed: int) -> Tree:
    """A disruption budget of the pods with this label."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default", "uid": f"budget-{app}"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def owned(pod: Pod) -> Pod:
    """The pod with a controller that makes it again."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="set", uid="set", controller=True)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=(owner,)))
