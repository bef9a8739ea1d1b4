"""Who makes a pod from a template, and whether kubectl can change that template.

A pod that a controller has made is made again from the template as soon as it goes: to replace the pod alone helps
nobody. So what has to change is the template. Of the controllers of `apps` it can be changed where it stands. A Job's
cannot, and where other kinds keep theirs is not known here. Nor is a StatefulSet changed that another kind has made: it
would be changed back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.meta import OwnerReference
from kscheduler.scenario.scenario import ClusterObjects

# Kinds whose template can be changed in place, with their API group.
_CHANGEABLE: Final = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "ReplicaSet": "apps",
    "ReplicationController": "",
}
_NAMED: Final = 3
# The manager of the fields that pods have from the template of a controller of Kubernetes.
#
# The API server notes managers before webhooks change a new pod, so what it names here the template has.
TEMPLATES_MANAGER: Final = "kube-controller-manager"


@dataclass(frozen=True, slots=True)
class PodMaker:
    """The controller whose template a pod comes from."""

    kind: str
    name: str
    is_changeable: bool
    """Whether `kubectl patch` can change its template."""

    @property
    def text(self) -> str:
        """`job/train`"""
        return f"{self.kind.lower()}/{self.name}"


def maker_of(pod: Pod, objects: ClusterObjects) -> PodMaker | None:
    """Who makes the pod; above a ReplicaSet or StatefulSet that is known its own controller, a Deployment say."""
    owner = pod.metadata.controller
    if owner is None:
        return None
    listed = {"ReplicaSet": objects.replicasets, "StatefulSet": objects.statefulsets}.get(owner.kind, ())
    key = f"{pod.metadata.namespace}/{owner.name}"
    owners = (each.metadata.controller for each in listed if each.key == key)
    top = next((above for above in owners if above is not None), owner)
    return PodMaker(top.kind, top.name, _is_changeable(top))


def owner_kind_of(pod: Pod) -> str:
    """The kind of the pod's own controller; empty if it has none."""
    owner = pod.metadata.controller
    return "" if owner is None else owner.kind


def nothing_to_run(makers: Sequence[PodMaker]) -> str:
    """Why there is no command for pods of makers whose template kubectl cannot change, and what to do instead."""
    names = list(dict.fromkeys(maker.text for maker in makers))
    them = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    head = f"no single command does it: {them} "
    head += "recreates its pods from its template" if len(names) == 1 else "recreate their pods from their templates"
    if all(maker.kind == "Job" for maker in makers):
        return f"{head}, which cannot be changed in place: change the template of {them} and create it again"
    return f"{head}: change the template there"


def _is_changeable(owner: OwnerReference) -> bool:
    group = owner.api_version.rpartition("/")[0]
    return owner.kind in _CHANGEABLE and (not owner.api_version or group == _CHANGEABLE[owner.kind])
