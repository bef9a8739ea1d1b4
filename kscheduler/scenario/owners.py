"""Whose replica a pod is: of the Deployment above its ReplicaSet, whatever version of the template that one has."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.api.meta import OwnerReference
from kscheduler.api.workloads import ReplicaSet

# Set by the Deployment controller alone; the name of its ReplicaSet ends with the value.
HASH_LABEL: Final = "pod-template-hash"
_REPLICA_SET: Final = "ReplicaSet"

# Kind and name, in the pod's namespace.
Owner = tuple[str, str]
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


# Who has set a pod's scheduling gates: the API server notes in `managedFields` who has set which field.

_GATES: Final = "f:schedulingGates"


def gate_owners(pod: dict[str, Any]) -> tuple[str, ...]:
    """The managers that have set gates of a pod, as JSON has it; empty where nothing says so."""
    return tuple(dict.fromkeys(_managers(pod)))


def _managers(pod: dict[str, Any]) -> Iterator[str]:
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict) or not spec.get("schedulingGates"):
        return
    listed = metadata.get("managedFields")
    for entry in listed if isinstance(listed, list) else ():
        fields = entry.get("fieldsV1") if isinstance(entry, dict) else None
        of_spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(of_spec, dict) and _GATES in of_spec and isinstance(entry.get("manager"), str):
            yield entry["manager"]
