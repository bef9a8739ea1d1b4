"""Pods with one spec: what was worked out for the first of them holds for the others.

Pods of a Deployment or a Job are made of one template. To see that two specs are equal costs two microseconds; to add
up requests, parse terms and sign them costs forty. So specs are remembered with what came of them, filed under what
tells templates apart at a glance: the namespace, the owner, and the first container; pods without an owner, which may
come of a thousand templates with one container, also under how they want to lie beside other pods.

Limits: pods whose status speaks of resources (a resize in flight) are left alone, and so are pods without containers.
What depends on labels is never shared. Specs that differ in the names of their claims alone (a StatefulSet's) are one
template: what is shared reads no claim's name. A spec of its own (a node's name) costs a few looks at others.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import msgspec

from kscheduler.api.core import Pod, PodSpec, Volume
from kscheduler.bounded.recently_used import RecentlyUsed
from kscheduler.framework.pods.pod_info import PodInfo

_KEPT_DRAWERS: Final = 1024
_KEPT_EACH: Final = 4
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(slots=True, eq=False)
class PodTemplate:
    """A spec in a namespace, the first pod that had it, and what plugins sign of its pods."""

    spec: PodSpec
    first: PodInfo
    signatures: tuple[Hashable, ...] = ()
    """By the plugins that read nothing but the spec; filled in by whoever asks them."""


class PodTemplates:
    """The templates seen lately."""

    def __init__(self) -> None:
        self._drawers: RecentlyUsed[Hashable, list[PodTemplate]] = RecentlyUsed(_KEPT_DRAWERS)

    def __len__(self) -> int:
        return sum(map(len, self._drawers.values()))

    def of(self, pod: PodInfo) -> PodTemplate | None:
        """The pod's template, if it has one. The pod takes over what has been worked out of it."""
        label = _label(pod.pod)
        if label is None:
            return None
        drawer = self._drawers.use(label)
        if drawer is None:
            drawer = self._drawers[label] = []
        spec = _without_claims(pod.pod.spec)
        for template in drawer:
            if template.spec == spec:
                pod.take(template.first)
                return template
        template = PodTemplate(spec, pod)
        del drawer[: max(0, len(drawer) - _KEPT_EACH + 1)]
        drawer.append(template)
        return template


def _without_claims(spec: PodSpec) -> PodSpec:
    """The spec as it would be if claims had no names; itself where it has no claims."""
    if not any(one.persistent_volume_claim is not None for one in spec.volumes):
        return spec
    return msgspec.structs.replace(spec, volumes=tuple(map(_nameless, spec.volumes)))


def _nameless(volume: Volume) -> Volume:
    claim = volume.persistent_volume_claim
    if claim is None:
        return volume
    nameless = msgspec.structs.replace(claim, claim_name="")
    return msgspec.structs.replace(volume, persistent_volume_claim=nameless)


def _label(pod: Pod) -> Hashable:
    status, metadata = pod.status, pod.metadata
    if not pod.spec.containers or status.container_statuses or status.init_container_statuses or status.resources:
        return None
    first = pod.spec.containers[0]
    owner = metadata.owner_references[0].uid if metadata.owner_references else _neighbours(pod.spec)
    return metadata.namespace, owner, first.name, first.image, tuple(first.resources.requests.items())


def _neighbours(spec: PodSpec) -> bytes:
    """What the spec says of other pods, in bytes. Not what it says of nodes: each pod of a DaemonSet names its own."""
    affinity, constraints = spec.affinity, spec.topology_spread_constraints
    if affinity is None and not constraints:
        return b""
    of_pods = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return _ENCODER.encode((of_pods, constraints))
