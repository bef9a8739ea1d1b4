"""Whose replica a pod is: of the Deployment above its ReplicaSet, whatever version of the template that one has."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.meta import OwnerReference
from kscheduler.api.workloads import ReplicaSet

HASH_LABEL: Final = "pod-template-hash"
"""Set by the Deployment controller alone; the name of its ReplicaSet ends with the value."""
_REPLICA_SET: Final = "ReplicaSet"

Owner = tuple[str, str]
"""Kind and name, in the pod's namespace."""
Owners = Callable[[Pod], Owner | None]


def owner_of(pod: Pod, above: Mapping[str, OwnerReference | None] | None = None) -> Owner | None:
    """The controller at the top, as far as it is known; `None` for a pod that nobody has made.

    `above`: by `namespace/name` of ReplicaSets the controller of each. Of others it is told by the name.
    """
    controller = pod.metadata.controller
    if controller is None:
        return None
    if controller.kind != _REPLICA_SET:
        return controller.kind, controller.name
    known, key = above or {}, f"{pod.metadata.namespace}/{controller.name}"
    if key in known:
        top = known[key] or controller
        return top.kind, top.name
    template_hash = pod.metadata.labels.get(HASH_LABEL, "")
    if template_hash and controller.name.endswith(f"-{template_hash}"):
        return "Deployment", controller.name.removesuffix(f"-{template_hash}")
    return controller.kind, controller.name


def owners_in(replica_sets: Iterable[ReplicaSet]) -> Owners:
    """The owners of pods in a cluster with these ReplicaSets."""
    above = {each.key: each.metadata.controller for each in replica_sets}
    return lambda pod: owner_of(pod, above)
