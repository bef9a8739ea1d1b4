"""Extended resources that devices stand for: requests of containers become requests of one claim for the pod.

A class may stand for an extended resource. Where a node has none of it to count, the pod gets devices of that class
there; where the node's kubelet counts it (a device plugin), NodeResourcesFit does too. So the claim differs from node
to node. It exists in memory until the pod is bound; one in the API is left over from an earlier attempt, and has to go
before the pod can be placed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kscheduler.api.core import ContainerExtendedResourceRequest, Pod
from kscheduler.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    IMPLICIT_EXTENDED_RESOURCE,
    AllocationResult,
    DeviceClaim,
    ResourceClaim,
    ResourceClaimSpec,
)
from kscheduler.api.meta import ObjectMeta, OwnerReference
from kscheduler.devices.extended_resources import requests_of
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import is_extended
from kscheduler.plugins.dynamic_resources.search import DeviceSearch

# The name of the claim before it is written: no claim in the API can have it.
IN_MEMORY: Final = "<extended-resources>"
CANNOT_FIT: Final = -4
# Codes of Filter.
LEFT_OVER: Final = -5
REASONS: Final = {CANNOT_FIT: "cannot fit resource", LEFT_OVER: "cannot schedule extended resource claim"}

Mappings = tuple[ContainerExtendedResourceRequest, ...]
SearchFor = Callable[[Sequence[ResourceClaim]], DeviceSearch]


@dataclass(slots=True)
class ExtendedResources:
    """The extended resources of a pod of which at least one is a class of devices."""

    pod: Pod
    classes: Mapping[str, str]
    """By resource that a class stands for, the name of the class."""
    others: frozenset[str]
    """Resources without a class."""
    claim: ResourceClaim
    """In memory, or left over."""
    user_claims: Sequence[ResourceClaim]
    """The pod's other claims that have no devices yet."""
    has_user_claims: bool
    """Whether it has other claims at all."""
    search_for: SearchFor
    _by_devices: dict[frozenset[str], tuple[ResourceClaim, Mappings, DeviceSearch]] = field(default_factory=dict)
    """For each set of resources that come from devices."""

    @property
    def is_left_over(self) -> bool:
        """Whether the claim was written in an earlier attempt."""
        return bool(self.claim.spec.devices.requests)

    @property
    def is_in_memory(self) -> bool:
        """Whether the claim was never written."""
        return self.claim.metadata.name == IN_MEMORY

    def on(self, info: NodeInfo) -> Sequence[AllocationResult] | int:
        """What each claim gets on the node, or a code why they do not all get something. Raises `StatusError`."""
        if self.is_left_over:
            return LEFT_OVER
        if any(name not in info.allocatable for name in self.others):
            return CANNOT_FIT
        node = info.node
        assert node is not None  # noqa: S101  a live row
        by_devices = self._from_devices(info)
        if not by_devices and not self.has_user_claims:
            return ()
        return self._made(by_devices)[2].on(node)

    def search_on_all(self, nodes: NodeTable, rows: Rows) -> DeviceSearch | None:
        """The search that `on` needs for each of the rows of the live table; `None` if some need another one, or none.

        On most clusters no node counts a resource that devices stand for.
        """
        if self.is_left_over or self.others:
            return None
        if any(nodes.amounts(nodes.allocatable, name, rows).any() for name in self.classes):
            return None
        return self._made(frozenset(self.classes))[2]

    def search_on(self, info: NodeInfo) -> DeviceSearch | None:
        """The search that `on` needs for the node; `None` if it needs none."""
        by_devices = self._from_devices(info)
        if self.is_left_over or not (by_devices or self.has_user_claims):
            return None
        return self._made(by_devices)[2]

    def claim_on(self, info: NodeInfo) -> tuple[ResourceClaim, Mappings]:
        """The claim with its requests for the node, and which containers use them; without requests it is not used."""
        by_devices = self._from_devices(info)
        if not by_devices and not self.has_user_claims:
            return self.claim, ()
        claim, mappings, _ = self._made(by_devices)
        return claim, mappings

    def claims_on(self, info: NodeInfo) -> Sequence[ResourceClaim]:
        """All claims that must get devices on the node."""
        return [*self.user_claims, self.claim_on(info)[0]]

    def _from_devices(self, info: NodeInfo) -> frozenset[str]:
        return frozenset(name for name in self.classes if not info.allocatable.get(name, 0))

    def _made(self, by_devices: frozenset[str]) -> tuple[ResourceClaim, Mappings, DeviceSearch]:
        made = self._by_devices.get(by_devices)
        if made is None:
            backed = requests_of(self.pod, {name: self.classes[name] for name in by_devices})
            spec = ResourceClaimSpec(devices=DeviceClaim(requests=backed.requests))
            claim = msgspec.structs.replace(self.claim, spec=spec)
            made = claim, backed.mappings, self.search_for([*self.user_claims, claim])
            self._by_devices[by_devices] = made
        return made


def extended_resources(
    pod: PodInfo, claims: Sequence[ResourceClaim], devices: Devices, search_for: SearchFor, *, has_user_claims: bool
) -> ExtendedResources | None:
    """The pod's extended resources; `None` if no class stands for one of them.

    `claims`: its other claims that have no devices yet. `has_user_claims`: whether it has other claims at all.
    """
    requested = [name for name, amount in pod.requests.items() if amount and _may_be_devices(name)]
    found = {name: devices.class_of_resource(name) for name in requested}
    classes = {name: stands.metadata.name for name, stands in found.items() if stands is not None}
    if not classes:
        return None
    return ExtendedResources(
        pod=pod.pod,
        classes=classes,
        others=frozenset(requested) - classes.keys(),
        claim=devices.claims.for_extended_resources(pod.pod) or _in_memory(pod.pod),
        user_claims=claims,
        has_user_claims=has_user_claims,
        search_for=search_for,
    )


def _may_be_devices(resource: str) -> bool:
    return is_extended(resource) or resource.startswith(IMPLICIT_EXTENDED_RESOURCE)


def _in_memory(pod: Pod) -> ResourceClaim:
    """A claim of the pod without requests; its UID is no other claim's."""
    owner = OwnerReference("Pod", pod.metadata.name, pod.metadata.uid, "v1", controller=True)
    metadata = ObjectMeta(
        name=IN_MEMORY,
        namespace=pod.metadata.namespace,
        uid=f"{IN_MEMORY} of {pod.metadata.uid}",
        annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata)
