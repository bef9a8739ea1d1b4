"""Templates: pods with equal specs share what was worked out for the first of them.

Pods of a Deployment or a Job are made from one template. Comparing two specs costs two microseconds; adding up
requests, parsing terms and signing costs forty. So specs are remembered with the results, in drawers labelled by what
differs between most templates: the namespace, the owner, and the first container. The drawers of pods without owner,
which may come from a thousand templates with the same container, are also labelled by affinity and spread
constraints.

Limits: pods whose status lists resources (a resize in flight) and pods without containers have no template. Results
that depend on labels are never shared. Specs that differ only in the names of their claims (a StatefulSet's) are one
template, because no shared result reads such a name. A spec that no other pod has costs a few comparisons.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import msgspec

from kscheduler.api.core import Pod, PodSpec, Volume
from kscheduler.bounded import LARGEST_SHARE, RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.classes.known_class import Repeat

_KEPT_DRAWERS: Final = 1024
_KEPT_EACH: Final = 4
# Of drawers with large specs; a pod whose spec takes more than a quarter of it has no template.
_BUDGET_BYTES: Final = 8 * 2**20
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(slots=True, eq=False)
class PodTemplate:
    """A spec in a namespace, the first pod that had it, and what plugins sign of its pods."""

    spec: PodSpec
    first: PodInfo
    weight: int
    """Of the spec and what is worked out from it, in bytes."""
    signatures: tuple[Hashable, ...] = ()
    """The signatures of the plugins that read only the spec; filled in by the caller that signs."""
    repeat: Repeat | None = None
    """What the last cycle of one of its pods has found that holds for the next one."""
    unused: int = 0
    """How many repeats in a row held for no other pod: each pod of a StatefulSet has a label of its own."""


class PodTemplates:
    """The most recently used templates."""

    def __init__(self) -> None:
        self._drawers: RecentlyUsed[Hashable, list[PodTemplate]] = RecentlyUsedByWeight(
            _KEPT_DRAWERS, _BUDGET_BYTES, _weight
        )
        self._last_pod: PodInfo | None = None
        """The last one that was looked up."""
        self._last: PodTemplate | None = None
        """Its template."""

    def __len__(self) -> int:
        return sum(map(len, self._drawers.values()))

    def repeat_of(self, pod: PodInfo) -> Repeat | None:
        """What the cycle of a pod like this one has found, if there was one (`Repeat.holds_for`)."""
        template, metadata, spec, status = self._last, pod.pod.metadata, pod.pod.spec, pod.pod.status
        if (
            # In a run of equal pods that replaces the look-up.
            template is None
            or template.repeat is None
            or template.repeat.owners != metadata.owner_references
            or template.first.pod.metadata.namespace != metadata.namespace
            or spec.volumes
            or template.spec != spec
            or status.container_statuses
            or status.init_container_statuses
            or status.resources
        ):
            template = self.of(pod)
        repeat = None if template is None else template.repeat
        return repeat if repeat is not None and repeat.holds_for(metadata) else None

    def of(self, pod: PodInfo) -> PodTemplate | None:
        """The pod's template, if it has one. The pod takes over what was worked out for the template's first pod."""
        if pod is not self._last_pod:
            self._last_pod, self._last = pod, self._found(pod)
        return self._last

    def _found(self, pod: PodInfo) -> PodTemplate | None:
        label = _label(pod.pod)
        if label is None:
            return None
        drawer = self._drawers.use(label)
        spec = _without_claims(pod.pod.spec)
        for template in drawer or ():
            if template.spec == spec:
                pod.take(template.first)
                return template
        template = PodTemplate(spec, pod, weight_of(spec))
        if template.weight > _BUDGET_BYTES // LARGEST_SHARE:
            return None  # it would push out all that share its drawer
        drawer = [] if drawer is None else drawer
        del drawer[: max(0, len(drawer) - _KEPT_EACH + 1)]
        drawer.append(template)
        self._drawers[label] = drawer
        return template


def _weight(_: Hashable, drawer: list[PodTemplate]) -> int:
    return sum([template.weight for template in drawer])


def _without_claims(spec: PodSpec) -> PodSpec:
    """The spec with the names of its claims removed; the same object if it has no claims."""
    if not spec.volumes or not any(volume.persistent_volume_claim is not None for volume in spec.volumes):
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
    owner = metadata.owner_references[0].uid if metadata.owner_references else _inter_pod_terms(pod.spec)
    return metadata.namespace, owner, first.name, first.image, tuple(first.resources.requests.items())


def _inter_pod_terms(spec: PodSpec) -> bytes:
    """The spec's terms about other pods, encoded. Node terms are left out: each pod of a DaemonSet names its node."""
    affinity, constraints = spec.affinity, spec.topology_spread_constraints
    if affinity is None and not constraints:
        return b""
    of_pods = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return _ENCODER.encode((of_pods, constraints))
