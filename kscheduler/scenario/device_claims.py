"""Claims that kube-controller-manager makes from templates, for pods of which nobody makes them here.

    pod entry  {name: gpu, resourceClaimTemplateName: one-gpu}
    claim      <pod>-gpu-1, owned by the pod, with the spec of the template
    pod status {name: gpu, resourceClaimName: <pod>-gpu-1}

And the devices of a node that is a copy of another one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from kscheduler.api.core import Pod, PodResourceClaim, PodResourceClaimStatus
from kscheduler.api.devices import Device, ResourceClaim, ResourceClaimSpec, ResourceSlice
from kscheduler.api.meta import ObjectMeta, OwnerReference

# On a claim made from a template: the name by which its pod knows it.
CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
# Of a generated name, so that a number has room in 63 characters.
_LONGEST_BASE: Final = 57

# What claims are made of, by the key of their template (`namespace/name`).
Specs = Mapping[str, ResourceClaimSpec]


@dataclass(frozen=True, slots=True)
class WithClaims:
    """A pod after the controller has seen it."""

    pod: Pod
    """Its status names the claims."""
    claims: tuple[ResourceClaim, ...]
    """Those that were made for it."""
    missing: tuple[tuple[str, str], ...]
    """Entries without a claim, each with the key of its template, which is not known."""


def with_claims(pod: Pod, specs: Specs, is_taken: Callable[[str], bool]) -> WithClaims:
    """The pod with a claim for each template that it names and has no claim of yet.

    `is_taken`: whether there is a claim of this key already.
    """
    made: list[ResourceClaim] = []
    missing: list[tuple[str, str]] = []
    for entry, template in awaited_entries(pod):
        spec = specs.get(template)
        if spec is None:
            missing.append((entry.name, template))
        else:
            made.append(_claim(pod, entry, spec, is_taken))
    if not made:
        return WithClaims(pod, (), tuple(missing))
    named = {claim.metadata.annotations[CLAIM_ANNOTATION]: claim.metadata.name for claim in made}
    statuses = tuple(PodResourceClaimStatus(name=entry, resource_claim_name=name) for entry, name in named.items())
    known = pod.status.resource_claim_statuses
    status = replace(pod.status, resource_claim_statuses=(*known, *statuses))
    return WithClaims(replace(pod, status=status), tuple(made), tuple(missing))


def awaited_entries(pod: Pod) -> Iterator[tuple[PodResourceClaim, str]]:
    """The pod's entries with a template and without a claim, each with the key of the template."""
    if not pod.spec.resource_claims:
        return
    named = {status.name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name and entry.name not in named:
            yield entry, f"{pod.metadata.namespace}/{entry.resource_claim_template_name}"


def specs_of_made(pods: Iterable[Pod], claims: Iterable[ResourceClaim]) -> dict[str, ResourceClaimSpec]:
    """What templates contain, as the claims show it that were made from them: a template's spec never changes."""
    by_key: dict[str, ResourceClaim] | None = None
    found: dict[str, ResourceClaimSpec] = {}
    for pod in pods:
        templates = {entry.name: entry.resource_claim_template_name for entry in pod.spec.resource_claims}
        for status in pod.status.resource_claim_statuses if templates else ():
            template = templates.get(status.name)
            if by_key is None:
                by_key = {claim.key: claim for claim in claims}
            claim = by_key.get(f"{pod.metadata.namespace}/{status.resource_claim_name}")
            if template and claim is not None:
                found[f"{pod.metadata.namespace}/{template}"] = claim.spec
    return found


def _claim(
    pod: Pod, entry: PodResourceClaim, spec: ResourceClaimSpec, is_taken: Callable[[str], bool]
) -> ResourceClaim:
    meta = pod.metadata
    base, number = f"{meta.name}-{entry.name}"[:_LONGEST_BASE], 1
    while is_taken(f"{meta.namespace}/{base}-{number}"):
        number += 1
    name = f"{base}-{number}"
    owner = OwnerReference(kind="Pod", name=meta.name, uid=meta.uid, api_version="v1", controller=True)
    metadata = ObjectMeta(
        name=name,
        namespace=meta.namespace,
        uid=f"uid-of-claim-{meta.namespace}/{name}-of-{meta.uid}",
        annotations={CLAIM_ANNOTATION: entry.name},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata, spec=spec)


# Devices of a node that is a copy of another one: the slices of the devices in the node, once more.
#
# Devices that several nodes reach stay as they are; a copy with the same labels reaches them, too.


def slices_like(slices: Iterable[ResourceSlice], like: str, name: str) -> Iterator[ResourceSlice]:
    """The slices of node `like` as its copy `name` has them, in pools of its own."""
    local = [(piece, devices) for piece in slices if (devices := _devices_in(piece, like)) is not None]
    pools = [(piece.spec.driver, piece.spec.pool.name) for piece, _ in local]
    for piece, devices in local:
        spec, pool = piece.spec, piece.spec.pool
        # A pool that spans several nodes has fewer slices here than the whole of it.
        count = pools.count((spec.driver, pool.name)) if spec.per_device_node_selection else pool.resource_slice_count
        own = name if pool.name == like else f"{pool.name}-{name}"
        moved = tuple(replace(device, node_name=name) if device.node_name else device for device in devices)
        metadata = replace(piece.metadata, name=f"{piece.metadata.name}-of-{name}", uid=f"uid-{piece.key}-of-{name}")
        yield replace(
            piece,
            metadata=metadata,
            spec=replace(
                spec,
                node_name=name if spec.node_name else None,
                pool=replace(pool, name=own, resource_slice_count=count),
                devices=moved,
            ),
        )


def _devices_in(piece: ResourceSlice, node: str) -> tuple[Device, ...] | None:
    """The devices of the slice that are in this node and no other; `None`: none is."""
    spec = piece.spec
    if spec.node_name:
        return spec.devices if spec.node_name == node else None
    if not spec.per_device_node_selection:
        return None
    return tuple(device for device in spec.devices if device.node_name == node) or None
