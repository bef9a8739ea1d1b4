"""Who makes a pod and its claims from templates, and whether kubectl can change these.

A pod that a controller has made is made again from the template as soon as it goes: to replace the pod alone helps
nobody. So what has to change is the template. Of the controllers of `apps` it can be changed where it stands. A Job's
cannot, and where other kinds keep theirs is not known here. Nor is a StatefulSet changed that another kind has made: it
would be changed back.

A claim that a controller makes from a template comes back at once when it is deleted, as the template has it, and a
create that follows ends in AlreadyExists. So the template has to change, which is not in one command: a StatefulSet's
volumeClaimTemplates are immutable, and those of a pod's ephemeral volumes are part of its spec.

    claim data-db-0 of pod db-0      volumeClaimTemplate data of StatefulSet db
    claim web-scratch of pod web     ephemeral volume scratch of the pod
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kscheduler.api.core import Pod, Volume
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
_STATEFUL_SET: Final = "StatefulSet"
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


def _owner_kind_of(pod: Pod) -> str:
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


# --- claims -----------------------------------------------------------------------------------------------------------


def template_note(claim: str, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
    """What has to be done for a claim that a controller makes; empty if none does.

    `is_new`: the pod is only a manifest yet.
    """
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None and claim == f"{pod.metadata.name}-{volume.name}":
            head = f"claim {claim} is made from the volumeClaimTemplate of the pod's ephemeral volume {volume.name}"
            return f"{head}: change that one, and make the pod again"
        if volume.persistent_volume_claim is not None and _is_of_a_set(claim, volume, pod):
            return _of_a_stateful_set(claim, volume.name, pod, objects, is_new=is_new)
    return ""


def set_that_makes(claim: str, volume: Volume, pod: Pod, objects: ClusterObjects) -> str:
    """`statefulset/db`, if it makes the claim of this volume from a template; else empty."""
    maker = maker_of(pod, objects)
    return maker.text if maker is not None and _is_of_a_set(claim, volume, pod) else ""


def _is_of_a_set(claim: str, volume: Volume, pod: Pod) -> bool:
    """Whether the names are those that a StatefulSet gives."""
    return _owner_kind_of(pod) == _STATEFUL_SET and claim == f"{volume.name}-{pod.metadata.name}"


def _of_a_stateful_set(claim: str, template: str, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
    if is_new:
        return f"claim {claim} is made from volumeClaimTemplate {template}: change it in the manifest"
    maker = maker_of(pod, objects)
    head = f"no single command does it: claim {claim} is made from volumeClaimTemplate {template}"
    rest = "claims of other replicas are made from it, too"
    if maker is None or maker.kind != _STATEFUL_SET or not maker.is_changeable:
        return f"{head}, which {maker.text if maker is not None else 'its owner'} has set: change it there; {rest}"
    return (
        f"{head} of {maker.text}, which cannot be changed in place: delete it with --cascade=orphan, apply "
        f"it with the changed template, then delete claim {claim} and pod {pod.metadata.name}; {rest}"
    )
